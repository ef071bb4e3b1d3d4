//! orx-parallel's computations on a runtime's workers.

use core::{any::Any, fmt, num::NonZeroUsize, panic::AssertUnwindSafe, ptr::NonNull};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::{Mutex, PoisonError},
};

use orx_parallel::{Scope, ThreadPool};

use crate::{context::Handle, error::NoRuntime, latch::CountLatch};

/// A runtime as a pool of the crate [orx-parallel](https://docs.rs/orx-parallel) (feature `orx-parallel`).
///
/// A computation takes the pool with its runner: `Runner::fixed_with_pool(pool)`, or
/// `Runner::adaptive_with_pool(pool)` with orx-parallel's feature `std`. With that feature,
/// orx-parallel also starts a pool of its own when the first iterator is made.
///
/// Each of a computation's threads is a task. The caller waits until all have ended: a worker runs
/// other tasks meanwhile, any other thread sleeps. All copies use the same runtime.
///
/// ```
/// use filch_std::parallel::OrxPool;
/// use orx_parallel::*;
///
/// let runtime = filch_std::Runtime::new().unwrap();
/// let numbers: Vec<u64> = (0..10_000).collect();
/// let runner = Runner::fixed_with_pool(OrxPool::new(*runtime.handle()));
/// let even = numbers.par().runner(runner).filter(|n| **n % 2 == 0).count();
/// assert_eq!(even, 5_000);
///
/// // In a task, on the workers that run the tasks:
/// let sum = runtime.spawn(async {
///     let runner = Runner::fixed_with_pool(OrxPool::current().expect("in a task"));
///     (0..1_000).into_par().runner(runner).map(|n| n * n).sum::<usize>()
/// });
/// assert_eq!(runtime.block_on(sum).unwrap(), 332_833_500);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OrxPool {
    handle: Handle,
}

impl OrxPool {
    /// A pool on the runtime of this handle. After it has shut down, computations run on the
    /// calling thread.
    pub fn new(handle: Handle) -> Self {
        Self { handle }
    }

    /// A pool on the runtime that the calling thread is in.
    ///
    /// # Errors
    /// [`NoRuntime`].
    pub fn current() -> Result<Self, NoRuntime> {
        Handle::current().map(Self::new)
    }

    fn run_scope<'env, 'scope>(&self, f: impl FnOnce(OrxScope<'_>))
    where
        'env: 'scope,
    {
        let running = Running {
            handle: self.handle,
            latch: CountLatch::on(self.handle, 1),
            panic: Mutex::new(None),
        };
        running.contain(|| f(OrxScope(&running)));
        // SAFETY: INV-LATCH: this is the count that the latch was made with.
        unsafe { CountLatch::down(NonNull::from(&running.latch)) };
        running.latch.wait();
        let panic = running.panic.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl ThreadPool for OrxPool {
    type ScopeRef<'s, 'env, 'scope>
        = OrxScope<'s>
    where
        'scope: 's,
        'env: 'scope + 's;

    /// # Panics
    /// With the first panic of `f` or of a part that it runs, after all have ended.
    fn scope<'env, 'scope, F>(&'env self, f: F)
    where
        'env: 'scope,
        for<'s> F: FnOnce(OrxScope<'s>) + Send,
    {
        self.run_scope(f);
    }

    fn max_num_threads(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.handle.active_workers()).unwrap_or(NonZeroUsize::MIN)
    }
}

/// Runs the parts of an [`OrxPool`]'s computation.
#[derive(Clone, Copy)]
pub struct OrxScope<'s>(&'s Running);

/// INV-ORX: it stays valid until every part has counted the latch down, which is the part's last
/// use of it.
struct Running {
    handle: Handle,
    latch: CountLatch,
    /// The first panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Running {
    /// Keeps the first panic.
    fn contain(&self, f: impl FnOnce()) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
            let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
            if first.is_none() {
                *first = Some(payload);
            }
        }
    }
}

impl<'s, 'env, 'scope> Scope<'s, 'env, 'scope> for OrxScope<'s> {
    fn run<W>(self, work: W)
    where
        'scope: 's,
        'env: 'scope + 's,
        W: FnOnce() + Send + 'scope + 'env,
    {
        self.0.latch.up(1);
        let work: Box<dyn FnOnce() + Send + 'env> = Box::new(work);
        // SAFETY: only the lifetime changes. The closure has run and been dropped before
        // `run_scope` returns (INV-ORX, `Part`); the pool's borrow, and so `'env`, outlives that.
        let work: Box<dyn FnOnce() + Send> = unsafe { core::mem::transmute(work) };
        let part = Part { running: self.0, work: Some(work) };
        // A refused part is dropped here, and so runs here.
        drop(self.0.handle.try_spawn(async move { drop(part) }));
    }
}

/// A part of a computation. It runs when it is dropped: in its task's poll, or earlier if the
/// runtime ends.
struct Part {
    running: *const Running,
    work: Option<Box<dyn FnOnce() + Send>>,
}

// SAFETY: the work is `Send`; the fields of `Running` that parts use are `Sync`.
unsafe impl Send for Part {}

impl Drop for Part {
    fn drop(&mut self) {
        // SAFETY: INV-ORX.
        let running = unsafe { &*self.running };
        if let Some(work) = self.work.take() {
            running.contain(work);
        }
        // SAFETY: INV-LATCH: counted by `run`; the last touch.
        unsafe { CountLatch::down(NonNull::from(&running.latch)) };
    }
}

impl fmt::Debug for OrxScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrxScope").finish_non_exhaustive()
    }
}
