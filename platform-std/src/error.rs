//! Why there is no runtime: none to be in, none that was built, or one without as many workers.

use core::fmt;
use std::{ffi::OsString, io};

use filch::{BuildError as ConfigError, SpawnErrorKind};

/// The calling thread is in no runtime.
///
/// ```
/// use filch_std::{Handle, runtime::NoRuntime};
/// assert_eq!(Handle::current().err(), Some(NoRuntime));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NoRuntime;

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SpawnErrorKind::NoRuntime.fmt(f)
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
/// use filch_std::{Runtime, runtime::{BuildError, ConfigError}};
/// let error = Runtime::builder().workers(0).build().unwrap_err();
/// assert!(matches!(error, BuildError::Config(ConfigError::ZeroWorkers)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The options fit no executor.
    Config(ConfigError),
    /// The environment variable `FILCH_WORKERS` is no number.
    Variable(OsString),
    /// [`Builder::affinity`](crate::Builder::affinity) names a processor that does not exist, or that the calling thread may not use.
    Core(usize),
    /// The operating system refused a thread.
    Thread(io::Error),
    /// The operating system refused what the host needs.
    Host(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Variable(value) => write!(f, "`FILCH_WORKERS` is no number: {value:?}"),
            Self::Core(core) => {
                write!(f, "the thread that builds the runtime may not use processor {core}")
            }
            Self::Thread(error) => write!(f, "a worker's thread could not be started: {error}"),
            Self::Host(error) => write!(f, "the operating system refused the runtime: {error}"),
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Thread(error) | Self::Host(error) => Some(error),
            Self::Config(error) => Some(error),
            Self::Variable(_) | Self::Core(_) => None,
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

/// Why a runtime has not as many workers as it was asked to.
///
/// ```
/// use filch_std::{Runtime, runtime::{ConfigError, ResizeError}};
/// let runtime = Runtime::builder().workers(2).build()?;
/// let error = runtime.handle().resize(3).unwrap_err();
/// assert!(matches!(error, ResizeError::Config(ConfigError::TooManyWorkers(2))), "{error}");
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum ResizeError {
    /// None, or more than there is room for: see [`Builder::max_workers`](crate::Builder::max_workers).
    Config(ConfigError),
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
            Self::Config(ConfigError::TooManyWorkers(most)) => write!(
                f,
                "the runtime has room for {most} workers (`Builder::max_workers` makes more)"
            ),
            Self::Config(error) => error.fmt(f),
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
            ResizeError::Config(_) => io::ErrorKind::InvalidInput,
            ResizeError::Forked | ResizeError::Shutdown | ResizeError::NotOurs => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, error)
    }
}

impl From<ResizeError> for BuildError {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::Config(error) => Self::Config(error),
            ResizeError::Thread(error) => Self::Thread(error),
            ended @ (ResizeError::Forked | ResizeError::Shutdown | ResizeError::NotOurs) => {
                Self::Host(io::Error::other(ended))
            }
        }
    }
}

impl From<ConfigError> for BuildError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}
