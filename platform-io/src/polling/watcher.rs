//! The poller itself, while the runtime lives: registration, the wait, and the notification that ends it.

use core::time::Duration;
use std::{
    io::{self, ErrorKind},
    sync::{Mutex, PoisonError, RwLock},
};

use filch::{
    atomic::{AtomicBool, Ordering},
    io::{Direction, Readiness, Ready},
};
use polling::{Event, Events, Poller};
use rustix::fd::BorrowedFd;

use super::lock;
use crate::driver::{Key, Watch};

/// Locks for as many groups of sources.
const TURNS: usize = 64;

/// A poller, unless the runtime has ended.
#[derive(Debug)]
pub(super) struct Watcher {
    /// Written while no worker is online, and read by each thread that uses it, also while it waits.
    poller: RwLock<Option<Poller>>,
    /// The system has refused to wait: other code has closed the descriptor.
    broken: AtomicBool,
    /// Those of a source are asked for in turn: see `arm`.
    turns: [Mutex<()>; TURNS],
}

impl Watcher {
    pub(super) fn new() -> io::Result<Self> {
        let poller = RwLock::new(Some(Poller::new()?));
        let turns = [const { Mutex::new(()) }; TURNS];
        Ok(Self { poller, broken: AtomicBool::new(false), turns })
    }

    /// Opens what is closed. Only while no worker is online.
    pub(super) fn open(&self) -> io::Result<()> {
        let new = Poller::new()?;
        let mut poller = self.poller.write().unwrap_or_else(PoisonError::into_inner);
        // Ordering: Relaxed; the start of the worker threads orders it for them, the lock for
        // others.
        self.broken.store(false, Ordering::Relaxed);
        *poller = Some(new);
        Ok(())
    }

    /// Closes it. When the last worker has left.
    pub(super) fn close(&self) {
        let mut poller = self.poller.write().unwrap_or_else(PoisonError::into_inner);
        let old = poller.take();
        if self.is_broken() {
            // Its descriptors may belong to other code by now, and stay open.
            core::mem::forget(old);
        }
    }

    /// Calls `f` with the poller.
    fn with<R>(&self, f: impl FnOnce(&Poller) -> io::Result<R>) -> io::Result<R> {
        match &*self.poller.read().unwrap_or_else(PoisonError::into_inner) {
            Some(poller) => f(poller),
            None => Err(io::Error::other("the runtime of this source of I/O has shut down")),
        }
    }

    /// Whether the system has refused to wait; this is final.
    pub(super) fn is_broken(&self) -> bool {
        // Ordering: Relaxed; a cached answer.
        self.broken.load(Ordering::Relaxed)
    }

    /// Notes that the system has refused to wait; true for the first caller.
    pub(super) fn is_broken_by(&self, error: &io::Error) -> bool {
        let passes = matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::OutOfMemory);
        // Ordering: Relaxed; a cached answer.
        !passes && !self.broken.swap(true, Ordering::Relaxed)
    }

    /// Waits for events, at most so long (`None`: for ever).
    pub(super) fn wait(&self, events: &mut Events, longest: Option<Duration>) -> io::Result<()> {
        self.with(|poller| poller.wait(events, longest).map(drop))
    }

    /// Ends the wait under way, or the next.
    pub(super) fn notify(&self) {
        // Without a poller there is no worker. The system refuses it only if it refuses to wait.
        let _ = self.with(Poller::notify);
    }

    /// Whether there are events that no worker has taken.
    ///
    /// Only a poller that is a file can be asked, as another thread waits in it: never on Windows.
    pub(super) fn has_events(&self) -> bool {
        if_file! {
            {
                use rustix::event::{PollFd, PollFlags, Timespec, poll};
                let has = |poller: &Poller| {
                    let mut polled = [PollFd::new(poller, PollFlags::IN)];
                    Ok(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
                };
                return self.with(has).unwrap_or(false);
            }
        }
        #[allow(unreachable_code, reason = "where there is no such file")]
        false
    }
}

if_file! {
    impl Watcher {
        /// The poller's number; `-1`: it is closed.
        pub(super) fn raw_fd(&self) -> std::os::fd::RawFd {
            use std::os::fd::AsRawFd;
            self.with(|poller| Ok(poller.as_raw_fd())).unwrap_or(-1)
        }
    }
}

impl Watch for Watcher {
    fn add(&self, file: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        // SAFETY: the file stays open until `delete`, or until the poller has gone.
        self.with(|poller| unsafe { poller.add(&file, Event::none(key.index())) })
    }

    /// Asks for this direction, and for the other if a task may wait for it: if its readiness is gone.
    ///
    /// Each thread clears the readiness of its direction first, and then asks, in turn: so the last one asks for all that is gone.
    fn arm(
        &self,
        file: BorrowedFd<'_>,
        key: Key,
        direction: Direction,
        readiness: &Readiness,
    ) -> io::Result<()> {
        let _turn = lock(&self.turns[key.index() % TURNS]);
        let there = readiness.get().ready;
        let read = direction == Direction::Read || !there.intersects(Ready::READABLE);
        let write = direction == Direction::Write || !there.intersects(Ready::WRITABLE);
        self.with(|poller| poller.modify(file, Event::new(key.index(), read, write)))
    }

    fn delete(&self, file: BorrowedFd<'_>) {
        // If other code closed the file, the system has forgotten it.
        let _ = self.with(|poller| poller.delete(file));
    }
}
