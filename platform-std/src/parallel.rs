//! Fork-join on the runtime's workers: data parallelism in the same threads that run the tasks.
//!
//! [`join`], [`for_each`] and the like run on the calling worker at once, as in rayon. A thread
//! that is no worker takes the place of an idle worker while the run lasts. If all workers are
//! busy, the run becomes a task, and the thread waits. These functions block their caller until all
//! is done: in a task they are one long poll. Tasks can await other forms, which give the worker
//! back:
//!
//! | blocks, may borrow | to await in a task | data of the form to await |
//! |---|---|---|
//! | [`for_each`], [`map_reduce`] | [`for_each_async`], [`map_reduce_async`] | may be borrowed: nothing runs between two polls |
//! | [`join`] | [`join_async`] | must be owned: the run is a task, which goes on if the future is leaked |
//! | [`scope`] | [`scope_async`] | as above |
//! | [`run`] | [`offload`], [`offload_with`] | as above |
//!
//! Not all of them can borrow, because a future may be leaked, or dropped, while its jobs run on
//! other workers. A future whose drop waits for its jobs is sound only if it is dropped, which
//! cannot be guaranteed, and the drop would block its worker.
//!
//! Code that forks often should take the [`Fork`] handle from [`run`] and pass it down: this saves
//! each fork the access to a thread local.
//!
//! A coroutine with a stack of its own may be suspended in any of these functions, and resumed on the
//! same thread, also after the run in which it began has ended. Several may end in any order.

use core::{cell::Cell, ops::Range, panic::AssertUnwindSafe, sync::atomic::Ordering};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::{Arc, Mutex, PoisonError},
};

pub use filch::{Fork, ForkOptions, Scope};
use filch::{WorkerId, WorkerSet, atomic::AtomicU32};

use crate::{
    context::{self, Handle, expect_current},
    erased::Core,
    latch::relax,
};

mod open;
mod tasks;

#[doc(hidden)]
pub use self::open::{join_open, try_join_open};

pub use tasks::{for_each_async, join_async, map_reduce_async, offload, offload_with, scope_async};

thread_local! {
    /// The fork-join run that the thread is in. INV-HERE: the thread is the worker of that run.
    /// Where a coroutine is suspended in a run, other stacks of its thread see it too, and it may
    /// end before they do.
    static HERE: Cell<Run> = const { Cell::new(Run::NONE) };
}

/// A fork-join run, in the thread that is in it.
#[derive(Clone, Copy)]
struct Run {
    /// Without a worker if there is no run.
    fork: Fork<'static>,
    /// The runtime that the thread was in when it came to the run.
    runtime: Option<Handle>,
}

impl Run {
    const NONE: Self = Self { fork: Fork::alone(), runtime: None };

    /// This run, if the calling thread is still its worker.
    fn if_here(self) -> Self {
        if self.fork.is_here() { self } else { Self::NONE }
    }
}

/// The thread is in a fork-join run until this is dropped.
struct Here {
    before: Run,
}

impl Here {
    fn enter(fork: Fork<'_>) -> Self {
        // SAFETY: INV-HERE: fork workers stay for ever, and `forget_run` takes it back before the
        // thread is another worker, or none.
        let fork: Fork<'static> = unsafe { core::mem::transmute(fork) };
        Self { before: HERE.replace(Run { fork, runtime: context::current() }) }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        // With coroutines, that one may be over.
        HERE.set(self.before.if_here());
    }
}

/// The calling thread is no longer the worker that it was.
pub(crate) fn forget_run() {
    HERE.set(HERE.get().if_here());
}

/// Runs `f`, the second side of a fork, in the fork-join run `fork` if it was stolen. Otherwise its thread is
/// where it was at the fork.
#[inline]
fn inside<R>(fork: Fork<'_>, stolen: bool, f: impl FnOnce() -> R) -> R {
    let _here = (stolen && HERE.get().fork.has_no_worker()).then(|| Here::enter(fork));
    f()
}

/// See [`Handle::fork_with`].
#[track_caller]
pub(crate) fn fork<F, R>(here: Handle, options: Option<ForkOptions>, f: F) -> R
where
    F: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    let workers = here.0.core.workers();
    let has = |set: WorkerSet| set.iter().all(|worker| worker.index() < workers);
    assert!(
        options.and_then(|options| options.set()).is_none_or(has),
        "{}",
        filch::SpawnErrorKind::NoSuchWorker
    );
    let (mut f, mut outcome) = (Some(f), None);
    let mut run = |fork: Fork<'_>| {
        if let Some(f) = f.take() {
            let _here = Here::enter(fork);
            outcome = Some(f(fork));
        }
    };
    if here.check().is_ok() && here.0.core.fork(options, &mut run) {
        return outcome.unwrap_or_else(|| unreachable!("the core calls it"));
    }
    let mut outcome = None;
    if here.check().is_ok() {
        fork_from_outside(here, options, &mut |fork| {
            if let Some(f) = f.take() {
                let _here = Here::enter(fork);
                outcome = Some(catch_unwind(AssertUnwindSafe(|| f(fork))));
            }
        });
    }
    match (outcome, f) {
        (Some(Ok(outcome)), _) => outcome,
        (Some(Err(payload)), _) => resume_unwind(payload),
        // There are no workers, or the runtime is ending and the task did not run.
        (None, Some(f)) => f(Fork::alone()),
        (None, None) => unreachable!("a closure that ran has an outcome"),
    }
}

