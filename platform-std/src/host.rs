//! What a runtime needs of the operating system below its threads: time, and sleep on a word.

use core::{any::Any, time::Duration};

use filch::{Instant, Reactor, WorkerId, atomic::AtomicU32};

use crate::{clock::Clock, entry::Entry, metrics::IoMetrics};

/// The part of a [`filch::Platform`] that differs between runtimes on an operating system with threads: how to sleep, how
/// to wake, and where I/O comes from. Threads, thread locals and panics are the runtime's own.
///
/// # Safety
/// The contracts of the methods of the same names in [`filch::Platform`]. Only the runtime calls
/// the `unsafe` methods, in the thread that is the worker.
///
/// ```
/// use core::{any::Any, sync::atomic::{AtomicUsize, Ordering}, time::Duration};
/// use filch::{Instant, Reactor, WorkerId, atomic::AtomicU32};
/// use filch_std::{Runtime, runtime::{Futex, Host, IoMetrics, RuntimeOn}};
/// /// Counts the sleeps of another host.
/// struct Counting(Futex, AtomicUsize);
///
/// // SAFETY: the other host does it all.
/// unsafe impl Host for Counting {
///     fn new() -> std::io::Result<Self> { Ok(Self(Futex::new()?, AtomicUsize::new(0))) }
///     fn now(&self) -> Instant { self.0.now() }
///     unsafe fn wait(&self, worker: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         unsafe { self.0.wait(worker, word, expected, deadline) }
///     }
///     fn wake(&self, worker: WorkerId, word: &AtomicU32) { self.0.wake(worker, word) }
///     fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
///         self.0.block(word, expected, deadline)
///     }
///     fn unblock(&self, word: &AtomicU32) { self.0.unblock(word) }
///     // One around any host passes on these too.
///     unsafe fn open(&self) -> std::io::Result<()> { unsafe { self.0.open() } }
///     unsafe fn close(&self) { unsafe { self.0.close() } }
///     fn end(&self) { self.0.end() }
///     unsafe fn set_worker(&self, worker: Option<WorkerId>) { unsafe { self.0.set_worker(worker) } }
///     fn alert(&self) { self.0.alert() }
///     fn reactor(&self) -> Option<&dyn Reactor> { self.0.reactor() }
///     fn has_io(&self) -> bool { self.0.has_io() }
///     fn io(&self) -> Option<&(dyn Any + Send + Sync)> { self.0.io() }
///     fn io_metrics(&self) -> Option<IoMetrics> { self.0.io_metrics() }
/// }
///
/// let runtime: RuntimeOn<Counting> = Runtime::builder().workers(1).build_on()?;
/// runtime.block_on(runtime.spawn(async { filch_std::time::sleep(Duration::from_millis(5)).await }))?;
/// assert!(runtime.host().1.load(Ordering::Relaxed) > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub unsafe trait Host: Send + Sync + Sized + 'static {
    /// A host for a new runtime.
    ///
    /// # Errors
    /// If the operating system refuses something.
    fn new() -> std::io::Result<Self>;

    /// Opens the host again, for another runtime, after [`close`](Self::close).
    ///
    /// # Errors
    /// If the operating system refuses something; the host then stays closed.
    ///
    /// # Safety
    /// Only the runtime calls it, while no thread is a worker.
    unsafe fn open(&self) -> std::io::Result<()> {
        Ok(())
    }

    /// Gives the system's resources back: the runtime has ended, and no thread is a worker of it.
    /// Wakers of its tasks may still call [`wake`](Self::wake) and [`unblock`](Self::unblock), at
    /// any time; the host's memory stays.
    ///
    /// # Safety
    /// As [`open`](Self::open).
    unsafe fn close(&self) {}

    /// The executor has stopped, and its last worker has left: what waits for I/O is to fail, as no worker hears of it. It comes before
    /// [`close`](Self::close), perhaps more than once. Must not unwind.
    fn end(&self) {}

    /// The calling thread has become this worker of the runtime; with `None` it is about to stop being the worker that it
    /// has become.
    ///
    /// # Safety
    /// As [`filch::Platform::set_worker`].
    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        let _ = worker;
    }

    /// As [`filch::Platform::now`].
    fn now(&self) -> Instant;

    /// As [`filch::Platform::wait`].
    ///
    /// # Safety
    /// As [`filch::Platform::wait`]: only the runtime calls it, in the thread that is the worker.
    unsafe fn wait(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    );

    /// As [`filch::Platform::wake`].
    fn wake(&self, worker: WorkerId, word: &AtomicU32);

    /// The worker of a runtime of one thread, which another loop drives, was woken: a loop that waits for the host's I/O learns of it
    /// ([`LocalRuntime::turn`](crate::LocalRuntime::turn)). Any context may call it, as [`wake`](Self::wake).
    fn alert(&self) {}

    /// As [`filch::Platform::reactor`].
    #[inline(always)]
    fn reactor(&self) -> Option<&dyn Reactor> {
        None
    }

    /// Whether I/O is ready of which no worker has been told: asked before a stopped clock moves.
    fn has_io(&self) -> bool {
        false
    }

    /// What types of I/O need of the host, whichever host it is: [`Handle::io`](crate::Handle::io) finds it by its type.
    fn io(&self) -> Option<&(dyn Any + Send + Sync)> {
        None
    }

    /// What the host counts of its I/O, since it was made. The runtime subtracts what there was when it began.
    fn io_metrics(&self) -> Option<IoMetrics> {
        None
    }

    /// The clock, if tests can stop it: that of a [`Pausable`](crate::runtime::Pausable) alone.
    #[doc(hidden)]
    fn clock(&self) -> Option<&dyn Clock> {
        None
    }

    /// What else is done in each thread that enters the runtime, and leaves it.
    #[doc(hidden)]
    fn entry(&self) -> Option<&dyn Entry> {
        None
    }

    /// As [`filch::Platform::block`].
    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>);

    /// As [`filch::Platform::unblock`].
    fn unblock(&self, word: &AtomicU32);
}

