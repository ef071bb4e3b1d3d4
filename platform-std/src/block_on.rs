//! `block_on`: polls a future on the calling thread, which runs tasks while it waits.

use core::{
    cell::{Cell, RefCell},
    future::Future,
    pin::pin,
    ptr::{NonNull, null},
    task::{Context, Poll, Waker},
};
use std::{sync::Arc, task::Wake};

use filch::{
    WorkerId,
    atomic::{AtomicU32, Ordering},
};

use crate::{
    context::{Busy, Handle, Within, expect_current},
    hooks,
    task_wait::TaskWait,
};

/// Runs a future on the calling thread, in the current runtime.
///
/// A `std` lock that a task holds across this call is a deadlock if another task takes it: see
/// [`Handle::block_on`].
///
/// # Panics
/// If the calling thread is in no runtime, and as [`Handle::block_on`].
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// // In a task, inside a poll:
/// let nested = runtime.block_on(runtime.spawn(async { filch_std::block_on(async { 7 }) }));
/// assert_eq!(nested.unwrap(), 7);
/// ```
#[track_caller]
pub fn block_on<F: Future>(future: F) -> F::Output {
    run(expect_current(), future)
}

const TOO_DEEP: &str = "`block_on` is nested too deep on this worker (`Builder::nesting`): tasks are queued, every worker waits in sync code, \
     and no further thread can take over; `await` in place of `block_on`";

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
/// The thread sleeps on the word itself, or is about to.
const ASLEEP: u32 = 2;

/// The waiting thread, and whether it was notified.
pub(crate) struct Signal {
    news: AtomicU32,
    handle: Handle,
    /// The waiting thread is this worker, and sleeps as a worker.
    worker: Option<WorkerId>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if core::ptr::eq(ROOT.get(), Arc::as_ptr(self)) {
            BUDGET.with(filch::hear_refusal);
        }
        // Ordering: Release pairs with the Acquire in `take_news`.
        match (self.news.swap(NOTIFIED, Ordering::Release), self.worker) {
            (EMPTY, Some(worker)) => self.handle.0.core.unpark(worker),
            (ASLEEP, _) => self.handle.0.core.unblock(&self.news),
            _ => {}
        }
    }
}

impl Signal {
    fn is_of(&self, handle: Handle, worker: Option<WorkerId>) -> bool {
        self.handle == handle && self.worker == worker
    }

    fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) == NOTIFIED
    }

    fn take_news(&self) {
        // Ordering: Acquire pairs with the Release in `wake_by_ref`: the poll that follows sees what the waker did.
        self.news.swap(EMPTY, Ordering::Acquire);
    }

    /// Whether the thread is the worker still that it was as the wait began.
    fn is_on_worker(&self) -> bool {
        self.worker.is_some() && self.worker == self.handle.0.core.current_worker()
    }

    /// Waits until there is news, or until `or`.
    #[track_caller]
    fn wait(&self, or: &dyn Fn() -> bool) {
        if self.handle.0.core.help_patiently(&mut || self.has_news() || or()) {
            return;
        }
        // The process may have been forked while the future ran.
        if let Err(kind) = self.handle.check() {
            panic!("{kind}");
        }
        // Its runtime may have ended in the future, and then the thread is a worker no more.
        assert!(!self.is_on_worker(), "{TOO_DEEP}");
        // There is nothing to help with: sleep on the word.
        // Ordering: the Acquire is in `take_news`.
        let asleep =
            self.news.compare_exchange(EMPTY, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
        while asleep.is_ok() && !self.has_news() {
            self.handle.0.core.block(&self.news, ASLEEP);
        }
    }
}

/// How many signals a thread keeps: `block_on` nests so deep without an allocation.
const KEPT: usize = 8;

thread_local! {
    /// Signals that were used before, so that the next wait allocates nothing. They go when the
    /// thread ends, perhaps before its last waits.
    static SPARES: RefCell<Vec<Arc<Signal>>> = const { RefCell::new(Vec::new()) };
}

