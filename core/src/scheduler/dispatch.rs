//! Where a ready task goes, and which worker is woken for it.

use core::ptr::NonNull;

use super::{
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::{
    atomic::{AtomicU32, Ordering},
    platform::{Platform, WorkerId},
    queue::ring::Overflow,
    sleep::{idle::Claim, park::Sleep},
    task::{
        header::Ready,
        schedule::{Anchor, Current},
    },
};

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// Queues a task that was woken or spawned, from any context.
    #[inline]
    pub(crate) fn schedule(&self, ready: Ready) {
        self.schedule_in(self.current().map(|(_, slot)| slot), ready);
    }

    /// As `schedule`, by the worker whose slot it is, if it is one.
    #[inline(always)]
    pub(crate) fn schedule_in(&self, slot: Option<&WorkerSlot<RING>>, ready: Ready) {
        if let Some(worker) = ready.pin() {
            return self.schedule_pinned(worker, ready);
        }
        match slot {
            // INV-ACCEPTING: only in a poll, and not in the midst of an owner-only operation.
            Some(slot) if slot.lifo.is_accepting() => {
                slot.lifo.accept(false);
                self.schedule_local(slot, ready);
                slot.lifo.accept(true);
            }
            _ => {
                self.injector.push(ready);
                self.notify();
            }
        }
    }

    /// The newest task goes to the LIFO slot, the one before to the ring.
    #[inline]
    fn schedule_local(&self, slot: &WorkerSlot<RING>, ready: Ready) {
        let displaced =
            if self.config.lifo_cap() == 0 { Some(ready) } else { slot.lifo.put(ready) };
        match displaced {
            Some(ready) => self.push_ring(slot, ready),
            None => self.cover_lifo(slot),
        }
    }

    /// Puts a task at the end of the worker's own ring.
    ///
    /// The caller is the worker, with the mark of INV-ACCEPTING down.
    #[inline]
    pub(crate) fn push_ring(&self, slot: &WorkerSlot<RING>, ready: Ready) {
        debug_assert!(!slot.lifo.is_accepting(), "INV-ACCEPTING");
        // SAFETY: INV-RING-OWNER: we are the worker, and no interrupt on it gets here.
        let overflow = unsafe { slot.ring.push(ready) };
        if let Overflow::None = overflow {
            // Without stealing, others can take what left for the injector, and no more.
            if self.has_company() && self.config.stealing() {
                self.notify_of(slot);
            }
        } else {
            self.shed(overflow, slot);
        }
    }

    #[cold]
    fn shed(&self, overflow: Overflow, slot: &WorkerSlot<RING>) {
        self.keep(overflow, slot);
        if self.has_company() {
            self.notify_of(slot);
        }
    }

    /// Whether there may be a worker to wake: an only worker is awake, as it calls this.
    #[inline]
    pub(crate) fn has_company(&self) -> bool {
        // A worker that comes online at this moment may miss a task that is being pushed, and sleep. Its first
        // sleep is a short one. Without a watchdog there is no such sleep, and it must be seen.
        let alone = self.census.online() <= 1 && self.config.has_watchdog();
        !alone && self.slots().len() > 1
    }

    /// What did not fit into a worker's ring goes to the injector.
    pub(crate) fn keep(&self, overflow: Overflow, slot: &WorkerSlot<RING>) {
        match overflow {
            Overflow::None => {}
            Overflow::One(ready) => self.injector.push(ready),
            Overflow::Chain(chain) => {
                slot.counters.overflows.add(1);
                self.injector.push_chain(chain);
            }
        }
    }

    fn schedule_pinned(&self, worker: WorkerId, ready: Ready) {
        // Spawning has checked that the worker exists.
        // SAFETY: a pinned task's worker is one of ours.
        unsafe { self.slots().get_unchecked(worker.index()) }.inbox.push(ready);
        self.wake_worker(worker);
    }

    /// There is a task in this worker's inbox: wakes it if it sleeps.
    pub(crate) fn wake_worker(&self, worker: WorkerId) {
        // Ordering: pairs with the fence in `Idle::announce`: either we see the worker's bit, or it sees its inbox.
        crate::atomic::fence(Ordering::SeqCst);
        match self.idle.claim(self, worker) {
            Claim::Made => self.unpark(worker),
            // A pusher may have relied on the claim's count: that worker too, which woke by itself and is in a poll.
            Claim::Missed if self.has_work_for_any() => self.notify(),
            Claim::Missed | Claim::Awake => {}
        }
        // Ordering: after the fence above, which pairs with the one in `block`.
        if !self.census.blocked.is_zero() {
            // It may sleep in a wait that is too deep to help in: it must see its inbox.
            self.unpark(worker);
        }
        // It may be offline: the thread that waits for the end then works in its place.
        if self.gate.is_closing() {
            self.gate.tell(&self.platform);
        }
    }

    /// There is work that any worker can take.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.idle.must_notify(self) {
            self.wake_one();
        }
    }

    /// Wakes a sleeper, if there is one: for work, to watch or to listen.
    #[cold]
    pub(crate) fn wake_one(&self) {
        if let Some(worker) = self.idle.claim_any(self) {
            self.unpark(worker);
        }
    }

    /// Ends the sleep of every worker: it looks at what has changed.
    pub(crate) fn wake_all(&self) {
        (0..self.slots().len()).for_each(|i| self.unpark(WorkerId::new(i as u16)));
    }

    pub(crate) fn unpark(&self, worker: WorkerId) {
        let Some(slot) = self.slots().get(worker.index()) else { return };
        let park = &slot.shared.park;
        match park.notify() {
            Some(Sleep::Wait) => self.platform.wake(worker, park.word()),
            Some(Sleep::Listen) => self.platform.interrupt(worker, park.word()),
            None => {}
        }
    }

    /// Ends the sleep of a worker, this one or the next: for a waiter in sync code whose condition has come true. The worker
    /// looks around and goes to sleep again if there is nothing. Callable from any context.
    pub fn unpark_worker(&self, worker: WorkerId) {
        self.unpark(worker);
    }

    /// Unless the platform has no such thing, ends every [`Platform::block`] on the word.
    pub(crate) unsafe fn op_unblock(anchor: NonNull<Anchor>, word: &AtomicU32) {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.platform.unblock(word);
    }

    pub(crate) unsafe fn op_schedule(anchor: NonNull<Anchor>, ready: Ready) {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.schedule(ready);
    }

    pub(crate) unsafe fn op_unpark(anchor: NonNull<Anchor>, worker: WorkerId) {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.unpark(worker);
    }

    pub(crate) unsafe fn op_current(anchor: NonNull<Anchor>) -> Option<Current> {
        // SAFETY: the table is this type's.
        let (_, slot) = unsafe { Self::of(anchor) }.working()?;
        // SAFETY: a worker's bell hangs since it attached, and the scheduler is `'static`.
        let waker = unsafe { slot.shared.bell.waker() };
        Some(Current { waker, frame: slot.local.frame.get() })
    }
}
