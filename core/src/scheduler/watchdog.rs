//! The watchdog: what workers see to for another one that is stuck in a poll.
//!
//! A worker that is in one poll for a while may have a task in its LIFO slot, tasks in its ring, timers that are due, and a poll
//! to be reported. Two kinds of workers look at it:
//!
//! - One that is busy looks at one other worker at the end of each tick ([`Worker::look_at_next`]).
//! - One that sleeps while another is awake sleeps with a timeout: it *watches*. At its timeout it looks at all others
//!   ([`Worker::scan`]). At most `WATCHERS` watch at a time. Two, so that one can turn to work without a wake-up of another.
//!
//! The timeout is long until a long poll was seen, and short for some scans after one: a program whose polls are short pays for a
//! scan in each long timeout.
//! Two looks see the same poll, so a task waits about two timeouts behind the first long poll, and two short ones
//! behind the next.

use super::{
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
    timing::GRACE,
    worker::Worker,
};
use crate::{
    atomic::{AtomicBool, AtomicU32, Ordering, maybe_const},
    instant::Instant,
    platform::Platform,
    trace::Event,
};

/// So many sleepers have a timeout, at most. With one, each event that woke it would wake another to take its place.
const WATCHERS: u32 = 2;
/// So many scans that find no long poll follow one that did, before the timeout is long again.
const ALERT: u32 = 256;
/// In nanoseconds: for how long a worker is seen in one poll when it counts as stuck, while timeouts are long.
const STUCK: u64 = 1_000_000;

/// Time as two words that wrap: in microseconds of 1,024 nanoseconds, the lowest 32 bits.
fn micros(now: Instant) -> u32 {
    (now.as_nanos() >> 10) as u32
}

/// How many workers watch, and how closely.
#[derive(Debug)]
pub(crate) struct Watchdog {
    /// INV-WATCH: as many as workers have the mark `WATCHING`.
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

    /// A watcher is awake again. It scans, if that is due, unless it was claimed for work.
    pub(crate) fn one_less(&self) {
        // Ordering: as in `begin_watch`.
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_alert(&self) -> bool {
        // Ordering: a hint.
        self.alert.load(Ordering::Relaxed) > 0
    }

    fn timeout(&self, (short, long): (u64, u64)) -> u64 {
        if self.is_alert() { short } else { long }
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

    /// In nanoseconds: for how long a worker is seen in one poll when it counts as stuck; and when that poll counts as long.
    ///
    /// A thread that the system has taken off its core looks like one in a poll: with more busy threads than cores that
    /// takes milliseconds, and no timeout is to become short for it.
    fn bounds(&self, timeouts: Option<(u64, u64)>) -> (u64, u64) {
        let Some((short, long)) = timeouts else { return (STUCK, u64::MAX) };
        // Two looks that are a timeout apart, in units that are rounded.
        (if self.is_alert() { short - short / 8 } else { STUCK }, (long / 2).max(1))
    }

    /// Whether timeouts are short from now on, and were not.
    fn learn(&self, found: bool) -> bool {
        // Ordering: hints.
        let left = self.alert.load(Ordering::Relaxed);
        let next = if found { ALERT } else { left.saturating_sub(1) };
        if next != left {
            self.alert.store(next, Ordering::Relaxed);
        }
        found && left == 0
    }
}

/// What others saw of a worker: in which poll it was, and since when. Two words that need not agree: one that is taken for
/// stuck, and is not, loses nothing but a steal.
#[derive(Debug)]
pub(crate) struct Seen {
    polls: AtomicU32,
    /// In `micros`.
    since: AtomicU32,
    /// The last poll that was reported.
    reported: AtomicU32,
}

impl Seen {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { polls: AtomicU32::new(0), since: AtomicU32::new(0), reported: AtomicU32::new(0) }
        }
    }

