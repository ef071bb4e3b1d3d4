//! What the path of a task asks of this room.

use crate::{
    atomic::{Ordering, fence},
    parts::{Blocks, Switch},
    platform::{Platform, WorkerId},
    scheduler::core::{
        context::Worker,
        executor::Scheduler,
        faces::{Lifecycle, Waiting},
        slot::{Slots, WorkerSlot},
    },
    task::{executor_ref::Frame, run::Polled},
    trace::Event,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Waiting<P, S, RING> for Scheduler<P, S, RING> {
    fn begin_block(&'static self, slot: &WorkerSlot<RING, S::Parts>) -> impl Sized {
        self.block(slot)
    }

    fn begin_join_sleep(&'static self, slot: &WorkerSlot<RING, S::Parts>) -> impl Sized {
        // A helper counts as one that runs no tasks in any case, and so does a worker that is blocked: it would have itself look again.
        // Ordering: written by this worker alone.
        let is_counted =
            slot.local.helping.get() || slot.shared.awaits_others.load(Ordering::Relaxed);
        (!is_counted).then(|| self.count_out(self.census.joining.up()))
    }

    fn with_helper<T, R>(
        &'static self,
        value: T,
        f: impl FnOnce(&Worker<P, S, RING>, T) -> Result<R, T>,
    ) -> Result<R, T> {
        match self.helper() {
            Some(helper) => f(helper.worker(), value),
            None => Err(value),
        }
    }

    fn is_surplus(&self, id: WorkerId) -> bool {
        Blocks::<S::Parts>::ON && id.index() >= self.workers() && self.census.remove_surplus()
    }

    fn tell_blocked(&self, worker: WorkerId) {
        // Ordering: after the caller's fence, which pairs with the one in `Scheduler::block`.
        if !self.census.blocked.is_zero() {
            // It may sleep in a wait that is too deep to help in: it must see what has come.
            self.unpark(worker);
        }
    }

    fn recheck_blocked(&self) {
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

    #[cold]
    fn end_outside(&'static self, frame: &Frame, polled: Polled) {
        if let Some((context, budget)) = frame.before() {
            self.swap_left_poll(frame.below(), budget);
            self.platform.unnest(context);
        }
        match polled {
            Polled::Again(ready) => {
                self.trace_wake(None, &ready);
                self.queue_outside(ready);
            }
            Polled::Idle => {}
            _ => {
                self.trace(None, Event::End(frame.address()));
                self.gate.complete();
                // Ordering: pairs with the fence in `settle_closing`: either a worker that looks for the end sees the completion, or we see
                // that the end is near, and look ourselves.
                fence(Ordering::SeqCst);
                self.settle();
            }
        }
    }
}
