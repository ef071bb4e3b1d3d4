//! Code of a task that blocks its worker: the worker's whole duty passes to others meanwhile.
//!
//! A compensation worker in a spare slot takes the place of the blocked one. If there is no spare slot, and the task may move, the blocked
//! thread leaves its worker in the midst of the poll, as any worker leaves, and another thread is started that becomes this worker. So
//! there are as many workers that run tasks as before, however many tasks block. The poll goes on outside of the workers, and stays one of
//! the executor (`left`): what it wakes and spawns goes to the injector. At its end the thread becomes the worker again if no other has, or
//! ends.

use crate::scheduler::core::faces::OwnQueues;
use core::ptr::null;

use crate::{
    atomic::{AtomicBool, Ordering, fence},
    fork::worker::ForkWorker,
    parts::{On, Parts},
    platform::{Platform, WorkerEntry, WorkerId, worker::Place},
    scheduler::core::{
        context::{Waits, Worker},
        executor::Scheduler,
        faces::Lifecycle,
        nested::Nested,
        slot::{Local, OFFLINE, STARTING, Slots, WorkerSlot},
    },
    task::executor_ref::Frame,
    trace::Event,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING>
where
    S::Parts: Parts<Waits = On>,
{
    /// Calls a closure that blocks the thread or computes for long, in a task. What the calling worker has queued, its timers and the I/O
    /// that it hears of pass to others: to a compensation worker in a spare slot ([`Config::spare_slots`](crate::Config::spare_slots)), or
    /// to another thread that becomes this worker.
    ///
    /// For the latter the platform must start threads, the worker must have been started by it, and the task must be able to move: not
    /// pinned, not in a wait or a fork-join run, with no local task on the worker. The task then is on no worker from here to the end of
    /// its poll. What is pinned to a worker that neither is possible for waits until the closure is over.
    ///
    /// Outside of polls, in event sinks and on threads that are no workers it calls the closure and does nothing else.
    ///
    /// # Panics
    /// With a panic of the closure.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Executor, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// let mut task = EXECUTOR.spawn(&TASKS, async { EXECUTOR.block_in_place(|| 6 * 7) })?;
    /// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
    /// assert_eq!(task.join()?, 42);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn block_in_place<R>(&'static self, f: impl FnOnce() -> R) -> R {
        let Waits::OnWorker(id, slot) = self.waits() else { return f() };
        if !slot.lifo.is_in_user_code() {
            return f();
        }
        let frame = self.may_hand_over(id, slot);
        self.block_in_slot(id, slot, frame.is_none(), f).unwrap_or_else(|f| {
            if frame.is_some_and(|frame| self.hand_over(id, slot, frame)) {
                return f();
            }
            // The platform has refused: the worker stays.
            self.block_in_slot(id, slot, true, f).unwrap_or_else(|f| f())
        })
    }

    /// Calls the closure on the worker. If it is not compensated it `stays` all the same, or gives the closure back.
    fn block_in_slot<R, C: FnOnce() -> R>(
        &'static self,
        id: WorkerId,
        slot: &'static WorkerSlot<RING, S::Parts>,
        stays: bool,
        f: C,
    ) -> Result<R, C> {
        let nested = Nested::enter(self, id, slot);
        let worker = nested.worker();
        worker.give_away();
        slot.publish_jobs();
        let blocked = self.block(slot);
        if !blocked.is_compensated() && !stays {
            return Err(f);
        }
        let _others = InPlace::begin(self, slot);
        Ok(worker.in_long_code(f))
    }

    /// The poll under way, if it may go on outside of the worker: nothing else on the stack relies on the worker's slot.
    fn may_hand_over(&self, id: WorkerId, slot: &WorkerSlot<RING, S::Parts>) -> Option<&Frame> {
        let local = &slot.local;
        // SAFETY: INV-LOCAL: the caller is the worker, and its frames are on its stack, which is that of the caller.
        let frame = unsafe { local.frame.get().as_ref() }?;
        // SAFETY: as above; the flag is set.
        let task = unsafe { slot.polled() }?;
        let is_outermost = frame.is_outermost() && local.calls.get() == 1 && local.depth.get() == 0;
        let may = local.may_hand_over.get()
            && self.platform.left_poll().is_some()
            && is_outermost
            && !task.state.load().is_bound()
            && local.locals.get() == 0
            && !local.in_broadcast.get()
            && !local.duties.is_batching()
            && !slot.fork.get().is_some_and(ForkWorker::is_in_use)
            && (id.index() >= self.workers() || self.is_wanted(id));
        may.then_some(frame)
    }

    /// The thread leaves the worker in the midst of this poll, and another one becomes it. False, and nothing done, if the platform refuses
    /// that.
    fn hand_over(
        &'static self,
        id: WorkerId,
        slot: &'static WorkerSlot<RING, S::Parts>,
        frame: &Frame,
    ) -> bool {
        let Some(status) = self.start_successor(id, slot) else { return false };
        let (worker, local) = (Worker::of(self, id), &slot.local);
        let _ = worker.leave_loop();
        slot.lifo.set_in_user_code(false);
        worker.end_busy_period();
        worker.trace(Event::PollEnd(frame.address()));
        slot.lifo.count_poll();
        worker.give_away();
        // SAFETY: we are the worker.
        unsafe { slot.put_back() };
        local.frame.set(null());
        local.calls.set(0);
        let (context, budget) = (self.platform.stay(), local.budget.get());
        self.leave_as(slot, status);
        let (below, before) = self.swap_left_poll(frame, budget);
        frame.leave(self.erased(), context, before, below);
        true
    }

    /// Has another thread become the worker, which this one leaves next: the status in which it leaves the slot. `None` if the platform
    /// refuses.
    fn start_successor(
        &'static self,
        id: WorkerId,
        slot: &WorkerSlot<RING, S::Parts>,
    ) -> Option<u32> {
        let is_regular = id.index() < self.workers();
        if is_regular && Self::mark_as_started(slot) {
            // One was started already.
            return Some(OFFLINE);
        }
        // If the platform refuses, it drops the entry, which takes this back.
        self.census.await_start();
        let entry = WorkerEntry::new(self, id, Place::Passed);
        self.platform.start(entry).is_ok().then_some(STARTING)
    }
}

