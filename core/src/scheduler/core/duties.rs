//! A worker's duties: what other workers rely on while it is in its loop, and the one way out of the loop.
//!
//! | duty | others rely on it because | `Worker::leave_loop` |
//! |---|---|---|
//! | it searches | a push wakes no worker while one searches | counts it down; the last one looks again, for tasks and for polls that none watches, and notifies |
//! | it was a watcher | a watcher takes what waits behind a long poll | wakes a sleeper to watch, if none does |
//! | it has heard of I/O | that waits for it | delivers it |
//! | a notification is due | what it has queued in a batch is to be known | notifies |
//! | a hint woke it | a push of a task with an affinity wakes one worker | wakes the next one, if the hint is still set |
//!
//! The duties of a sleeper (it is announced, it watches) end with its sleep. Those of jobs and of the counts of workers belong to
//! the values that stand for them (`Counted`, `Helper`, `Blocked`).
//!
//! **A worker in user code has no duty.** What runs user code, or waits in the midst of it, takes an [`OutOfLoop`], and
//! `leave_loop` alone makes one.

use core::{cell::Cell, marker::PhantomData};

use crate::parts::{Parts, Switch, Ticks};

/// It is one of the searchers (INV-IDLE-COUNT).
const SEARCHING: u16 = 1;
/// It watched in its last sleep, and has not turned to anything since.
const WATCHED: u16 = 2;
/// It has heard of I/O, and has not delivered that.
const HEARD: u16 = 4;
/// It has queued something in a batch, and has not notified.
const DUE: u16 = 8;
/// It is one of the watchers (INV-WATCH).
const WATCHING: u16 = 16;
/// It is between the two halves of a park.
const ANNOUNCED: u16 = 32;
/// It wakes tasks in a row: notifications are put off to the end of that.
const BATCHING: u16 = 64;
/// It has slept since its last pass. This is no duty, as no other worker relies on it; nor are `MAY_SCAN`, `ARMED` and `LEAVES`.
const SLEPT: u16 = 128;
/// Its sleep as a watcher has ended by itself: it scans, if that is due.
const MAY_SCAN: u16 = 256;
/// Its park word says that it sleeps, between the two halves of a park.
const ARMED: u16 = 512;

/// A task with an affinity to this worker may have woken it.
const WOKEN_BY_HINT: u16 = 1024;
/// It was asked to leave, and nothing kept it when it looked.
const LEAVES: u16 = 2048;

/// What `leave_loop` has to see to.
const OWED: u16 = SEARCHING | WATCHED | HEARD | DUE | ANNOUNCED | WOKEN_BY_HINT;

/// The duties of a worker. Only the worker's own context uses them (INV-LOCAL), with one exception: a handler that interrupts user code may
/// read them and add a due notification. It does so only while the flag of INV-USER-CODE is set, so the worker clears that flag before it
/// changes a duty.
pub(crate) struct Duties<F>(Cell<u16>, PhantomData<fn() -> F>);

impl<F: Parts> Duties<F> {
    /// Those that there are, by the executor's parts.
    const ALL: u16 = {
        let shared = if F::Cores::ON { SEARCHING | DUE | BATCHING | LEAVES } else { 0 };
        let watch = if F::Watchdog::ON { WATCHED | WATCHING | MAY_SCAN } else { 0 };
        let slept = if Ticks::<F>::ON { SLEPT } else { 0 };
        let affine = if F::Classes::ON && F::Cores::ON { WOKEN_BY_HINT } else { 0 };
        ANNOUNCED | ARMED | shared | watch | slept | affine | if F::Io::ON { HEARD } else { 0 }
    };

    pub(crate) const fn new() -> Self {
        Self(Cell::new(0), PhantomData)
    }

    #[inline(always)]
    fn has(&self, any_of: u16) -> bool {
        self.0.get() & any_of & Self::ALL != 0
    }

    #[inline(always)]
    fn set(&self, duty: u16, on: bool) {
        let duty = duty & Self::ALL;
        self.0.set(if on { self.0.get() | duty } else { self.0.get() & !duty });
    }

    /// Sets it to `on`; whether it was set.
    #[inline(always)]
    fn replace(&self, duty: u16, on: bool) -> bool {
        let was = self.has(duty);
        self.set(duty, on);
        was
    }

    /// Whether there is something to give up before it leaves the loop.
    #[inline(always)]
    pub(crate) fn has_owed(&self) -> bool {
        self.has(OWED)
    }

    /// The same before a batch. A notification that is due stays due in the batch.
    pub(crate) fn has_owed_before_batch(&self) -> bool {
        self.has(OWED & !DUE)
    }

