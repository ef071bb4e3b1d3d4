//! A worker's duties: what other workers rely on while it is in its loop, and the one way out of the loop.
//!
//! | duty | others rely on it because | [`Worker::leave_loop`] |
//! |---|---|---|
//! | it searches | a push wakes no worker while one searches | counts it down; the last one looks again, and notifies |
//! | it was a watcher | stuck workers are seen to | wakes a sleeper to watch, if none does |
//! | it has heard of I/O | that waits for it | delivers it |
//! | a notification is due | what it has queued in a batch is to be known | notifies |
//!
//! The duties of a sleeper (it is announced, it watches) end with its sleep. Those of jobs and of the counts of workers belong to
//! the values that stand for them (`Counted`, `Helper`, `Blocked`).
//!
//! **A worker in user code has no duty.** What runs user code, or waits in the midst of it, takes an [`Away`], and
//! `leave_loop` alone makes one.

use core::{cell::Cell, marker::PhantomData};

use super::{
    executor::Scheduler,
    slot::{LifoSlot, Slots, WorkerSlot},
    worker::Worker,
};
use crate::platform::Platform;

/// It is one of the searchers (INV-IDLE-COUNT).
const SEARCHING: u8 = 1;
/// It watched in its last sleep, and no other was seen to watch since.
const WATCHED: u8 = 2;
/// It has heard of I/O, and has not delivered that.
const HEARD: u8 = 4;
/// It has queued something in a batch, and has not notified.
const DUE: u8 = 8;
/// It is one of the watchers (INV-WATCH).
const WATCHING: u8 = 16;
/// It is between the two halves of a park.
const ANNOUNCED: u8 = 32;
/// It wakes tasks in a row: notifications are put off to the end of that.
const BATCHING: u8 = 64;
/// It has slept since its last pass. No duty: what it does for that is its own business.
const SLEPT: u8 = 128;

/// What `leave_loop` has to see to.
const OWED: u8 = SEARCHING | WATCHED | HEARD | DUE | ANNOUNCED;

/// The duties of a worker. Its own context's alone (INV-LOCAL); an interrupt in it that wakes a task may look at them and add a due
/// notification, where it finds the mark of INV-ACCEPTING up: so all else changes only while that is down.
pub(crate) struct Duties(Cell<u8>);

impl Duties {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(0))
    }

    #[inline(always)]
    fn has(&self, any_of: u8) -> bool {
        self.0.get() & any_of != 0
    }

    #[inline(always)]
    fn set(&self, duty: u8, on: bool) {
        self.0.set(if on { self.0.get() | duty } else { self.0.get() & !duty });
    }

    /// Sets it to `on`; whether it was set.
    #[inline(always)]
    fn replace(&self, duty: u8, on: bool) -> bool {
        let was = self.has(duty);
        self.set(duty, on);
        was
    }

    /// Whether it owes anything to others: in a batch, a notification may be due.
    fn are_owed(&self) -> bool {
        let may_be_due = if self.has(BATCHING) { DUE } else { 0 };
        self.has((OWED | WATCHING) & !may_be_due)
    }

    #[inline(always)]
    pub(crate) fn is_searching(&self) -> bool {
        self.has(SEARCHING)
    }

    /// It is counted as a searcher; whether it was before.
    pub(crate) fn searches(&self) -> bool {
        self.replace(SEARCHING, true)
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.has(ANNOUNCED)
    }

    /// It is announced as asleep; whether it was searching until now.
    pub(crate) fn announces(&self) -> bool {
        self.set(ANNOUNCED, true);
        self.replace(SEARCHING, false)
    }

    /// It is awake; it `searches` if it was claimed.
    pub(crate) fn retracts(&self, searches: bool) {
        self.set(ANNOUNCED, false);
        self.set(SEARCHING, searches);
    }

    pub(crate) fn watches(&self) {
        self.set(WATCHING, true);
    }

    /// It sleeps again, and has turned to nothing: it hands nothing over.
    pub(crate) fn keeps_watch(&self) {
        self.set(WATCHED, false);
    }

    /// Its sleep as a watcher is over, if it was one; whether it was.
    pub(crate) fn watches_no_more(&self) -> bool {
        let watched = self.replace(WATCHING, false);
        if watched {
            // Before it turns to work, or to a waker in the scan, another one takes its place.
            self.set(WATCHED, true);
        }
        watched
    }

    pub(crate) fn hears(&self, something: bool) {
        if something {
            self.set(HEARD, true);
        }
    }

    /// Whether it had something to deliver; now it does that.
    pub(crate) fn delivers(&self) -> bool {
        self.replace(HEARD, false)
    }

    /// A notification is put off, as the worker is in a batch; false if it is in none.
    #[inline(always)]
    pub(crate) fn puts_off(&self) -> bool {
        let batching = self.has(BATCHING);
        if batching {
            self.set(DUE, true);
        }
        batching
    }

    /// It begins a batch, or ends one; whether it was in one.
    pub(crate) fn batches(&self, on: bool) -> bool {
        self.replace(BATCHING, on)
    }

    /// Whether there is a park to end, or a look at I/O and timers to take, before it goes on.
    #[inline(always)]
    pub(crate) fn comes_from_sleep(&self) -> bool {
        self.has(ANNOUNCED | SLEPT)
    }

    pub(crate) fn has_slept(&self) -> bool {
        self.has(SLEPT)
    }

    /// It has slept, or begins its next pass; whether it had slept before.
    pub(crate) fn slept(&self, on: bool) -> bool {
        self.replace(SLEPT, on)
    }
}

