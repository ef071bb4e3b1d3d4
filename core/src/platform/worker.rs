//! Workers as the platform sees them: their numbers, and how one is started.

use core::fmt;

/// A worker's number: an index below the executor's number of worker slots, at most [`WorkerId::MAX`].
///
/// ```
/// let id = filch::WorkerId::new(3);
/// assert_eq!(id.index(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WorkerId(u16);

impl WorkerId {
    /// The largest index: with 64-bit atomics 4,096 workers fit an executor, with 32-bit ones 1,024.
    pub const MAX: u16 = (crate::atomic::Word::BITS * crate::atomic::Word::BITS - 1) as u16;

    /// The worker with this index. Whether an executor has such a worker is checked where the id is used.
    pub const fn new(index: u16) -> Self {
        Self(index)
    }

    /// The worker's index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}", self.0)
    }
}

/// The entry of a worker, passed to [`Platform::start`](super::Platform::start): call [`run`](WorkerEntry::run) on the new thread or core.
///
/// It runs once. If it is dropped instead, it gives the worker's slot back, and the waits that rely on the worker look
/// for another.
pub struct WorkerEntry {
    executor: &'static dyn Enter,
    worker: WorkerId,
    place: Place,
}

/// How the slot of a worker that is started stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The first context that comes has it.
    Free,
    /// It is reserved for this one.
    Reserved,
    /// Another context is the worker still. If the platform starts this one, that one leaves at once, and reserves the slot for it.
    Passed,
}

/// An executor, as an entry sees it. Each entry calls one of the two methods, once.
pub(crate) trait Enter: Sync {
    /// The calling context becomes the worker, and works.
    fn enter(&'static self, worker: WorkerId, place: Place);
    /// The worker does not come.
    fn forget(&'static self, worker: WorkerId, place: Place);
}

impl WorkerEntry {
    pub(crate) fn new(executor: &'static dyn Enter, worker: WorkerId, place: Place) -> Self {
        Self { executor, worker, place }
    }

    /// The worker to be started.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Becomes the worker. Returns when the worker try_retire or the executor has shut down.
    pub fn run(self) {
        let this = core::mem::ManuallyDrop::new(self);
        this.executor.enter(this.worker, this.place);
    }
}

impl Drop for WorkerEntry {
    fn drop(&mut self) {
        self.executor.forget(self.worker, self.place);
    }
}

impl fmt::Debug for WorkerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerEntry({:?})", self.worker)
    }
}

/// Why [`Platform::start`](super::Platform::start) started nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum StartError {
    /// The platform cannot start workers; they enter `run` by themselves.
    Unsupported,
    /// The platform refused, with its own code (an errno, an SBI error).
    Refused(i32),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("this platform cannot start workers"),
            Self::Refused(code) => {
                write!(f, "the platform refused to start a worker (code {code})")
            }
        }
    }
}

impl core::error::Error for StartError {}

#[cfg(feature = "std")]
impl From<StartError> for std::io::Error {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Unsupported => Self::new(std::io::ErrorKind::Unsupported, error),
            StartError::Refused(_) => Self::other(error),
        }
    }
}
