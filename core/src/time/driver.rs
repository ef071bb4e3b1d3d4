//! What timers ask of the executor whose workers fire them.

use core::{
    fmt,
    future::Future,
    panic::{RefUnwindSafe, UnwindSafe},
    task::Waker,
    time::Duration,
};

use super::{interval::Interval, sleep::Sleep, timeout::Timeout, wheel::Wheel};
use crate::instant::Instant;

/// The executor's side, filled in by the scheduler.
pub(crate) trait Driver: Sync {
    fn now(&self) -> Instant;
    /// The logarithm of a tick, in nanoseconds.
    fn tick(&self) -> u32;
    /// The wheel for a timer that is first polled in the calling context, and its index; none if timers are to be left alone
    /// ([`Platform::is_left_behind`](crate::Platform::is_left_behind)).
    fn place(&self) -> Option<(u16, &Wheel)>;
    /// A wheel that `place` gave; none as there.
    fn wheel(&self, index: u16) -> Option<&Wheel>;
    /// A wheel has a deadline before all others: whoever fires it should know.
    fn tell(&self, index: u16);
    /// Spends a unit of the budget of the task that it wakes; false if there was none.
    fn spend(&self, waker: &Waker) -> bool;
}

/// The clock and the timers of an executor. See the [module](crate::time).
///
/// Copy it to wherever time is needed. From [`Scheduler::timers`](crate::Scheduler::timers); the runtimes over an operating
/// system have free functions that find the current runtime's.
#[derive(Clone, Copy)]
pub struct Timers(pub(crate) &'static dyn Driver);

impl Timers {
    /// The time on the executor's clock.
    pub fn now(self) -> Instant {
        self.0.now()
    }

    /// Sleeps for `duration` from now on. Zero gives way to what else is ready. Durations beyond the clock's range (584 years)
    /// never end.
    ///
    /// Cost: a look at the clock; about 100 bytes in the caller's future, no allocation.
    pub fn sleep(self, duration: Duration) -> Sleep {
        Sleep::new(self, self.now() + duration, true)
    }

    /// Sleeps until `deadline`. One that has passed is ready at once.
    ///
    /// Cost: the first poll looks at the clock.
    pub fn sleep_until(self, deadline: Instant) -> Sleep {
        Sleep::new(self, deadline, false)
    }

    /// Gives `future` so much time from now on, see [`Timeout`].
    pub fn timeout<F: Future>(self, duration: Duration, future: F) -> Timeout<F> {
        Timeout::new(self.sleep(duration), future)
    }

    /// Gives `future` time until `deadline`, see [`Timeout`].
    pub fn timeout_at<F: Future>(self, deadline: Instant, future: F) -> Timeout<F> {
        Timeout::new(self.sleep_until(deadline), future)
    }

    /// Ticks now, and then every `period`, see [`Interval`].
    pub fn interval(self, period: Duration) -> Interval {
        self.interval_at(self.now(), period)
    }

    /// Ticks at `first`, and then every `period`, see [`Interval`].
    pub fn interval_at(self, first: Instant, period: Duration) -> Interval {
        Interval::new(self, first, period)
    }
}

impl UnwindSafe for Timers {}
impl RefUnwindSafe for Timers {}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("now", &self.now()).finish()
    }
}
