//! A closure with its result as a job.

use core::{mem::ManuallyDrop, ptr::NonNull};

use super::{
    handle::Fork,
    worker::{ForkWorker, Job},
};
use crate::{atomic::UnsafeCell, platform::Panic};

/// The second side of a fork, on the stack of the context that forks. It is told whether it was stolen.
///
/// INV-FORKED: `body` is the closure until it runs: on its owner, after it has taken the job back, or on its thief.
/// After a `Job::run` it is the result, unless the closure has panicked. The context that has the job has the body (INV-JOB).
#[repr(C)]
pub(super) struct Forked<B, R> {
    /// The first field, so that a pointer to the job is a pointer to the whole.
    pub(super) job: Job,
    body: UnsafeCell<Body<B, R>>,
}

union Body<B, R> {
    closure: ManuallyDrop<B>,
    #[allow(dead_code, reason = "written and read through pointers")]
    outcome: ManuallyDrop<R>,
}

impl<B, R> Forked<B, R>
where
    B: FnOnce(Fork<'_>, bool) -> R + Send,
    R: Send,
{
    #[inline(always)]
    pub(super) fn new(closure: B) -> Self {
        let body = Body { closure: ManuallyDrop::new(closure) };
        Self { job: Job::new(Self::run), body: UnsafeCell::new(body) }
    }

    /// A pointer to the job, with access to the whole.
    #[inline(always)]
    pub(super) fn as_job(&self) -> NonNull<Job> {
        NonNull::from(self).cast()
    }

    /// The closure.
    ///
    /// # Safety
    /// INV-FORKED: the caller has the job, which has not run. It takes the closure once.
    #[inline(always)]
    pub(super) unsafe fn closure(&self) -> B {
        self.body.with_mut(|p| {
            // SAFETY: INV-FORKED: the body holds the closure and is the caller's, which moves it out once.
            ManuallyDrop::into_inner(unsafe { p.cast::<ManuallyDrop<B>>().read() })
        })
    }

    /// The result, or the panic.
    ///
    /// # Safety
    /// INV-FORKED: the job is complete, or the owner has run it. The caller is the owner, and takes the outcome once.
    pub(super) unsafe fn outcome(&self) -> Result<R, Panic> {
        // SAFETY: INV-JOB: the rest is the caller's.
        if let Some(panic) = unsafe { self.job.take_panic() } {
            return Err(panic);
        }
        Ok(self.body.with_mut(|p| {
            // SAFETY: INV-FORKED: the body holds the result and is the owner's again, which moves it out once.
            ManuallyDrop::into_inner(unsafe { p.cast::<ManuallyDrop<R>>().read() })
        }))
    }

    /// See `Job::new`.
    unsafe fn run(job: NonNull<Job>, worker: &ForkWorker) {
        // SAFETY: `as_job` made the pointer; INV-JOB keeps the whole in place.
        let this = unsafe { job.cast::<Self>().as_ref() };
        // SAFETY: INV-FORKED: by the contract of `run` the caller has the job, and runs it once.
        let closure = unsafe { this.closure() };
        let stolen = this.job.thief().is_some();
        let outcome = ManuallyDrop::new(closure(Fork::of(worker), stolen));
        // SAFETY: INV-FORKED: the body is ours until the job is complete, and the closure has been moved out.
        this.body.with_mut(|p| unsafe { p.cast::<ManuallyDrop<R>>().write(outcome) });
    }
}
