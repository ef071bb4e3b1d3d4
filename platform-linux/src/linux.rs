//! The host: a worker listens in epoll, the others sleep on their words.

use core::{cell::RefCell, fmt, time::Duration};
use std::{io, os::fd::RawFd, sync::Arc, thread};

use filch::{
    Instant, Reactor, WorkerId,
    atomic::{AtomicU32, Ordering},
};
use filch_io::driver::{Driver, Key, Mode, lament};
use filch_std::{
    internal::{BesideSlot, Entry},
    runtime::{Futex, Host, Pollable},
};

use crate::poller::{Events, Poller};

/// Timeouts have an end; spurious returns are allowed.
const LONGEST: Duration = Duration::from_secs(3_600);

/// From this timeout on, epoll's imprecision is worth a second, shorter wait: see [`Linux::hear`].
const ROUGH: Duration = Duration::from_millis(20);

/// The host of a runtime with I/O: one epoll, which the core has one worker ask at a time.
///
/// What a worker has heard of it keeps, and delivers itself, so that the tasks come into its own queue.
///
/// A runtime that [`filch_std::Builder::build_on`] makes on it has all of this crate but the tokio runtime beside it (feature `tokio`),
/// which this crate's [`Builder`](crate::Builder) starts.
pub struct Linux {
    /// Time, and sleep on a word.
    futex: Futex,
    pub(crate) poller: Arc<Poller>,
    driver: Driver,
    #[cfg(feature = "io-uring")]
    pub(crate) rings: crate::fs::ring::Rings,
    /// For the tokio runtime that the threads are in.
    beside: BesideSlot,
}

thread_local! {
    /// What this thread has heard of and not delivered, with the address of the host that told it: a waker of one host may make the
    /// thread a worker of another.
    static HEARD: RefCell<Vec<(usize, Box<Events>)>> = const { RefCell::new(Vec::new()) };
}

// SAFETY:
// - Sticky wake: on the word, the futex's contract; in epoll, the alarm is an edge that the next wait finds: one that is rung after
//   the word's change, whether the listener has looked at the word or not.
// - Wake from anywhere: fences, loads and one system call.
// - Clock: that of `Futex`.
unsafe impl Host for Linux {
    fn new() -> io::Result<Self> {
        let poller = Arc::new(Poller::new()?);
        let driver = Driver::new(Arc::clone(&poller) as _, Mode::Edge);
        Ok(Self {
            futex: Futex::new()?,
            poller,
            driver,
            #[cfg(feature = "io-uring")]
            rings: crate::fs::ring::Rings::new(),
            beside: BesideSlot::default(),
        })
    }

    unsafe fn open(&self) -> io::Result<()> {
        self.poller.open()?;
        #[cfg(feature = "io-uring")]
        self.rings.begin();
        Ok(())
    }

    unsafe fn close(&self) {
        // First, as its tasks may have sources of this host.
        self.beside.stop();
        self.poller.close(thread::yield_now);
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        if let Some(worker) = worker {
            // Room for events is there from the start: which worker listens first, and when, is chance.
            let counts = self.driver.counts(worker);
            let _ = self.with_heard(|events| events.count_in(counts));
        }
    }

    fn end(&self) {
        self.end_life();
    }

    filch_io::host_methods!();

    fn alert(&self) {
        self.poller.ring();
    }

    fn entry(&self) -> Option<&dyn Entry> {
        Some(&self.beside)
    }

    fn has_io(&self) -> bool {
        #[cfg(feature = "io-uring")]
        if self.rings.are_busy() {
            return true;
        }
        self.poller.has_events()
    }
}

// SAFETY: INV-OPEN of the poller.
unsafe impl Pollable for Linux {
    fn raw_fd(&self) -> RawFd {
        self.poller.raw_fd()
    }
}

// SAFETY: as above.
unsafe impl Reactor for Linux {
    filch_io::reactor_methods!();

    unsafe fn deliver(&self, _: WorkerId) -> usize {
        let mut n = 0;
        // A waker may do anything, also come here again, and leave nothing to be done.
        while let Some(Some((key, ready))) = self.with_heard(Events::pop) {
            #[cfg(feature = "io-uring")]
            if let Some(ring) = crate::poller::ring_of(key) {
                n += self.rings.deliver(self, ring);
                continue;
            }
            n += usize::from(self.driver.deliver(Key::from_bits(key), ready));
        }
        n
    }
}

impl Linux {
    fn is_broken(&self) -> bool {
        self.poller.is_broken()
    }

