//! Why a task was not spawned, and why it has no output.

use core::fmt;

use crate::platform::Panic;

/// Why a task was not spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SpawnErrorKind {
    /// The memory has no free slot.
    Full,
    /// The task does not fit the memory's slots, by size or by alignment.
    TooLarge {
        /// Bytes that the task needs, header included.
        needed: usize,
        /// Its alignment.
        align: usize,
        /// Bytes in the largest slot.
        slot: usize,
        /// The alignment of slots.
        slot_align: usize,
    },
    /// The memory serves another executor.
    ForeignMemory,
    /// The executor is shutting down, or its workers are in another process: see [`Context::Forked`].
    ///
    /// [`Context::Forked`]: crate::Context::Forked
    Shutdown,
    /// The executor has no worker of that id, or has asked it to leave ([`Scheduler::resize`](crate::Scheduler::resize)).
    NoSuchWorker,
    /// A local task can only be spawned by a pinned or a local task: any other task may continue on another worker, if there is one.
    NotPinned,
    /// The executor has no classes: its type does not name the part [`Classes`](crate::parts::Classes).
    #[cfg(feature = "classes")]
    NoClasses,
    /// The calling thread is in no runtime. This kind and the two below are those of runtimes of threads.
    #[cfg(feature = "std")]
    NoRuntime,
    /// The runtime is the parent process's: a forked child has none of its threads.
    #[cfg(feature = "std")]
    Forked,
    /// The calling thread is no worker of the runtime, and a local task stays on a worker: as a thread in `block_on`, which helps at
    /// most, or one of the blocking pool. The thread of a runtime of one thread is its worker; on another runtime a pinned task
    /// ([`TaskOptions::pinned`](crate::TaskOptions::pinned)) spawns local ones.
    #[cfg(feature = "std")]
    NoWorker,
}

impl fmt::Display for SpawnErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no free slot for the task"),
            Self::TooLarge { needed, align, slot, slot_align } => write!(
                f,
                "the task takes {needed} bytes aligned to {align}, a slot has {slot} aligned to {slot_align}"
            ),
            Self::ForeignMemory => f.write_str("the memory serves another executor"),
            Self::Shutdown => f.write_str("the executor is shutting down"),
            #[cfg(feature = "classes")]
            Self::NoClasses => f.write_str("the executor has no classes"),
            Self::NoSuchWorker => f.write_str("the executor has no such worker, or it is to leave"),
            Self::NotPinned => f.write_str(
                "a local task is spawned by a task that is pinned to the worker, or local itself",
            ),
            #[cfg(feature = "std")]
            Self::NoRuntime => f.write_str(
                "this thread is in no filch runtime: call it from a task, from inside `Runtime::block_on`, or use the \
                 methods of a `Runtime` or a `Handle`",
            ),
            #[cfg(feature = "std")]
            Self::Forked => f.write_str(
                "the runtime belongs to the parent process, and a forked child has none of its threads: build a new \
                 one in the child",
            ),
            #[cfg(feature = "std")]
            Self::NoWorker => f.write_str(
                "the calling thread is no worker of the runtime, and a local task stays on one: use a `LocalRuntime`, or spawn it from a \
                 pinned task (`TaskOptions::pinned`)",
            ),
        }
    }
}

/// A future that was not spawned, and why.
///
/// ```
/// # filch_test_support::board!();
/// use core::future::{Ready, ready};
/// use filch::{Executor, SpawnError, SpawnErrorKind, TaskPool};
/// static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// static TASKS: TaskPool<256, 1> = TaskPool::new();
///
/// let first = EXECUTOR.spawn(&TASKS, ready(1))?;
/// let error: SpawnError<Ready<u32>> = EXECUTOR.spawn(&TASKS, ready(2)).unwrap_err();
/// assert_eq!(error.kind, SpawnErrorKind::Full);
/// // The future is not lost.
/// assert_eq!(error.future.into_inner(), 2);
/// # drop(first);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
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

impl core::error::Error for SpawnErrorKind {}

#[cfg(feature = "std")]
impl From<SpawnErrorKind> for std::io::Error {
    fn from(kind: SpawnErrorKind) -> Self {
        Self::other(kind)
    }
}

/// The future is dropped.
#[cfg(feature = "std")]
impl<F> From<SpawnError<F>> for std::io::Error {
    fn from(error: SpawnError<F>) -> Self {
        error.kind.into()
    }
}

#[cfg(feature = "defmt")]
impl<F> defmt::Format for SpawnError<F> {
    fn format(&self, f: defmt::Formatter<'_>) {
        self.kind.format(f);
    }
}

/// Why a task has no output.
///
/// ```
/// # filch_test_support::board!();
/// # use filch::{Executor, JoinError, TaskPool, WorkerId};
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<256, 8> = TaskPool::new();
/// let mut dry = EXECUTOR.spawn(&TASKS, async { assert_eq!(6 * 9, 42, "no water") })?;
/// let mut endless = EXECUTOR.spawn(&TASKS, core::future::pending::<()>())?;
/// endless.abort();
/// EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
///
/// let error: JoinError = endless.join().unwrap_err();
/// assert!(error.is_cancelled());
/// let error = dry.join().unwrap_err();
/// assert!(error.is_panic());
/// let panic = error.into_panic()?;
/// assert!(panic.message().is_some_and(|message| message.contains("no water")));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum JoinError {
    /// The task was aborted, or its executor shut down.
    Cancelled,
    /// The task's poll, or the drop of its future, panicked.
    Panicked(Panic),
    /// The task itself called `join`, or a task that it waits for on the same stack did. The handle stays valid.
    OnItself,
    /// `join` is nested too deep on this worker, and no other worker could take over. The handle stays valid.
    TooDeep,
    /// `join` was called where nothing may wait ([`Platform::context`](crate::Platform::context)): in an interrupt
    /// handler, or in a forked child, which has none of the threads. The handle stays valid.
    MustNotWait,
    /// The output was already taken.
    Taken,
}

impl JoinError {
    /// Whether the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }

    /// The panic. Any other error is returned unchanged.
    pub fn into_panic(self) -> Result<Panic, Self> {
        match self {
            Self::Panicked(panic) => Ok(panic),
            other => Err(other),
        }
    }
}

/// Of the kind `Other`, as tokio's: `Interrupted` would make callers try again.
#[cfg(feature = "std")]
impl From<JoinError> for std::io::Error {
    fn from(error: JoinError) -> Self {
        Self::other(error)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::Panicked(panic) => match panic.message() {
                Some(message) => write!(f, "the task panicked: {message}"),
                None => f.write_str("the task panicked"),
            },
            Self::OnItself => f.write_str("a task cannot join itself"),
            Self::TooDeep => f.write_str("join is nested too deep on this worker"),
            Self::MustNotWait => f.write_str("the calling context must not wait for a task"),
            Self::Taken => f.write_str("the task's output was taken before"),
        }
    }
}

impl core::error::Error for JoinError {}
