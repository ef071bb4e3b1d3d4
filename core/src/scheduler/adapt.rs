//! What a worker learns from its past.
//!
//! How often a busy worker sees to its timers between the ends of ticks, and to I/O if ticks are long: often enough for either to
//! wait about a millisecond. Into the injector it looks at a fixed rate, however long polls take: `LOOK` in `find.rs`.
//!
//! How often an idle worker looks for work before it sleeps: often if its sleeps are short and ended by work that others have
//! or by timers, seldom if they are long, or ended by I/O.

use core::cell::Cell;

/// How long a timer or an event of I/O may wait while its worker is busy, in nanoseconds.
const TARGET: u64 = 1_000_000;
/// Polls in a tick; then come clock, pace, I/O and timers.
pub(crate) const TICK: u32 = 128;
const SHORTEST: u32 = 8;
const LONGEST: u32 = 255;

/// A moving average of the time of a poll, in integers: kernels have no floating point.
///
/// Samples hold the time spent polling alone: time spent searching is no task's time.
#[derive(Debug)]
pub(crate) struct Pace {
    average: Cell<u64>,
    interval: Cell<u32>,
    /// Polls until the next look.
    left: Cell<u32>,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        // 50 us, the seeds' estimate for a mixed load.
        Self { average: Cell::new(50_000), interval: Cell::new(20), left: Cell::new(0) }
    }

    /// Counts some polls; whether it is time to see to timers, and to I/O if ticks are slow.
    pub(crate) fn is_due(&self, polls: u32) -> bool {
        let left = self.left.get();
        let due = left < polls;
        self.left.set(if due { self.interval.get() } else { left }.saturating_sub(polls));
        due
    }

    /// Whether a tick takes longer than `TARGET`, so that it is too long for I/O to wait for its end.
    pub(crate) fn is_slow(&self) -> bool {
        self.interval.get() < TICK
    }

    /// `polls` took `nanos` in all.
    pub(crate) fn record(&self, nanos: u64, polls: u32) {
        let Some(sample) = nanos.checked_div(u64::from(polls)) else { return };
        // One tenth of the sample, nine of the past; rounded up, so that it can fall to one.
        let sample = sample.min(u64::MAX / 16);
        let average = (sample + 9 * self.average.get()).div_ceil(10).max(1);
        self.average.set(average);
        let polls = (TARGET / average).clamp(u64::from(SHORTEST), u64::from(LONGEST));
        self.interval.set(polls as u32);
    }
}

/// A sleep that was shorter, in nanoseconds, was not worth the way there and back: two system calls and two switches.
const NAP: u64 = 25_000;
/// A few looks cost less than anything else that a worker does on its way to sleep.
const FEW: u32 = 6;

/// How often an idle worker looks again before it sleeps. After the halt polling of Linux's KVM, which grows and shrinks alike.
///
/// Looks that are for nothing cost more than their time: a core that was busy until just now, or whose thread has just
/// yielded it many times over, is later to answer the wake that ends a long sleep.
#[derive(Debug)]
pub(crate) struct Patience {
    rounds: Cell<u32>,
}

impl Patience {
    pub(crate) const fn new() -> Self {
        Self { rounds: Cell::new(u32::MAX) }
    }

    /// Whether to look once more after so many rounds, of which there are `most`.
    pub(crate) fn lasts(&self, round: u32, most: u32) -> bool {
        round < self.rounds.get().min(most)
    }

    /// A sleep after `most` rounds, or fewer, was ended after so many nanoseconds by what a look would have found.
    pub(crate) fn record(&self, nanos: u64, most: u32) {
        if nanos >= NAP {
            return self.lose(most);
        }
        let rounds = self.rounds.get().min(most);
        self.rounds.set(rounds.saturating_mul(2).max(FEW));
    }

    /// More rounds would have been for nothing.
    pub(crate) fn lose(&self, most: u32) {
        self.rounds.set((self.rounds.get().min(most) / 2).max(FEW));
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod tests {
    use super::*;

    #[test]
    fn patience_goes_with_long_sleeps_and_comes_back_with_short_ones() {
        let patience = Patience::new();
        let lasts = || (0..).take_while(|round| patience.lasts(*round, 32)).count();
        assert_eq!(lasts(), 32);
        let after = |nanos| {
            patience.record(nanos, 32);
            lasts()
        };
        assert_eq!([NAP; 4].map(after), [16, 8, 6, 6]);
        assert_eq!([NAP - 1; 4].map(after), [12, 24, 32, 32]);
        // I/O ends a sleep that no look could have spared.
        patience.lose(32);
        assert_eq!(lasts(), 16);
        // Fewer than a few are the user's wish.
        patience.record(NAP, 2);
        assert!(patience.lasts(1, 2) && !patience.lasts(2, 2) && !patience.lasts(0, 0));
    }

    #[test]
    fn the_interval_follows_the_time_of_a_poll() {
        let pace = Pace::new();
        let steps = [
            (1_000, 255..=255),
            (10_000, 99..=100),
            (50_000, 19..=20),
            (100_000, 9..=10),
            (5_000_000, 8..=8),
        ];
        for (nanos, wanted) in steps {
            for _ in 0..200 {
                pace.record(nanos * 128, 128);
            }
            assert!(
                wanted.contains(&pace.interval.get()),
                "{nanos} ns: every {}",
                pace.interval.get()
            );
        }
    }

    #[test]
    fn every_twentieth_poll_is_due_at_first() {
        let pace = Pace::new();
        assert_eq!((0..100).filter(|_| pace.is_due(1)).count(), 5);
        let pace = Pace::new();
        let due: Vec<_> = (0..10).filter(|_| pace.is_due(8)).collect();
        assert_eq!(due, [0, 2, 4, 6, 8], "the last look before twenty polls");
    }

    #[test]
    fn nothing_is_learned_from_no_polls_and_no_sample_overflows() {
        let pace = Pace::new();
        pace.record(1_000_000, 0);
        assert_eq!(pace.interval.get(), 20);
        pace.record(u64::MAX, 1);
        assert_eq!(pace.interval.get(), SHORTEST);
    }
}
