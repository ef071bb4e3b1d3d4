//! What tasks wait for: a poll for a dump.
//!
//! A dump wakes all tasks, and polls each with another waker than the one that its futures have kept. A future that still waits clones it:
//! the place of that call is where the task waits, whatever the future is. What it gets is the task's usual waker, so that the next poll is
//! as ever. A future of this project says also what it waits for.
//!
//! Idea: tokio's task dumps, which poll with a mark that tokio's own futures look for.

use core::{
    fmt,
    mem::ManuallyDrop,
    ptr::{self, NonNull},
    task::{RawWaker, RawWakerVTable, Waker},
};

use super::{
    executor_ref::ExecutorRef,
    header::Header,
    info::TaskId,
    waker::{self, borrowed},
};
use crate::{atomic::Global, instant::Instant};

/// What a future waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// A time.
    Sleep(Instant),
    /// The end of a task.
    Join(TaskId),
    /// A file descriptor, or a source of another kind, to be readable.
    Read(i32),
    /// The same, to be writable.
    Write(i32),
    /// Something else.
    Other(&'static str),
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sleep(until) => write!(f, "sleeping until {} ns", until.as_nanos()),
            Self::Join(task) => write!(f, "joining {task:?}"),
            Self::Read(source) => write!(f, "reading {source}"),
            Self::Write(source) => write!(f, "writing {source}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// What happens in a task's poll for a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The poll begins. What an earlier one has shown counts no more.
    Begin,
    /// A future clones the waker: the caller's stack tells which.
    Clone,
    /// The future that has cloned the waker last waits for this; if there was none since the last `On`, the caller does.
    On(Wait),
}

/// What takes the steps of a dump. See [`watch`].
#[derive(Clone, Copy, Debug)]
pub struct Sink(fn(TaskId, Step));

impl Sink {
    /// The function is called in polls, by any worker and at any depth. Its panics are discarded. It should not clone or wake a task's
    /// waker: a clone is told to it again.
    pub const fn new(take: fn(TaskId, Step)) -> Self {
        Self(take)
    }
}

/// That of the dump under way.
static SINK: Global<Sink> = Global::new();

/// From now on each poll of any executor in this program tells its steps to `sink`, or to none. Then
/// [`Scheduler::wake_tasks`](crate::Scheduler::wake_tasks) has all tasks polled.
///
/// From any context. Polls that have begun go on with the sink that they have found. Cost: a store; while there is none, a load for each
/// poll.
///
/// ```
/// # filch_test_support::board!();
/// # use std::sync::Mutex;
/// # use filch::{Executor, Instant, TaskPool, WorkerId};
/// use filch::dump::{Sink, Step, Wait, watch};
/// static WAITS: Mutex<Vec<Wait>> = Mutex::new(Vec::new());
/// static SINK: Sink = Sink::new(|_, step| {
///     if let Step::On(wait) = step {
///         WAITS.lock().unwrap().push(wait);
///     }
/// });
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<512, 8> = TaskPool::new();
/// let task = EXECUTOR.spawn(&TASKS, EXECUTOR.timers().sleep_until(Instant::MAX)).unwrap();
/// # let worker = EXECUTOR.worker(WorkerId::new(0))?;
/// # worker.run_for(8);
/// watch(Some(&SINK));
/// EXECUTOR.wake_tasks();
/// # worker.run_for(8);
/// watch(None);
/// assert_eq!(*WAITS.lock().unwrap(), [Wait::Sleep(Instant::MAX)]);
/// # drop(task);
/// # Ok::<(), filch::RunError>(())
/// ```
pub fn watch(sink: Option<&'static Sink>) {
    SINK.set(sink);
}

/// # Safety
/// The caller holds a reference to the task.
unsafe fn tell(task: NonNull<Header>, step: Step) {
    if let Some(Sink(take)) = SINK.get() {
        // A panic must not go through the poll: outside of the poll's own guard it would leave a frame on a stack that is gone.
        // SAFETY: the caller's reference.
        unsafe { ExecutorRef::of(task) }.guard(&mut || take(TaskId::of(task), step));
    }
}

/// The waker for a poll.
#[inline(always)]
pub(super) fn waker(task: NonNull<Header>) -> ManuallyDrop<Waker> {
    if SINK.get().is_none() { borrowed(task) } else { traced(task) }
}

/// As `borrowed`: for a poll that is watched.
#[cold]
fn traced(task: NonNull<Header>) -> ManuallyDrop<Waker> {
    // SAFETY: a poll holds a reference to its task.
    unsafe { tell(task, Step::Begin) };
    // SAFETY: INV-WAKER, as for `borrowed`.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(task.as_ptr().cast(), &TRACED)) })
}

/// As the usual table, but for `clone`: INV-WAKER.
static TRACED: RawWakerVTable =
    RawWakerVTable::new(clone, waker::wake, waker::wake_by_ref, waker::drop_waker);

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: INV-WAKER, here and in the call.
    unsafe {
        tell(waker::cast(data), Step::Clone);
        waker::clone(data)
    }
}

/// Whether this is the waker of a poll that is watched.
#[inline]
pub(super) fn is_traced(waker: &Waker) -> bool {
    ptr::eq(waker.vtable(), &TRACED)
}

/// A future that has kept the waker of its context, and is about to return `Pending`, says what it waits for. To be called by futures of
/// libraries; those of this project do. Without a dump, and with a waker that is no task's, it does nothing.
///
/// ```
/// use core::task::{Context, Poll};
/// use filch::dump::{Wait, waits};
/// fn poll_pump(cx: &mut Context<'_>) -> Poll<()> {
///     // ... keeps `cx.waker()` for the pump's interrupt handler.
///     waits(cx.waker(), || Wait::Other("for the pump"));
///     Poll::Pending
/// }
/// # assert!(poll_pump(&mut Context::from_waker(core::task::Waker::noop())).is_pending());
/// ```
#[inline]
pub fn waits(waker: &Waker, on: impl FnOnce() -> Wait) {
    if is_traced(waker) {
        // SAFETY: INV-WAKER: the waker has, or has borrowed, a reference.
        unsafe { tell(waker::cast(waker.data()), Step::On(on())) };
    }
}
