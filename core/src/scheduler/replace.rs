//! Workers that are blocked, and the replacement workers that take their places.
//!
//! A worker that waits in sync code too deep in its stack to run other tasks, or to take other jobs, is *blocked*. A *replacement
//! worker* then runs in a spare slot, if the platform can start one. While a worker is blocked there are at most as many
//! replacements as workers that cannot run tasks (`unable`). An idle replacement leaves when there are more.

use core::ptr::NonNull;

use super::{
    census::Counted,
    executor::Scheduler,
    slot::{OFFLINE, STARTING, Slots, WorkerSlot},
    worker::Worker,
};
use crate::{
    atomic::{AtomicBool, Ordering, fence},
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
        let _blocked = self.block(slot);
        let wait = self.census.begin_wait();
        let mut look = Look { next: Instant::ZERO, refused: false, patient, wait, hopeless: None };
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
            let can_work = self.census.others_can_work();
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
            look.refused = !self.start_replacement(self.census.unable());
        }
        is_time
    }

    /// Whether no replacement can be had, and nothing is in sight that ends a wait.
    fn has_no_hope(&self, me: WorkerId, look: &Look, now: Instant) -> bool {
        // The last slot may have gone to a replacement that another worker has just started: hence the second look.
        look.refused && !self.census.others_can_work() && self.is_hopeless(me, now)
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
        let patience = u64::from(self.census.waits_since(look.wait)).saturating_mul(PATIENCE);
        now >= since.after_nanos(patience)
    }

    /// Counts the calling worker, whose slot this is, as blocked, for as long as the result lives, and starts a replacement.
    pub(super) fn block(&'static self, slot: &'static WorkerSlot<RING>) -> impl Drop {
        let counted = self.count_out(self.census.blocked.up());
        let awaits = &slot.shared.awaits_others;
        // Ordering: Relaxed, before the fence below.
        let before = awaits.swap(true, Ordering::Relaxed);
        // Ordering: pairs with the fences of those that read `blocked` in order to wake us: `wake_worker`, `leave`, `count_out`.
        fence(Ordering::SeqCst);
        // If the platform refuses, `block_worker` tries again, and a wait for a job ends by itself.
        let _ = self.start_replacement(self.census.blocked.get());
        Blocked { awaits, before, _counted: counted, _spares: Spares(self) }
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
            let is_blocked = slot.shared.awaits_others.load(Ordering::Relaxed);
            i == me.index() || !is_blocked || slot.shared.park.is_parked()
        })
    }

    /// The calling worker has been counted as one that cannot run tasks: has the workers that rely on others look at the counts
    /// again.
    pub(crate) fn count_out<'a>(&self, counted: Counted<'a>) -> Counted<'a> {
        // Ordering: pairs with the fence in `block`: either the blocked worker sees the count, or this worker sees the blocked
        // one.
        fence(Ordering::SeqCst);
        self.recheck_blocked();
        counted
    }

    /// Has every blocked worker look again whether others can work.
    pub(crate) fn recheck_blocked(&self) {
        if self.census.blocked.is_zero() {
            return;
        }
        for (i, slot) in self.slots().iter().enumerate() {
            // Ordering: after the caller's fence.
            if slot.shared.awaits_others.load(Ordering::Relaxed) {
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
            if !self.census.add_replacement(most) {
                return true;
            }
            self.census.expect();
            // Ordering: Acquire pairs with the Release in `leave`; the platform's start passes it on. Release pairs with the
            // Acquire of a failure: a worker that finds no free slot sees the replacements that are on their way.
            let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
            if slot.shared.status.compare_exchange(OFFLINE, STARTING, set, seen).is_err() {
                self.census.arrive();
                self.census.drop_replacement();
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
                this.census.drop_replacement();
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
                this.census.drop_replacement();
            }
            this.has_come(false);
        }
        let at = NonNull::from(self).cast();
        // SAFETY: as said in `run` and `forget`.
        unsafe { WorkerEntry::new(at, id, run::<P, S, RING, FROM>, forget::<P, S, RING, FROM>) }
    }

    /// A worker that was started is online, or will not come.
    pub(super) fn has_come(&self, is_online: bool) {
        self.census.arrive();
        // Ordering: pairs with the fence in `block`: either a blocked worker sees that none comes, or this context sees the
        // blocked one.
        fence(Ordering::SeqCst);
        if !is_online {
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
    /// Its number among all waits that were too deep.
    wait: u32,
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
        self.executor.census.remove_surplus()
    }
}

/// The calling worker is blocked, until this is dropped: at the end of its wait, or by a panic in it.
struct Blocked<'a, P: Platform, S: Slots<RING>, const RING: usize> {
    awaits: &'a AtomicBool,
    before: bool,
    /// Dropped before the next field, in this order.
    _counted: Counted<'a>,
    _spares: Spares<P, S, RING>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Blocked<'_, P, S, RING> {
    fn drop(&mut self) {
        // Ordering: a hint to others, which look at the count too.
        self.awaits.store(self.before, Ordering::Relaxed);
    }
}

/// Dropped, it has the replacements look whether one of them is no longer needed: an idle one leaves.
struct Spares<P: Platform, S: Slots<RING>, const RING: usize>(&'static Scheduler<P, S, RING>);

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Spares<P, S, RING> {
    fn drop(&mut self) {
        for (id, _) in self.0.spare_slots() {
            self.0.unpark(id);
        }
    }
}
