//! Fork-join on the runtime's workers: data parallelism in the same threads that run the tasks.
//!
//! [`join`], [`for_each`] and the like run on the calling worker at once, in the manner of rayon; from a thread that is no
//! worker they run as a task, and the thread waits. They block their caller until all is done: in a task they are one long
//! poll. [`offload`] is for tasks: the run becomes a task of its own, and the caller's worker goes on with others.
//!
//! Kernels of computation that fork often take the handle that [`run`] gives them, [`Fork`], and pass it down: that spares
//! each fork a look at a thread local.

use core::{
    cell::Cell,
    future::Future,
    ops::Range,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicBool, Ordering},
};
use std::{
    panic::{catch_unwind, resume_unwind},
    thread::{self, Thread},
};

use filch::JoinError;
pub use filch::{Fork, Scope};

#[cfg(feature = "orx-parallel")]
pub use crate::orx::{OrxPool, OrxScope};

use crate::context::{Handle, expect_current};

thread_local! {
    /// The handle of the fork-join run that the thread is in. INV-HERE: it is there only while that run, or a job of it, is
    /// on this thread's stack.
    static HERE: Cell<Option<Fork<'static>>> = const { Cell::new(None) };
}

/// The thread is in a fork-join run until this is dropped.
struct Here {
    before: Option<Fork<'static>>,
}

impl Here {
    fn enter(fork: Fork<'_>) -> Self {
        // SAFETY: INV-HERE: taken back by `drop`, which comes before the end of `fork`'s life: the callers keep this on the
        // stack of the closure that was given `fork`. It cannot leave the thread.
        let fork: Fork<'static> = unsafe { core::mem::transmute(fork) };
        Self { before: HERE.replace(Some(fork)) }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        HERE.set(self.before);
    }
}

/// Runs `f` in the fork-join run `fork`.
#[inline]
fn inside<R>(fork: Fork<'_>, f: impl FnOnce() -> R) -> R {
    let _here = HERE.get().is_none().then(|| Here::enter(fork));
    f()
}

impl Handle {
    /// Begins a fork-join run on one of the runtime's workers, and waits for its end: on the calling thread, if that is one of
    /// them; else as a task, and the thread sleeps.
    ///
    /// If the runtime has shut down, or is a parent process's, the closure runs on the calling thread, with
    /// [`Fork::alone`].
    ///
    /// # Panics
    /// With the closure's panic.
    pub fn fork<F, R>(&self, f: F) -> R
    where
        F: FnOnce(Fork<'_>) -> R + Send,
        R: Send,
    {
        let (mut f, mut outcome) = (Some(f), None);
        let mut run = |fork: Fork<'_>| {
            if let Some(f) = f.take() {
                let _here = Here::enter(fork);
                outcome = Some(f(fork));
            }
        };
        if self.check().is_ok() && self.core.fork(&mut run) {
            return outcome.unwrap_or_else(|| unreachable!("the core calls it"));
        }
        let mut outcome = None;
        if self.check().is_ok() {
            self.fork_from_outside(&mut |fork| {
                if let Some(f) = f.take() {
                    let _here = Here::enter(fork);
                    outcome = Some(catch_unwind(AssertUnwindSafe(|| f(fork))));
                }
            });
        }
        match (outcome, f) {
            (Some(Ok(outcome)), _) => outcome,
            (Some(Err(payload)), _) => resume_unwind(payload),
            // There are no workers, or the runtime is at its end, and the task was not run.
            (None, Some(f)) => f(Fork::alone()),
            (None, None) => unreachable!("a closure that ran has an outcome"),
        }
    }