/// A host whose I/O a descriptor tells of: it is readable while there are events for the worker, and after [`Host::alert`] until the
/// worker has looked. For [`LocalRuntime`](crate::LocalRuntime), which then is `AsFd`.
///
/// # Safety
/// The descriptor is open, and the same, for as long as a thread is a worker.
#[cfg(unix)]
pub unsafe trait Pollable: Host {
    /// The descriptor.
    fn raw_fd(&self) -> std::os::fd::RawFd;
}

/// The plain host: a clock, and a futex on Linux or condition variables elsewhere. No I/O.
#[derive(Debug)]
pub struct Futex {
    origin: sleep::Clock,
}

impl Futex {
    /// The time from now to the deadline; `None` without a deadline.
    fn remaining(&self, deadline: Option<Instant>) -> Option<Duration> {
        // Futexes take a limited number of seconds. Spurious returns are allowed.
        const LONGEST: Duration = Duration::from_secs(3_600);
        deadline.map(|end| (end - self.now()).min(LONGEST))
    }
}

// SAFETY: a futex (or the table of condition variables) checks the word atomically with respect to
// wakes, both at the word's address. The clock is monotonic.
unsafe impl Host for Futex {
    fn new() -> std::io::Result<Self> {
        Ok(Self { origin: sleep::Clock::new() })
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.origin.nanos())
    }

    unsafe fn wait(&self, _: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        sleep::wait(word, expected, self.remaining(deadline));
    }

    fn wake(&self, _: WorkerId, word: &AtomicU32) {
        sleep::wake(word);
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        sleep::wait(word, expected, self.remaining(deadline));
    }

    fn unblock(&self, word: &AtomicU32) {
        sleep::wake(word);
    }
}

#[cfg(target_os = "linux")]
use futex as sleep;
#[cfg(not(target_os = "linux"))]
use lot as sleep;

#[cfg(target_os = "linux")]
mod futex {
    use core::time::Duration;

    use filch::atomic::AtomicU32;
    use linux_futex::{AsFutex, Futex, Private};

    /// A clock of nanoseconds since it was made. Reads the same clock as `std`, without the cost of
    /// a `Duration`.
    #[derive(Debug)]
    pub(super) struct Clock(u64);

    impl Clock {
        pub(super) fn new() -> Self {
            Self(monotonic())
        }

