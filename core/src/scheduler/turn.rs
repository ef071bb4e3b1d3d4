//! A worker's turn in another loop, which drives it; and that loop's code as code of the worker.

use super::core::{
    context::{SlotGuard, Worker},
    executor::Scheduler,
    slot::Slots,
    worker::Step,
};
use crate::{instant::Instant, platform::Platform};

/// What the loop that drives a worker does after [`Worker::turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[must_use]
pub enum Turn {
    /// The turn was too short for all there is to do: give the worker another one soon.
    Again,
    /// There is nothing to do. The next turn comes when the platform's [`wake`](Platform::wake) is called for this worker, or at this
    /// time if there is one.
    Rests(Option<Instant>),
    /// The executor has shut down, or the worker is to leave ([`Scheduler::resize`]): there will be nothing to do.
    Stopped,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// A turn of this worker in a loop that is not its own: a softirq, a software interrupt, another scheduler's thread, the loop of a
    /// GUI or a game. At most `polls` polls, fewer if there is nothing to do, and then [`begin_park`](Self::begin_park). Never blocks.
    ///
    /// A loop of turns and of waits for `wake` is all that such a worker needs. It costs what its steps cost, and a look for work.
    /// In a poll of this very worker it is a part of that poll, and never rests.
    ///
    /// ```
    /// # use filch::{Executor, Instant, Platform, TaskPool, Turn, WorkerId, atomic::AtomicU32};
    /// # struct Gui;
    /// # // SAFETY: there is one thread.
    /// # unsafe impl Platform for Gui {
    /// #     fn now(&self) -> Instant { Instant::ZERO }
    /// #     fn current_worker(&self) -> Option<WorkerId> { Some(WorkerId::new(0)) }
    /// #     unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
    /// #     fn wake(&self, _: WorkerId, _: &AtomicU32) { /* asks the loop for a turn */ }
    /// # }
    /// static EXECUTOR: Executor<Gui, 1> = Executor::new(Gui);
    /// static TASKS: TaskPool<256, 4> = TaskPool::new();
    /// let worker = EXECUTOR.worker(WorkerId::new(0))?;
    /// let task = EXECUTOR.spawn(&TASKS, async { 6 * 7 }).unwrap();
    /// while worker.turn(64) == Turn::Again {
    ///     // The loop's other work.
    /// }
    /// assert!(task.is_finished());
    /// assert_eq!(worker.turn(64), Turn::Rests(None));
    /// # Ok::<(), filch::RunError>(())
    /// ```
    pub fn turn(&self, polls: usize) -> Turn {
        for _ in 0..polls {
            match self.step() {
                Step::Polled => {}
                Step::Stopped => return Turn::Stopped,
                Step::Idle => {
                    if let Some(deadline) = self.begin_park() {
                        return Turn::Rests(deadline);
                    }
                }
            }
        }
        Turn::Again
    }
}

/// User code that is no poll, and counts as one until this is dropped.
struct AsPoll<P: Platform, S: Slots<RING>, const RING: usize> {
    began: bool,
    /// Dropped last: after `AsPoll::drop` has run.
    guard: SlotGuard<P, S, RING>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> AsPoll<P, S, RING> {
    fn begin(guard: SlotGuard<P, S, RING>) -> Self {
        let _ = guard.worker().leave_for_long();
        let lifo = &guard.worker().slot().lifo;
        let began = lifo.begin_as_poll();
        lifo.set_in_user_code(true);
        Self { began, guard }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for AsPoll<P, S, RING> {
    fn drop(&mut self) {
        let worker = self.guard.worker();
        let lifo = &worker.slot().lifo;
        lifo.set_in_user_code(false);
        lifo.end_as_poll(self.began);
        // The next step may come late.
        let _ = worker.leave_for_long();
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Calls `f` as a poll of the worker that the calling context is, between two of its steps: what `f` spawns and wakes goes to the
    /// worker's own queues, and an executor of one slot takes its local tasks. In a poll of that worker, in an event sink, and in a context
    /// that is no worker, it calls `f` and does nothing else.
    ///
    /// For a loop that drives a worker, and for a `block_on` on the worker's own thread. A worker that rests
    /// ([`Turn::Rests`]) does so no more: [`Platform::wake`] is called for it.
    ///
    /// # Panics
    /// With a panic of `f`.
    ///
    /// ```
    /// # use filch::{Executor, Instant, Platform, TaskPool, WorkerId, atomic::AtomicU32};
    /// # struct Gui;
    /// # // SAFETY: there is one thread.
    /// # unsafe impl Platform for Gui {
    /// #     fn now(&self) -> Instant { Instant::ZERO }
    /// #     fn current_worker(&self) -> Option<WorkerId> { Some(WorkerId::new(0)) }
    /// #     unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
    /// #     fn wake(&self, _: WorkerId, _: &AtomicU32) {}
    /// # }
    /// static EXECUTOR: Executor<Gui, 1> = Executor::new(Gui);
    /// static TASKS: TaskPool<256, 4> = TaskPool::new();
    /// let worker = EXECUTOR.worker(WorkerId::new(0))?;
    /// let not_send = std::rc::Rc::new(7);
    /// let local = EXECUTOR.as_poll(|| EXECUTOR.spawner().spawn_local(&TASKS, async move { *not_send })).unwrap();
    /// assert_eq!(worker.run_for(8), 1);
    /// assert!(local.is_finished());
    /// # Ok::<(), filch::RunError>(())
    /// ```
    pub fn as_poll<R>(&'static self, f: impl FnOnce() -> R) -> R {
        let Some((id, slot)) = self.online_worker() else { return f() };
        if slot.has_user_frames() {
            return f();
        }
        let Some(guard) = Worker::of(self, id).enter_outside_polls() else { return f() };
        let _poll = AsPoll::begin(guard);
        f()
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Whether a call is at work in the worker's slot: a poll, a wait, a broadcast, a fork-join run, an [`as_poll`](Scheduler::as_poll), a
    /// spawn or a wake that calls an event sink. Dropped now, the worker goes offline at the end of that.
    pub fn is_at_work(&self) -> bool {
        self.slot().has_active_call()
    }
}
