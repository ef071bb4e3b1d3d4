//! What functions return.

use core::ffi::{CStr, c_char};

use filch::{
    BuildError, JoinError, ResizeError, RunError, ShutdownError, SpawnErrorKind, StartError,
};

/// What a function returns. Zero and above: it did what it says. Below zero: an error, and nothing was done unless the function
/// says otherwise. The numbers are stable.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum filch_status {
    /// Done. Of a function that a task polls: ready.
    FILCH_OK = 0,
    /// Not ready: the waker will be woken. A task's `poll` returns it to be polled again after a wake.
    FILCH_PENDING = 1,
    /// There was nothing to do.
    FILCH_IDLE = 2,
    /// The executor has shut down.
    FILCH_STOPPED = 3,
    /// There is work: do not sleep.
    FILCH_BUSY = 4,
    /// A pointer is null that must not be, or a function that the platform must have.
    FILCH_ENULL = -1,
    /// Memory is not aligned as its type asks.
    FILCH_EALIGN = -2,
    /// The memory is smaller than what it is to hold.
    FILCH_ESMALL = -3,
    /// No worker, or more than FILCH_MAX_WORKERS.
    FILCH_EWORKERS = -4,
    /// Header and library are of different versions.
    FILCH_EABI = -5,
    /// The object was not initialised, or was dropped, or was moved although it must stay in its place.
    FILCH_EINIT = -6,
    /// The object was initialised before.
    FILCH_EALREADY = -7,
    /// An argument has a value that it cannot have.
    FILCH_EINVAL = -8,
    /// The executor has no worker of that number.
    FILCH_ENOWORKER = -9,
    /// Another context runs this worker, or workers run that must have left.
    FILCH_ERUNNING = -10,
    /// The calling context is a worker of the executor, and must not be one here.
    FILCH_EISWORKER = -11,
    /// The calling context must not do this: wait in an interrupt handler; leave in a poll of the very worker.
    FILCH_ECONTEXT = -12,
    /// The platform says that the calling context is not that worker.
    FILCH_ENOTWORKER = -13,
    /// No slot is free for the task.
    FILCH_EFULL = -14,
    /// The pool serves another executor.
    FILCH_EFOREIGN = -15,
    /// The executor is shutting down.
    FILCH_ESHUTDOWN = -16,
    /// The task was aborted, or its executor shut down.
    FILCH_ECANCELED = -17,
    /// A task cannot wait for itself.
    FILCH_EITSELF = -18,
    /// Waits are nested too deep on this worker.
    FILCH_EDEEP = -19,
    /// The task has as many references as can be counted.
    FILCH_EREFS = -20,
    /// The platform cannot do this.
    FILCH_EUNSUPPORTED = -21,
    /// The platform refused to start the worker.
    FILCH_EREFUSED = -22,
    /// The library broke its own rules.
    FILCH_EBUG = -23,
}

use filch_status::*;

/// The result of the inside of a function.
pub(crate) type Outcome = Result<filch_status, filch_status>;

/// Runs the inside of a function.
pub(crate) fn attempt(inside: impl FnOnce() -> Outcome) -> filch_status {
    inside().unwrap_or_else(|error| error)
}

impl From<BuildError> for filch_status {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::ZeroWorkers | BuildError::TooManyWorkers(_) => FILCH_EWORKERS,
            BuildError::WatchdogNeverSleeps | BuildError::ZeroBudget => FILCH_EINVAL,
            _ => FILCH_EBUG,
        }
    }
}

impl From<ResizeError> for filch_status {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::ZeroWorkers | ResizeError::TooManyWorkers(_) => FILCH_EWORKERS,
            ResizeError::Start(refused) => refused.into(),
            _ => FILCH_EBUG,
        }
    }
}

impl From<RunError> for filch_status {
    fn from(error: RunError) -> Self {
        match error {
            RunError::NoSuchWorker(_) => FILCH_ENOWORKER,
            RunError::AlreadyRunning => FILCH_ERUNNING,
            RunError::AlreadyWorker => FILCH_EISWORKER,
            RunError::WrongContext => FILCH_ENOTWORKER,
            RunError::Stopped => FILCH_ESHUTDOWN,
            RunError::MustNotWait => FILCH_ECONTEXT,
            _ => FILCH_EBUG,
        }
    }
}

