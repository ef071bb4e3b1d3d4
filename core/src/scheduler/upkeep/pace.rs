//! A worker's pace: how long its polls take, and so when it is time to see to other things between two of them.
//!
//! The estimate: a busy worker learns how long a poll takes. It looks at its timers, and at I/O if its ticks are long, so often that either
//! waits about a millisecond.

use core::cell::Cell;

/// Polls in a tick.
const TICK: u32 = 128;

/// See the module's text. The worker's own (INV-LOCAL).
pub(crate) struct Pace {
    estimate: PollEstimate,
    /// Polls in the tick under way.
    in_tick: Cell<u32>,
    /// When the busy period under way began, in nanoseconds, and at which poll of the tick.
    busy_since: Cell<Option<(u64, u32)>>,
    /// When it last looked for I/O in the midst of a tick or between two jobs.
    looked: Cell<u64>,
    /// Nanoseconds of busy time not yet counted as a microsecond.
    busy_rest: Cell<u32>,
    /// How many tasks had ended on the worker at the end of the last tick.
    ended: Cell<usize>,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self {
            estimate: PollEstimate::new(),
            in_tick: Cell::new(0),
            busy_since: Cell::new(None),
            looked: Cell::new(0),
            busy_rest: Cell::new(0),
            ended: Cell::new(0),
        }
    }

    /// One more poll begins in the tick.
    #[inline(always)]
    pub(crate) fn count(&self) {
        self.in_tick.set(self.in_tick.get() + 1);
    }

    /// Whether the tick has had all its polls.
    pub(crate) fn is_tick_over(&self) -> bool {
        self.in_tick.get() >= TICK
    }

    /// Whether a task has ended since the last call, by the number of those that have ended on the worker.
    pub(crate) fn has_seen_an_end(&self, ended: usize) -> bool {
        self.ended.replace(ended) != ended
    }

    pub(crate) fn begin_tick(&self) {
        self.in_tick.set(0);
    }

    /// The tick is over before its time: the next pass of the loop looks for I/O and timers.
    pub(crate) fn cut_tick_short(&self) {
        self.in_tick.set(TICK);
    }

    /// Whether a busy period is under way: neither a sleep nor a search nor the end of a tick came since the last one.
    #[inline(always)]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy_since.get().is_some()
    }

    /// A busy period begins now, in nanoseconds.
    pub(crate) fn begin_busy_period(&self, now: u64) {
        self.busy_since.set(Some((now, self.in_tick.get())));
    }

    /// The busy period under way, if there is one, ends: its time goes to the estimate. How many microseconds it took.
    pub(crate) fn end_busy_period(&self, now: u64) -> usize {
        let Some((begin, first)) = self.busy_since.take() else { return 0 };
        let nanos = now.saturating_sub(begin);
        self.estimate.record(nanos, self.in_tick.get().saturating_sub(first));
        let nanos = nanos.saturating_add(u64::from(self.busy_rest.get()));
        self.busy_rest.set((nanos % 1_000) as u32);
        (nanos / 1_000) as usize
    }

    /// Counts `polls` more polls. Whether it is time to look at timers, and at I/O if ticks are slow.
    pub(crate) fn is_due(&self, polls: u32) -> bool {
        self.estimate.is_due(polls)
    }

    /// The next call of `is_due` says so.
    pub(crate) fn look_soon(&self) {
        self.estimate.look_soon();
    }

    /// Whether I/O cannot wait for the end of the tick.
    pub(crate) fn is_slow(&self) -> bool {
        self.estimate.is_slow(TICK)
    }

    /// Whether the last look for I/O in the midst of a tick was so many nanoseconds ago. If so, the caller looks now.
    ///
    /// The clock decides, not the number of polls. If the system takes the thread off its core during a poll, that poll only seems long. A
    /// worker that looked after every eighth poll never ran out of work, so it never left the core to the threads that sent it requests:
    /// the p99 of 64 connections was 1.4 times tokio's, and is 1.1 times tokio's by the clock.
    pub(crate) fn has_not_looked_for(&self, nanos: u64, now: u64) -> bool {
        let is_due = now.saturating_sub(self.looked.get()) >= nanos;
        if is_due {
            self.looked.set(now);
        }
        is_due
    }
}

