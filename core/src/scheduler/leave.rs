//! How a worker leaves: at once, or at the end of what is under way in its slot when its handle is dropped.

use core::mem::ManuallyDrop;

use super::{executor::Scheduler, slot::Slots, worker::Worker};
use crate::platform::{Platform, WorkerId};

impl<P: Platform, S, const RING: usize> Drop for Worker<P, S, RING>
where
    S: Slots<RING>,
{
    fn drop(&mut self) {
        let (executor, slot) = (self.executor, self.slot());
        let away = self.leave_loop();
        // Frames below this one still use the slot: no other context may enter it before they end (INV-LOCAL, INV-BAY).
        slot.local.abandoned.set(slot.is_at_work());
        if slot.local.abandoned.get() {
            return;
        }
        self.end_stretch();
        self.retire_locals(&away);
        self.give_away();
        // The last task may have ended here, while all other workers sleep.
        executor.settle();
        // Pinned tasks wait where the next context of this worker, or a thread that waits for the end, finds them.
        // SAFETY: we are the worker.
        unsafe { slot.inbox.put_back() };
        executor.leave(self.id(), slot);
        executor.leave_timers(slot);
        executor.leave_io();
    }
}

/// The end of a call that works in the slot of the calling worker. If the worker's handle was dropped meanwhile, and nothing else
/// on the stack relies on the slot, the worker leaves.
pub(crate) struct Leave<P: Platform, S: 'static, const RING: usize>(
    ManuallyDrop<Worker<P, S, RING>>,
)
where
    S: Slots<RING>;

impl<P: Platform, S, const RING: usize> Leave<P, S, RING>
where
    S: Slots<RING>,
{
    /// The caller is worker `id`.
    pub(crate) fn at_end(executor: &'static Scheduler<P, S, RING>, id: WorkerId) -> Self {
        Self(Worker::of(executor, id))
    }

    pub(crate) fn worker(&self) -> &Worker<P, S, RING> {
        &self.0
    }
}

impl<P: Platform, S, const RING: usize> Drop for Leave<P, S, RING>
where
    S: Slots<RING>,
{
    fn drop(&mut self) {
        let slot = self.0.slot();
        if slot.local.abandoned.get() && !slot.is_at_work() {
            // SAFETY: this value has the place of the handle that is gone; this is its last use.
            unsafe { ManuallyDrop::drop(&mut self.0) }
        }
    }
}
