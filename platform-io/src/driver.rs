//! What the types of I/O need of a host: [`Driver`]. For hosts; programs do not need it.
//!
//! A host that shows a `Driver` by [`Host::io`](filch_std::runtime::Host::io) makes all types of this crate work on its runtimes. It waits
//! for events however it likes, and hands each to [`Driver::deliver`].

use core::fmt;
use std::{
    io::{self, Write as _},
    sync::Arc,
};

use filch::{
    atomic::{AtomicU32, Ordering},
    io::{Direction, Readiness, Ready},
};
use filch_std::runtime::{IoMetrics, WorkerId};
use rustix::fd::BorrowedFd;

use crate::{counts::All, slab::Slab};
pub use crate::{counts::Counts, slab::Key};

/// How a host watches the files of its sources. Every method may be called by several threads at once.
pub trait Watch: fmt::Debug + Send + Sync + 'static {
    /// Watches a file, whose events have this key from now on.
    ///
    /// With [`Mode::Edge`] that is each event of reads, of the end of the stream and of errors. With [`Mode::Oneshot`] there is
    /// none before [`arm`](Self::arm).
    ///
    /// The file stays open until [`delete`](Self::delete).
    ///
    /// # Errors
    /// Errors of the operating system.
    fn add(&self, file: BorrowedFd<'_>, key: Key) -> io::Result<()>;

    /// An operation in this direction would have blocked. If it would not any more, an event comes at once.
    ///
    /// - With [`Mode::Edge`]: from now on each event of writes comes too. It is called once for a source, for
    ///   [`Write`](Direction::Write).
    /// - With [`Mode::Oneshot`]: one event comes, of this direction or of one that `readiness` does not have. It is called after
    ///   every operation that would have blocked, when the readiness was cleared. The event may come for both directions, even if
    ///   it is of one: readiness is a hint.
    ///
    /// # Errors
    /// Errors of the operating system.
    fn arm(
        &self,
        file: BorrowedFd<'_>,
        key: Key,
        direction: Direction,
        readiness: &Readiness,
    ) -> io::Result<()>;

    /// Watches the file no more. Other code may have closed it.
    fn delete(&self, file: BorrowedFd<'_>);
}

/// When a source is told that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Whenever it becomes ready. An end or an error may come together with bytes, and is no event of its own then: it is marked by
    /// [`Ready::ERROR`].
    Edge,
    /// Once for each [`Watch::arm`], if it is or becomes ready.
    Oneshot,
}

/// Says to the standard error that the system refuses to wait: other code has closed the host's descriptor. The caller
/// [ends the life](Driver::end_life); workers sleep on their words from now on.
#[doc(hidden)]
#[cold]
pub fn lament(error: &dyn fmt::Display) {
    // It must not panic, as `eprintln` does when the standard error is closed.
    let _ = writeln!(
        io::stderr(),
        "filch: waiting for I/O fails ({error}): a descriptor of the runtime was closed behind its back. Its I/O is over."
    );
}

