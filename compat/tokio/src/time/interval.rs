//! Ticks at equal distances.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use super::{Instant, Sleep, sleep::timers};

/// What happens after a tick that came too late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// The missed ticks come at once, one after the other.
    #[default]
    Burst,
    /// The next tick comes a period after the late one.
    Delay,
    /// The next tick comes when the next was due from the beginning.
    Skip,
}

impl MissedTickBehavior {
    fn next(self, due: Instant, now: Instant, period: Duration) -> Instant {
        match self {
            Self::Burst => due + period,
            Self::Delay => now + period,
            Self::Skip => {
                let late = (now - due).as_nanos() % period.as_nanos();
                // A remainder of a duration fits into one.
                let late =
                    Duration::new((late / 1_000_000_000) as u64, (late % 1_000_000_000) as u32);
                now + (period - late)
            }
        }
    }
}

/// Ticks at equal distances. From [`interval`] and [`interval_at`].
#[derive(Debug)]
pub struct Interval {
    delay: Pin<Box<Sleep>>,
    period: Duration,
    missed: MissedTickBehavior,
}

/// A tick that is later than this is a missed one.
const TOLERANCE: Duration = Duration::from_millis(5);

/// Ticks now, and then every `period`.
///
/// # Panics
/// If the period is zero; outside of a runtime with timers.
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
    start(Instant::now(), period)
}

/// Ticks at `start`, and then every `period`.
///
/// # Panics
/// If the period is zero; outside of a runtime with timers.
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(period > Duration::ZERO, "`period` must be non-zero.");
    self::start(start, period)
}

#[track_caller]
fn start(first: Instant, period: Duration) -> Interval {
    let delay = Box::pin(Sleep::new(timers(), first));
    Interval { delay, period, missed: MissedTickBehavior::default() }
}

impl Interval {
    /// Waits for the next tick, and returns when it was due.
    ///
    /// # Cancel safety
    /// Dropping it loses no tick.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// As [`tick`](Self::tick), for use in a `poll` function.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(self.delay.as_mut().poll(cx));
        let due = self.delay.deadline();
        let now = Instant::now();
        let next = if now > due + TOLERANCE {
            self.missed.next(due, now, self.period)
        } else {
            due + self.period
        };
        self.delay.as_mut().reset(next);
        Poll::Ready(due)
    }

    /// The next tick comes a period from now.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// The next tick comes now.
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// The next tick comes after so much time.
    pub fn reset_after(&mut self, after: Duration) {
        self.delay.as_mut().reset(Instant::after(after));
    }

    /// The next tick comes at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.delay.as_mut().reset(deadline);
    }

    /// What happens after a tick that came too late.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets what happens after a tick that came too late.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }
}
