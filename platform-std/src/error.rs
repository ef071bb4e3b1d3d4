//! Why a task could not be spawned.

use core::fmt;

/// The calling thread is in no runtime.
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
    /// Any other error of the core.
    Core(filch::SpawnErrorKind),
}

impl core::error::Error for SpawnErrorKind {}

impl fmt::Display for SpawnErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuntime => NoRuntime.fmt(f),
            Self::Forked => f.write_str(
                "the runtime belongs to the parent process, and a forked child has none of its threads: build a new \
                 one in the child",
            ),
            Self::Shutdown => f.write_str("the runtime has shut down"),
            Self::Core(kind) => kind.fmt(f),
        }
    }
}

/// A future that could not be spawned, and why.
pub struct SpawnError<F> {
    /// Why.
    pub kind: SpawnErrorKind,
    /// The future, as it was.
    pub future: F,
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
