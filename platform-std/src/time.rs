//! Time in the current runtime: sleeps, timeouts, intervals, and a clock that tests can stop.
//!
//! ```
//! use core::time::Duration;
//! use filch_std::time;
//!
//! let runtime = filch_std::Runtime::new().unwrap();
//! runtime.block_on(async {
//!     time::sleep(Duration::from_millis(1)).await;
//!     let slow = core::future::pending::<()>();
//!     assert!(time::timeout(Duration::from_millis(1), slow).await.is_err());
//! });
//! ```

use core::{future::Future, time::Duration};

use futures_util::stream::{Stream, unfold};

use crate::context::expect_current;

pub use filch::{Elapsed, Instant, Interval, MissedTick, Sleep, Tick, Timeout, Timers};

/// The time on the current runtime's clock.
///
/// # Panics
/// If the calling thread is in no runtime; the same holds for all functions here.
#[track_caller]
pub fn now() -> Instant {
    expect_current().0.timers.now()
}

/// The time on the current runtime's clock when the standard library's shows `at`, if both go on from now: for a deadline that other
/// code gives. Right to some 100 ns.
///
/// # Panics
/// If the calling thread is in no runtime.
///
/// ```
/// use std::time::{Duration, Instant};
/// let runtime = filch_std::Runtime::new().unwrap();
/// runtime.block_on(async {
///     let deadline = Instant::now() + Duration::from_millis(1);
///     filch_std::time::sleep_until(filch_std::time::from_std(deadline)).await;
///     assert!(Instant::now() + Duration::from_micros(100) >= deadline);
///     assert!(filch_std::time::to_std(filch_std::time::now()).is_some());
/// });
/// ```
#[track_caller]
pub fn from_std(at: std::time::Instant) -> Instant {
    let (now, std_now) = (now(), std::time::Instant::now());
    match at.checked_duration_since(std_now) {
        Some(later) => now + later,
        None => Instant::ZERO + (now - Instant::ZERO).saturating_sub(std_now - at),
    }
}

/// What the standard library's clock shows at this time of the current runtime's, if both go on from now: see [`from_std`]. `None` if that
/// clock has no such time.
///
/// # Panics
/// If the calling thread is in no runtime.
#[track_caller]
pub fn to_std(at: Instant) -> Option<std::time::Instant> {
    let (now, std_now) = (now(), std::time::Instant::now());
    if at >= now { std_now.checked_add(at - now) } else { std_now.checked_sub(now - at) }
}

/// The ticks of an interval as a [`Stream`], which has no end.
///
/// ```
/// use core::time::Duration;
/// use futures_util::StreamExt;
/// use filch_std::time::{interval, ticks};
/// let runtime = filch_std::Runtime::new().unwrap();
/// let three = runtime.block_on(async {
///     ticks(interval(Duration::from_millis(1))).take(3).collect::<Vec<_>>().await
/// });
/// assert_eq!(three.len(), 3);
/// ```
pub fn ticks(interval: Interval) -> impl Stream<Item = Instant> + Send {
    unfold(interval, |mut interval| async { Some((interval.tick().await, interval)) })
}

/// Sleeps for `duration` from now on: [`Timers::sleep`]. The runtime's workers end it. A sleep that
/// is polled elsewhere (in `block_on` on another thread, under another executor) never ends if the
/// runtime shuts down meanwhile.
///
/// # Panics
/// If the calling thread is in no runtime.
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    expect_current().0.timers.sleep(duration)
}

/// Sleeps until `deadline`: [`Timers::sleep_until`].
///
/// # Panics
/// If the calling thread is in no runtime.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    expect_current().0.timers.sleep_until(deadline)
}

