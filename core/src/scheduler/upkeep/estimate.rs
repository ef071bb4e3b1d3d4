//! The poll estimate: a busy worker learns how long a poll takes. It looks at its timers, and at I/O if its ticks are long, so often
//! that either waits about a millisecond.

use core::cell::Cell;

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
