//! The host over the crate `polling`: a worker listens there, the others sleep on their words.

/// For the systems whose poller is a file.
macro_rules! if_file {
    ($($code:tt)*) => {
        #[cfg(any(
            target_vendor = "apple",
            target_os = "android",
            target_os = "dragonfly",
            target_os = "freebsd",
            target_os = "linux",
            target_os = "netbsd",
            target_os = "openbsd",
        ))]
        $($code)*
    };
}

mod watcher;

use core::{fmt, time::Duration};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use filch::{
    Instant, Reactor, WorkerId,
    atomic::{AtomicU32, Ordering, fence},
    io::Ready,
};
use filch_std::runtime::{Futex, Host};
use polling::Events;

use self::watcher::Watcher;
use crate::driver::{Driver, Mode, lament};

/// Timeouts have an end; spurious returns are allowed.
const LONGEST: Duration = Duration::from_secs(3_600);

/// What every event tells: see [`Polling::ask`].
const BOTH: Ready = Ready::READABLE.union(Ready::WRITABLE);

/// The host of a runtime with I/O on any system: one poller of the crate `polling`, which the core has one worker ask at a time.
///
/// It asks for one event at a time (oneshot, as it is called), the only mode that all systems have, and asks again whenever an operation
/// would have blocked. That costs a system call for each wait, which epoll with edges does without.
pub struct Polling {
    /// Time, and sleep on a word.
    futex: Futex,
    watcher: Arc<Watcher>,
    driver: Driver,
    /// Where the system puts what it tells the worker that listens.
    events: Mutex<Events>,
    /// The sources that have events, by their indices. Any worker delivers them.
    heard: Mutex<VecDeque<usize>>,
}

// SAFETY:
// - Sticky wake: on the word, the futex's contract; in the poller, a notification ends the wait under way or the next one: see
//   `ring`.
// - Wake from anywhere but signal handlers, as the documentation of this crate says.
// - Clock: that of `Futex`.
unsafe impl Host for Polling {
    fn new() -> io::Result<Self> {
        let watcher = Arc::new(Watcher::new()?);
        let events = Events::new();
        Ok(Self {
            futex: Futex::new()?,
            driver: Driver::new(Arc::clone(&watcher) as _, Mode::Oneshot),
            watcher,
            heard: Mutex::new(VecDeque::with_capacity(events.capacity().get())),
            events: Mutex::new(events),
        })
    }

    unsafe fn open(&self) -> io::Result<()> {
        self.watcher.open()
    }

    unsafe fn close(&self) {
        self.watcher.close();
        lock(&self.heard).clear();
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        if let Some(worker) = worker {
            // The counters are there from the start: which worker listens first, and when, is chance.
            drop(self.driver.counts(worker));
        }
    }

    fn end(&self) {
        self.driver.end_life();
    }

    crate::host_methods!();

    fn alert(&self) {
        // The worker is at rest, and not about to end a wait: see `ring`.
        self.watcher.notify();
    }

    fn has_io(&self) -> bool {
        let has = !lock(&self.heard).is_empty() || self.watcher.has_events();
        if has {
            // The event may be the poller's own timer, which an earlier wait has left behind and the next one takes back. A worker that
            // listens then would not wake, and a clock that has not moved for this event would stand for ever.
            self.watcher.notify();
        }
        has
    }
}

if_file! {
    // SAFETY: the poller is opened before the first worker begins, and closed after the last has left.
    unsafe impl filch_std::runtime::Pollable for Polling {
        fn raw_fd(&self) -> std::os::fd::RawFd {
            self.watcher.raw_fd()
        }
    }
}

// SAFETY: as above.
unsafe impl Reactor for Polling {
    crate::reactor_methods!();

    unsafe fn deliver(&self, _: WorkerId) -> usize {
        let mut n = 0;
        loop {
            // A waker may do anything, also come here again: it runs without the lock.
            let next = lock(&self.heard).pop_front();
            let Some(source) = next else { return n };
            n += usize::from(self.driver.deliver_at(source, BOTH));
        }
    }
}

impl Polling {
    fn is_broken(&self) -> bool {
        self.watcher.is_broken()
    }

    fn ring(&self) {
        // Ordering: pairs with the fence in `ask`. A poller that was notified, and whose wait has not ended, is not notified
        // again. Either we see that the wait has ended, and notify; or the worker sees the changed word after the wait.
        fence(Ordering::SeqCst);
        self.watcher.notify();
    }

    fn hear(
        &self,
        me: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        if lock(&self.heard).is_empty() {
            self.ask(me, word, expected, deadline);
        }
        !lock(&self.heard).is_empty()
    }

    /// Asks the poller once, and waits until there is an event, a notification comes or the deadline has come.
    ///
    /// The system stops watching a source that has an event, in both directions on some systems. So the event is told to both: the
    /// task that waits for the other direction tries in vain, and asks again.
    fn ask(&self, me: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        let counts = self.driver.counts(me);
        // Ordering: a look; a change after it notifies.
        let left = if word.load(Ordering::Relaxed) == expected {
            deadline.map(|end| (end - self.now()).min(LONGEST))
        } else {
            Some(Duration::ZERO)
        };
        counts.wait(left);
        // No other worker is here.
        let mut events = lock(&self.events);
        events.clear();
        let asked = self.watcher.wait(&mut events, left);
        // Ordering: see `ring`.
        fence(Ordering::SeqCst);
        if let Err(error) = asked {
            if self.watcher.is_broken_by(&error) {
                lament(&error);
                self.driver.end_life();
            }
            return;
        }
        let mut heard = lock(&self.heard);
        for event in events.iter() {
            counts.event();
            heard.push_back(event.key);
        }
        if heard.is_empty()
            && left != Some(Duration::ZERO)
            && deadline.is_none_or(|end| self.now() < end)
        {
            counts.alarm();
        }
    }
}

impl fmt::Debug for Polling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polling").field("watcher", &self.watcher).finish_non_exhaustive()
    }
}

/// The code under these locks does not panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
