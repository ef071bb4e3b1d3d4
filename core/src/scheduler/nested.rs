//! A worker's loop inside user code of its own.

use super::{
    context::{Inside, Leave, Worker},
    executor::Scheduler,
    leave_loop::Batch,
    slot::{Slots, WorkerSlot},
};
use crate::{
    platform::{Platform, WorkerId},
    task::coop::renewed,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// In user code of this very worker, the loop is a nested one.
    pub(super) fn nest(&self) -> Option<Nested<P, S, RING>> {
        let is_in_user_code = self.slot().lifo.is_accepting();
        is_in_user_code.then(|| Nested::enter(self.executor, self.id(), self.slot()))
    }
}

/// A worker's loop inside a poll or a job. Its drop puts back the state of that poll.
pub(crate) struct Nested<P: Platform, S: Slots<RING>, const RING: usize> {
    accepting: bool,
    /// A batch of wakers that the loop interrupts.
    _batch: Batch<S::Parts>,
    budget: u32,
    in_poll: bool,
    _inside: Inside<P>,
    /// The last field, so it is dropped after `Nested::drop` has run.
    worker: Leave<P, S, RING>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Nested<P, S, RING> {
    pub(crate) fn enter(
        executor: &'static Scheduler<P, S, RING>,
        id: WorkerId,
        slot: &'static WorkerSlot<RING, S::Parts>,
    ) -> Self {
        let in_poll = slot.lifo.is_in_poll();
        if in_poll {
            // Other workers must not take the poll below for stuck.
            slot.lifo.count_poll();
        }
        slot.local.depth.set(slot.local.depth.get() + 1);
        slot.foreign_work(true);
        let accepting = slot.lifo.replace_accept(false);
        let (_, batch) = Worker::of(executor, id).leave_batch();
        Self {
            worker: Leave::at_end(executor, id),
            accepting,
            _batch: batch,
            // Others run meanwhile, so the poll below goes on with a new budget. A budget without a limit stays one.
            budget: renewed(slot.local.budget.get(), slot.local.units.get().into()),
            in_poll,
            _inside: Inside::enter(&executor.platform),
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Nested<P, S, RING> {
    fn drop(&mut self) {
        let worker = self.worker.worker();
        let slot = worker.slot();
        // The poll or the job below goes on, perhaps for long.
        let _ = worker.leave_for_long();
        slot.foreign_work(false);
        slot.local.depth.set(slot.local.depth.get() - 1);
        slot.local.budget.set(self.budget);
        if self.in_poll {
            slot.lifo.count_poll();
        }
        slot.lifo.accept(self.accepting);
    }
}
