//! Which workers watch: how many, until when, and when a scan is due.

use core::cell::Cell;

use super::{Timeouts, micros};
use crate::{
    atomic::{AtomicBool, AtomicU32, Ordering, maybe_const},
    instant::Instant,
};

/// So many sleepers have a timeout, at most. With one, each event that woke it would wake another to take its place.
const WATCHERS: u32 = 2;
/// So many scans that find no long poll follow one that did, before the timeout is long again.
const ALERT: u32 = 256;

/// How many workers watch, and how closely.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// INV-WATCH: as many as workers have the duty `WATCHING`.
    watchers: AtomicU32,
    /// Scans until the timeout is long again.
    alert: AtomicU32,
    /// When the next scan is due, in `micros`.
    next: AtomicU32,
    /// A sum that changes with the polls of all workers, as the last scan saw it.
    polls: AtomicU32,
    /// It saw the same sum as the scan before.
    quiet: AtomicBool,
}

/// What one worker knows of its own watches. Its own context's alone.
pub(crate) struct Watcher {
    /// Since it last polled, it has made a scan that found all quiet.
    rested: Cell<bool>,
    /// When a scan was due as it went to sleep to watch.
    next: Cell<u32>,
    /// At which worker it has looked last.
    turn: Cell<u32>,
}

impl Watchdog {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                watchers: AtomicU32::new(0),
                alert: AtomicU32::new(0),
                next: AtomicU32::new(0),
                polls: AtomicU32::new(0),
                quiet: AtomicBool::new(false),
            }
        }
    }

    /// Whether a sleeper will look around by itself. A hint.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        // Ordering: a hint.
        self.watchers.load(Ordering::Relaxed) > 0
    }

    /// The calling worker, which is about to sleep, watches, unless enough do; until when it sleeps then.
    pub(crate) fn begin(
        &self,
        me: &Watcher,
        timeouts: Timeouts,
        now: impl FnOnce() -> Instant,
    ) -> Option<Instant> {
        let more = |n: u32| (n < WATCHERS).then_some(n + 1);
        // Ordering: a count, and a hint to others.
        self.watchers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        let (now, timeout) = (now(), self.timeout(timeouts));
        // Not a timeout of its own: a watcher that is woken for work again and again would never come to its end.
        let left = self.until_next(now, timeout).unwrap_or(timeout);
        // Ordering: a memo.
        me.next.set(self.next.load(Ordering::Relaxed));
        Some(now.after_nanos(left))
    }

    /// A watcher is awake again. It scans, if that is due, unless it was claimed for work.
    pub(crate) fn end(&self) {
        // Ordering: as in `begin`.
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a watcher that has woken by itself must scan now. Then the next scan is due a timeout from now.
    pub(crate) fn is_due(&self, timeouts: Timeouts, now: Instant) -> bool {
        self.until_next(now, self.timeout(timeouts)).is_none()
    }

    /// How long it is until the next scan. If that is due, the next one is a timeout from now, and the result none.
    fn until_next(&self, now: Instant, timeout: u64) -> Option<u64> {
        let then = micros(now.after_nanos(timeout));
        // Ordering: a memo: two watchers that scan at the same time do no harm.
        let left = self.next.load(Ordering::Relaxed).wrapping_sub(micros(now));
        // What is not between now and then is past, by hours perhaps.
        if (1..=then.wrapping_sub(micros(now))).contains(&left) {
            return Some((u64::from(left) << 10).min(timeout));
        }
        self.next.store(then, Ordering::Relaxed);
        None
    }

    /// A scan saw this sum of all polls, other than the one before or not.
    pub(crate) fn saw(&self, polls: u32) {
        // Ordering: memos.
        let quiet = self.polls.swap(polls, Ordering::Relaxed) == polls;
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    /// The watch of the calling worker is over, with a scan of its own if one was due.
    pub(crate) fn rest(&self, me: &Watcher, was_due: bool) {
        // Or another watcher has made the scan, while this one slept: else two that wake at the same times would never both rest.
        // Ordering: hints.
        if was_due || self.next.load(Ordering::Relaxed) != me.next.get() {
            me.rested.set(self.quiet.load(Ordering::Relaxed));
        }
    }

    pub(super) fn is_alert(&self) -> bool {
        // Ordering: a hint.
        self.alert.load(Ordering::Relaxed) > 0
    }

    fn timeout(&self, (short, long): Timeouts) -> u64 {
        if self.is_alert() { short } else { long }
    }

    /// A scan has found a long poll or none. Whether timeouts are short from now on, and were not.
    pub(crate) fn learn(&self, found: bool) -> bool {
        // Ordering: hints.
        let left = self.alert.load(Ordering::Relaxed);
        let next = if found { ALERT } else { left.saturating_sub(1) };
        if next != left {
            self.alert.store(next, Ordering::Relaxed);
        }
        found && left == 0
    }
}

impl Watcher {
    pub(crate) const fn new() -> Self {
        Self { rested: Cell::new(true), next: Cell::new(0), turn: Cell::new(0) }
    }

    /// It polls: what its last scan saw is past.
    pub(crate) fn note_poll(&self) {
        self.rested.set(false);
    }

    /// Whether a scan since its last poll has found all quiet.
    pub(crate) fn has_rested(&self) -> bool {
        self.rested.get()
    }

    /// Which of `n` workers to look at next.
    pub(crate) fn next_of(&self, n: usize) -> usize {
        let index = (self.turn.get() as usize + 1) % n.max(1);
        self.turn.set(index as u32);
        index
    }
}