impl From<SpawnErrorKind> for filch_status {
    fn from(kind: SpawnErrorKind) -> Self {
        match kind {
            SpawnErrorKind::Full => FILCH_EFULL,
            SpawnErrorKind::ForeignMemory => FILCH_EFOREIGN,
            SpawnErrorKind::Shutdown => FILCH_ESHUTDOWN,
            SpawnErrorKind::NoSuchWorker => FILCH_ENOWORKER,
            // A slot has room for each task that this library makes; and it makes no local ones.
            _ => FILCH_EBUG,
        }
    }
}

impl From<JoinError> for filch_status {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::Cancelled => FILCH_ECANCELED,
            JoinError::OnItself => FILCH_EITSELF,
            JoinError::TooDeep => FILCH_EDEEP,
            JoinError::MustNotWait => FILCH_ECONTEXT,
            // A C function does not panic; and a handle whose output was taken is used up.
            _ => FILCH_EBUG,
        }
    }
}

impl From<ShutdownError> for filch_status {
    fn from(error: ShutdownError) -> Self {
        match error {
            ShutdownError::OnWorker => FILCH_EISWORKER,
            ShutdownError::MustNotWait => FILCH_ECONTEXT,
            _ => FILCH_EBUG,
        }
    }
}

impl From<StartError> for filch_status {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Unsupported => FILCH_EUNSUPPORTED,
            StartError::Refused(_) => FILCH_EREFUSED,
            _ => FILCH_EBUG,
        }
    }
}

/// What a status means, in English: a string that lives for ever, also for numbers that are no status. From any context.
#[unsafe(no_mangle)]
pub extern "C" fn filch_strerror(status: i32) -> *const c_char {
    text(status).as_ptr()
}

fn text(status: i32) -> &'static CStr {
    const TEXTS: &[(filch_status, &CStr)] = &[
        (FILCH_OK, c"done"),
        (FILCH_PENDING, c"not ready; the waker will be woken"),
        (FILCH_IDLE, c"there was nothing to do"),
        (FILCH_STOPPED, c"the executor has shut down"),
        (FILCH_BUSY, c"there is work, do not sleep"),
        (FILCH_ENULL, c"a pointer or a function of the platform is null"),
        (FILCH_EALIGN, c"memory is not aligned"),
        (FILCH_ESMALL, c"the memory is too small"),
        (FILCH_EWORKERS, c"no worker, or too many"),
        (FILCH_EABI, c"header and library are of different versions"),
        (FILCH_EINIT, c"the object was not initialised, was dropped, or was moved"),
        (FILCH_EALREADY, c"the object was initialised before"),
        (FILCH_EINVAL, c"an argument has a value that it cannot have"),
        (FILCH_ENOWORKER, c"the executor has no such worker, or it is to leave"),
        (FILCH_ERUNNING, c"another context runs the worker"),
        (FILCH_EISWORKER, c"the calling context is a worker"),
        (FILCH_ECONTEXT, c"the calling context must not wait"),
        (FILCH_ENOTWORKER, c"the calling context is not that worker"),
        (FILCH_EFULL, c"no slot is free for the task"),
        (FILCH_EFOREIGN, c"the pool serves another executor"),
        (FILCH_ESHUTDOWN, c"the executor is shutting down"),
        (FILCH_ECANCELED, c"the task was cancelled"),
        (FILCH_EITSELF, c"a task cannot wait for itself"),
        (FILCH_EDEEP, c"waits are nested too deep on this worker"),
        (FILCH_EREFS, c"the task has too many references"),
        (FILCH_EUNSUPPORTED, c"the platform cannot do this"),
        (FILCH_EREFUSED, c"the platform refused to start the worker"),
        (FILCH_EBUG, c"a defect of filch"),
    ];
    let found = TEXTS.iter().find(|(known, _)| *known as i32 == status);
    found.map_or(c"no such status", |(_, text)| text)
}
