//! A runtime's clock, which tests can stop.
//!
//! A stopped clock moves to the next deadline by itself when nothing is runnable: every worker
//! sleeps, every thread in `block_on` waits, and no blocking closure runs. The platform sees all of
//! this here: a sleeper is a thread that waits on a word that has not changed. The check is
//! complete because the scheduler lets no worker sleep while a task is queued.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use std::sync::{Mutex, MutexGuard};

use filch::{Instant, WorkerId, atomic::AtomicU32};

use crate::panics::lock;

/// The host's clock, shifted or stopped.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    stopped: AtomicBool,
    /// The time at which the clock stands, in nanoseconds: when it was stopped, plus its moves
    /// since.
    stands: AtomicU64,
    /// By how much the clock is ahead of the host's, in nanoseconds: an `i64`.
    ahead: AtomicU64,
    /// The counts of the threads that are workers, of the threads in `block_on` that are not, and
    /// of the blocking closures.
    pub(crate) online: AtomicUsize,
    pub(crate) guests: AtomicUsize,
    pub(crate) holds: AtomicUsize,
    sleepers: Mutex<Sleepers>,
}

/// The sleeping threads: workers while the clock is stopped, threads in `block_on` always.
#[derive(Debug, Default)]
struct Sleepers {
    workers: Vec<(WorkerId, Instant, Bed)>,
    guests: Vec<Bed>,
}

/// The word that a thread sleeps on while it has the expected value.
///
/// INV-BED: a sleeping thread removes its bed before the word goes.
#[derive(Clone, Copy, Debug)]
struct Bed {
    word: NonNull<AtomicU32>,
    expected: u32,
}

// SAFETY: it is read through an atomic, see INV-BED.
unsafe impl Send for Bed {}

impl Bed {
    fn is_slept_in(&self) -> bool {
        // Ordering: Acquire pairs with the Release of the thread that changed the word.
        // SAFETY: INV-BED.
        unsafe { self.word.as_ref() }.load(Ordering::Acquire) == self.expected
    }
}

/// The workers whose deadlines have come. They are woken outside of the lock.
pub(crate) type Due = Vec<WorkerId>;

impl Clock {
    /// The time on this clock, from the host's.
    #[inline]
    pub(crate) fn now(&self, host: impl Fn() -> Instant) -> Instant {
        loop {
            if self.is_stopped() {
                return Instant::from_nanos(self.stands.load(Ordering::Acquire));
            }
            let now = Instant::from_nanos(host().as_nanos().saturating_add_signed(self.ahead()));
            // If the clock was stopped in between, at an earlier time, this time would let it go
            // backwards.
            if !self.is_stopped() {
                return now;
            }
        }
    }

    fn ahead(&self) -> i64 {
        self.ahead.load(Ordering::Relaxed) as i64
    }

    /// Converts a deadline on this clock to the host's.
    pub(crate) fn to_host(&self, deadline: Instant) -> Instant {
        match deadline {
            Instant::MAX => deadline,
            _ => {
                let behind = self.ahead().saturating_neg();
                Instant::from_nanos(deadline.as_nanos().saturating_add_signed(behind))
            }
        }
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `stop`, `resume` and `advance`.
        self.stopped.load(Ordering::Acquire)
    }

    /// Stops the clock. The caller then wakes the workers, so that they sleep by the stopped clock.
    pub(crate) fn stop(&self, host: impl Fn() -> Instant) {
        let mut sleepers = self.lock();
        if !self.is_stopped() {
            sleepers.workers.clear();
            self.stands.store(self.now(host).as_nanos(), Ordering::Release);
            // Ordering: Release pairs with the Acquire in `is_stopped`.
            self.stopped.store(true, Ordering::Release);
        }
    }