/// Other workers fire the timers of the calling one until this is dropped, and what user code queues on it goes to them.
struct InPlace<'s, F: Parts> {
    is_blocked_in_place: &'s AtomicBool,
    was: bool,
    local: &'s Local<F>,
    lifo_cap: u16,
}

impl<'s, F: Parts> InPlace<'s, F> {
    fn begin<P: Platform, S: Slots<RING, Parts = F>, const RING: usize>(
        executor: &Scheduler<P, S, RING>,
        slot: &'s WorkerSlot<RING, F>,
    ) -> Self {
        let is_blocked_in_place = &slot.shared.is_blocked_in_place;
        // Ordering: Relaxed, before the fence.
        let was = is_blocked_in_place.swap(true, Ordering::Relaxed);
        // Ordering: pairs with the fence in `Wheels::tell`: either we see a new timer, or its context sees that others fire it; and with
        // the one in `Idle::announce`: either we see a sleeper, or it sees that it must look at our timers.
        fence(Ordering::SeqCst);
        executor.wake_for_orphaned_timers(slot);
        let lifo_cap = slot.local.lifo_cap.replace(0);
        Self { is_blocked_in_place, was, local: &slot.local, lifo_cap }
    }
}

impl<F: Parts> Drop for InPlace<'_, F> {
    fn drop(&mut self) {
        self.local.lifo_cap.set(self.lifo_cap);
        // Ordering: a hint. The worker looks at its timers itself from now on.
        self.is_blocked_in_place.store(self.was, Ordering::Relaxed);
    }
}