/// See [`Handle::broadcast`].
pub(crate) fn broadcast_on<F, R>(here: Handle, f: F) -> Vec<R>
where
    F: Fn(WorkerId) -> R + Sync,
    R: Send,
{
    if here.check().is_err() {
        return Vec::new();
    }
    let outcomes = Mutex::new(Vec::new());
    let lock = || outcomes.lock().unwrap_or_else(PoisonError::into_inner);
    let run = |worker| {
        let outcome = f(worker);
        lock().push((worker, outcome));
    };
    fork(here, None, |_| here.0.core.broadcast(&run));
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(worker, _)| worker.index());
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Runs it as a task. A thread that is no worker does not help meanwhile: as soon as there are
/// jobs, no worker is idle whose place it could take.
#[cold]
fn fork_from_outside(
    here: Handle,
    options: Option<ForkOptions>,
    run: &mut (dyn FnMut(Fork<'_>) + Send),
) {
    let core = here.0.core;
    let done = Arc::new(Done { core, over: AtomicU32::new(0) });
    let lent = Lent::new(run, &done);
    // If the spawn is refused, the future is dropped unused, as that of a task that is
    // cancelled before it runs.
    let task = async move {
        let lent = lent;
        // SAFETY: the lender waits for the drop of `lent`.
        core.fork(options, &mut |fork| unsafe { (*lent.run)(fork) });
    };
    match here.spawn_with(options.unwrap_or_default().task(), task) {
        // A worker that may not begin the run: it helps with other tasks.
        Ok(mut task) if core.current_worker().is_some() => drop(task.join()),
        // The drop of a task that was refused ends the wait.
        spawned => drop(spawned),
    }
    done.wait();
}

/// How often a thread checks for the end of its run before it sleeps.
const LOOKS: u32 = 32;

/// Signals to a thread that the closure that it lent is no longer used.
struct Done {
    core: &'static dyn Core,
    over: AtomicU32,
}

/// A closure that a thread has lent. INV-LENT: the thread stays until this has been dropped.
struct Lent {
    run: *mut (dyn FnMut(Fork<'_>) + Send),
    /// Shared, since the word is used after the thread may have gone.
    done: Arc<Done>,
}

// SAFETY: the closure is `Send`; `Done` is `Sync`.
unsafe impl Send for Lent {}

impl Lent {
    /// The caller must call `Done::wait` next, without a panic in between.
    fn new(run: &mut (dyn FnMut(Fork<'_>) + Send), done: &Arc<Done>) -> Self {
        let run: *mut (dyn FnMut(Fork<'_>) + Send + '_) = run;
        // SAFETY: only the lifetime changes; INV-LENT.
        let run: *mut (dyn FnMut(Fork<'_>) + Send) = unsafe { core::mem::transmute(run) };
        Self { run, done: Arc::clone(done) }
    }
}

impl Done {
    /// Checks for a moment, since a short run ends before a thread would be asleep. Then sleeps as
    /// other threads in `block_on` do, so that a stopped clock knows of it.
    fn wait(&self) {
        // Ordering: Acquire pairs with the Release in `drop`.
        let over = || self.over.load(Ordering::Acquire) != 0;
        for round in 0..LOOKS {
            if over() {
                return;
            }
            relax(round);
        }
        while !over() {
            self.core.block(&self.over, 0);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Ordering: Release pairs with the Acquire in `wait`.
        self.done.over.store(1, Ordering::Release);
        self.done.core.unblock(&self.done.over);
    }
}

/// Calls `f` in the fork-join run that the thread is in, or in a new one.
#[inline]
#[track_caller]
fn here<F, R>(f: F) -> R
where
    F: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    match HERE.get().fork {
        none if none.has_no_worker() => fork(expect_current(), None, f),
        fork => fork.nested(f),
    }
}

/// Begins a fork-join run on the current runtime, and waits for its end: [`Handle::fork`].
///
/// # Panics
/// If the calling thread is in no runtime; with the closure's panic.
///
/// ```
/// use filch_std::parallel::{self, Fork};
///
/// fn fib(fork: Fork<'_>, n: u32) -> u32 {
///     if n < 2 {
///         return n;
///     }
///     let (a, b) = fork.join(|fork| fib(fork, n - 1), |fork| fib(fork, n - 2));
///     a + b
/// }
///
/// let runtime = filch_std::Runtime::new().unwrap();
/// assert_eq!(runtime.handle().fork(|fork| fib(fork, 10)), 55);
/// assert_eq!(runtime.block_on(async { parallel::run(|fork| fib(fork, 10)) }), 55);
/// ```
#[track_caller]
pub fn run<F, R>(f: F) -> R
where
    F: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    here(f)
}

/// Runs both closures, `b` on another worker if one is idle: [`Fork::join`].
///
/// `a` must not wait for `b`, which may begin only when `a` has ended. A worker that becomes idle
/// while `a` runs can take `b` only when `a` next forks or joins.
///
/// # Panics
/// If the calling thread is in no runtime; with the panic of `a`, otherwise with that of `b`.
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// let mut numbers = [5, 1, 4];
/// let (max, sum) = runtime.block_on(async {
///     filch_std::parallel::join(|| numbers.iter().max(), || numbers.iter().sum::<i32>())
/// });
/// assert_eq!((max, sum), (Some(&5), 10));
/// # numbers.sort();
/// ```
#[inline]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let join = |fork: Fork<'_>| fork.join_and_tell(|_| a(), |fork, stolen| inside(fork, stolen, b));
    match HERE.get().fork {
        none if none.has_no_worker() => fork(expect_current(), None, join),
        // Without `nested`: a fork keeps its thread a worker by itself.
        fork => join(fork),
    }
}

/// Runs `body`, which may spawn jobs that borrow, and returns when all of them have ended: [`Fork::scope`].
///
/// # Panics
/// If the calling thread is in no runtime; with the panic of `body`, otherwise with that of a job.
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// let mut parts = vec![vec![3, 1, 2], vec![9, 8]];
/// runtime.block_on(async {
///     filch_std::parallel::scope(|scope| {
///         for part in &mut parts {
///             scope.spawn(|_| part.sort());
///         }
///     });
/// });
/// assert_eq!(parts, [vec![1, 2, 3], vec![8, 9]]);
/// ```
#[track_caller]
pub fn scope<'env, F, R>(body: F) -> R
where
    F: FnOnce(&Scope<'_, 'env>) -> R + Send,
    R: Send,
{
    here(|fork| fork.scope(body))
}

/// Calls `f` with each index of the range, once, on any worker: [`Fork::for_each`].
///
/// # Panics
/// If the calling thread is in no runtime; with the first panic of `f`.
///
/// ```
/// use filch_std::parallel;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let runtime = filch_std::Runtime::new()?;
/// let (calls, mut numbers) = (AtomicUsize::new(0), [1, 2, 3, 4]);
/// runtime.block_on(async {
///     let call = |_| _ = calls.fetch_add(1, Ordering::Relaxed);
///     parallel::for_each(0..100, call);
///     parallel::for_each_async(0..100, call).await;
///     parallel::for_each_mut(&mut numbers, |n| *n *= 2);
///     assert_eq!(parallel::map_reduce(0..4, |i| numbers[i], |a, b| a + b), Some(20));
/// });
/// assert_eq!(calls.into_inner(), 200);
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
#[track_caller]
pub fn for_each<F>(range: Range<usize>, f: F)
where
    F: Fn(usize) + Sync,
{
    here(|fork| fork.for_each(range, &f));
}

/// Calls `f` with each element of the slice, on any worker: [`Fork::for_each_mut`].
///
/// # Panics
/// As [`for_each`].
#[track_caller]
pub fn for_each_mut<T, F>(slice: &mut [T], f: F)
where
    T: Send,
    F: Fn(&mut T) + Sync,
{
    here(|fork| fork.for_each_mut(slice, &f));
}

/// Maps each index of the range, and reduces the results in index order: [`Fork::map_reduce`].
///
/// # Panics
/// As [`for_each`].
#[track_caller]
pub fn map_reduce<T, M, R>(range: Range<usize>, map: M, reduce: R) -> Option<T>
where
    T: Send,
    M: Fn(usize) -> T + Sync,
    R: Fn(T, T) -> T + Sync,
{
    here(|fork| fork.map_reduce(range, &map, &reduce))
}

/// Calls `f` once on each worker of the current runtime, and waits until all calls have ended:
/// [`Handle::broadcast`].
///
/// # Panics
/// If the calling thread is in no runtime; with the first panic of `f`.
#[track_caller]
pub fn broadcast<F, R>(f: F) -> Vec<R>
where
    F: Fn(WorkerId) -> R + Sync,
    R: Send,
{
    broadcast_on(expect_current(), f)
}
