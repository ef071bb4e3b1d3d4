//! How a context becomes a worker, and ends to be one.

use super::{
    context::Worker,
    error::RunError,
    executor::Scheduler,
    slot::{OFFLINE, ONLINE, STARTING, Slots, WorkerSlot},
};
use crate::{
    atomic::{Ordering, fence},
    platform::{Platform, StartError, WorkerEntry, WorkerId, worker::Place},
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Becomes worker `id` in the calling context, to be stepped by hand. When the handle is dropped the worker goes offline, and
    /// the tasks in its queues go to the others.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn worker(&'static self, id: WorkerId) -> Result<Worker<P, S, RING>, RunError> {
        if id.index() >= self.workers() {
            return Err(RunError::NoSuchWorker(self.workers()));
        }
        if !self.platform.may_wait() {
            return Err(RunError::MustNotWait);
        }
        // A poll that has left its worker counts as one on it: its worker may be on its way.
        if self.working().is_some() || self.left_poll().is_some() {
            return Err(RunError::AlreadyWorker);
        }
        self.attach(id, OFFLINE)
    }

    /// As `worker`, spare slots included, for a slot whose status is `from`. On failure the slot is not the caller's, whatever
    /// its status was.
    pub(crate) fn attach(
        &'static self,
        id: WorkerId,
        from: u32,
    ) -> Result<Worker<P, S, RING>, RunError> {
        let slot = self.slots().get(id.index()).ok_or(RunError::NoSuchWorker(self.workers()))?;
        if self.platform.current_worker().is_some_and(|other| other != id) {
            if from == STARTING {
                // The slot was reserved for this context.
                self.unreserve(id);
            }
            return Err(RunError::WrongContext);
        }
        // Ordering: Acquire pairs with the Release in `leave`: the slot's `Local` passes from one context to the next.
        slot.shared
            .status
            .compare_exchange(from, ONLINE, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| RunError::AlreadyRunning)?;
        // First, as the platform may run wakers of the user's from here on.
        slot.shared.bell.hang(self.erased(), id);
        if let Some(fork) = slot.fork.get() {
            fork.open(self, id);
        }
        slot.local.guest.set(false);
        slot.local.helping.set(false);
        slot.local.may_hand_over.set(false);
        if let Some(spare) = id.index().checked_sub(self.workers()) {
            // Ordering: see `in_use`.
            self.spares.fetch_max(spare as u32 + 1, Ordering::Relaxed);
            // Workers that sleep already did not know of this slot when they asked all owners for jobs.
            if let Some(fork) = slot.fork.get() {
                fork.ask();
            }
        }
        let others = self.census.enter();
        slot.local.is_second.set(others == 1);
        // Ordering: pairs with the fence in `wait_until`: either the thread that waits for the end sees this worker, or this worker
        // sees that the end has come.
        fence(Ordering::SeqCst);
        // SAFETY: the slot is ours by the exchange above, until `leave`.
        unsafe { self.platform.set_worker(Some(id)) };
        let refused = if self.gate.is_stopped() {
            Some(RunError::Stopped)
        } else {
            (self.platform.current_worker() != Some(id)).then_some(RunError::WrongContext)
        };
        if let Some(error) = refused {
            self.leave(slot);
            return Err(error);
        }
        slot.local.units.set(self.config.budget());
        slot.local.lifo_cap.set(self.config.lifo_cap());
        if let Some(rng) = slot.local.rng.get() {
            let number = id.index() as u64 + 1;
            rng.seed(self.config.seed() ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
        Ok(Worker::new(self, id))
    }

    /// The calling context is no longer the worker of this slot. Other workers take over the slot's timers and the reactor. There may be
    /// timers even if the slot was online for a moment only.
    pub(crate) fn leave(&self, slot: &WorkerSlot<RING, S::Parts>) {
        self.leave_as(slot, OFFLINE);
    }

    /// The same, for a slot that is offline then, or reserved for a context that was started.
    pub(super) fn leave_as(&self, slot: &WorkerSlot<RING, S::Parts>, status: u32) {
        // SAFETY: as said in `attach`, which has made it that worker.
        unsafe { self.platform.set_worker(None) };
        // Ordering: Release pairs with the Acquire in `attach`.
        slot.shared.status.store(status, Ordering::Release);
        self.decline_broadcast(slot);
        self.census.leave();
        self.gate.tell_if_closing(&self.platform);
        // Ordering: after the fence in `tell_if_closing`, which pairs with the one in `block`.
        if !self.census.blocked.is_zero() {
            self.wake_all();
        }
        self.leave_timers(slot);
        self.leave_io();
    }

    /// Has the platform start worker `id` on a thread or core of its own.
    ///
    /// # Errors
    /// The platform's [`StartError`]. A worker that then cannot enter is not reported:
    /// [`WorkerEntry::run`](crate::WorkerEntry::run) returns at once.
    pub fn start(&'static self, id: WorkerId) -> Result<(), StartError> {
        // If the platform refuses, it drops the entry, which takes this back.
        self.census.await_start();
        self.platform.start(WorkerEntry::new(self, id, Place::Free))
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
