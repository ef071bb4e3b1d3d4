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
pub unsafe trait Reactor {
    /// As [`Platform::wait`](super::Platform::wait), but an event ends it too. The worker keeps the events for its next
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
