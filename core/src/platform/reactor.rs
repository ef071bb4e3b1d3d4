//! The reactor: where a worker sleeps until there is an event of I/O.

use super::WorkerId;
use crate::{atomic::AtomicU32, instant::Instant};

/// Where a worker sleeps until it is woken or a source of I/O has an event: an epoll, a completion queue. For platforms
/// that have one: see [`Platform::reactor`](super::Platform::reactor).
///
/// The core lets one worker at a time listen. The others sleep in [`Platform::wait`](super::Platform::wait), and so does
/// each worker that waits inside user code. A worker that has events delivers them before it runs anything else.
///
/// # Safety
/// The promises of [`Platform`](super::Platform) hold for these methods too: sticky wake, wake from anywhere, return.
///
/// ```
/// # use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
/// # use filch::{Executor, Instant, Platform, TaskPool, WorkerId, atomic::AtomicU32};
/// use filch::{Reactor, io::{Readiness, Ready}};
///
/// /// The line of a device, and the task that waits for it.
/// static LINE: AtomicBool = AtomicBool::new(false);
/// static INPUT: Readiness = Readiness::new();
///
/// struct Board;
/// // SAFETY: `listen` looks at the word all the time.
/// unsafe impl Reactor for Board {
///     unsafe fn listen(&self, _: WorkerId, word: &AtomicU32, old: u32, end: Option<Instant>) -> bool {
///         while !LINE.load(SeqCst) && word.load(SeqCst) == old && end.is_none_or(|end| self.now() < end) {}
///         LINE.load(SeqCst)
///     }
///     fn interrupt(&self, _: WorkerId, _: &AtomicU32) {}
///     unsafe fn deliver(&self, _: WorkerId) -> usize {
///         let is_up = LINE.swap(false, SeqCst);
///         if is_up {
///             INPUT.set(Ready::READABLE);
///         }
///         usize::from(is_up)
///     }
/// }
/// # // SAFETY: there is one thread.
/// unsafe impl Platform for Board {
///     fn reactor(&self) -> Option<&dyn Reactor> {
///         Some(self)
///     }
///     // ...
/// #     fn now(&self) -> Instant { Instant::ZERO }
/// #     fn current_worker(&self) -> Option<WorkerId> { Some(WorkerId::new(0)) }
/// #     unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
/// #     fn wake(&self, _: WorkerId, _: &AtomicU32) {}
/// }
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<512, 1> = TaskPool::new();
///
/// let worker = EXECUTOR.worker(WorkerId::new(0))?;
/// let reading = EXECUTOR.spawn(&TASKS, INPUT.ready(Ready::READABLE)).unwrap();
/// worker.run_for(8);
/// assert!(!reading.is_finished());
/// LINE.store(true, SeqCst);
/// worker.run_for(8);
/// assert!(reading.is_finished());
/// # Ok::<(), filch::RunError>(())
/// ```
pub unsafe trait Reactor {
    /// Sleeps as [`Platform::wait`](super::Platform::wait) does, but an event ends the sleep too. The worker keeps the events for its next
    /// [`deliver`](Self::deliver). Returns whether there are any.
    ///
    /// It checks for events once, without blocking, even if the word differs from `expected` or the deadline has passed. A
    /// busy worker calls it with [`Instant::ZERO`] for this check alone: about every 128 polls, or every millisecond if
    /// those take longer, and in [`step`](crate::Worker::step).
    ///
    /// # Safety
    /// The calling context is `worker`, and has entered. No other worker is in this method.
    unsafe fn listen(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool;

    /// Ends the [`listen`](Self::listen) of `worker`, whose `word` has changed.
    fn interrupt(&self, worker: WorkerId, word: &AtomicU32);

    /// Delivers the events that this worker keeps from [`listen`](Self::listen), without blocking. Returns their number.
    /// Wakers that run in it wake tasks onto the worker's own queues, and their panics may pass. Several workers may call
    /// it at once; a waker in it that waits leads to another call by the same worker, which delivers the rest.
    ///
    /// The worker calls it after a `listen` that returned true.
    ///
    /// # Safety
    /// The calling context is `worker`, and has entered.
    unsafe fn deliver(&self, worker: WorkerId) -> usize;
}
