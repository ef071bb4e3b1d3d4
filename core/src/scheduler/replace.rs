//! Workers that are blocked, and the replacement workers that take their places.
//!
//! A worker that waits in sync code too deep in its stack to run other tasks, or to take other jobs, is *blocked*. A *replacement
//! worker* then runs in a spare slot, if the platform can start one. While a worker is blocked there are at most as many
//! replacements as workers that cannot run tasks (`unable`). An idle replacement leaves when there are more.

use core::ptr::NonNull;

use super::{
    executor::Scheduler,
    slot::{OFFLINE, STARTING, Slots, WorkerSlot},
    worker::Worker,
};
use crate::{
    atomic::{AtomicBool, AtomicU32, Ordering, fence},
    instant::Instant,
    platform::{Platform, WorkerEntry, WorkerId},
};

/// In nanoseconds: how often a blocked worker tries to start a replacement while no other worker can run what is queued.
const LOOK: u64 = 10_000_000;
/// In nanoseconds: a timer that is due within this time may end the wait of a blocked worker, so the worker does not give up.
const HOPE: u64 = 10_000_000_000;
/// In nanoseconds: how long a wait without hope goes on, if an event from outside or a pinned task may end it.
const PATIENCE: u64 = 5_000_000_000;

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// Waits, too deep to help: gives the worker's queues away, and sleeps until `done`. False if no worker is left to run what
    /// is queued, and no timer is due soon.
    pub(super) fn block_worker(
        &'static self,
        id: WorkerId,
        slot: &'static WorkerSlot<RING>,
        done: &mut dyn FnMut() -> bool,
        patient: bool,
    ) -> bool {
        let worker = Worker::of(self, id);
        worker.give_away();
        self.publish_all(&slot.bay);
        let _blocked = self.block(&slot.shared.relies);
        // Ordering: a count.
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let mut look = Look { next: Instant::ZERO, refused: false, patient, turn, hopeless: None };
        loop {
            let away = worker.leave_loop();
            if done() {
                return true;
            }
            // A task that is pinned here can run nowhere else, and the caller may wait for it. So it runs, and nests deeper
            // still.
            // SAFETY: we are the worker.
            let pinned = unsafe { slot.inbox.pop() };
            let polled = pinned.is_some();
            if let Some(ready) = pinned {
                worker.poll(ready, &away);
                worker.keep_up(1);
                worker.give_away();
            }
            let can_work = self.others_can_work();
            if can_work {
                look.hopeless = None;
            }
            match (polled, can_work) {
                // Pinned tasks may come without end. Without hope, they are no reason to go on.
                (true, false) if self.is_pinned_down(id, &mut look) => return done(),
                (true, _) => continue,
                (false, true) => {
                    worker.sleep(worker.next_deadline(), || true);
                }
                (false, false) => {
                    if self.listen_alone(&worker, worker.next_deadline(), &mut look) {
                        return done();
                    }
                }
            }
            // First the I/O events that it has received: others rely on it to deliver them.
            worker.deliver();
            worker.fire_timers();
            worker.join_broadcast();
            worker.give_away();
        }
    }

    /// Whether a blocked worker gives up that has just polled a pinned task, while no other can run tasks: it has done only that
    /// for a while, and there is no hope that this ends.
    #[cold]
    fn is_pinned_down(&'static self, me: WorkerId, look: &mut Look) -> bool {
        let now = self.platform.now();
        // The tasks that it polls may end its wait, so it goes on for a while in any case.
        self.retry(look, now) && self.has_no_hope(me, look, now) && self.is_long_hopeless(look, now)
    }

    /// Tries again to start a replacement, every `LOOK`; whether it was time to. It does not try at each turn, since a start that
    /// is refused wakes the workers that rely on it.
    fn retry(&'static self, look: &mut Look, now: Instant) -> bool {
        let is_time = now >= look.next;
        if is_time {
            look.next = now.after_nanos(LOOK);
            look.refused = !self.start_replacement(self.unable());
        }
        is_time
    }

    /// Whether no replacement can be had, and nothing is in sight that ends a wait.
    fn has_no_hope(&self, me: WorkerId, look: &Look, now: Instant) -> bool {
        // The last slot may have gone to a replacement that another worker has just started: hence the second look.
        look.refused && !self.others_can_work() && self.is_hopeless(me, now)
    }

    /// As [`Worker::sleep`], for a blocked worker while no other can run tasks. True if there is no hope that this ends; then it
    /// has not slept.
    fn listen_alone(
        &'static self,
        worker: &Worker<P, S, RING>,
        deadline: Option<Instant>,
        look: &mut Look,
    ) -> bool {
        let now = self.platform.now();
        self.retry(look, now);
        let until = deadline.map_or(look.next, |deadline| deadline.min(look.next));
        let mut hopeless = false;
        worker.sleep(Some(until), || {
            // Ordering: pairs with itself in other blocked workers. Each of them has said in its park word that it sleeps. The
            // last one sees all others asleep, and decides.
            fence(Ordering::SeqCst);
            hopeless = self.has_no_hope(worker.id(), look, now)
                && (!look.patient || self.is_long_hopeless(look, now));
            !hopeless
        });
        hopeless
    }

    /// Whether a wait that something may yet end has been without hope for long enough. The wait that began last goes on for the
    /// shortest time: the waits below it on the stacks would fail with it.
    fn is_long_hopeless(&self, look: &mut Look, now: Instant) -> bool {
        let since = *look.hopeless.get_or_insert(now);
        let begun_since = self.turns.load(Ordering::Relaxed).wrapping_sub(look.turn);
        let patience = u64::from(begun_since).saturating_mul(PATIENCE);
        now >= since.after_nanos(patience)
    }

    /// Counts the calling worker as blocked, for as long as the result lives, and starts a replacement.
    pub(super) fn block<'a>(&'static self, relies: &'a AtomicBool) -> Blocked<'a, P, S, RING> {
        core::mem::forget(self.count_out(&self.blocked));
        let relied = relies.swap(true, Ordering::Relaxed);
        // Ordering: pairs with the fences of those that read `blocked` in order to wake us: `wake_worker`, `leave`, `count_out`.
        fence(Ordering::SeqCst);
        // If the platform refuses, `block_worker` tries again, and a wait for a job ends by itself.
        let _ = self.start_replacement(self.blocked.load(Ordering::Relaxed));
        Blocked { executor: self, relies, relied }
    }

    /// Whether a worker that can run tasks is online or on its way: one that neither sleeps in a wait in which it cannot help,
    /// nor is about to leave.
    fn others_can_work(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `has_come`: a worker that is no longer on its way is seen online.
        let coming = self.coming.load(Ordering::Acquire);
        // Ordering: Acquire pairs with the AcqRel in `attach` and `leave`.
        coming > 0 || self.unable() < self.online.load(Ordering::Acquire)
    }

    /// How many workers cannot run tasks: they sleep in waits in which they cannot help, or are helpers.
    fn unable(&self) -> u32 {
        // Ordering: Acquire pairs with the AcqRel of `Counted`.
        let count = |n: &AtomicU32| n.load(Ordering::Acquire);
        count(&self.blocked) + count(&self.joining) + count(&self.helpers)
    }

    /// Whether a wait is without hope: tasks are queued, no blocked worker but the caller is awake, and no timer that may end a
    /// wait is due soon. At times true a moment too early, if a wait has just ended.
    fn is_hopeless(&self, me: WorkerId, now: Instant) -> bool {
        let (tick, by) = (self.config.tick, now.after_nanos(HOPE));
        let is_due =
            |slot: &WorkerSlot<RING>| slot.timed.wheel.next(tick).is_some_and(|next| next <= by);
        let has_tasks = |slot: &WorkerSlot<RING>| !slot.ring.is_empty();
        (!self.injector.is_empty() || self.in_use().iter().any(has_tasks))
            && !self.regular().iter().any(is_due)
            // Twice: a worker that was seen asleep first may have been woken since by a worker that was seen asleep last.
            && self.all_blocked_sleep(me)
            && self.all_blocked_sleep(me)
    }

    fn all_blocked_sleep(&self, me: WorkerId) -> bool {
        self.slots().iter().enumerate().all(|(i, slot)| {
            // Ordering: after the caller's fence.
            let is_blocked = slot.shared.relies.load(Ordering::Relaxed);
            i == me.index() || !is_blocked || slot.shared.park.is_parked()
        })
    }

    /// Counts one more worker that cannot run tasks, in one of the counts of `unable`. Has the workers that rely on others look
    /// at the counts again.
    pub(crate) fn count_out<'a>(&self, count: &'a AtomicU32) -> Counted<'a> {
        let counted = Counted::up(count);
        // Ordering: pairs with the fence in `block`: either the blocked worker sees the count, or this worker sees the blocked
        // one.
        fence(Ordering::SeqCst);
        if self.blocked.load(Ordering::Relaxed) > 0 {
            self.recheck_blocked();
        }
        counted
    }

    /// Has every blocked worker look again whether others can work.
    #[cold]
    pub(crate) fn recheck_blocked(&self) {
        for (i, slot) in self.slots().iter().enumerate() {
            // Ordering: after the caller's fence.
            if slot.shared.relies.load(Ordering::Relaxed) {
                self.unpark(WorkerId::new(i as u16));
            }
        }
    }

    fn spare_slots(&self) -> impl Iterator<Item = (WorkerId, &WorkerSlot<RING>)> {
        self.slots()
            .iter()
            .enumerate()
            .skip(self.workers())
            .map(|(i, slot)| (WorkerId::new(i as u16), slot))
    }

    /// Has a worker started in a spare slot, unless there are `most` replacements, online or on their way. False if no slot is
    /// free, or the platform refuses.
    ///
    /// The slot is reserved at once. Otherwise a helper could take it, or another worker could start a second replacement there,
    /// and one of the blocked workers would wait for nothing.
    fn start_replacement(&'static self, most: u32) -> bool {
        for (id, slot) in self.spare_slots() {
            // The look comes before all counts: a count that goes up and down again gives hope to waits that have none.
            // Ordering: Acquire as in the failure below.
            if slot.shared.status.load(Ordering::Acquire) != OFFLINE {
                continue;
            }
            let more = |n: u32| (n < most).then_some(n + 1);
            // Ordering: a count; the slot's state and the platform's start pass on what matters.
            let (set, seen) = (Ordering::Relaxed, Ordering::Relaxed);
            if self.replacements.fetch_update(set, seen, more).is_err() {
                return true;
            }
            // Ordering: a count, passed on by the slot's state.
            self.coming.fetch_add(1, Ordering::Relaxed);
            // Ordering: Acquire pairs with the Release in `leave`; the platform's start passes it on. Release pairs with the
            // Acquire of a failure: a worker that finds no free slot sees the replacements that are on their way.
            let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
            if slot.shared.status.compare_exchange(OFFLINE, STARTING, set, seen).is_err() {
                self.coming.fetch_sub(1, Ordering::Relaxed);
                self.replacements.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            // If the platform refuses, it drops the entry, which takes all of this back.
            if self.platform.start(self.entry::<STARTING>(id)).is_ok() {
                return true;
            }
        }
        false
    }

    /// The entry of a worker whose slot is in state `FROM`: `OFFLINE`, or `STARTING` for a replacement, whose slot the caller has
    /// reserved. The worker is counted as `coming`.
    pub(super) fn entry<const FROM: u32>(&'static self, id: WorkerId) -> WorkerEntry {
        unsafe fn run<P: Platform, S, const RING: usize, const FROM: u32>(
            at: NonNull<()>,
            id: WorkerId,
        ) where
            S: Slots<RING>,
        {
            // SAFETY: made below from a `&'static` scheduler of this type.
            let this: &'static Scheduler<P, S, RING> = unsafe { at.cast().as_ref() };
            let worker = this.attach(id, FROM);
            if FROM == STARTING && worker.is_err() {
                this.replacements.fetch_sub(1, Ordering::Relaxed);
            }
            this.has_come(worker.is_ok());
            if let Ok(worker) = worker {
                worker.run();
            }
        }
        unsafe fn forget<P: Platform, S, const RING: usize, const FROM: u32>(
            at: NonNull<()>,
            id: WorkerId,
        ) where
            S: Slots<RING>,
        {
            // SAFETY: as above.
            let this: &'static Scheduler<P, S, RING> = unsafe { at.cast().as_ref() };
            if FROM == STARTING {
                this.unreserve(id);
                this.replacements.fetch_sub(1, Ordering::Relaxed);
            }
            this.has_come(false);
        }
        let at = NonNull::from(self).cast();
        // SAFETY: as said in `run` and `forget`.
        unsafe { WorkerEntry::new(at, id, run::<P, S, RING, FROM>, forget::<P, S, RING, FROM>) }
    }

    /// A worker that was started is online, or will not come.
    pub(super) fn has_come(&self, is_online: bool) {
        // Ordering: Release pairs with the Acquire in `others_can_work`.
        self.coming.fetch_sub(1, Ordering::Release);
        // Ordering: pairs with the fence in `block`: either a blocked worker sees that none comes, or this context sees the
        // blocked one.
        fence(Ordering::SeqCst);
        if !is_online && self.blocked.load(Ordering::Relaxed) > 0 {
            self.recheck_blocked();
        }
    }

    /// Gives back a slot that was reserved for a replacement that does not come.
    pub(super) fn unreserve(&self, id: WorkerId) {
        if let Some(slot) = self.slots().get(id.index()) {
            // Ordering: Release passes on what its taker acquired.
            slot.shared.status.store(OFFLINE, Ordering::Release);
        }
    }
}

