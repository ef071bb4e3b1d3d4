//! What the calling thread is in: a runtime, a poll, a task.

use core::{
    cell::{Cell, RefCell},
    error::Error,
    fmt,
    marker::PhantomData,
};

use std::thread::AccessError;

use filch_linux::runtime::{Host, Linux};

use super::Handle;
use crate::task::{Id, coop};

/// Whether the thread polls futures of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polling {
    /// It does not: it may block.
    No,
    /// It does, and `block_in_place` may be called.
    Threaded,
    /// It does, in a runtime or a `LocalSet` that is on this thread alone.
    Local,
}

thread_local! {
    static CURRENT: RefCell<Option<Handle>> = const { RefCell::new(None) };
    /// How many guards of `CURRENT` live.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static POLLING: Cell<Polling> = const { Cell::new(Polling::No) };
    /// Whether the thread drives a current-thread runtime.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
    static TASK: Cell<Option<Id>> = const { Cell::new(None) };
}

/// The error of [`Handle::try_current`].
#[derive(Debug)]
pub struct TryCurrentError {
    destroyed: bool,
}

impl TryCurrentError {
    /// Whether the thread is in no runtime.
    pub fn is_missing_context(&self) -> bool {
        !self.destroyed
    }

    /// Whether the thread is about to end, and its thread-local values are gone.
    pub fn is_thread_local_destroyed(&self) -> bool {
        self.destroyed
    }
}

pub(crate) const NO_REACTOR: &str =
    "there is no reactor running, must be called from the context of a Tokio 1.x runtime";
const DESTROYED: &str = "The Tokio context thread-local variable has been destroyed.";

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.destroyed { DESTROYED } else { NO_REACTOR })
    }
}

impl Error for TryCurrentError {}

/// The runtime that the thread is in.
pub(crate) fn current() -> Result<Handle, TryCurrentError> {
    match CURRENT.try_with(|current| current.borrow().clone()) {
        Ok(Some(handle)) => Ok(handle),
        Ok(None) => Err(TryCurrentError { destroyed: false }),
        Err(_) => Err(TryCurrentError { destroyed: true }),
    }
}

/// As [`current`].
///
/// # Panics
/// If there is none.
#[track_caller]
pub(crate) fn expect() -> Handle {
    match current() {
        Ok(handle) => handle,
        Err(error) => panic!("{error}"),
    }
}

/// Calls `f` with the runtime that the thread is in, without a clone.
pub(crate) fn with<R>(f: impl FnOnce(Option<&Handle>) -> R) -> R {
    let mut f = Some(f);
    let called = CURRENT.try_with(|current| {
        let current = current.try_borrow().ok();
        f.take().map(|f| f(current.as_ref().and_then(|current| current.as_ref())))
    });
    match called {
        Ok(Some(result)) => result,
        _ => match f.take() {
            Some(f) => f(None),
            None => unreachable!("`f` is called once"),
        },
    }
}

/// The thread is in a runtime for as long as this lives. Guards are dropped in the reverse order.
#[must_use = "the thread is in the runtime for as long as the guard lives"]
pub struct EnterGuard<'a> {
    _entered: Entered,
    _handle: PhantomData<&'a Handle>,
}

/// Puts the runtime before back. Without the lifetime, so that a runtime may be dropped before its guard.
struct Entered {
    before: Option<Handle>,
    depth: usize,
    /// The runtime of the crate tokio, which is entered too.
    beside: Option<&'static Linux>,
    _local: PhantomData<*mut ()>,
}

// SAFETY: a shared reference reaches nothing.
unsafe impl Sync for Entered {}

impl fmt::Debug for EnterGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterGuard").finish_non_exhaustive()
    }
}

/// Puts the thread into a runtime; `None` if it is about to end.
pub(crate) fn try_enter<'a>(handle: Handle) -> Option<EnterGuard<'a>> {
    let beside = handle.inner.host();
    let before = settle(Some(handle)).ok()?;
    if let Some(beside) = beside.and_then(Host::entry) {
        beside.enter();
    }
    let depth = DEPTH.get() + 1;
    DEPTH.set(depth);
    let _entered = Entered { before, depth, beside, _local: PhantomData };
    Some(EnterGuard { _entered, _handle: PhantomData })
}

