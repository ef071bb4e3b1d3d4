//! The spin limit: how often an idle worker looks again before it sleeps. After the halt polling of Linux's KVM.
//!
//! It doubles with a sleep that took about as long as the way there and back, and halves with a longer one. The way is as long as the
//! shortest sleep of late: on a futex it is a third of what it is in epoll. A worker that has heard of I/O looks once more before its next
//! sleeps, and no more: the sleep's own system call finds I/O, and looks do not. Looks that are for nothing cost more than their time: a
//! core that was busy until just now is later to answer the wake that ends a long sleep.

use core::cell::Cell;

/// A few looks cost less than anything else that a worker does on its way to sleep.
const FEW: u32 = 6;
/// In nanoseconds: no sleep that lasts longer would have been spared by looks.
const LONG: u32 = 100_000;
/// Before so many sleeps a worker that has heard of I/O looks once more only.
const SLEEPS: u32 = 64;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct SpinLimit {
    rounds: Cell<u32>,
    /// The shortest sleep of late, in nanoseconds.
    shortest: Cell<u32>,
    /// For how many sleeps the limit stays one.
    low: Cell<u32>,
}

impl SpinLimit {
    pub(crate) const fn new() -> Self {
        Self { rounds: Cell::new(u32::MAX), shortest: Cell::new(LONG), low: Cell::new(0) }
    }

    /// Whether to look once more after so many rounds, of which there are `most`.
    pub(crate) fn should_spin(&self, round: u32, most: u32) -> bool {
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
        if let Some(left) = self.low.get().checked_sub(1) {
            return self.low.set(left);
        }
        if nanos >= (2 * shortest).min(LONG) {
            return self.shrink(most);
        }
        let rounds = self.rounds.get().min(most);
        self.rounds.set(rounds.saturating_mul(2).max(FEW));
    }

    /// The worker has heard of I/O.
    pub(crate) fn note_event(&self) {
        self.rounds.set(1);
        self.low.set(SLEEPS);
    }

    /// More rounds would have been for nothing.
    pub(crate) fn shrink(&self, most: u32) {
        if self.low.get() > 0 {
            return;
        }
        self.rounds.set((self.rounds.get().min(most) / 2).max(FEW));
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod tests {
    use super::*;

    #[test]
    fn the_spin_limit_shrinks_with_long_sleeps_and_grows_with_short_ones() {
        let limit = SpinLimit::new();
        let rounds = || (0..).take_while(|round| limit.should_spin(*round, 32)).count();
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
        // No look finds I/O.
        limit.note_event();
        assert_eq!(rounds(), 1);
        assert!((0..SLEEPS).all(|_| after(12_000) == 1));
        assert_eq!([12_000, 12_000].map(after), [6, 12]);
        // Fewer than a few are the user's wish.
        limit.record(LONG.into(), 2);
        assert!(limit.should_spin(1, 2) && !limit.should_spin(2, 2) && !limit.should_spin(0, 0));
    }
}