    /// For how long the worker has been in this poll, in nanoseconds, as far as is known; `None` if it is in none.
    fn in_poll_for(&self, polls: u32, now: Instant) -> Option<u64> {
        if polls & 1 == 0 {
            return None;
        }
        let now = micros(now);
        // Ordering: Acquire pairs with the Release below: the time is that of this poll, or of a later look.
        if self.polls.load(Ordering::Acquire) != polls {
            self.since.store(now, Ordering::Relaxed);
            self.polls.store(polls, Ordering::Release);
        }
        Some(u64::from(now.wrapping_sub(self.since.load(Ordering::Relaxed))) << 10)
    }
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// A task went into an empty LIFO slot: a sleeper should watch this worker.
    #[inline(always)]
    pub(crate) fn cover_lifo(&self, slot: &WorkerSlot<RING>) {
        // If this worker is about to be missed, the next one to sleep sees it awake.
        if !self.watchdog.is_on()
            && self.config.has_watchdog()
            && self.config.stealing()
            && self.idle.any_parked(self)
        {
            self.notify_of(slot);
        }
    }

    /// A timer is the first now in the wheel of a worker. If the poll that this one is in lasts, only a watcher sees to it.
    #[cold]
    pub(crate) fn cover_timer(&self, slot: &WorkerSlot<RING>) {
        // Ordering: hints, all of them, after the fence in `Driver::tell`, which pairs with that in `Idle::announce`: either a
        // sleeper is seen here, or it sees that this worker is online and awake, and watches.
        // A searcher will watch when it finds nothing, as it is with a push.
        if slot.lifo.is_in_poll() && self.lacks_watcher() && self.idle.searching() == 0 {
            self.wake_one();
        }
    }

    /// Whether a worker may have to be seen to, once the caller is announced.
    pub(crate) fn is_one_awake(&self) -> bool {
        self.census.is_one_awake(self.idle.parked(self))
    }

