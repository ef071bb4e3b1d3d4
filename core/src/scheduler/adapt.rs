//! Two values that a worker learns from its past: the poll estimate and the spin limit.
//!
//! [`PollEstimate`]: how long a poll takes. A busy worker looks at its timers, and at I/O if its ticks are long, so often that either
//! waits about a millisecond.
//!
//! [`SpinLimit`]: how often an idle worker looks for work before it sleeps.

use core::cell::Cell;

/// How long a timer or an I/O event may wait while its worker is busy, in nanoseconds.
const TARGET: u64 = 1_000_000;
/// Polls in a tick.
pub(crate) const TICK: u32 = 128;
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

    /// Whether a tick takes longer than `TARGET`, so that I/O cannot wait for its end.
    pub(crate) fn is_slow(&self) -> bool {
        self.interval.get() < TICK
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

/// A few looks cost less than anything else that a worker does on its way to sleep.
const FEW: u32 = 6;
/// In nanoseconds: no sleep that lasts longer would have been spared by looks.
const LONG: u32 = 100_000;

/// The spin limit: how often an idle worker looks again before it sleeps. After the halt polling of Linux's KVM.
///
/// It doubles with a sleep that took about as long as the way there and back, and halves with a longer one, or one that I/O has ended.
/// The way is as long as the shortest sleep of late: on a futex it is a third of what it is in epoll. Looks that are for nothing cost
/// more than their time: a core that was busy until just now is later to answer the wake that ends a long sleep.
#[derive(Debug)]
pub(crate) struct SpinLimit {
    rounds: Cell<u32>,
    /// The shortest sleep of late, in nanoseconds.
    shortest: Cell<u32>,
}

impl SpinLimit {
    pub(crate) const fn new() -> Self {
        Self { rounds: Cell::new(u32::MAX), shortest: Cell::new(LONG) }
    }

    /// Whether to look once more after so many rounds, of which there are `most`.
    pub(crate) fn allows(&self, round: u32, most: u32) -> bool {
        round < self.rounds.get().min(most)
    }

    /// A sleep of `nanos` nanoseconds was ended by something that a look would have found. Doubles the limit if the sleep was
    /// short.
    pub(crate) fn record(&self, nanos: u64, most: u32) {
        // It grows by a 64th with each sleep, so that one that was short by chance is forgotten.
        let shortest = self.shortest.get();
        let nanos = u32::try_from(nanos).unwrap_or(u32::MAX);
        let shortest = (shortest + shortest / 64 + 1).min(nanos).min(LONG);
        self.shortest.set(shortest);
        if nanos >= (2 * shortest).min(LONG) {
            return self.shrink(most);
        }
        let rounds = self.rounds.get().min(most);
        self.rounds.set(rounds.saturating_mul(2).max(FEW));
    }

    /// More rounds would have been for nothing.
    pub(crate) fn shrink(&self, most: u32) {
        self.rounds.set((self.rounds.get().min(most) / 2).max(FEW));
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod tests {
    use super::*;

    #[test]
    fn the_spin_limit_shrinks_with_long_sleeps_and_grows_with_short_ones() {
        let limit = SpinLimit::new();
        let rounds = || (0..).take_while(|round| limit.allows(*round, 32)).count();
        assert_eq!(rounds(), 32);
        let after = |nanos| {
            limit.record(nanos, 32);
            rounds()
        };
        assert_eq!([u64::from(LONG); 4].map(after), [16, 8, 6, 6]);
        // As long as the way there and back, here in epoll, and by a half more.
        assert_eq!([40_000, 40_000, 60_000, 40_000].map(after), [12, 24, 32, 32]);
        assert_eq!([85_000, 85_000].map(after), [16, 8], "twice as long");
        // On a futex.
        assert_eq!([10_000, 12_000, 25_000].map(after), [16, 32, 16]);
        // I/O ends a sleep that no look could have spared.
        limit.shrink(32);
        assert_eq!(rounds(), 8);
        // Fewer than a few are the user's wish.
        limit.record(LONG.into(), 2);
        assert!(limit.allows(1, 2) && !limit.allows(2, 2) && !limit.allows(0, 0));
    }

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
