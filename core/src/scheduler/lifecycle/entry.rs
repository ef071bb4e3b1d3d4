//! How a context becomes a worker, and ends to be one.

use crate::scheduler::core::faces::OwnQueues;
use core::ptr::NonNull;

use crate::{
    atomic::{Ordering, fence},
    platform::{
        Platform, WorkerId,
        worker::{Enter, Place},
    },
    scheduler::{
        core::{
            context::Worker,
            executor::Scheduler,
            faces::{Lifecycle, Waiting},
            slot::{OFFLINE, ONLINE, STARTING, Slots, WorkerSlot},
            worker::End,
        },
        error::RunError,
    },
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
        if self.online_worker().is_some() || self.left_poll().is_some() {
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
        slot.shared.waker.bind(self.erased(), id);
        if let Some(fork) = slot.fork.get() {
            fork.open(self, id);
        }
        slot.local.takes_no_jobs.set(false);
        slot.local.helping.set(false);
        slot.local.may_hand_over.set(false);
        if let Some(spare) = id.index().checked_sub(self.workers()) {
            // Ordering: see `slots_in_use`.
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

    /// A worker that was started is online, or will not come.
    pub(crate) fn has_come(&self, is_online: bool) {
        self.census.arrive();
        // Ordering: pairs with the fence in `block`: either a blocked worker sees that none comes, or this context sees the
        // blocked one.
        fence(Ordering::SeqCst);
        if !is_online {
            self.recheck_blocked();
        }
    }

    /// Gives back a slot that was reserved for a compensation worker that does not come.
    pub(crate) fn unreserve(&self, id: WorkerId) {
        if let Some(slot) = self.slots().get(id.index()) {
            // Ordering: Release passes on what its taker acquired.
            slot.shared.status.store(OFFLINE, Ordering::Release);
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Becomes worker `id` in the calling context, and works until the executor has shut down, or until the worker has been asked to leave
    /// ([`resize`](Self::resize)) and no task keeps it. Then call it again when the worker is wanted again.
    ///
    /// # Errors
    /// [`RunError`], at once.
    pub fn run(&'static self, id: WorkerId) -> Result<(), RunError> {
        self.work(self.worker(id)?, false);
        Ok(())
    }

    /// Becomes the worker for which the calling context was started.
    pub(crate) fn arrive(&'static self, id: WorkerId, place: Place) -> Option<Worker<P, S, RING>> {
        // Before it enters: if another context has the slot, and leaves right after this one was refused, a worker must be started anew.
        self.has_answered(id);
        if place == Place::Passed {
            self.until_passed(id);
        }
        let from = if place == Place::Free { OFFLINE } else { STARTING };
        let worker = self.attach(id, from).ok();
        if from == STARTING && worker.is_none() {
            self.drop_if_compensation(id);
        }
        self.has_come(worker.is_some());
        worker
    }

    /// Waits until the worker has left, which it does at once: this context was started, and it has seen that.
    fn until_passed(&self, id: WorkerId) {
        let mut round = 0_u32;
        // Ordering: Acquire pairs with the Release in `leave_as`; `attach` follows.
        while self.slot_of(id).shared.status.load(Ordering::Acquire) != STARTING {
            self.platform.relax(round);
            round = round.saturating_add(1);
        }
    }

    /// A worker in a spare slot does not come.
    fn drop_if_compensation(&self, id: WorkerId) {
        if id.index() >= self.workers() {
            self.census.drop_compensation();
        }
    }

    /// Works, and comes back if the worker was asked to before it was gone.
    fn work(&'static self, worker: Worker<P, S, RING>, hands_over: bool) {
        let id = worker.id();
        let mut next = Some(worker);
        while let Some(worker) = next.take() {
            let end = worker.run_loop(hands_over);
            match end {
                // By another way than its drop.
                End::HasLeft => core::mem::forget(worker),
                End::Leaves | End::Retires => drop(worker),
            }
            if end != End::Leaves && self.is_wanted(id) {
                next = self.attach(id, OFFLINE).ok();
            }
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Works until the executor has shut down, until [`Scheduler::resize`] has asked the worker to leave and no task keeps it, or until
    /// this is a compensation worker that is no longer needed. If it is asked to stay after all as it leaves, it comes back. In a poll of
    /// this very worker it does nothing: a shutdown would wait for that poll. As the handle is gone then, the worker goes offline at the
    /// end of the poll.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Executor, Instant, WorkerId};
    /// static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// let core = std::thread::spawn(|| {
    ///     let worker = EXECUTOR.worker(WorkerId::new(0))?;
    ///     // What the worker does first: it could step by hand here.
    ///     worker.run_for(8);
    ///     worker.run();
    ///     Ok::<(), filch::RunError>(())
    /// });
    /// # while !EXECUTOR.metrics().workers().all(|(_, worker)| worker.online) {}
    /// EXECUTOR.shutdown(Instant::MAX, |_| {})?;
    /// core.join().unwrap()?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn run(self) {
        let executor = self.executor;
        if self.is_outside_polls() {
            executor.work(self, false);
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Enter for Scheduler<P, S, RING> {
    fn enter(&'static self, id: WorkerId, place: Place) {
        if let Some(worker) = self.arrive(id, place) {
            self.work(worker, true);
        }
    }

    fn forget(&'static self, id: WorkerId, place: Place) {
        // If the worker itself drops the entry, the platform has refused, and the worker stays.
        let is_refused = place == Place::Passed && self.platform.current_worker() == Some(id);
        if place != Place::Free && !is_refused {
            if place == Place::Passed {
                self.until_passed(id);
            }
            self.unreserve(id);
            self.drop_if_compensation(id);
        }
        self.has_answered(id);
        self.has_come(false);
    }
}

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
        let is_in_use = slot.has_active_call();
        slot.local.abandoned.set(is_in_use.then_some(leave::<P, S, RING>));
        if let Some(fork) = slot.fork.get() {
            fork.set_leaving(is_in_use);
        }
        if is_in_use {
            return;
        }
        slot.local.calls.set(1);
        // Not by `leave_loop`, which would tell the loop that drives it.
        self.end_sleep();
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