/// How long a timer or an I/O event may wait while its worker is busy, in nanoseconds.
const TARGET: u64 = 1_000_000;
const SHORTEST: u32 = 8;
const LONGEST: u32 = 255;

/// The poll estimate: a moving average of the time of a poll, in integers, as kernels have no floating point.
///
/// Samples hold the time in polls alone, without the time spent searching.
#[derive(Debug)]
pub(crate) struct PollEstimate {
    average: Cell<u64>,
    interval: Cell<u32>,
    /// Polls until the next look at timers.
    left: Cell<u32>,
}

impl PollEstimate {
    pub(crate) const fn new() -> Self {
        // 50 us: a first estimate for a mixed load.
        Self { average: Cell::new(50_000), interval: Cell::new(20), left: Cell::new(0) }
    }

    /// Counts `polls` more polls. Returns whether it is time to look at timers, and at I/O if ticks are slow.
    pub(crate) fn is_due(&self, polls: u32) -> bool {
        let left = self.left.get();
        let due = left < polls;
        self.left.set(if due { self.interval.get() } else { left }.saturating_sub(polls));
        due
    }

    /// The next call of `is_due` returns true.
    pub(crate) fn look_soon(&self) {
        self.left.set(0);
    }

    /// Whether so many polls take longer than `TARGET`, so that I/O cannot wait for their end.
    pub(crate) fn is_slow(&self, polls: u32) -> bool {
        self.interval.get() < polls
    }

    /// Adds a sample: `polls` polls took `nanos` nanoseconds in all. Ignored if `polls` is zero.
    pub(crate) fn record(&self, nanos: u64, polls: u32) {
        let Some(sample) = nanos.checked_div(u64::from(polls)) else { return };
        // One tenth the sample, nine tenths the past. Rounded up, the average may stay up to nine above smaller samples. It is
        // never zero, as it divides below.
        let sample = sample.min(u64::MAX / 16);
        let average = (sample + 9 * self.average.get()).div_ceil(10).max(1);
        self.average.set(average);
        let polls = (TARGET / average).clamp(u64::from(SHORTEST), u64::from(LONGEST));
        self.interval.set(polls as u32);
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod tests {
    use super::*;

    #[test]
    fn the_interval_follows_the_time_of_a_poll() {
        let estimate = PollEstimate::new();
        let steps = [
            (1_000, 255..=255),
            (10_000, 99..=100),
            (50_000, 19..=20),
            (100_000, 9..=10),
            (5_000_000, 8..=8),
        ];
        for (nanos, wanted) in steps {
            for _ in 0..200 {
                estimate.record(nanos * 128, 128);
            }
            assert!(
                wanted.contains(&estimate.interval.get()),
                "{nanos} ns: every {}",
                estimate.interval.get()
            );
        }
    }

    #[test]
    fn every_twentieth_poll_is_due_at_first() {
        let estimate = PollEstimate::new();
        assert_eq!((0..100).filter(|_| estimate.is_due(1)).count(), 5);
        let estimate = PollEstimate::new();
        let due: Vec<_> = (0..10).filter(|_| estimate.is_due(8)).collect();
        assert_eq!(due, [0, 2, 4, 6, 8], "the last look before twenty polls");
    }

    #[test]
    fn nothing_is_learned_from_no_polls_and_no_sample_overflows() {
        let estimate = PollEstimate::new();
        estimate.record(1_000_000, 0);
        assert_eq!(estimate.interval.get(), 20);
        estimate.record(u64::MAX, 1);
        assert_eq!(estimate.interval.get(), SHORTEST);
    }
}