    /// Whether it owes anything to others in user code: in a batch, a notification may be due.
    pub(crate) fn has_owed_in_user_code(&self) -> bool {
        let may_be_due = if self.has(BATCHING) { DUE } else { 0 };
        self.has((OWED | WATCHING) & !may_be_due)
    }

    #[inline(always)]
    pub(crate) fn is_searching(&self) -> bool {
        self.has(SEARCHING)
    }

    /// It is counted as a searcher; whether it was before.
    pub(crate) fn begin_search(&self) -> bool {
        self.replace(SEARCHING, true)
    }

    /// Whether it searched; now it does not.
    pub(crate) fn end_search(&self) -> bool {
        self.replace(SEARCHING, false)
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.has(ANNOUNCED)
    }

    /// It has armed its park word.
    pub(crate) fn arm(&self) {
        self.set(ARMED, true);
    }

    /// Whether another loop drives it, and waits for its wake.
    pub(crate) fn is_armed(&self) -> bool {
        self.has(ARMED)
    }

    /// Whether its park word is armed, which now ends.
    pub(crate) fn disarm(&self) -> bool {
        self.replace(ARMED, false)
    }

    /// It is announced as asleep; whether it was searching until now.
    pub(crate) fn announce(&self) -> bool {
        self.set(ANNOUNCED, true);
        self.replace(SEARCHING, false)
    }

    /// It is awake; it `searches` if it was claimed.
    pub(crate) fn unannounce(&self, searches: bool) {
        self.set(ANNOUNCED, false);
        self.set(SEARCHING, searches);
    }

    pub(crate) fn begin_watch(&self) {
        self.set(WATCHING, true);
    }

    /// A hint may have woken it.
    pub(crate) fn set_woken_by_hint(&self) {
        self.set(WOKEN_BY_HINT, true);
    }

    /// Whether it has, which is seen to now.
    pub(crate) fn take_woken_by_hint(&self) -> bool {
        self.replace(WOKEN_BY_HINT, false)
    }

    /// It sleeps again, and has turned to nothing: it hands nothing over.
    pub(crate) fn clear_watched(&self) {
        self.set(WATCHED, false);
    }

    /// Its sleep as a watcher is over, if it was one; whether it was. `unclaimed`: the sleep ended by itself.
    pub(crate) fn end_watch(&self, unclaimed: bool) -> bool {
        let watched = self.replace(WATCHING, false);
        if watched {
            // Before it turns to work, or to a waker in the scan, another one takes its place.
            self.set(WATCHED, true);
            self.set(MAY_SCAN, unclaimed);
        }
        watched
    }

    /// Whether it may have to scan, and does that now.
    pub(crate) fn take_scan(&self) -> bool {
        self.replace(MAY_SCAN, false)
    }

    /// Whether another worker may have to watch in its place, which is seen to now.
    pub(crate) fn take_watched(&self) -> bool {
        self.replace(WATCHED, false)
    }

    pub(crate) fn set_heard(&self, something: bool) {
        if something {
            self.set(HEARD, true);
        }
    }

    pub(crate) fn has_heard(&self) -> bool {
        self.has(HEARD)
    }

    /// Whether it had something to deliver; now it does that.
    pub(crate) fn take_heard(&self) -> bool {
        self.replace(HEARD, false)
    }

    /// A notification is put off, as the worker is in a batch; false if it is in none.
    #[inline(always)]
    pub(crate) fn defer_notify(&self) -> bool {
        let batching = self.has(BATCHING);
        if batching {
            self.set(DUE, true);
        }
        batching
    }

    /// Whether a notification was due, which is sent now.
    pub(crate) fn take_due_notify(&self) -> bool {
        self.replace(DUE, false)
    }

    pub(crate) fn is_batching(&self) -> bool {
        self.has(BATCHING)
    }

    /// It begins a batch, or ends one; whether it was in one.
    pub(crate) fn set_batching(&self, on: bool) -> bool {
        self.replace(BATCHING, on)
    }

    /// Whether there is a park to end, a look at I/O and timers to take, or the loop to leave for good, before it goes on.
    #[inline(always)]
    pub(crate) fn needs_slow_path(&self) -> bool {
        self.has(ANNOUNCED | SLEPT | MAY_SCAN | LEAVES)
    }

    /// Whether it leaves for good before its next pass, if still nothing keeps it then.
    pub(crate) fn set_leaving(&self, on: bool) {
        self.set(LEAVES, on);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.has(LEAVES)
    }

    /// It has slept, or begins its next pass; whether it had slept before.
    pub(crate) fn set_slept(&self, on: bool) -> bool {
        self.replace(SLEPT, on)
    }
}