    /// Whether workers sleep, and none of them watches. A hint.
    fn lacks_watcher(&self) -> bool {
        self.config.has_watchdog() && !self.watchdog.is_on() && self.idle.any_parked(self)
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// About to sleep, and announced: watches, if another worker is awake, or this one was until now; until when to sleep then.
    pub(crate) fn begin_watch(&self) -> Option<Instant> {
        let (executor, local) = (self.executor, &self.slot().local);
        let timeouts = executor.config.watchdog()?;
        // It sleeps again, and has turned to nothing.
        local.duties.keeps_watch();
        let has_others = executor.census.online() > 1;
        // While workers sleep and wake by turns it goes on, although all may sleep at this moment: or each of them that wakes
        // would have to wake another, to watch.
        let needed = executor.is_one_awake() || (has_others && !local.rested.get());
        if !needed {
            return None;
        }
        let more = |n: u32| (n < WATCHERS).then_some(n + 1);
        // Ordering: a count, and a hint to others.
        let (set, seen) = (Ordering::Relaxed, Ordering::Relaxed);
        executor.watchdog.watchers.fetch_update(set, seen, more).ok()?;
        local.duties.watches();
        let (now, timeout) = (executor.platform.now(), executor.watchdog.timeout(timeouts));
        // Not a timeout of its own: a watcher that is woken for work again and again would never come to its end.
        let left = executor.watchdog.until_next(now, timeout).unwrap_or(timeout);
        // Ordering: a memo.
        local.next_scan.set(executor.watchdog.next.load(Ordering::Relaxed));
        Some(now.after_nanos(left))
    }

    pub(crate) fn scan_if_due(&self) {
        let (executor, local) = (self.executor, &self.slot().local);
        let Some(timeouts) = executor.config.watchdog() else { return };
        let now = executor.platform.now();
        let is_due =
            executor.watchdog.until_next(now, executor.watchdog.timeout(timeouts)).is_none();
        if is_due {
            self.scan(now);
        }
        // Or another watcher has, while this one slept: else two that wake at the same times would never both rest.
        // Ordering: hints.
        if is_due || executor.watchdog.next.load(Ordering::Relaxed) != local.next_scan.get() {
            local.rested.set(executor.watchdog.quiet.load(Ordering::Relaxed));
        }
    }

    /// Looks at every other worker, and whether any has polled since the last scan.
    fn scan(&self, now: Instant) {
        self.slot().counters.sweeps.add(1);
        let (mut found, mut sum) = (false, 0_u32);
        for (index, other) in self.executor.in_use().iter().enumerate() {
            sum = sum.wrapping_add(other.counters.polls.get() as u32);
            if index != self.id().index() {
                found |= self.look_at(index, other, now);
            }
        }
        if self.executor.watchdog.learn(found) {
            // The other watcher sleeps for a long time yet.
            self.executor.wake_one();
        }
        // Ordering: memos.
        let quiet = self.executor.watchdog.polls.swap(sum, Ordering::Relaxed) == sum;
        self.executor.watchdog.quiet.store(quiet, Ordering::Relaxed);
    }

    /// At the end of a tick: looks at one other worker, the next in turn.
    pub(crate) fn look_at_next(&self) {
        let (executor, turn) = (self.executor, &self.slot().local.turn);
        let slots = executor.in_use();
        let index = (turn.get() as usize + 1) % slots.len().max(1);
        turn.set(index as u32);
        let Some(other) = slots.get(index).filter(|_| index != self.id().index()) else { return };
        if other.lifo.is_in_poll() || other.timed.wheel.is_armed() {
            // While no worker sleeps, none scans: this one learns for all.
            if self.look_at(index, other, executor.platform.now()) {
                executor.watchdog.learn(true);
            }
        }
    }

    /// Sees to a worker that is stuck, and to timers that are late; whether it is in a long poll.
    fn look_at(&self, index: usize, other: &WorkerSlot<RING>, now: Instant) -> bool {
        let executor = self.executor;
        // Ordering: a hint.
        let polls = other.lifo.polls.load(Ordering::Relaxed);
        let (stuck, long) = executor.watchdog.bounds(executor.config.watchdog());
        let polled = other.shared.seen.in_poll_for(polls, now).unwrap_or(0);
        let is_stuck = polled >= stuck;
        if is_stuck {
            self.relieve(index, other);
            self.report_long(index as u16, polls, other, polled);
        }
        let grace = if other.is_online() && !is_stuck { GRACE } else { 0 };
        let late = Instant::from_nanos(now.as_nanos().saturating_sub(grace));
        if other.timed.wheel.is_armed() && other.timed.wheel.is_overdue(late) {
            self.expire(&other.timed.wheel, now);
        }
        polled >= long
    }

    /// Takes what waits behind a long poll: the task in the LIFO slot, and half of the ring.
    fn relieve(&self, index: usize, stuck: &WorkerSlot<RING>) {
        if !self.executor.config.stealing() {
            return;
        }
        if let Some(ready) = stuck.lifo.take() {
            self.slot().counters.rescues.add(1);
            self.executor.push_ring(self.slot(), ready);
        }
        if let Some(ready) = self.steal_from(index, stuck) {
            self.executor.push_ring(self.slot(), ready);
        }
    }

    /// Reports a poll that has lasted for so long, if that is over the limit: once for each poll.
    fn report_long(&self, worker: u16, polls: u32, stuck: &WorkerSlot<RING>, nanos: u64) {
        let is_over = self.executor.config.poll_limit().is_some_and(|limit| nanos >= limit);
        // Ordering: once for each poll, or twice if two workers find it at the same time.
        if is_over && stuck.shared.seen.reported.swap(polls, Ordering::Relaxed) != polls {
            // The platform may call code of the user's.
            let _ = self.leave_loop();
            self.executor.platform.event(Some(self.id()), Event::LongPoll { worker, nanos });
        }
    }

    /// About to poll after an idle moment: if there is something that only a watcher would see to (timers of this worker, a limit of
    /// polls, I/O that no worker waits for), and none watches, a sleeper is woken to. It is once for each sleep of that one.
    #[inline]
    pub(crate) fn cover_poll(&self) {
        let executor = self.executor;
        let has_reason = || {
            self.slot().timed.wheel.is_armed()
                || executor.is_unheard()
                || executor.config.poll_limit().is_some()
        };
        if executor.lacks_watcher() && has_reason() {
            executor.wake_one();
        }
    }

    /// The worker watched, and turns to something else: if none watches now, a sleeper is woken to.
    #[cold]
    pub(crate) fn hand_watch_over(&self) {
        if self.executor.lacks_watcher() {
            self.executor.wake_one();
        }
    }
}
