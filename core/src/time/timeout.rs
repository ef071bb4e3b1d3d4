//! A future with a deadline.

use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::sleep::Sleep;
use crate::instant::Instant;

/// A future with a deadline. From [`Timers::timeout`](super::Timers::timeout).
///
/// The inner future is polled first. If it is ready, its output is returned, even if the deadline has passed meanwhile.
/// A future that is ready at once never enters a timer wheel. Once the deadline has passed, the result is [`Elapsed`],
/// and the inner future is dropped with the `Timeout`. A future that uses up the task's budget in every poll does not
/// keep the deadline from being noticed.
///
/// # Cancel safety
/// That of the future.
///
/// ```
/// # filch_test_support::board!();
/// # use core::{future::pending, pin::{Pin, pin}, time::Duration};
/// use filch::{Elapsed, Timeout, Timers};
/// const SECOND: Duration = Duration::from_secs(1);
/// async fn example(timers: Timers) {
///     let mut answer: Pin<&mut Timeout<_>> = pin!(timers.timeout(SECOND, pending::<u32>()));
///     let later = answer.deadline() + SECOND;
///     answer.as_mut().reset(later);
///     let result: Result<u32, Elapsed> = answer.await;
///     assert!(result.is_err() && timers.now() >= later);
/// }
/// # use filch::{Executor, TaskPool, WorkerId};
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<2048, 8> = TaskPool::new();
/// # let mut task = EXECUTOR.spawn(&TASKS, example(EXECUTOR.timers()))?;
/// # let worker = EXECUTOR.worker(WorkerId::new(0))?;
/// # while !task.is_finished() {
/// #     worker.run_for(8);
/// #     worker.park();
/// # }
/// # task.join()?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Timeout<F> {
    sleep: Sleep,
    future: F,
}

/// The deadline passed before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is over")
    }
}

impl core::error::Error for Elapsed {}

/// Of the kind `TimedOut`.
#[cfg(feature = "std")]
impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}

impl<F: Future> Timeout<F> {
    pub(super) fn new(sleep: Sleep, future: F) -> Self {
        Self { sleep, future }
    }

    /// The deadline.
    pub fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Sets another deadline.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        // SAFETY: `sleep` is pinned with its `Timeout`.
        unsafe { self.map_unchecked_mut(|this| &mut this.sleep) }.reset(deadline);
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: both fields are pinned with their `Timeout`, and never moved out.
        let (sleep, future) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.sleep), Pin::new_unchecked(&mut this.future))
        };
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        sleep.poll(cx).map(|()| Err(Elapsed(())))
    }
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("sleep", &self.sleep).finish_non_exhaustive()
    }
}
