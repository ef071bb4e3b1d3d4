//! Workers added and retired while the runtime runs.

use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};
use std::{io, thread};

use crate::{
    builder::Builder, context::Handle, error::SpawnErrorKind, host::Host, panics::lock,
    runtime::Shared,
};

/// Why a runtime has not as many workers as it was asked to.
///
/// ```
/// use filch_std::{ResizeError, Runtime};
/// let runtime = Runtime::builder().workers(2).build()?;
/// let error = runtime.handle().resize(3).unwrap_err();
/// assert!(matches!(error, ResizeError::TooManyWorkers(2)), "{error}");
/// # Ok::<(), filch_std::BuildError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ResizeError {
    /// A runtime keeps at least one worker.
    ZeroWorkers,
    /// There is no room for so many: see [`Builder::max_workers`](crate::Builder::max_workers). Holds the largest number.
    TooManyWorkers(usize),
    /// The runtime is the parent process's: a forked child has none of its threads.
    Forked,
    /// The runtime has shut down.
    Shutdown,
    /// The runtime's threads are those of other code, such as a pool of rayon's interface.
    NotOurs,
    /// The operating system refused a thread. The workers that have started stay.
    Thread(io::Error),
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroWorkers => f.write_str("a runtime keeps at least one worker"),
            Self::TooManyWorkers(most) => write!(
                f,
                "the runtime has room for {most} workers (`Builder::max_workers` makes more)"
            ),
            Self::Forked => SpawnErrorKind::Forked.fmt(f),
            Self::Shutdown => SpawnErrorKind::Shutdown.fmt(f),
            Self::NotOurs => f.write_str("the threads of this runtime are those of other code"),
            Self::Thread(error) => write!(f, "a worker's thread could not be started: {error}"),
        }
    }
}

impl core::error::Error for ResizeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}

/// Of the kind of the operating system's error, if there is one.
impl From<ResizeError> for io::Error {
    fn from(error: ResizeError) -> Self {
        let kind = match &error {
            ResizeError::Thread(error) => error.kind(),
            ResizeError::ZeroWorkers | ResizeError::TooManyWorkers(_) => {
                io::ErrorKind::InvalidInput
            }
            ResizeError::Forked | ResizeError::Shutdown | ResizeError::NotOurs => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, error)
    }
}

impl Builder {
    /// Has room for this many workers, so that [`Handle::resize`](crate::Handle::resize) may add some (default: as many as there are
    /// [`workers`](Self::workers); a smaller number counts as that). Each place takes about 7 KiB, and one more look of a worker that searches.
    pub fn max_workers(mut self, most: usize) -> Self {
        self.room = most;
        self
    }
}

impl Handle {
    /// Has this many workers take part, from now on: starts threads for those that are missing, or has the others leave, the last ones first.
    /// For programs that learn later how much they have to do, or how many processors they have.
    ///
    /// Returns at once. A worker that is to leave ends the poll that it is in, gives what it has to the others, and its thread ends. It
    /// stays for as long as a task lives that can run nowhere else: one of [`spawn_pinned`](Self::spawn_pinned) or
    /// [`spawn_local`](Self::spawn_local) on it, or of a [`WorkerSet`](crate::WorkerSet) that begins with it; and while it waits in sync code.
    /// New ones are refused there. [`metrics`](Self::metrics) say which workers are online. Of several calls at once, the last one holds.
    ///
    /// The number of threads that compute in a fork-join run, and of replacements, follows. A pool of rayon's interface keeps the number of
    /// threads that it had.
    ///
    /// # Errors
    /// [`ResizeError`]. A [`LocalRuntime`](crate::LocalRuntime) has one worker.
    ///
    /// ```
    /// use filch_std::Runtime;
    /// let runtime = Runtime::builder().workers(1).max_workers(4).build()?;
    /// let handle = runtime.handle();
    /// assert_eq!(handle.active_workers(), 1);
    /// // There is much to do.
    /// handle.resize(4)?;
    /// let sum: u64 = handle.fork(|fork| fork.map_reduce(0..10_000, |i| i as u64, |a, b| a + b)).unwrap_or(0);
    /// assert_eq!(sum, 49_995_000);
    /// // And now there is not.
    /// handle.resize(1)?;
    /// assert_eq!(runtime.block_on(handle.spawn(async { 7 }))?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resize(&self, workers: usize) -> Result<(), ResizeError> {
        self.check().map_err(|_| ResizeError::Forked)?;
        self.0.core.resize(workers)
    }

    /// How many workers take part. Of those that [`resize`](Self::resize) has added some may be on their way, and of those that it has
    /// asked to leave some may be there.
    pub fn active_workers(&self) -> usize {
        self.0.core.active()
    }
}

impl<H: Host> Shared<H> {
    /// See [`Handle::resize`].
    pub(crate) fn set_workers(&'static self, workers: usize) -> Result<(), ResizeError> {
        let platform = self.executor.platform();
        let _during = platform.resizes.begin();
        if self.executor.is_stopped() {
            return Err(ResizeError::Shutdown);
        }
        if platform.is_local() && workers == 1 {
            // It has that one. Where it is a `LocalRuntime`, no thread may be started for it.
            return Ok(());
        }
        if !platform.resizes.are_allowed() && !platform.is_local() {
            return Err(ResizeError::NotOurs);
        }
        self.start_workers(workers)
    }

    /// As `set_workers`, for a runtime that has no thread yet.
    pub(crate) fn start_workers(&'static self, workers: usize) -> Result<(), ResizeError> {
        let platform = self.executor.platform();
        self.executor.resize(workers).map_err(|error| match error {
            filch::ResizeError::ZeroWorkers => ResizeError::ZeroWorkers,
            filch::ResizeError::TooManyWorkers(most) => ResizeError::TooManyWorkers(most),
            other => {
                let error = lock(&platform.refused).take();
                ResizeError::Thread(error.unwrap_or_else(|| io::Error::other(other.to_string())))
            }
        })
    }
}

/// How many calls of [`Handle::resize`] are under way. The end of the runtime waits for them, as they start threads that it joins.
#[derive(Default)]
pub(crate) struct Resizes {
    under_way: AtomicUsize,
    /// The runtime starts its own threads.
    allowed: AtomicBool,
}

impl Resizes {
    /// Says whether the runtime that begins starts its own threads.
    pub(crate) fn allow(&self, on: bool) {
        // Ordering: the runtime's handle is given out later.
        self.allowed.store(on, Ordering::Relaxed);
    }

    fn are_allowed(&self) -> bool {
        // Ordering: see above.
        self.allowed.load(Ordering::Relaxed)
    }

    fn begin(&self) -> impl Drop {
        // Ordering: before the fence.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        // Ordering: pairs with the fence in `wait`: either the runtime is seen to have ended, or this call is waited for.
        fence(Ordering::SeqCst);
        During(self)
    }

    /// Waits for those that have not seen the runtime's end, which the caller has made known.
    pub(crate) fn wait(&self) {
        // Ordering: pairs with the fence in `begin`.
        fence(Ordering::SeqCst);
        // Ordering: Acquire pairs with the Release of `During`: the threads that were started are known.
        while self.under_way.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
    }
}

struct During<'a>(&'a Resizes);

impl Drop for During<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Release);
    }
}