/// The sources of a host, and its lives: a host has one runtime after the other.
///
/// ```
/// use std::{io, sync::Arc};
/// use filch::io::{Direction, Readiness, Ready};
/// use filch_io::driver::{Counts, Driver, Key, Mode, Watch};
/// use filch_std::runtime::WorkerId;
/// use rustix::fd::BorrowedFd;
///
/// /// Watches nothing, as in a simulation whose events are made up.
/// #[derive(Debug)]
/// struct Nothing;
/// impl Watch for Nothing {
///     fn add(&self, _: BorrowedFd<'_>, _: Key) -> io::Result<()> { Ok(()) }
///     fn arm(&self, _: BorrowedFd<'_>, _: Key, _: Direction, _: &Readiness) -> io::Result<()> { Ok(()) }
///     fn delete(&self, _: BorrowedFd<'_>) {}
/// }
///
/// // A host has one, and shows it by `Host::io`.
/// let driver = Driver::new(Arc::new(Nothing), Mode::Oneshot);
/// // A worker begins, waits until there are events, and takes them.
/// let counts: Arc<Counts> = driver.counts(WorkerId::new(0));
/// counts.wait(None);
/// counts.event();
/// let key = Key::from_bits(7);
/// assert!(!driver.deliver(key, Ready::READABLE), "that source is gone");
/// assert!(!driver.deliver_at(key.index(), Ready::ALL));
/// assert_eq!(key.to_bits(), 7);
/// // Another wait, which the alarm ends.
/// counts.wait(None);
/// counts.alarm();
/// let metrics = driver.metrics();
/// assert_eq!((metrics.waits, metrics.events, metrics.alarms), (2, 1, 1));
/// // The runtime ends.
/// assert!(driver.is_ours());
/// driver.end_life();
/// ```
pub struct Driver {
    watch: Arc<dyn Watch>,
    mode: Mode,
    sources: Slab,
    /// Counts the runtimes that have ended on this host: see `Source`.
    lives: AtomicU32,
    counts: All,
    /// A forked child shares what watches the files, and must not change it.
    process: u32,
}

impl Driver {
    /// A driver without sources.
    pub fn new(watch: Arc<dyn Watch>, mode: Mode) -> Self {
        Self {
            watch,
            mode,
            sources: Slab::new(),
            lives: AtomicU32::new(0),
            counts: All::default(),
            process: filch_std::fork::generation(),
        }
    }

    /// Tells a source what it is ready for, and wakes the tasks that wait for it; their wakers may panic. False if the source is
    /// gone.
    #[inline]
    pub fn deliver(&self, key: Key, ready: Ready) -> bool {
        self.sources.deliver(key, ready)
    }

    /// As [`deliver`](Self::deliver), for the source that has this [index](Key::index) now: for systems whose events have no room
    /// for a key. After the source has gone, its event may reach another; readiness is a hint.
    #[inline]
    pub fn deliver_at(&self, index: usize, ready: Ready) -> bool {
        self.sources.deliver_at(index, ready)
    }

    /// No worker waits for events any more: operations that would block fail from now on, also those that wait already. It
    /// does not panic, whatever the wakers do.
    pub fn end_life(&self) {
        // Ordering: Release pairs with the Acquire in `lives`; the edges of `wake_all` publish it
        // too.
        let life = self.lives.fetch_add(1, Ordering::Release).wrapping_add(1);
        self.counts.begin_life(life);
        self.sources.wake_all();
    }

    /// The counters of a worker, which begins.
    pub fn counts(&self, worker: WorkerId) -> Arc<Counts> {
        self.counts.of(worker)
    }

    /// What all workers have counted, for [`Host::io_metrics`](filch_std::runtime::Host::io_metrics).
    pub fn metrics(&self) -> IoMetrics {
        self.counts.snapshot()
    }

    /// Whether the calling process is the one that made the driver.
    pub fn is_ours(&self) -> bool {
        self.process == filch_std::fork::generation()
    }

    /// How many runtimes have ended on this host.
    pub(crate) fn lives(&self) -> u32 {
        // Ordering: Acquire pairs with the Release in `end_life`.
        self.lives.load(Ordering::Acquire)
    }

    pub(crate) fn is_oneshot(&self) -> bool {
        self.mode == Mode::Oneshot
    }

    pub(crate) fn watch(&self) -> &dyn Watch {
        &*self.watch
    }

    pub(crate) fn sources(&self) -> &Slab {
        &self.sources
    }

    pub(crate) fn all_counts(&self) -> &All {
        &self.counts
    }

    /// A key that is delivered to, without a file; for tests of hosts. It is never given back.
    ///
    /// # Errors
    /// There are too many sources.
    #[doc(hidden)]
    pub fn key(&self) -> io::Result<Key> {
        Ok(self.sources.insert()?.0)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("watch", &self.watch).finish_non_exhaustive()
    }
}
