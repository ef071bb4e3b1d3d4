//! `join`.

use core::{marker::PhantomData, panic::AssertUnwindSafe};
use std::{
    panic::{catch_unwind, resume_unwind},
    thread,
};

use filch_std::latch::Latch;

use crate::{current, job::StackJob, registry::Registry};

/// What a side of [`join_context`] is told of where it runs.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// It is the calling thread's.
    not_send: PhantomData<*mut ()>,
}

impl FnContext {
    #[inline]
    fn new(migrated: bool) -> Self {
        Self { migrated, not_send: PhantomData }
    }

    /// Whether the closure may run on another thread than the one that called `join_context`.
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, `b` on another worker if one is without work, and returns both outcomes.
///
/// `a` runs at once on the calling thread, if that is a worker; then `b`, unless somebody has taken it: then the thread works
/// on whatever else waits until that one is done, and sleeps if there is nothing.
///
/// # Panics
/// With the panic of `a`, else of `b`; both have run to their end by then.
///
/// ```
/// let (a, b) = rayon_core::join(|| 6 * 7, || "b");
/// assert_eq!((a, b), (42, "b"));
/// ```
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_context(|_| a(), |_| b())
}

/// As [`join`], with closures that are told whether they may have changed threads.
///
/// # Panics
/// As [`join`].
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    current::with(|registry| {
        registry.in_worker(|injected| match registry.worker() {
            Some(worker) => join_on(registry, worker, injected, a, b),
            // There are no workers any more.
            None => in_order(|| a(FnContext::new(injected)), || b(FnContext::new(injected))),
        })
    })
}

/// Every `b` is offered, however deep: a worker that is without work later must find it.
fn join_on<A, B, RA, RB>(registry: &Registry, worker: usize, injected: bool, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let job = StackJob::new(
        |migrated| b(FnContext::new(injected || migrated)),
        Latch::of(registry.handle, worker),
    );
    // SAFETY: taken back, or waited for, below; `a` cannot unwind past that.
    registry.push_to(worker, unsafe { job.as_job() });
    let ra = catch_unwind(AssertUnwindSafe(|| a(FnContext::new(injected))));
    // Between two pieces: urgent tasks do not wait for the end of a whole iterator.
    registry.handle.give_way();
    let ours = take_back(registry, worker, &job);
    let rb = if ours {
        job.into_closure().map(|b| catch_unwind(AssertUnwindSafe(|| b(false))))
    } else {
        job.latch.wait();
        job.into_outcome()
    };
    outcomes(ra, rb)
}

/// Whether the job could be taken back. Runs what else the worker finds in its queue before.
fn take_back<F, R>(registry: &Registry, worker: usize, job: &StackJob<F, R>) -> bool {
    while !job.latch.is_set() {
        match registry.take(worker) {
            Some(found) if found.is(job) => return true,
            Some(other) => other.run(),
            None => return false,
        }
    }
    false
}

fn in_order<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB) -> (RA, RB) {
    let ra = catch_unwind(AssertUnwindSafe(a));
    let rb = catch_unwind(AssertUnwindSafe(b));
    outcomes(ra, Some(rb))
}

fn outcomes<RA, RB>(a: thread::Result<RA>, b: Option<thread::Result<RB>>) -> (RA, RB) {
    match (a, b) {
        (Ok(a), Some(Ok(b))) => (a, b),
        (Err(payload), _) | (_, Some(Err(payload))) => resume_unwind(payload),
        (Ok(_), None) => unreachable!("a job that ended has an outcome"),
    }
}