fn signal(handle: Handle) -> Arc<Signal> {
    let worker = handle.0.core.current_worker();
    let spare = SPARES.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        // A signal of the same waiter. A waker of its last use may still exist: at worst it causes
        // one poll too many.
        let at = spares.iter().position(|spare| spare.is_of(handle, worker))?;
        Some(spares.swap_remove(at))
    });
    match spare.ok().flatten() {
        Some(spare) => {
            // Ordering: pairs with nothing: no waker of this use exists yet.
            spare.news.store(EMPTY, Ordering::Relaxed);
            spare
        }
        None => Arc::new(Signal { news: AtomicU32::new(EMPTY), handle, worker }),
    }
}

fn keep(signal: Arc<Signal>) {
    let oldest = SPARES.try_with(|spares| {
        let mut spares = spares.borrow_mut();
        // One allocation for all.
        let room = KEPT.saturating_sub(spares.len());
        spares.reserve_exact(room);
        let oldest = (spares.len() == KEPT).then(|| spares.remove(0));
        spares.push(signal);
        oldest
    });
    drop(oldest);
}

thread_local! {
    /// The remaining budget of the future that the thread polls, if the thread is no worker.
    /// Unlimited outside of such a poll. Without a destructor.
    static BUDGET: Cell<u32> = const { Cell::new(u32::MAX) };
    /// See [`filch::Platform::left_poll`].
    static LEFT: Cell<*const ()> = const { Cell::new(null()) };
    /// The waiter whose future the thread polls. To be compared alone.
    static ROOT: Cell<*const Signal> = const { Cell::new(null()) };
}

/// See [`filch::Platform::budget`].
pub(crate) fn budget() -> NonNull<Cell<u32>> {
    BUDGET.with(|budget| NonNull::from(budget))
}

/// See [`filch::Platform::left_poll`].
pub(crate) fn left_poll() -> NonNull<Cell<*const ()>> {
    LEFT.with(|left| NonNull::from(left))
}

/// One poll of a root future, with a budget of its own.
struct Root {
    budget: u32,
    outer: *const Signal,
}

impl Root {
    fn begin(units: u32, signal: &Arc<Signal>) -> Self {
        Self { budget: BUDGET.replace(units), outer: ROOT.replace(Arc::as_ptr(signal)) }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        BUDGET.set(self.budget);
        ROOT.set(self.outer);
    }
}

/// The thread is in a runtime until this is dropped, and a stopped clock waits for it.
pub(crate) struct Entered {
    _within: Within,
    _busy: Busy,
}

impl Entered {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { _busy: Busy::new(handle), _within: Within::new(handle) }
    }
}

/// See [`Handle::block_on`].
#[track_caller]
pub(crate) fn run<F: Future>(here: Handle, future: F) -> F::Output {
    if let Err(kind) = here.check() {
        panic!("{kind}");
    }
    hooks::refuse("block_on");
    let mut wait = TaskWait::begin(here);
    let _entered = Entered::new(here);
    #[cfg(feature = "tracing")]
    let future = crate::tracing::root(future);
    let signal = signal(here);
    let waker = Waker::from(Arc::clone(&signal));
    let watch = here.0.fall.watch(&waker);
    if !wait.is_of(here) || signal.worker.is_none() {
        // It does not sleep as a worker of the task's runtime.
        wait.listen(&waker);
    }
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    let units = here.0.spawner.poll_budget();
    loop {
        watch.check();
        let root = Root::begin(units, &signal);
        let polled = future.as_mut().poll(&mut cx);
        drop(root);
        if let Poll::Ready(output) = polled {
            wait.forget();
            drop(watch);
            drop(waker);
            keep(signal);
            return output;
        }
        if signal.worker.is_some() && !signal.is_on_worker() {
            // The future has left the worker (`block_in_place`).
            wait.listen(&waker);
        }
        wait.check(&mut cx);
        signal.wait(&|| wait.has_news());
        signal.take_news();
    }
}
