//! Workers that are blocked, and the compensation workers that take their places.
//!
//! A worker that waits in sync code too deep in its stack to run other tasks, or to take other jobs, is *blocked*; and so is one whose task
//! blocks in place. A *compensation worker* then runs in a spare slot, if the platform can start one. While a worker is blocked there are
//! at most as many compensation workers as workers that cannot run tasks (`unable`). An idle compensation worker leaves when there are
//! more.

use crate::{
    atomic::{AtomicBool, Ordering, fence},
    platform::{Platform, WorkerEntry, WorkerId, worker::Place},
    scheduler::{
        core::{
            executor::Scheduler,
            faces::Waiting,
            slot::{OFFLINE, STARTING, Slots, WorkerSlot},
        },
        state::census::Counted,
    },
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Counts the calling worker, whose slot this is, as blocked, for as long as the result lives, and starts a compensation worker.
    pub(crate) fn block<'a>(
        &'static self,
        slot: &'a WorkerSlot<RING, S::Parts>,
    ) -> Blocked<'a, P, S, RING> {
        let awaits = &slot.shared.awaits_others;
        // Ordering: Relaxed, before the fence below.
        let before = awaits.swap(true, Ordering::Relaxed);
        // A wait inside another one is that of a worker that is blocked already.
        let helps = !before && slot.local.helping.get();
        let both = helps.then(|| self.census.blocked_helpers.up());
        let counted: Option<Counted<'a>> =
            (!before).then(|| self.count_out(self.census.blocked.up()));
        // Ordering: pairs with the fences of those that read `blocked` in order to wake us: `wake_worker`, `leave`, `count_out`.
        fence(Ordering::SeqCst);
        // If the platform refuses, `block_worker` tries again, and a wait for a job ends by itself.
        let is_compensated = self.start_compensation(self.census.blocked.get());
        let spares = Spares(self);
        Blocked { awaits, before, is_compensated, _counted: counted, _both: both, _spares: spares }
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

    pub(crate) fn spare_slots(
        &self,
    ) -> impl Iterator<Item = (WorkerId, &WorkerSlot<RING, S::Parts>)> {
        self.slots()
            .iter()
            .enumerate()
            .skip(self.workers())
            .map(|(i, slot)| (WorkerId::new(i as u16), slot))
    }

    /// Has a worker started in a spare slot, unless there are `most` compensation workers, online or on their way. False if no slot is
    /// free, or the platform refuses.
    ///
    /// The slot is reserved at once. Otherwise a helper could take it, or another worker could start a second compensation worker there,
    /// and one of the blocked workers would wait for nothing.
    pub(crate) fn start_compensation(&'static self, most: u32) -> bool {
        for (id, slot) in self.spare_slots() {
            // This look comes before all counts. Otherwise the count of compensation workers would go up and down again, and a wait that
            // nothing can end would take the higher count for a compensation worker that is on its way.
            // Ordering: Acquire as in the failure below.
            if slot.shared.status.load(Ordering::Acquire) != OFFLINE {
                continue;
            }
            if !self.census.add_compensation(most) {
                return true;
            }
            self.census.await_start();
            // Ordering: Acquire pairs with the Release in `leave`; the platform's start passes it on. Release pairs with the
            // Acquire of a failure: a worker that finds no free slot sees the compensation workers that are on their way.
            let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
            if slot.shared.status.compare_exchange(OFFLINE, STARTING, set, seen).is_err() {
                self.census.arrive();
                self.census.drop_compensation();
                continue;
            }
            // If the platform refuses, it drops the entry, which takes all of this back.
            if self.platform.start(WorkerEntry::new(self, id, Place::Reserved)).is_ok() {
                return true;
            }
        }
        false
    }
}

/// The calling worker is blocked, until this is dropped: at the end of its wait, or by a panic in it.
pub(crate) struct Blocked<'a, P: Platform, S: Slots<RING>, const RING: usize> {
    awaits: &'a AtomicBool,
    before: bool,
    is_compensated: bool,
    /// Dropped before the last field, in this order.
    _counted: Option<Counted<'a>>,
    _both: Option<Counted<'a>>,
    _spares: Spares<P, S, RING>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Blocked<'_, P, S, RING> {
    /// Whether there is a compensation worker for each blocked worker, online or on its way.
    pub(crate) fn is_compensated(&self) -> bool {
        self.is_compensated
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Blocked<'_, P, S, RING> {
    fn drop(&mut self) {
        // Ordering: a hint to others, which look at the count too.
        self.awaits.store(self.before, Ordering::Relaxed);
    }
}

/// Dropped, it has the compensation workers look whether one of them is no longer needed: an idle one leaves.
struct Spares<P: Platform, S: Slots<RING>, const RING: usize>(&'static Scheduler<P, S, RING>);

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Spares<P, S, RING> {
    fn drop(&mut self) {
        for (id, _) in self.0.spare_slots() {
            self.0.unpark(id);
        }
    }
}
