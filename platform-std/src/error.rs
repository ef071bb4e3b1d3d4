//! Why a task could not be spawned, and a runtime not built.

use core::fmt;
use std::{ffi::OsString, io};

use crate::resize::ResizeError;

/// The calling thread is in no runtime.
///
/// ```
/// use filch_std::{Handle, NoRuntime};
/// assert_eq!(Handle::current().err(), Some(NoRuntime));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRuntime;

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this thread is in no filch runtime: call it from a task, from inside `Runtime::block_on`, or use the \
             methods of a `Runtime` or a `Handle`",
        )
    }
}

impl core::error::Error for NoRuntime {}

impl From<NoRuntime> for io::Error {
    fn from(error: NoRuntime) -> Self {
        Self::other(error)
    }
}

/// Why a runtime could not be built.
///
/// ```
/// use filch_std::{BuildError, Runtime};
/// let error = Runtime::builder().workers(0).build().unwrap_err();
/// assert!(matches!(error, BuildError::ZeroWorkers));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A runtime needs at least one worker.
    ZeroWorkers,
    /// More workers than are supported; the largest number supported.
    TooManyWorkers(usize),
    /// The environment variable `FILCH_WORKERS` is no number.
    Variable(OsString),
    /// [`Builder::watchdog`](crate::Builder::watchdog) with a timeout of zero, which would keep a core busy.
    WatchdogNeverSleeps,
    /// [`Builder::budget`](crate::Builder::budget) of zero: no task would come further.
    ZeroBudget,
    /// [`Builder::affinity`](crate::Builder::affinity) names a processor that does not exist, or that the calling thread may not use.
    Core(usize),
    /// The operating system refused a thread.
    Thread(io::Error),
    /// The operating system refused what the host needs.
    Host(io::Error),
    /// Any other error of the core.
    Executor(filch::BuildError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroWorkers => f.write_str("a runtime needs at least one worker"),
            Self::TooManyWorkers(max) => write!(f, "a runtime has at most {max} workers"),
            Self::Variable(value) => write!(f, "`FILCH_WORKERS` is no number: {value:?}"),
            Self::WatchdogNeverSleeps => f.write_str("a timeout of the watchdog is zero"),
            Self::ZeroBudget => f.write_str("a budget of zero lets no task come further"),
            Self::Core(core) => {
                write!(f, "the thread that builds the runtime may not use processor {core}")
            }
            Self::Thread(error) => write!(f, "a worker's thread could not be started: {error}"),
            Self::Host(error) => write!(f, "the operating system refused the runtime: {error}"),
            Self::Executor(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Thread(error) | Self::Host(error) => Some(error),
            Self::Executor(error) => Some(error),
            Self::ZeroWorkers
            | Self::TooManyWorkers(_)
            | Self::Variable(_)
            | Self::WatchdogNeverSleeps
            | Self::ZeroBudget
            | Self::Core(_) => None,
        }
    }
}

/// Of the kind of the operating system's error, if there is one.
impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> Self {
        let kind = match &error {
            BuildError::Thread(error) | BuildError::Host(error) => error.kind(),
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl From<ResizeError> for BuildError {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::ZeroWorkers => Self::ZeroWorkers,
            ResizeError::TooManyWorkers(most) => Self::TooManyWorkers(most),
            ResizeError::Thread(error) => Self::Thread(error),
            ended @ (ResizeError::Forked | ResizeError::Shutdown | ResizeError::NotOurs) => {
                Self::Host(io::Error::other(ended))
            }
        }
    }
}

impl From<filch::BuildError> for BuildError {
    fn from(error: filch::BuildError) -> Self {
        match error {
            filch::BuildError::TooManyWorkers(most) => Self::TooManyWorkers(most),
            filch::BuildError::WatchdogNeverSleeps => Self::WatchdogNeverSleeps,
            filch::BuildError::ZeroBudget => Self::ZeroBudget,
            filch::BuildError::ZeroWorkers => Self::ZeroWorkers,
            other => Self::Executor(other),
        }
    }
}

/// Why a task could not be spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnErrorKind {
    /// The calling thread is in no runtime.
    NoRuntime,
    /// The runtime is the parent process's: a forked child has none of its threads.
    Forked,
    /// The runtime has shut down, or is about to.
    Shutdown,
    /// The calling thread is no worker of the runtime, and a local task stays on a worker: as a thread in `block_on`, which helps at
    /// most, or one of the blocking pool. The thread of a [`LocalRuntime`](crate::LocalRuntime) is its worker; on another runtime a
    /// task of [`spawn_pinned`](crate::spawn_pinned) spawns local ones.
    NoWorker,
    /// Any other error of the core.
    Core(filch::SpawnErrorKind),
}

impl core::error::Error for SpawnErrorKind {}

impl From<SpawnErrorKind> for io::Error {
    fn from(kind: SpawnErrorKind) -> Self {
        Self::other(kind)
    }
}

impl fmt::Display for SpawnErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuntime => NoRuntime.fmt(f),
            Self::Forked => f.write_str(
                "the runtime belongs to the parent process, and a forked child has none of its threads: build a new \
                 one in the child",
            ),
            Self::Shutdown => f.write_str("the runtime has shut down"),
            Self::NoWorker => f.write_str(
                "the calling thread is no worker of the runtime, and a local task stays on one: use a `LocalRuntime`, or spawn it from a \
                 task of `spawn_pinned`",
            ),
            Self::Core(kind) => kind.fmt(f),
        }
    }
}

/// A future that could not be spawned, and why.
///
/// ```
/// use filch_std::{Runtime, SpawnError, SpawnErrorKind};
/// let error: SpawnError<_> = filch_std::try_spawn(async { 7 }).unwrap_err();
/// assert_eq!(error.kind, SpawnErrorKind::NoRuntime);
/// // The future is still there.
/// assert_eq!(Runtime::new()?.block_on(error.future), 7);
/// # Ok::<(), filch_std::BuildError>(())
/// ```
pub struct SpawnError<F> {
    /// Why.
    pub kind: SpawnErrorKind,
    /// The future, as it was.
    pub future: F,
}

impl<F> SpawnError<F> {
    /// The same error with what `f` makes of the future.
    pub(crate) fn map<G>(self, f: impl FnOnce(F) -> G) -> SpawnError<G> {
        SpawnError { kind: self.kind, future: f(self.future) }
    }
}

impl<F> fmt::Debug for SpawnError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for SpawnError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<F> core::error::Error for SpawnError<F> {}

/// The future is dropped.
impl<F> From<SpawnError<F>> for io::Error {
    fn from(error: SpawnError<F>) -> Self {
        error.kind.into()
    }
}
