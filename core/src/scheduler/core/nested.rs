//! A worker's loop inside user code of its own.

use super::{
    context::{Inside, SlotGuard, Worker},
    executor::Scheduler,
    leave_loop::Batch,
    slot::{Slots, WorkerSlot},
};
use crate::{
    platform::{Platform, WorkerId},
    task::coop::renewed,
};

/// A loop of a worker is at work in its slot until this is dropped.
#[must_use]
#[expect(dead_code, reason = "they are kept for their drop")]
pub(crate) enum InLoop<P: Platform, S: Slots<RING>, const RING: usize> {
    Outermost(SlotGuard<P, S, RING>),
    /// In user code of this very worker.
    Nested(Nested<P, S, RING>),
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// A loop of this worker begins, or a part of one. `None` in an event sink, which the scheduler calls in the midst of its own work.
    #[inline]
    pub(crate) fn enter_loop(&self) -> Option<InLoop<P, S, RING>> {
        let slot = self.slot();
        if slot.lifo.is_in_user_code() && !slot.local.in_sink.get() {
            Some(InLoop::Nested(Nested::enter(self.executor, self.id(), slot)))
        } else {
            self.enter_outside_polls().map(InLoop::Outermost)
        }
    }

    /// The same for what is never nested: `None` in a poll, too.
    #[inline]
    pub(crate) fn enter_outside_polls(&self) -> Option<SlotGuard<P, S, RING>> {
        self.is_outside_polls().then(|| SlotGuard::enter(self.executor, self.id()))
    }

    /// Neither in user code of this worker, nor in an event sink.
    pub(crate) fn is_outside_polls(&self) -> bool {
        !self.slot().lifo.is_in_user_code() && !self.slot().local.in_sink.get()
    }
}

/// A worker's loop inside a poll or a job. Its drop puts back the state of that poll.
pub(crate) struct Nested<P: Platform, S: Slots<RING>, const RING: usize> {
    in_user_code: bool,
    /// A batch of wakers that the loop interrupts.
    _batch: Batch<S::Parts>,
    /// With which the poll below goes on: others run meanwhile, so that is a new one. A budget without a limit stays one.
    budget: u32,
    in_poll: bool,
    _inside: Inside<P>,
    /// The last field, so it is dropped after `Nested::drop` has run.
    guard: SlotGuard<P, S, RING>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Nested<P, S, RING> {
    pub(crate) fn enter(
        executor: &'static Scheduler<P, S, RING>,
        id: WorkerId,
        slot: &'static WorkerSlot<RING, S::Parts>,
    ) -> Self {
        // First: what follows runs wakers.
        let guard = SlotGuard::enter(executor, id);
        let in_poll = slot.lifo.is_in_poll();
        if in_poll {
            // Other workers must not take the poll below for stuck.
            slot.lifo.count_poll();
        }
        slot.local.depth.set(slot.local.depth.get() + 1);
        slot.foreign_work(true);
        let in_user_code = slot.lifo.replace_in_user_code(false);
        let (_, batch) = guard.worker().leave_batch();
        Self {
            guard,
            in_user_code,
            _batch: batch,
            budget: renewed(slot.local.budget.get(), slot.local.units.get().into()),
            in_poll,
            _inside: Inside::enter(&executor.platform),
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Nested<P, S, RING> {
    pub(crate) fn worker(&self) -> &Worker<P, S, RING> {
        self.guard.worker()
    }

    /// The poll below goes on with what it has left.
    #[cfg(feature = "classes")]
    pub(crate) fn keep_budget(&mut self, left: u32) {
        self.budget = left;
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Nested<P, S, RING> {
    fn drop(&mut self) {
        let worker = self.guard.worker();
        let slot = worker.slot();
        // The poll or the job below goes on, perhaps for long.
        let _ = worker.leave_for_long();
        if slot.is_blocked_in_place() {
            worker.give_away();
        }
        slot.foreign_work(false);
        slot.local.depth.set(slot.local.depth.get() - 1);
        slot.local.budget.set(self.budget);
        if self.in_poll {
            slot.lifo.count_poll();
        }
        slot.lifo.set_in_user_code(self.in_user_code);
    }
}
