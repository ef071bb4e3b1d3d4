//! Why a pool was not made.

use core::{error::Error, fmt};
use std::io;

use filch_std::runtime::BuildError;

/// Why a pool was not made: the operating system refused a thread, the global pool is there already, or the current
/// thread is in a pool already.
#[derive(Debug)]
pub struct ThreadPoolBuildError(Kind);

#[derive(Debug)]
enum Kind {
    GlobalExists,
    AlreadyInPool,
    Io(io::Error),
}

impl ThreadPoolBuildError {
    pub(crate) const GLOBAL_EXISTS: Self = Self(Kind::GlobalExists);
    pub(crate) const ALREADY_IN_POOL: Self = Self(Kind::AlreadyInPool);
}

impl From<io::Error> for ThreadPoolBuildError {
    fn from(error: io::Error) -> Self {
        Self(Kind::Io(error))
    }
}

impl From<BuildError> for ThreadPoolBuildError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Thread(error) | BuildError::Host(error) => error.into(),
            other => io::Error::other(other).into(),
        }
    }
}

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // The words of these two are rayon's: programs may look for them.
            Kind::GlobalExists => {
                f.write_str("The global thread pool has already been initialized.")
            }
            Kind::AlreadyInPool => {
                f.write_str("The current thread is already part of another thread pool.")
            }
            Kind::Io(error) => error.fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Kind::Io(error) => Some(error),
            _ => None,
        }
    }
}