    /// As a task. The thread does not help meanwhile: as soon as there are jobs, no worker is idle whose place it could take.
    #[cold]
    fn fork_from_outside(&self, run: &mut (dyn FnMut(Fork<'_>) + Send)) {
        let (core, done) = (self.core, Done::new());
        let lent = done.lend(run);
        // If it is refused, the future is dropped unused, like that of a task that is cancelled before it runs.
        drop(self.try_spawn(async move {
            let lent = lent;
            // SAFETY: the lender waits for the drop of `lent`.
            core.fork(&mut |fork| unsafe { (*lent.run)(fork) });
        }));
        done.wait();
    }
}

/// Tells a thread that what it has lent is not used any more.
struct Done {
    thread: Thread,
    over: AtomicBool,
}

/// A closure that a thread has lent. INV-LENT: the thread stays until this has been dropped.
struct Lent {
    run: *mut (dyn FnMut(Fork<'_>) + Send),
    done: *const Done,
}

// SAFETY: the closure is `Send`; `Done` is `Sync`.
unsafe impl Send for Lent {}

impl Done {
    fn new() -> Self {
        Self { thread: thread::current(), over: AtomicBool::new(false) }
    }

    /// The caller must go on to `wait`, without a panic before.
    fn lend(&self, run: &mut (dyn FnMut(Fork<'_>) + Send)) -> Lent {
        let run: *mut (dyn FnMut(Fork<'_>) + Send + '_) = run;
        // SAFETY: only the lifetime changes; INV-LENT.
        let run: *mut (dyn FnMut(Fork<'_>) + Send) = unsafe { core::mem::transmute(run) };
        Lent { run, done: self }
    }

    fn wait(&self) {
        // Ordering: Acquire pairs with the Release in `drop`.
        while !self.over.load(Ordering::Acquire) {
            thread::park();
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: INV-LENT: until the store below.
        let done = unsafe { &*self.done };
        let thread = done.thread.clone();
        // Ordering: Release pairs with the Acquire in `wait`.
        done.over.store(true, Ordering::Release);
        thread.unpark();
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
    match HERE.get() {
        Some(fork) => f(fork),
        None => expect_current().fork(f),
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

/// Runs both closures, `b` on another worker if one is without work: [`Fork::join`].
///
/// # Panics
/// If the calling thread is in no runtime; with the panic of `a`, else of `b`.
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
    here(|fork| fork.join(|_| a(), |fork| inside(fork, b)))
}

/// Runs `body`, which may spawn jobs that borrow, and returns when all of them have ended: [`Fork::scope`].
///
/// # Panics
/// If the calling thread is in no runtime; with the panic of `body`, else with one of a job.
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

/// Maps each index of the range, and reduces the results in the order of the indices: [`Fork::map_reduce`].
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

/// A fork-join run as a task of its own: the caller awaits it, and its worker goes on with other tasks.
///
/// What the closures use they must own: a future that borrowed could be leaked in the midst of the run, and what it
/// borrowed be gone. (Blocking forms, like [`join`], may borrow, since their caller cannot go away.) Dropping the future
/// lets the run go on.
///
/// # Errors
/// [`JoinError`]: the closure has panicked, or the runtime has shut down.
///
/// # Panics
/// If the calling thread is in no runtime.
///
/// ```
/// use filch_std::parallel;
/// let runtime = filch_std::Runtime::new().unwrap();
/// let sum = runtime.block_on(async {
///     let numbers: Vec<u64> = (0..1_000).collect();
///     parallel::offload(move |fork| fork.map_reduce(0..1_000, |i| numbers[i], |a, b| a + b)).await
/// });
/// assert_eq!(sum.unwrap(), Some(499_500));
/// ```
#[track_caller]
pub fn offload<F, R>(f: F) -> impl Future<Output = Result<R, JoinError>> + Send
where
    F: FnOnce(Fork<'_>) -> R + Send + 'static,
    R: Send + 'static,
{
    let handle = expect_current();
    handle.spawn(async move { handle.fork(f) })
}

/// [`join`] for tasks: both closures run as a fork-join run of its own, and the caller's worker goes on with other tasks.
///
/// # Errors
/// As [`offload`].
///
/// # Panics
/// As [`offload`].
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// let both = runtime.block_on(async {
///     filch_std::parallel::offload_join(|| 6 * 7, || "b").await
/// });
/// assert_eq!(both.unwrap(), (42, "b"));
/// ```
#[track_caller]
pub fn offload_join<A, B, RA, RB>(
    a: A,
    b: B,
) -> impl Future<Output = Result<(RA, RB), JoinError>> + Send
where
    A: FnOnce() -> RA + Send + 'static,
    B: FnOnce() -> RB + Send + 'static,
    RA: Send + 'static,
    RB: Send + 'static,
{
    offload(|fork| fork.join(|_| a(), |fork| inside(fork, b)))
}
