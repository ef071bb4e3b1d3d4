//! What a look at another worker sees.

use super::{Timeouts, micros, role::Watchdog};
use crate::{
    atomic::{AtomicU32, Ordering, maybe_const},
    instant::Instant,
};

/// In nanoseconds: for how long a worker is seen in one poll when it counts as stuck, while timeouts are long. With a tick of the
/// worker that sees it, a task waits for one millisecond.
const STUCK: u64 = 900_000;
/// By how much a deadline must have passed for another worker than its own to see to it, in nanoseconds, if that one is
/// not known to be stuck.
pub(crate) const GRACE: u64 = 2_000_000;

/// What others saw of a worker: in which poll it was, or after which, and since when. Two words that need not agree: one that is taken for
/// stuck, and is not, loses nothing but a steal.
#[derive(Debug)]
pub(crate) struct Seen {
    polls: AtomicU32,
    /// In `micros`.
    since: AtomicU32,
    /// The last poll that was reported.
    reported: AtomicU32,
}

/// What is to be done for a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding {
    /// It is stuck in its poll, for so many nanoseconds: others must take what waits behind that.
    pub(crate) stuck: Option<u64>,
    /// Its poll is a long one, for which timeouts become short.
    pub(crate) is_long: bool,
}

impl Seen {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { polls: AtomicU32::new(0), since: AtomicU32::new(0), reported: AtomicU32::new(0) }
        }
    }

    /// For how long the worker has been in this poll, or in none after it, in nanoseconds, as far as is known.
    fn unchanged_for(&self, polls: u32, now: Instant) -> u64 {
        let now = micros(now);
        // Ordering: Acquire pairs with the Release below: the time is that of this poll, or of a later look.
        if self.polls.load(Ordering::Acquire) != polls {
            self.since.store(now, Ordering::Relaxed);
            self.polls.store(polls, Ordering::Release);
        }
        u64::from(now.wrapping_sub(self.since.load(Ordering::Relaxed))) << 10
    }

    /// Whether this poll is to be reported: once for each poll, or twice if two workers find it at the same time.
    pub(crate) fn is_unreported(&self, polls: u32) -> bool {
        // Ordering: see above.
        self.reported.swap(polls, Ordering::Relaxed) != polls
    }
}

impl Watchdog {
    /// Looks at a worker, which is in its poll of this number, or after it. `seen` is none if no task can wait for it, or no worker looks
    /// at others; `timeouts` are none if no worker ever watches.
    pub(crate) fn look_at(
        &self,
        seen: Option<&Seen>,
        polls: u32,
        timeouts: Option<Timeouts>,
        now: Instant,
    ) -> Finding {
        let (stuck_after, long_after) = self.bounds(timeouts);
        let polled = seen.map_or(0, |seen| seen.unchanged_for(polls, now));
        Finding { stuck: (polled >= stuck_after).then_some(polled), is_long: polled >= long_after }
    }

    /// In nanoseconds: for how long a worker is seen in one poll when it counts as stuck; and when that poll counts as long.
    ///
    /// A thread that the system has taken off its core looks like one in a poll: with more busy threads than cores that
    /// takes milliseconds, and no timeout is to become short for it.
    fn bounds(&self, timeouts: Option<Timeouts>) -> (u64, u64) {
        let Some((short, long)) = timeouts else { return (STUCK, u64::MAX) };
        // Two looks that are a timeout apart, in units that are rounded.
        (if self.is_alert() { short - short / 8 } else { STUCK }, (long / 2).max(1))
    }
}
