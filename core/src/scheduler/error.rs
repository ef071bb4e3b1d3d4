//! Why an executor was not made or resized, and why a context did not become a worker.

use core::fmt;

use crate::platform::StartError;

/// Why an executor could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum BuildError {
    /// There is no slot for a worker, or all slots are spare slots.
    ZeroWorkers,
    /// There are more slots than an executor can have. Holds the largest number.
    TooManyWorkers(usize),
    /// [`Config::watchdog`](crate::Config::watchdog) with a timeout of zero, which would keep a core busy.
    WatchdogNeverSleeps,
    /// [`Config::budget`](crate::Config::budget) of zero: no task would come further.
    ZeroBudget,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroWorkers => f.write_str("an executor needs at least one worker"),
            Self::TooManyWorkers(max) => write!(f, "an executor has at most {max} workers"),
            Self::WatchdogNeverSleeps => f.write_str("a timeout of the watchdog is zero"),
            Self::ZeroBudget => f.write_str("a budget of zero lets no task come further"),
        }
    }
}

impl core::error::Error for BuildError {}

#[cfg(feature = "std")]
impl From<BuildError> for std::io::Error {
    fn from(error: BuildError) -> Self {
        Self::new(std::io::ErrorKind::InvalidInput, error)
    }
}

/// Why an executor has not as many workers as it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ResizeError {
    /// An executor keeps at least one worker.
    ZeroWorkers,
    /// There is no room for so many. Holds the largest number.
    TooManyWorkers(usize),
    /// The platform has not started a worker.
    Start(StartError),
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroWorkers => f.write_str("an executor keeps at least one worker"),
            Self::TooManyWorkers(max) => write!(f, "the executor has room for {max} workers"),
            Self::Start(error) => write!(f, "a worker was not started: {error}"),
        }
    }
}

impl core::error::Error for ResizeError {}

#[cfg(feature = "std")]
impl From<ResizeError> for std::io::Error {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::Start(error) => error.into(),
            error => Self::new(std::io::ErrorKind::InvalidInput, error),
        }
    }
}

/// Why a context did not become a worker.
///
/// ```
/// # filch_test_support::board!();
/// # use filch::{Executor, RunError, WorkerId};
/// static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// assert_eq!(EXECUTOR.run(WorkerId::new(1)), Err(RunError::NoSuchWorker(1)));
/// let worker = EXECUTOR.worker(WorkerId::new(0))?;
/// assert_eq!(EXECUTOR.run(WorkerId::new(0)), Err(RunError::AlreadyWorker));
/// # Ok::<(), RunError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RunError {
    /// The executor has no such worker; it has this many.
    NoSuchWorker(usize),
    /// Another context runs this worker already.
    AlreadyRunning,
    /// The calling context is a worker of this executor already.
    AlreadyWorker,
    /// The platform identifies the calling context as another worker: a core can only run the worker of its own id.
    WrongContext,
    /// The executor has shut down.
    Stopped,
    /// The calling context must not wait ([`Platform::context`](crate::Platform::context)), for example an interrupt handler.
    MustNotWait,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchWorker(n) => write!(f, "no such worker: the executor has {n}"),
            Self::AlreadyRunning => f.write_str("the worker is running already"),
            Self::AlreadyWorker => f.write_str("the calling context is a worker already"),
            Self::WrongContext => {
                f.write_str("the platform takes the calling context for another worker")
            }
            Self::Stopped => f.write_str("the executor has shut down"),
            Self::MustNotWait => f.write_str("the calling context must not wait"),
        }
    }
}

impl core::error::Error for RunError {}

#[cfg(feature = "std")]
impl From<RunError> for std::io::Error {
    fn from(error: RunError) -> Self {
        Self::other(error)
    }
}
