//! A closure as a job, and its outcome.

use core::{mem::ManuallyDrop, ptr::NonNull};

use super::handle::Fork;
use crate::{
    atomic::UnsafeCell,
    scheduler::{bay::Bay, job::Job},
};

/// The second side of a fork, on the stack of whoever forks.
///
/// INV-FORKED: `body` is the closure until somebody runs it: its owner, who has taken the job back, or its thief; then its
/// outcome, unless it has panicked. Whoever has the job has the body (INV-JOB).
#[repr(C)]
pub(super) struct Forked<B, R> {
    /// First, so that a pointer to it is a pointer to the whole.
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
    B: FnOnce(Fork<'_>) -> R + Send,
    R: Send,
{
    #[inline(always)]
    pub(super) fn new(closure: B) -> Self {
        let body = Body { closure: ManuallyDrop::new(closure) };
        Self { job: Job::new(Self::run), body: UnsafeCell::new(body) }
    }

    /// A pointer to the job that may reach all of it.
    #[inline(always)]
    pub(super) fn as_job(&self) -> NonNull<Job> {
        NonNull::from(self).cast()
    }

    /// The closure.
    ///
    /// # Safety
    /// INV-FORKED: the caller has the job, which has not run, and takes the closure once.
    #[inline(always)]
    pub(super) unsafe fn closure(&self) -> B {
        self.body.with_mut(|p| {
            // SAFETY: INV-FORKED: the closure is in the body, which is the caller's, and is moved out once.
            ManuallyDrop::into_inner(unsafe { p.cast::<ManuallyDrop<B>>().read() })
        })
    }

    /// The outcome.
    ///
    /// # Safety
    /// INV-FORKED: the job is done, and has not panicked; the caller is its owner and takes the outcome once.
    pub(super) unsafe fn outcome(&self) -> R {
        self.body.with_mut(|p| {
            // SAFETY: INV-FORKED: the outcome is in the body, which is its owner's again, and is moved out once.
            ManuallyDrop::into_inner(unsafe { p.cast::<ManuallyDrop<R>>().read() })
        })
    }

    /// See `Job::new`.
    unsafe fn run(job: NonNull<Job>, bay: &Bay) {
        // SAFETY: `as_job` made the pointer; INV-JOB keeps the whole in place.
        let this = unsafe { job.cast::<Self>().as_ref() };
        // SAFETY: INV-FORKED: by the contract of `run` the caller has the job, and runs it once.
        let closure = unsafe { this.closure() };
        let outcome = ManuallyDrop::new(closure(Fork::of(bay)));
        // SAFETY: INV-FORKED: the body is ours until the job is done, and the closure is out of it.
        this.body.with_mut(|p| unsafe { p.cast::<ManuallyDrop<R>>().write(outcome) });
    }
}