/// What a blocked worker knows from its looks for a worker that can run tasks.
struct Look {
    next: Instant,
    /// The last start found no slot, or the platform refused.
    refused: bool,
    /// An event from outside may end the wait.
    patient: bool,
    /// How many blocked waits had begun before.
    turn: u32,
    /// Since when there has been no hope; `None` if there is some.
    hopeless: Option<Instant>,
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// Whether this is a replacement that is no longer needed. Then it has counted itself out, and must leave.
    pub(crate) fn is_surplus(&self) -> bool {
        if self.id().index() < self.executor.workers() {
            return false;
        }
        let executor = self.executor;
        // As many as may be started, see `retry`.
        let most = || match executor.blocked.load(Ordering::Relaxed) {
            0 => 0,
            _ => executor.unable(),
        };
        let bound = most();
        let less = |n: u32| (n > bound).then(|| n - 1);
        // Ordering: a count.
        let (set, seen) = (Ordering::Relaxed, Ordering::Relaxed);
        if executor.replacements.fetch_update(set, seen, less).is_err() {
            return false;
        }
        // Ordering: pairs with the fence in `block`: either a worker that begins to rely on replacements sees one less, or this
        // worker sees the blocked one.
        fence(Ordering::SeqCst);
        let bound = most();
        let more = |n: u32| (n < bound).then_some(n + 1);
        executor.replacements.fetch_update(set, seen, more).is_err()
    }
}

/// Counts one up, for as long as this lives.
pub(crate) struct Counted<'a>(pub(super) &'a AtomicU32);

impl<'a> Counted<'a> {
    pub(crate) fn up(count: &'a AtomicU32) -> Self {
        // Ordering: AcqRel pairs with the Acquires in `unable`.
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Ordering: as above.
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The calling worker is blocked, until this is dropped: at the end of its wait, or by a panic in it.
pub(super) struct Blocked<'a, P: Platform, S: 'static, const RING: usize>
where
    S: Slots<RING>,
{
    executor: &'static Scheduler<P, S, RING>,
    relies: &'a AtomicBool,
    relied: bool,
}

impl<P: Platform, S, const RING: usize> Drop for Blocked<'_, P, S, RING>
where
    S: Slots<RING>,
{
    fn drop(&mut self) {
        self.relies.store(self.relied, Ordering::Relaxed);
        drop(Counted(&self.executor.blocked));
        // One replacement is no longer needed: an idle one leaves.
        for (id, _) in self.executor.spare_slots() {
            self.executor.unpark(id);
        }
    }
}