/// Gives `future` this much time from now on: [`Timers::timeout`].
///
/// # Panics
/// If the calling thread is in no runtime.
///
/// ```
/// use core::{future::pending, time::Duration};
/// use filch_std::time::{now, timeout, timeout_at};
/// let runtime = filch_std::Runtime::new()?;
/// runtime.block_on(async {
///     let short = Duration::from_millis(1);
///     assert!(timeout(short, pending::<()>()).await.is_err());
///     assert!(timeout_at(now() + short, async { 7 }).await.is_ok_and(|n| n == 7));
/// });
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
#[track_caller]
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    expect_current().0.timers.timeout(duration, future)
}

/// Gives `future` time until `deadline`: [`Timers::timeout_at`].
///
/// # Panics
/// If the calling thread is in no runtime.
#[track_caller]
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    expect_current().0.timers.timeout_at(deadline, future)
}

/// Ticks now, and then every `period`: [`Timers::interval`].
///
/// # Panics
/// If the calling thread is in no runtime.
///
/// ```
/// use core::time::Duration;
/// use filch_std::time::{interval, interval_at, now};
/// let runtime = filch_std::Runtime::new()?;
/// runtime.block_on(async {
///     let (begin, period) = (now(), Duration::from_millis(1));
///     let mut ticks = interval(period);
///     ticks.tick().await; // at once
///     ticks.tick().await;
///     assert!(now() - begin >= period);
///     interval_at(begin + 5 * period, period).tick().await;
///     assert!(now() - begin >= 5 * period);
/// });
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    expect_current().0.timers.interval(period)
}

/// Ticks at `first`, and then every `period`: [`Timers::interval_at`].
///
/// # Panics
/// If the calling thread is in no runtime.
#[track_caller]
pub fn interval_at(first: Instant, period: Duration) -> Interval {
    expect_current().0.timers.interval_at(first, period)
}

/// Stops the current runtime's clock, for tests. From then on the clock moves only by [`advance`],
/// and when nothing is runnable: then at once to the next deadline. Stopping a stopped clock does
/// nothing.
///
/// The runtime is one of [`Builder::build_pausable`](crate::Builder::build_pausable); other
/// runtimes have the clock of the operating system, and none of this code.
///
/// Nothing is runnable when all workers sleep, threads in `block_on` wait, and no closure of
/// `spawn_blocking` runs. Other threads and I/O in transit are not seen: in a test that waits for
/// real I/O with a timeout, the timeout may come first. I/O that has already arrived comes before
/// the timeout, on a runtime with I/O. The watchdog sleeps by the same clock, so while a poll lasts
/// it does not rescue the tasks that wait behind it.
///
/// ```
/// use core::time::Duration;
/// use filch_std::time;
///
/// let runtime = filch_std::Runtime::builder().build_pausable().unwrap();
/// runtime.block_on(async {
///     time::pause();
///     let begin = time::now();
///     time::sleep(Duration::from_secs(86_400)).await;
///     assert_eq!(time::now() - begin, Duration::from_secs(86_400));
///     assert!(time::advance(Duration::from_secs(1)));
///     time::resume();
///     assert!(!time::advance(Duration::from_secs(1)), "the clock goes");
/// });
/// ```
///
/// # Panics
/// If the calling thread is in no runtime; if the runtime's clock cannot be stopped.
#[track_caller]
pub fn pause() {
    match expect_current().0.clock {
        Some(clock) => clock.pause(),
        None => panic!(
            "this runtime's clock cannot be stopped: build the runtime with `Builder::build_pausable`, or give the test the option `paused`"
        ),
    }
}

/// Lets the current runtime's clock go on from where it stands. Nothing happens if it was not stopped.
///
/// # Panics
/// If the calling thread is in no runtime.
#[track_caller]
pub fn resume() {
    if let Some(clock) = expect_current().0.clock {
        clock.resume();
    }
}

/// Moves the current runtime's stopped clock by `duration` at once, past all deadlines in between;
/// false if it is not stopped. The timers that are due fire as soon as a worker runs them: await
/// something to see them fire.
///
/// # Panics
/// If the calling thread is in no runtime.
#[track_caller]
pub fn advance(duration: Duration) -> bool {
    expect_current().0.clock.is_some_and(|clock| clock.advance(duration))
}
