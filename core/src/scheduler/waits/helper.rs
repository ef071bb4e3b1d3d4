//! Helpers: contexts from outside that work in a spare slot, in the place of a worker that is without work.

use crate::{
    atomic::{Ordering, fence},
    platform::Platform,
    scheduler::core::{
        census::Counted,
        context::Worker,
        executor::Scheduler,
        faces::{JobOffers, Lifecycle},
        slot::{OFFLINE, Slots},
    },
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Makes the calling context, which is no worker, a helper in the place of a worker that is without work: so that no more
    /// contexts work than there are workers. `None` if no worker is without work, or no spare slot is free.
    pub(crate) fn helper(&'static self) -> Option<Helper<P, S, RING>> {
        let helpers = || self.census.helpers.get() as usize;
        if self.without_work() <= helpers() {
            return None;
        }
        let worker = self.spare_slots().find_map(|(id, _)| self.enter_slot(id, OFFLINE).ok())?;
        // The helper is online before it is counted as one that cannot run tasks (`others_can_work`).
        worker.slot().local.helping.set(true);
        let helper = Helper { _helping: Helping::begin(self), worker };
        // Other helpers may have come at the same time.
        (self.without_work() >= helpers()).then_some(helper)
    }
}

/// A helper: a worker in a spare slot, for as long as this lives.
pub(crate) struct Helper<P: Platform, S: Slots<RING>, const RING: usize> {
    /// The first field, so it is dropped first: the worker that gets its place back is notified before the helper leaves.
    _helping: Helping<P, S, RING>,
    worker: Worker<P, S, RING>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Helper<P, S, RING> {
    pub(crate) fn worker(&self) -> &Worker<P, S, RING> {
        &self.worker
    }
}

/// A context is counted as a helper, for as long as this lives. The fields are dropped in this order.
pub(crate) struct Helping<P: Platform, S: Slots<RING>, const RING: usize> {
    _counted: Counted<'static>,
    _place: Place<P, S, RING>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Helping<P, S, RING> {
    pub(crate) fn begin(executor: &'static Scheduler<P, S, RING>) -> Self {
        let counted = executor.count_out(executor.census.helpers.up());
        Self { _counted: counted, _place: Place(executor) }
    }
}

/// Dropped, it gives the place of a helper, which has been counted out, back to the worker that is without work.
struct Place<P: Platform, S: Slots<RING>, const RING: usize>(&'static Scheduler<P, S, RING>);

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Place<P, S, RING> {
    fn drop(&mut self) {
        let executor = self.0;
        // One more worker may take jobs (`may_run_jobs`). An owner that found no worker to take its jobs must look again.
        // Ordering: pairs with the fence in `answer`: either the owner sees the count, or it is asked anew. Pairs with the fence
        // in `Idle::announce` too: either a worker that goes to sleep beside a public job sees the count, or this context sees
        // that it sleeps.
        fence(Ordering::SeqCst);
        executor.ask_for_jobs();
        if executor.has_work_for_any() {
            executor.notify();
        }
    }
}