        #[inline]
        pub(super) fn nanos(&self) -> u64 {
            monotonic().saturating_sub(self.0)
        }
    }

    fn monotonic() -> u64 {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes to the valid value `now` and nothing else. It fails only for unknown
        // clocks; this one is known.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    pub(super) fn wait(word: &AtomicU32, expected: u32, longest: Option<Duration>) {
        let futex: &Futex<Private> = word.as_futex();
        // Whatever ended the wait, the caller checks the word again.
        match longest {
            Some(time) => drop(futex.wait_for(expected, time)),
            None => drop(futex.wait(expected)),
        }
    }

    pub(super) fn wake(word: &AtomicU32) {
        let futex: &Futex<Private> = word.as_futex();
        futex.wake(i32::MAX);
    }
}

/// A futex made of condition variables, hashed by address. Not for signal handlers.
#[cfg(any(test, not(target_os = "linux")))]
mod lot {
    use std::{
        sync::{Condvar, Mutex, PoisonError},
        time::Instant,
    };

    use core::time::Duration;

    use filch::atomic::{AtomicU32, Ordering};

    /// A clock of nanoseconds since it was made.
    #[derive(Debug)]
    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "tests want the sleep alone"))]
    pub(super) struct Clock(Instant);

    #[cfg_attr(target_os = "linux", allow(dead_code, reason = "as above"))]
    impl Clock {
        pub(super) fn new() -> Self {
            Self(Instant::now())
        }

        pub(super) fn nanos(&self) -> u64 {
            u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
        }
    }

    struct Bucket {
        lock: Mutex<()>,
        news: Condvar,
    }

    static LOT: [Bucket; 64] =
        [const { Bucket { lock: Mutex::new(()), news: Condvar::new() } }; 64];

    fn bucket(word: &AtomicU32) -> &'static Bucket {
        &LOT[(core::ptr::from_ref(word).addr() >> 7) % LOT.len()]
    }

    pub(super) fn wait(word: &AtomicU32, expected: u32, longest: Option<Duration>) {
        let bucket = bucket(word);
        let guard = bucket.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Acquire pairs with the Release of the thread that changed the word. The lock
        // makes the check and the sleep one step: a wake that comes after the check finds this
        // thread asleep.
        if word.load(Ordering::Acquire) != expected {
            return;
        }
        match longest {
            Some(time) => drop(bucket.news.wait_timeout(guard, time)),
            None => drop(bucket.news.wait(guard)),
        }
    }

    pub(super) fn wake(word: &AtomicU32) {
        let bucket = bucket(word);
        drop(bucket.lock.lock().unwrap_or_else(PoisonError::into_inner));
        bucket.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::{sync::Arc, thread};

    use filch::atomic::{AtomicU32, Ordering};

    type Wait = fn(&AtomicU32, u32, Option<Duration>);

    /// Two threads take turns on one word: a lost wake would hang.
    fn takes_turns(wait: Wait, wake: fn(&AtomicU32)) {
        let word = Arc::new(AtomicU32::new(0));
        let turn = move |word: &AtomicU32, mine: u32| {
            for round in 0..1_000 {
                while word.load(Ordering::Acquire) != 2 * round + mine {
                    let seen = word.load(Ordering::Acquire);
                    if seen != 2 * round + mine {
                        wait(word, seen, None);
                    }
                }
                word.store(2 * round + mine + 1, Ordering::Release);
                wake(word);
            }
        };
        let other = thread::spawn({
            let word = Arc::clone(&word);
            move || turn(&word, 1)
        });
        turn(&word, 0);
        other.join().unwrap();
        assert_eq!(word.load(Ordering::Acquire), 2_000);
    }

    fn keeps_its_contract(wait: Wait, wake: fn(&AtomicU32)) {
        let word = AtomicU32::new(7);
        // Both return at once, or the test hangs.
        wait(&word, 6, None);
        wait(&word, 7, Some(Duration::from_millis(1)));
        takes_turns(wait, wake);
    }

    #[test]
    fn the_condition_variables_keep_the_contract() {
        keeps_its_contract(super::lot::wait, super::lot::wake);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_futex_keeps_the_contract() {
        keeps_its_contract(super::futex::wait, super::futex::wake);
    }
}
