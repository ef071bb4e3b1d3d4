//! How a worker leaves: at once, or at the end of what is under way in its slot when its handle is dropped.

use core::ptr::NonNull;

use crate::{
    platform::Platform,
    scheduler::core::{context::Worker, faces::Lifecycle, slot::Slots},
};

/// # Safety
/// It leads to such a worker, which no other code uses any more.
unsafe fn leave<P: Platform, S: Slots<RING>, const RING: usize>(worker: NonNull<()>) {
    // SAFETY: the caller's.
    unsafe { worker.cast::<Worker<P, S, RING>>().drop_in_place() }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Worker<P, S, RING> {
    fn drop(&mut self) {
        let (executor, slot) = (self.executor, self.slot());
        // Frames below this one still use the slot: no other context may enter it before they end (INV-LOCAL, INV-FORK-WORKER).
        let is_in_use = slot.is_in_use();
        slot.local.abandoned.set(is_in_use.then_some(leave::<P, S, RING>));
        if let Some(fork) = slot.fork.get() {
            fork.set_leaving(is_in_use);
        }
        if is_in_use {
            return;
        }
        slot.local.calls.set(1);
        // Not by `leave_loop`, which would tell the loop that drives it.
        self.stand_up();
        let out = self.leave_loop();
        self.end_busy_period();
        self.retire_locals(&out);
        self.give_away();
        // The last task may have ended here, while all other workers sleep.
        executor.settle();
        // Pinned tasks wait where the next context of this worker, or a thread that waits for the end, finds them.
        // SAFETY: we are the worker.
        unsafe { slot.put_back() };
        slot.local.calls.set(0);
        executor.leave(slot);
    }
}
