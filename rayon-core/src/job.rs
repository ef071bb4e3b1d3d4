//! Something to run once: a closure on the heap, or the side of a join on its caller's stack.

use core::{cell::UnsafeCell, panic::AssertUnwindSafe, ptr::NonNull};
use std::{panic::catch_unwind, thread};

use filch_std::latch::Latch;

/// Something to run once, by whoever has it. It never unwinds.
pub(crate) enum Job {
    Heap(Box<dyn FnOnce() + Send>),
    Stack(StackRef),
}

/// A [`StackJob`] without its types.
pub(crate) struct StackRef {
    at: NonNull<()>,
    run: unsafe fn(NonNull<()>),
}

// SAFETY: a `StackJob` holds a closure and an outcome that are `Send` (`StackJob::new`).
unsafe impl Send for StackRef {}

impl Job {
    pub(crate) fn new(job: impl FnOnce() + Send + 'static) -> Self {
        Self::Heap(Box::new(job))
    }

    /// A job that borrows.
    ///
    /// # Safety
    /// It is run, and so gone, before what it borrows is.
    pub(crate) unsafe fn borrowing<'a>(job: impl FnOnce() + Send + 'a) -> Self {
        let job: Box<dyn FnOnce() + Send + 'a> = Box::new(job);
        // SAFETY: only the lifetime changes; the caller's.
        Self::Heap(unsafe {
            core::mem::transmute::<Box<dyn FnOnce() + Send + 'a>, Box<dyn FnOnce() + Send>>(job)
        })
    }

    pub(crate) fn run(self) {
        match self {
            Self::Heap(job) => job(),
            // SAFETY: INV-STACK: whoever has the job runs it, once.
            Self::Stack(job) => unsafe { (job.run)(job.at) },
        }
    }

    /// Whether this is that very job.
    pub(crate) fn is<F, R>(&self, other: &StackJob<F, R>) -> bool {
        matches!(self, Self::Stack(job) if job.at == NonNull::from(other).cast())
    }
}

/// A closure and its outcome on the stack of who waits for it.
///
/// INV-STACK: one `Job` is made of it, and it stays until that has been run or is back in its owner's hands. Who has the `Job`
/// has both cells; when the latch is set they are the owner's.
pub(crate) struct StackJob<F, R> {
    closure: UnsafeCell<Option<F>>,
    outcome: UnsafeCell<Option<thread::Result<R>>>,
    pub(crate) latch: Latch,
}

impl<F, R> StackJob<F, R>
where
    F: FnOnce(bool) -> R + Send,
    R: Send,
{
    /// The closure is told whether it has left its owner's hands.
    pub(crate) fn new(closure: F, latch: Latch) -> Self {
        Self { closure: UnsafeCell::new(Some(closure)), outcome: UnsafeCell::new(None), latch }
    }

    /// The job, for others to run.
    ///
    /// # Safety
    /// INV-STACK: once, and the caller waits for its end or takes it back.
    pub(crate) unsafe fn as_job(&self) -> Job {
        Job::Stack(StackRef { at: NonNull::from(self).cast(), run: Self::run })
    }

    /// # Safety
    /// By who has the job, once.
    unsafe fn run(at: NonNull<()>) {
        // SAFETY: `as_job` made the pointer; INV-STACK keeps it in place until the latch is set.
        let this = unsafe { at.cast::<Self>().as_ref() };
        // SAFETY: INV-STACK: ours.
        let closure = unsafe { (*this.closure.get()).take() };
        let outcome = closure.map(|closure| catch_unwind(AssertUnwindSafe(|| closure(true))));
        // SAFETY: as above.
        unsafe { *this.outcome.get() = outcome };
        // SAFETY: INV-LATCH: once; the last touch.
        unsafe { Latch::set(NonNull::from(&this.latch)) };
    }

    /// The closure, of a job that was taken back and not run.
    pub(crate) fn into_closure(self) -> Option<F> {
        self.closure.into_inner()
    }

    /// The outcome, after the latch was set.
    pub(crate) fn into_outcome(self) -> Option<thread::Result<R>> {
        self.outcome.into_inner()
    }
}
