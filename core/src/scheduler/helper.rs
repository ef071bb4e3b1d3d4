//! Contexts from outside that work in a spare slot, in the place of a worker that is without work.

use super::{
    executor::Scheduler,
    replace::Counted,
    slot::{OFFLINE, Slots},
    worker::Worker,
};
use crate::{
    atomic::{Ordering, fence},
    platform::{Platform, WorkerId},
};

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// Makes the calling context, which is no worker, one in a spare slot, in place of a worker that is without work: so that no
    /// more contexts work than there are workers. None if there is no such worker, or no such slot.
    pub(crate) fn helper(&'static self) -> Option<Helper<P, S, RING>> {
        // Ordering: hints, of two numbers that change at any time.
        let helpers = || self.helpers.load(Ordering::Relaxed) as usize;
        if self.without_work() <= helpers() {
            return None;
        }
        let mut spares = (self.workers()..self.slots().len()).map(|i| WorkerId::new(i as u16));
        let worker = spares.find_map(|id| self.attach(id, OFFLINE).ok())?;
        // It is online before it is out of the count of those who work on tasks (`others_can_work`).
        let helper = Helper { _helping: Helping::begin(self), worker };
        // Others may have come at the same time.
        (self.without_work() >= helpers()).then_some(helper)
    }

    /// Whether one of the workers without work may turn to a job: each context that helps from outside has the place of one.
    #[inline]
    pub(crate) fn helpers_leave_room(&self) -> bool {
        match self.helpers.load(Ordering::Relaxed) as usize {
            0 => true,
            helpers => self.without_work() > helpers,
        }
    }

    /// How many workers sleep or search.
    pub(crate) fn without_work(&self) -> usize {
        self.idle.parked(self) + self.idle.searching() as usize
    }
}

/// A worker in a spare slot, for as long as this lives.
pub(crate) struct Helper<P: Platform, S, const RING: usize>
where
    S: Slots<RING>,
{
    /// First, and so dropped first: who takes the worker's place then hears of it.
    _helping: Helping<P, S, RING>,
    worker: Worker<P, S, RING>,
}

impl<P: Platform, S, const RING: usize> Helper<P, S, RING>
where
    S: Slots<RING>,
{
    pub(crate) fn worker(&self) -> &Worker<P, S, RING> {
        &self.worker
    }
}

/// Counted in `Scheduler::helpers`.
pub(super) struct Helping<P: Platform, S: 'static, const RING: usize>(
    &'static Scheduler<P, S, RING>,
)
where
    S: Slots<RING>;

impl<P: Platform, S, const RING: usize> Helping<P, S, RING>
where
    S: Slots<RING>,
{
    pub(super) fn begin(executor: &'static Scheduler<P, S, RING>) -> Self {
        core::mem::forget(executor.count_out(&executor.helpers));
        Self(executor)
    }
}

impl<P: Platform, S, const RING: usize> Drop for Helping<P, S, RING>
where
    S: Slots<RING>,
{
    fn drop(&mut self) {
        let executor = self.0;
        drop(Counted(&executor.helpers));
        // One more worker may take jobs (`may_run_jobs`): an owner that found nobody to do so shall look again.
        // Ordering: pairs with the fence in `answer`: either that one sees the count, or it is asked anew; and with the one in
        // `Idle::announce`: either who goes to sleep beside a public job sees the count, or we see that it sleeps.
        fence(Ordering::SeqCst);
        executor.ask_all();
        if executor.has_work_for_any() {
            executor.notify();
        }
    }
}
