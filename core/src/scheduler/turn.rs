//! A worker's turn in another loop, which drives it.

use super::{context::Worker, slot::Slots, worker::Step};
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
    /// The executor has shut down; there will be nothing to do.
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
