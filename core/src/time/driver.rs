//! What timers need of the executor whose workers fire them.

use core::{
    fmt,
    future::Future,
    panic::{RefUnwindSafe, UnwindSafe},
    task::Waker,
    time::Duration,
};

use super::{interval::Interval, sleep::Sleep, timeout::Timeout, wheel::Wheel};
use crate::instant::Instant;

/// The executor's side. The scheduler implements it.
pub(crate) trait Driver: Sync {
    fn now(&self) -> Instant;
    /// The base-2 logarithm of a tick in nanoseconds.
    fn tick(&self) -> u32;
    /// The wheel for a timer that is first polled in the calling context, and the wheel's index. `None` if timers must
    /// not be touched ([`Context::Forked`](crate::Context::Forked)).
    fn place(&self) -> Option<(u16, &Wheel)>;
    /// The wheel with an index from `place`. `None` as there.
    fn wheel(&self, index: u16) -> Option<&Wheel>;
    /// A wheel has a new earliest deadline: tells the worker that fires it.
    fn tell(&self, index: u16);
    /// Spends a unit of the budget of the task that the waker wakes. False if there was none left.
    fn spend(&'static self, waker: &Waker) -> bool;
}

/// The clock and the timers of an executor. See the [module](crate::time).
///
/// It is `Copy`. From [`Scheduler::timers`](crate::Scheduler::timers); the runtimes over an operating system also have
/// free functions that use the current runtime's.
/// system have free functions that find the current runtime's.
#[derive(Clone, Copy)]
pub struct Timers(pub(crate) &'static dyn Driver);

impl Timers {
    /// The time on the executor's clock.
    pub fn now(self) -> Instant {
        self.0.now()
    }

    /// Sleeps for `duration` from now. A duration of zero gives way to other ready tasks. A duration beyond the clock's
    /// range (584 years) never ends.
    ///
    /// Cost: one read of the clock, and about 100 bytes in the caller's future. No allocation.
    pub fn sleep(self, duration: Duration) -> Sleep {
        Sleep::new(self, self.now() + duration, true)
    }

    /// Sleeps until `deadline`. A deadline in the past is ready at once.
    ///
    /// Cost: the first poll reads the clock.
    pub fn sleep_until(self, deadline: Instant) -> Sleep {
        Sleep::new(self, deadline, false)
    }

    /// Limits `future` to `duration` from now, see [`Timeout`].
    pub fn timeout<F: Future>(self, duration: Duration, future: F) -> Timeout<F> {
        Timeout::new(self.sleep(duration), future)
    }

    /// Limits `future` to the time until `deadline`, see [`Timeout`].
    pub fn timeout_at<F: Future>(self, deadline: Instant, future: F) -> Timeout<F> {
        Timeout::new(self.sleep_until(deadline), future)
    }

    /// Ticks now and then once every `period`, see [`Interval`].
    pub fn interval(self, period: Duration) -> Interval {
        self.interval_at(self.now(), period)
    }

    /// Ticks at `first` and then once every `period`, see [`Interval`].
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