    /// Lets the clock go on from where it stands. The caller then wakes the workers.
    pub(crate) fn resume(&self, host: impl Fn() -> Instant) {
        let _sleepers = self.lock();
        if self.is_stopped() {
            let stands = self.stands.load(Ordering::Relaxed);
            self.ahead.store(stands.wrapping_sub(host().as_nanos()), Ordering::Relaxed);
            // Ordering: Release pairs with the Acquire in `is_stopped`.
            self.stopped.store(false, Ordering::Release);
        }
    }

    /// Moves the clock; false if it is not stopped. The caller then wakes the workers.
    pub(crate) fn advance(&self, by: Duration) -> bool {
        let _sleepers = self.lock();
        let stopped = self.is_stopped();
        if stopped {
            let stands = Instant::from_nanos(self.stands.load(Ordering::Relaxed)) + by;
            self.stands.store(stands.as_nanos(), Ordering::Release);
        }
        stopped
    }

    /// Records that a worker goes to sleep on a word, by the stopped clock. Returns the workers to
    /// wake, the caller perhaps among them.
    pub(crate) fn sleep(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
        has_io: &dyn Fn() -> bool,
    ) -> Due {
        let mut sleepers = self.lock();
        let bed = Bed { word: NonNull::from(word), expected };
        sleepers.workers.push((worker, deadline.unwrap_or(Instant::MAX), bed));
        self.go_on(&mut sleepers, has_io)
    }

    /// Records that the worker is awake.
    pub(crate) fn wakes(&self, worker: WorkerId) {
        self.lock().workers.retain(|(sleeper, ..)| *sleeper != worker);
    }

    /// Records that a thread in `block_on` goes to sleep on a word. Returns the workers to wake.
    pub(crate) fn guest_sleeps(
        &self,
        word: &AtomicU32,
        expected: u32,
        has_io: &dyn Fn() -> bool,
    ) -> Due {
        let mut sleepers = self.lock();
        sleepers.guests.push(Bed { word: NonNull::from(word), expected });
        self.go_on(&mut sleepers, has_io)
    }

    /// Records that the thread is awake.
    pub(crate) fn guest_wakes(&self, word: &AtomicU32) {
        self.lock().guests.retain(|bed| bed.word != NonNull::from(word));
    }

    /// To call when a thread is no longer counted as busy. Returns the workers to wake.
    pub(crate) fn recheck(&self, has_io: &dyn Fn() -> bool) -> Due {
        if self.is_stopped() { self.go_on(&mut self.lock(), has_io) } else { Due::new() }
    }

    /// If the clock is stopped and nothing is runnable, moves it to the next deadline. Returns the
    /// workers whose deadlines have come.
    fn go_on(&self, sleepers: &mut Sleepers, has_io: &dyn Fn() -> bool) -> Due {
        if !self.is_stopped() {
            return Due::new();
        }
        // Ordering: Acquire pairs with the changes of the counts. The order matters: a thread that
        // becomes a worker is counted in `online` before it leaves `holds`, so a look that no
        // longer sees the hold sees the worker.
        let count = |n: &AtomicUsize| n.load(Ordering::Acquire);
        let (holds, threads, online) =
            (count(&self.holds), count(&self.guests), count(&self.online));
        let guests = sleepers.guests.iter().filter(|bed| bed.is_slept_in()).count();
        let workers = sleepers.workers.iter().filter(|(.., bed)| bed.is_slept_in()).count();
        let asleep = holds == 0 && guests >= threads && workers >= online;
        let next = sleepers.workers.iter().map(|(_, deadline, _)| *deadline).min();
        let Some(next) = next.filter(|next| asleep && *next < Instant::MAX && !has_io()) else {
            return Due::new();
        };
        // Ordering: see `stop`.
        self.stands.fetch_max(next.as_nanos(), Ordering::Release);
        let is_due = |(_, deadline, _): &&(_, Instant, _)| *deadline <= next;
        sleepers.workers.iter().filter(is_due).map(|(worker, ..)| *worker).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        lock(&self.sleepers)
    }
}