/// A worker is out of its loop, in user code or in a wait, and owes the others nothing.
#[must_use]
pub(crate) struct Away<'w>(PhantomData<&'w ()>);

/// A batch of wakers that one of them has interrupted, if there is one: it goes on when this is dropped.
#[must_use]
pub(crate) struct Batch {
    lifo: &'static LifoSlot,
    duties: &'static Duties,
    batching: bool,
}

impl Drop for Batch {
    fn drop(&mut self) {
        // INV-ACCEPTING: duties change only while it is down.
        let was = self.lifo.replace_accept(false);
        self.duties.batches(self.batching);
        self.lifo.accept(was);
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// The one way from the loop into user code, or into a wait that is not the loop's own sleep: gives up all duties.
    #[inline]
    pub(crate) fn leave_loop(&self) -> Away<'_> {
        let duties = &self.slot().local.duties;
        if duties.has(OWED) {
            self.give_up(OWED);
        }
        debug_assert!(!duties.are_owed(), "a worker in user code has no duty");
        Away(PhantomData)
    }

    /// As [`leave_loop`](Self::leave_loop), for what may take as long as a poll: a watcher sees to what this worker keeps waiting.
    pub(crate) fn leave_for_long(&self) -> Away<'_> {
        let away = self.leave_loop();
        self.cover_poll();
        away
    }

    /// As [`leave_loop`](Self::leave_loop), by user code that waits, or calls other user code: if it is a waker in a batch, that ends
    /// here. What is left of it is delivered first; it goes on when the second value is dropped.
    pub(crate) fn leave_batch(&self) -> (Away<'_>, Batch) {
        let slot = self.slot();
        // INV-ACCEPTING: duties change only while it is down.
        let was = slot.lifo.replace_accept(false);
        let batching = slot.local.duties.batches(false);
        slot.local.duties.hears(batching && P::LISTENS);
        slot.lifo.accept(was);
        (self.leave_loop(), Batch { lifo: &slot.lifo, duties: &slot.local.duties, batching })
    }

    #[inline(never)]
    fn give_up(&self, owed: u8) {
        let (lifo, duties) = (&self.slot().lifo, &self.slot().local.duties);
        // INV-ACCEPTING: duties change only while it is down.
        let was = lifo.replace_accept(false);
        self.end_park();
        if duties.replace(SEARCHING, false) {
            self.stop_searching();
        }
        if duties.replace(WATCHED, false) {
            self.hand_watch_over();
        }
        if duties.has(HEARD) {
            self.deliver();
        }
        if owed & DUE != 0 {
            self.executor.flush_notify(self.slot());
        }
        lifo.accept(was);
    }

    #[cold]
    fn stop_searching(&self) {
        let executor = self.executor;
        let look = || executor.has_work(self.id()) || !self.slot().ring.is_empty();
        if executor.idle.stop_searching(look) {
            executor.notify();
        }
    }

    /// Runs wakers, so that what they wake goes to this worker's own queues; goes on behind one that panics.
    ///
    /// One duty goes along, the notification: it comes once, when the worker leaves the loop for something else. A worker that is
    /// woken earlier finds one task in place of half of them, and may take the core away from this one. A long waker counts as a
    /// long poll, so that the watchdog sees to what it keeps waiting; without a watchdog each task is notified of at once.
    pub(crate) fn run_wakers(&self, wake: &mut dyn FnMut()) {
        let (lifo, duties) = (&self.slot().lifo, &self.slot().local.duties);
        if duties.has(OWED & !DUE) {
            self.give_up(OWED & !DUE);
        }
        if self.slot().local.stretch.get().is_none() {
            self.cover_poll();
        }
        // INV-ACCEPTING: duties change only while it is down.
        let was = lifo.replace_accept(false);
        let batching = duties.batches(self.executor.config.has_watchdog());
        lifo.count_poll();
        lifo.accept(true);
        while self.executor.platform.guard(wake).is_err() {}
        lifo.accept(false);
        lifo.count_poll();
        duties.batches(batching);
        lifo.accept(was);
    }
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// Whether the calling worker has a duty: for simulations, which ask it in user code.
    #[doc(hidden)]
    pub fn owes_something(&self) -> bool {
        self.working().is_some_and(|(_, slot)| slot.local.duties.are_owed())
    }

    /// There is work for others in the worker's queues: notifies, or puts that off to the end of its batch.
    #[inline(always)]
    pub(crate) fn notify_of(&self, slot: &WorkerSlot<RING>) {
        if !slot.local.duties.puts_off() {
            self.notify();
        }
    }

    /// Sends the notification that the calling worker has put off.
    pub(crate) fn flush_notify(&self, slot: &WorkerSlot<RING>) {
        debug_assert!(!slot.lifo.is_accepting(), "INV-ACCEPTING");
        if slot.local.duties.replace(DUE, false) {
            let batching = slot.local.duties.batches(false);
            if !slot.lifo.is_empty() {
                self.cover_lifo(slot);
            }
            if !self.injector.is_empty() || (self.config.stealing() && !slot.ring.is_empty()) {
                self.notify();
            }
            slot.local.duties.batches(batching);
        }
    }
}