/// Puts the thread, which is in the runtime of the crate tokio already, into a runtime, or into none, and returns the one before.
pub(crate) fn settle(handle: Option<Handle>) -> Result<Option<Handle>, AccessError> {
    CURRENT.try_with(|current| current.replace(handle))
}

/// Puts the thread into a runtime.
///
/// # Panics
/// If the thread is about to end.
#[track_caller]
pub(crate) fn enter<'a>(handle: Handle) -> EnterGuard<'a> {
    match try_enter(handle) {
        Some(guard) => guard,
        None => panic!("{DESTROYED}"),
    }
}

impl Drop for Entered {
    #[track_caller]
    fn drop(&mut self) {
        if DEPTH.get() != self.depth {
            if !std::thread::panicking() {
                panic!(
                    "`EnterGuard` values dropped out of order. Guards returned by \
                     `tokio::runtime::Handle::enter()` must be dropped in the reverse \
                     order as they were acquired."
                );
            }
            return;
        }
        if let Some(beside) = self.beside.and_then(Host::entry) {
            beside.leave();
        }
        let before = self.before.take();
        let mine = CURRENT.try_with(|current| current.replace(before));
        DEPTH.set(self.depth - 1);
        drop(mine);
    }
}

/// Sets whether the thread drives a current-thread runtime.
pub(crate) fn set_drives(drives: bool) -> bool {
    DRIVES.replace(drives)
}

/// The number of the worker that the thread is, in the current runtime; 0 for the thread that drives a current-thread runtime.
pub fn worker_index() -> Option<usize> {
    with(|handle| {
        let inner = &handle?.inner;
        if inner.scheduler.is_some() {
            return DRIVES.get().then_some(0);
        }
        let worker = inner.filch.get()?.current_worker()?.index();
        (worker < inner.workers).then_some(worker)
    })
}

/// Whether the thread polls futures of a runtime.
pub(crate) fn polling() -> Polling {
    POLLING.get()
}

/// Calls `f` as the thread polls that task, with a budget of its own.
#[inline]
pub(crate) fn poll<R>(polling: Polling, task: Id, f: impl FnOnce() -> R) -> R {
    let _before = Before::new(polling, Some(task));
    coop::budgeted(f)
}

/// Calls `f` as the thread polls a root future. Its budget is that of tokio's `block_on`, which polls it.
pub(crate) fn poll_root<R>(polling: Polling, f: impl FnOnce() -> R) -> R {
    let _before = Before::new(polling, None);
    f()
}

/// Calls `f`, which may block, as the thread does not poll. The task is left.
#[track_caller]
pub(crate) fn block<R>(f: impl FnOnce() -> R) -> R {
    let _before = Before::new(Polling::No, task());
    // tokio's leaves its runtime for that long, so that its methods that block, and the program's runtimes, may be used. It does not put
    // the budget back.
    coop::unlimited(|| ::real::task::block_in_place(f))
}

/// Calls `f` as what the thread polls has to stay on it. The task and its budget are left.
pub(crate) fn stay<R>(f: impl FnOnce() -> R) -> R {
    let polling = match polling() {
        Polling::No => Polling::No,
        Polling::Threaded | Polling::Local => Polling::Local,
    };
    let _before = Before::new(polling, task());
    f()
}

/// What the thread has polled before.
struct Before(Polling, Option<Id>);

impl Before {
    fn new(polling: Polling, task: Option<Id>) -> Self {
        Self(POLLING.replace(polling), TASK.replace(task))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        POLLING.set(self.0);
        TASK.set(self.1);
    }
}

/// The task that the thread polls.
pub(crate) fn task() -> Option<Id> {
    TASK.get()
}

/// Sets the task that the thread polls, and returns the one before.
pub(crate) fn set_task(task: Option<Id>) -> Option<Id> {
    TASK.replace(task)
}

/// # Panics
/// If the thread polls futures of a runtime.
#[track_caller]
pub(crate) fn may_block_on() {
    assert!(
        polling() == Polling::No,
        "Cannot start a runtime from within a runtime. This happens because a function (like `block_on`) attempted to block the \
         current thread while the thread is being used to drive asynchronous tasks. If you are in an async function, use `.await` on the \
         future instead of blocking on it."
    );
}
