//! A host around a host, with a clock that tests can stop.
//!
//! A stopped clock moves to the next deadline by itself when nothing is runnable: every worker
//! sleeps, every thread in `block_on` waits, and no blocking closure runs. The host sees all of
//! this: a sleeper is a thread that waits on a word that has not changed. The check is complete
//! because the scheduler lets no worker sleep while a task is queued.

use core::{
    any::Any,
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use std::{
    io,
    sync::{Mutex, OnceLock},
};

use filch::{Instant, Reactor, WorkerId, atomic::AtomicU32};

use crate::{
    clock::{Clock, Workers},
    entry::Entry,
    fork,
    host::{Futex, Host},
    metrics::IoMetrics,
    panics::lock,
};

/// The host `H`, with a clock that tests can stop: [`time::pause`](crate::time::pause). Made by
/// [`Builder::build_pausable`](crate::Builder::build_pausable).
///
/// [`Handle::host`](crate::Handle::host) finds `H` in it.
#[derive(Debug)]
pub struct Pausable<H: Host = Futex> {
    host: H,
    stopped: AtomicBool,
    /// The time at which the clock stands, in nanoseconds: when it was stopped, plus its moves
    /// since.
    stands: AtomicU64,
    /// By how much the clock is ahead of the host's: an `i64` of two nanoseconds each, so that it holds any difference of two times.
    ahead: AtomicU64,
    /// What a stopped clock waits for. All changes of the clock are made under this lock.
    awaited: Mutex<Awaited>,
    workers: OnceLock<&'static dyn Workers>,
    /// The process that has the threads.
    process: u32,
}

/// What a stopped clock waits for.
#[derive(Debug, Default)]
struct Awaited {
    /// Blocking closures, and threads that are about to become workers.
    holds: usize,
    /// Which run of the runtime this is. Holds of those before do not count.
    run: u64,
    threads: Vec<Thread>,
}

/// A thread that is a worker, is about to be or has been one, or is in `block_on`.
#[derive(Debug)]
struct Thread {
    id: usize,
    /// The number of the reasons for which the thread is here.
    begun: usize,
    sleeper: Option<Sleeper>,
}

/// A thread that sleeps on a word while it has the expected value.
///
/// INV-SLEEPER: the thread removes it before the word goes.
#[derive(Debug)]
struct Sleeper {
    word: NonNull<AtomicU32>,
    expected: u32,
    /// The worker that the thread sleeps as, and its deadline.
    worker: Option<(WorkerId, Instant)>,
    /// It is in the reactor.
    listens: bool,
}

// SAFETY: the word is read through an atomic, see INV-SLEEPER.
unsafe impl Send for Sleeper {}

impl Thread {
    fn is_asleep(&self) -> bool {
        // Ordering: Acquire pairs with the Release of the thread that changed the word.
        // SAFETY: INV-SLEEPER.
        let seen = |s: &Sleeper| unsafe { s.word.as_ref() }.load(Ordering::Acquire) == s.expected;
        self.sleeper.as_ref().is_some_and(seen)
    }
}

impl Awaited {
    /// The calling thread, if the clock waits for it.
    fn caller(&mut self) -> Option<&mut Thread> {
        let id = caller();
        self.threads.iter_mut().find(|thread| thread.id == id)
    }
}

/// Another time, by so many nanoseconds; at most at the ends of the clock.
fn shifted(time: Instant, nanos: i128) -> Instant {
    let shifted = i128::from(time.as_nanos()) + nanos;
    Instant::from_nanos(shifted.clamp(0, u64::MAX.into()) as u64)
}

thread_local! {
    /// Without a destructor, as everything that a runtime keeps for a thread.
    static CALLER: u8 = const { 0 };
}

/// Identifies the calling thread among those that live.
fn caller() -> usize {
    CALLER.with(|caller| core::ptr::from_ref(caller).addr())
}

impl<H: Host> Pausable<H> {
    /// The host with the clock of the operating system.
    pub(crate) fn inner(&self) -> &H {
        &self.host
    }

    fn is_stopped(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `pause` and `go`.
        self.stopped.load(Ordering::Acquire)
    }

    /// In nanoseconds.
    fn ahead(&self) -> i128 {
        // Ordering: Relaxed; the Acquire in `is_stopped` comes before, and the store in `go` before the
        // Release there.
        2 * i128::from(self.ahead.load(Ordering::Relaxed) as i64)
    }

    /// Converts a deadline on this clock to the host's; a stopped clock comes to none by itself.
    fn to_host(&self, deadline: Option<Instant>) -> Option<Instant> {
        let deadline = deadline.filter(|end| *end < Instant::MAX && !self.is_stopped())?;
        Some(shifted(deadline, -self.ahead()))
    }

    /// Calls `f` under the lock. In a forked child another thread may have left it locked, and
    /// there is nothing to wait for.
    fn with<R: Default>(&self, f: impl FnOnce(&mut Awaited) -> R) -> R {
        if self.process == fork::generation() { f(&mut lock(&self.awaited)) } else { R::default() }
    }

    /// Lets the clock go on from where it stands. Workers that sleep by the stopped clock are still to
    /// be woken.
    fn go(&self) {
        self.with(|_| {
            if self.is_stopped() {
                // Ordering: Relaxed, under the lock.
                let stands = self.stands.load(Ordering::Relaxed);
                let ahead = i128::from(stands) - i128::from(self.host.now().as_nanos());
                // Rounded up: the clock does not go back.
                let ahead = i64::try_from((ahead + 1).div_euclid(2)).unwrap_or(i64::MAX);
                // Ordering: Relaxed, see `ahead`.
                self.ahead.store(ahead as u64, Ordering::Relaxed);
                // Ordering: Release pairs with the Acquire in `is_stopped`.
                self.stopped.store(false, Ordering::Release);
            }
        });
    }

    /// Has the sleeping workers sleep by the clock as it is now.
    fn wake_all(&self) {
        let slots = self.workers.get().map_or(0, |workers| workers.slots());
        (0..slots).for_each(|worker| self.unpark(WorkerId::new(worker as u16)));
    }

    fn unpark(&self, worker: WorkerId) {
        if let Some(workers) = self.workers.get() {
            workers.unpark(worker);
        }
    }

    /// If the clock is stopped and nothing is runnable, moves it to the next deadline and wakes the
    /// workers that wait for that.
    ///
    /// A thread in the reactor may have taken events and not come back yet, and then neither its sleep nor `has_io` tells of them. So it is
    /// woken, and moves the clock itself, if it finds nothing to do and goes back.
    fn move_on(&self, awaited: &Awaited) {
        if !self.is_stopped() || awaited.holds > 0 || !awaited.threads.iter().all(Thread::is_asleep)
        {
            return;
        }
        let sleepers = || awaited.threads.iter().filter_map(|thread| thread.sleeper.as_ref());
        let deadlines = || sleepers().filter_map(|sleeper| sleeper.worker);
        let next = deadlines().map(|(_, deadline)| deadline).min();
        let Some(next) = next.filter(|next| *next < Instant::MAX) else { return };
        let me = caller();
        let others = awaited.threads.iter().filter(|thread| thread.id != me);
        let mut listening =
            others.filter_map(|thread| thread.sleeper.as_ref().filter(|s| s.listens));
        if let Some((listener, _)) = listening.next().and_then(|sleeper| sleeper.worker) {
            return self.unpark(listener);
        }
        if self.host.has_io() {
            return;
        }
        // Ordering: Release, as each change of this word; pairs with the Acquire in `now`.
        self.stands.fetch_max(next.as_nanos(), Ordering::Release);
        let due = deadlines().filter(|(_, deadline)| *deadline <= next);
        due.for_each(|(worker, _)| self.unpark(worker));
    }

    /// The calling thread sleeps on a word in `sleep`, which gets the deadline on the host's clock.
    fn sleep<R>(
        &self,
        worker: Option<WorkerId>,
        listens: bool,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
        sleep: impl FnOnce(Option<Instant>) -> R,
    ) -> R {
        let worker = worker.map(|worker| (worker, deadline.unwrap_or(Instant::MAX)));
        let deadline = self.with(|awaited| {
            if let Some(caller) = awaited.caller() {
                caller.sleeper =
                    Some(Sleeper { word: NonNull::from(word), expected, worker, listens });
                // If this worker is woken here, its word changes, and it does not sleep.
                self.move_on(awaited);
            }
            self.to_host(deadline)
        });
        let slept = sleep(deadline);
        self.with(|awaited| {
            if let Some(caller) = awaited.caller() {
                caller.sleeper = None;
            }
        });
        slept
    }
}

impl<H: Host> Clock for Pausable<H> {
    fn attach(&self, workers: &'static dyn Workers) {
        let _ = self.workers.set(workers);
    }

    fn pause(&self) {
        self.with(|_| {
            if !self.is_stopped() {
                // Ordering: Release, as in `move_on`.
                self.stands.store(self.now().as_nanos(), Ordering::Release);
                // Ordering: Release pairs with the Acquire in `is_stopped`.
                self.stopped.store(true, Ordering::Release);
            }
        });
        self.wake_all();
    }

    fn resume(&self) {
        self.go();
        self.wake_all();
    }

    fn advance(&self, by: Duration) -> bool {
        let moved = self.with(|_| {
            let stopped = self.is_stopped();
            if stopped {
                // Ordering: Relaxed, under the lock; Release, as in `move_on`.
                let stands = Instant::from_nanos(self.stands.load(Ordering::Relaxed)) + by;
                self.stands.store(stands.as_nanos(), Ordering::Release);
            }
            stopped
        });
        self.wake_all();
        moved
    }

    fn is_used_up(&self) -> bool {
        self.now().as_nanos() > u64::MAX / 4
    }

    fn begin(&self) {
        self.with(|awaited| match awaited.caller() {
            Some(caller) => caller.begun += 1,
            None => awaited.threads.push(Thread { id: caller(), begun: 1, sleeper: None }),
        });
    }

    fn end(&self) {
        self.with(|awaited| {
            if let Some(caller) = awaited.caller() {
                caller.begun -= 1;
            }
            awaited.threads.retain(|thread| thread.begun > 0);
            self.move_on(awaited);
        });
    }

    fn hold(&self) -> u64 {
        self.with(|awaited| {
            awaited.holds += 1;
            awaited.run
        })
    }

    fn release(&self, run: u64) {
        self.with(|awaited| {
            if awaited.run == run {
                awaited.holds -= 1;
                self.move_on(awaited);
            }
        });
    }
}

// SAFETY: the contract of `H`. The clock goes on from where it stood. A worker whose deadline a
// stopped clock has come to is unparked.
unsafe impl<H: Host> Host for Pausable<H> {
    fn new() -> io::Result<Self> {
        Ok(Self {
            host: H::new()?,
            stopped: AtomicBool::new(false),
            stands: AtomicU64::new(0),
            ahead: AtomicU64::new(0),
            awaited: Mutex::default(),
            workers: OnceLock::new(),
            process: fork::generation(),
        })
    }

    unsafe fn open(&self) -> io::Result<()> {
        // SAFETY: the caller's.
        unsafe { self.host.open() }?;
        // The last runtime may have stopped it, and may have work under way for which it no longer waits.
        self.go();
        self.with(|awaited| (awaited.run, awaited.holds) = (awaited.run + 1, 0));
        Ok(())
    }

    unsafe fn close(&self) {
        // SAFETY: the caller's.
        unsafe { self.host.close() };
    }

    fn end(&self) {
        self.host.end();
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        if worker.is_some() {
            self.begin();
        }
        // SAFETY: the caller's.
        unsafe { self.host.set_worker(worker) };
        if worker.is_none() {
            Clock::end(self);
        }
    }

    fn now(&self) -> Instant {
        loop {
            if self.is_stopped() {
                // Ordering: Acquire pairs with the Release of the thread that moved the clock.
                return Instant::from_nanos(self.stands.load(Ordering::Acquire));
            }
            let now = shifted(self.host.now(), self.ahead());
            // If the clock was stopped in between, at an earlier time, this time would let it go
            // backwards.
            if !self.is_stopped() {
                return now;
            }
        }
    }

    unsafe fn wait(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        self.sleep(Some(worker), false, word, expected, deadline, |deadline| {
            // SAFETY: the caller's.
            unsafe { self.host.wait(worker, word, expected, deadline) }
        });
    }

    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        self.host.wake(worker, word);
    }

    fn alert(&self) {
        self.host.alert();
    }

    fn reactor(&self) -> Option<&dyn Reactor> {
        self.host.reactor().map(|_| self as &dyn Reactor)
    }

    fn has_io(&self) -> bool {
        self.host.has_io()
    }

    fn io(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.host.io()
    }

    fn io_metrics(&self) -> Option<IoMetrics> {
        self.host.io_metrics()
    }

    fn clock(&self) -> Option<&dyn Clock> {
        Some(self)
    }

    fn entry(&self) -> Option<&dyn Entry> {
        self.host.entry()
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        self.sleep(None, false, word, expected, deadline, |deadline| {
            self.host.block(word, expected, deadline);
        });
    }

    fn unblock(&self, word: &AtomicU32) {
        self.host.unblock(word);
    }
}

// SAFETY: as above.
#[cfg(unix)]
unsafe impl<H: crate::host::Pollable> crate::host::Pollable for Pausable<H> {
    fn raw_fd(&self) -> std::os::fd::RawFd {
        self.host.raw_fd()
    }
}

// SAFETY: as above.
unsafe impl<H: Host> Reactor for Pausable<H> {
    unsafe fn listen(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        let Some(reactor) = self.host.reactor() else { return false };
        if deadline == Some(Instant::ZERO) {
            // It asks, and does not sleep.
            // SAFETY: the caller's.
            return unsafe { reactor.listen(worker, word, expected, deadline) };
        }
        self.sleep(Some(worker), true, word, expected, deadline, |deadline| {
            // SAFETY: the caller's.
            unsafe { reactor.listen(worker, word, expected, deadline) }
        })
    }

    fn interrupt(&self, worker: WorkerId, word: &AtomicU32) {
        if let Some(reactor) = self.host.reactor() {
            reactor.interrupt(worker, word);
        }
    }

    unsafe fn deliver(&self, worker: WorkerId) -> usize {
        // SAFETY: the caller's.
        self.host.reactor().map_or(0, |reactor| unsafe { reactor.deliver(worker) })
    }
}