    fn ring(&self) {
        self.poller.ring();
    }

    /// The calling thread's events. No waker runs in `f`. `None` where the thread is about to end.
    fn with_heard<R>(&self, f: impl FnOnce(&mut Events) -> R) -> Option<R> {
        let host = core::ptr::from_ref(self).addr();
        let with = |heard: &RefCell<Vec<(usize, Box<Events>)>>| {
            let mut heard = heard.borrow_mut();
            let at = heard.iter().position(|(of, _)| *of == host).unwrap_or_else(|| {
                heard.push((host, Box::new(Events::new())));
                heard.len() - 1
            });
            f(&mut heard[at].1)
        };
        HEARD.try_with(with).ok()
    }

    /// Asks epoll once at least, and goes on until there is an event, the word is another or the deadline has come.
    ///
    /// Besides the slack of a thread's timers, which the runtime turns off, the kernel allows itself to be late by a thousandth
    /// of a timeout of epoll (a two-hundredth in a process that is nice). So a long sleep ends a little early, and the rest is
    /// a sleep of its own.
    fn hear(
        &self,
        _: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        loop {
            // Ordering: a look; a change after it rings the alarm.
            let left = if word.load(Ordering::Relaxed) == expected {
                deadline.map(|end| end - self.now())
            } else {
                Some(Duration::ZERO)
            };
            let longest =
                left.map(|left| if left < ROUGH { left } else { (left - left / 128).min(LONGEST) });
            let asked = self.with_heard(|events| {
                if events.is_empty() { self.poller.wait(events, longest) } else { Ok(()) }
            });
            match asked {
                Some(Ok(()))
                    if longest != left
                        && self.with_heard(|e| e.is_empty() && !e.is_rung()) == Some(true) => {}
                Some(Err(error)) if self.poller.is_broken_by(error) => {
                    lament(&error);
                    self.end_life();
                    break;
                }
                _ => break,
            }
        }
        self.with_heard(|events| !events.is_empty()) == Some(true)
    }

    /// The tokio runtime beside the runtime, for threads that are not in it; `None` if there is none, or if it has ended.
    ///
    /// ```
    /// let runtime = filch_linux::Builder::new().workers(1).tokio(true).build()?;
    /// let tokio = runtime.handle().host::<filch_linux::runtime::Linux>().and_then(|host| host.tokio());
    /// let _entered = tokio.as_ref().map(|tokio| tokio.enter());
    /// assert!(tokio::runtime::Handle::try_current().is_ok());
    /// # Ok::<(), filch_linux::runtime::BuildError>(())
    /// ```
    #[cfg(feature = "tokio")]
    pub fn tokio(&self) -> Option<tokio::runtime::Handle> {
        filch_io::tokio::Companion::handle(&self.beside)
    }

    /// The place for what runs beside the runtime.
    #[doc(hidden)]
    pub fn beside(&self) -> &BesideSlot {
        &self.beside
    }

    /// No worker polls epoll any more: operations that wait for a source fail.
    fn end_life(&self) {
        self.driver.end_life();
        #[cfg(feature = "io-uring")]
        self.rings.end();
    }

    /// Whether the calling process is the one that made the runtime.
    #[cfg(feature = "io-uring")]
    pub(crate) fn is_ours(&self) -> bool {
        self.driver.is_ours()
    }
}

impl fmt::Debug for Linux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linux").field("poller", &self.poller).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::fd::AsFd, os::unix::net::UnixStream};

    use super::*;

    /// A waker of one host may make its thread a worker of another, in the midst of what it has heard of.
    #[test]
    fn what_one_host_tells_another_does_not_deliver() {
        const ME: WorkerId = WorkerId::new(0);
        let (one, other) = (Linux::new().unwrap(), Linux::new().unwrap());
        let (fd, mut peer) = UnixStream::pair().unwrap();
        let key = one.driver.key().unwrap();
        one.poller.watch(fd.as_fd(), key.to_bits(), false).unwrap();
        peer.write_all(b"!").unwrap();
        let (awake, at_once) = (AtomicU32::new(0), Some(Instant::ZERO));
        // SAFETY: this thread alone plays worker 0 of either host.
        unsafe {
            assert!(one.listen(ME, &awake, 1, at_once));
            assert!(!other.listen(ME, &awake, 1, at_once));
            assert_eq!(other.deliver(ME), 0);
            assert_eq!(one.deliver(ME), 1);
            assert_eq!(one.deliver(ME), 0);
        }
    }
}
