//! Ticks at a fixed rate.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use super::{driver::Timers, sleep::Sleep};
use crate::instant::Instant;

/// What an [`Interval`] does about missed ticks: those that were asked for only after the next one was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTick {
    /// Missed ticks follow at once, one after the other, until the interval has caught up.
    #[default]
    Burst,
    /// The next tick comes one whole period after the late one. The distance is kept, the phase moves.
    Delay,
    /// Missed ticks are skipped. The phase is kept.
    Skip,
}

/// Ticks at a fixed rate. From [`Timers::interval`].
///
/// It is a plain value that can be moved. A timer exists only while a [`tick`](Interval::tick) is awaited. With a
/// period of zero every tick is due at once.
///
/// ```
/// # filch_test_support::board!();
/// # use core::{future::pending, pin::{Pin, pin}, time::Duration};
/// use filch::{Interval, MissedTick, Tick, Timers};
/// const SECOND: Duration = Duration::from_secs(1);
/// async fn example(timers: Timers) {
///     let mut interval: Interval = timers.interval(SECOND).missed_tick(MissedTick::Skip);
///     let first = interval.tick().await;
///     assert_eq!(interval.tick().await, first + interval.period());
///     // A break of four and a half periods: the next tick is due at once, the one after it in half a period.
///     timers.sleep(9 * SECOND / 2).await;
///     assert_eq!(interval.tick().await, first + 2 * SECOND);
///     assert_eq!(interval.tick().await, first + 6 * SECOND);
///     // One period from now, and any other time.
///     interval.reset();
///     let tick: Tick<'_> = interval.tick();
///     tick.await;
///     interval.reset_at(first + 60 * SECOND);
///     assert_eq!(interval.tick().await, first + 60 * SECOND);
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
#[derive(Clone, Debug)]
pub struct Interval {
    timers: Timers,
    next: Instant,
    period: Duration,
    missed: MissedTick,
}

impl Interval {
    pub(super) fn new(timers: Timers, first: Instant, period: Duration) -> Self {
        Self { timers, next: first, period, missed: MissedTick::default() }
    }

    /// What to do about missed ticks (default: [`MissedTick::Burst`]).
    pub fn missed_tick(mut self, policy: MissedTick) -> Self {
        self.missed = policy;
        self
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// The next tick comes at `next`, and later ones at whole periods from there.
    pub fn reset_at(&mut self, next: Instant) {
        self.next = next;
    }

    /// The next tick comes one period from now.
    pub fn reset(&mut self) {
        self.next = self.timers.now() + self.period;
    }

    /// Waits for the next tick. Returns the time at which it was due.
    ///
    /// # Cancel safety
    /// Dropping it before it is ready loses no tick.
    pub fn tick(&mut self) -> Tick<'_> {
        Tick { sleep: self.timers.sleep_until(self.next), interval: self }
    }

    /// The tick that was due at `next` has come: sets the next one, and returns the time that it was due at.
    fn go_on(&mut self) -> Instant {
        let due = self.next;
        self.next = match self.missed {
            MissedTick::Burst => due + self.period,
            MissedTick::Delay => match self.timers.now() {
                now if now >= due + self.period => now + self.period,
                _ => due + self.period,
            },
            MissedTick::Skip => self.after(due, self.timers.now()),
        };
        due
    }

    /// The first time after `now` that is a whole number of periods from `due`.
    fn after(&self, due: Instant, now: Instant) -> Instant {
        let period = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        let missed = now.nanos_since(due).checked_div(period).unwrap_or(0);
        due.after_nanos(period.saturating_mul(missed.saturating_add(1)))
    }
}

/// The future of [`Interval::tick`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Tick<'a> {
    sleep: Sleep,
    interval: &'a mut Interval,
}

impl Future for Tick<'_> {
    type Output = Instant;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
        // SAFETY: `sleep` is pinned with its `Tick`, `interval` never.
        let (sleep, interval) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.sleep), &mut *this.interval)
        };
        sleep.poll(cx).map(|()| interval.go_on())
    }
}
