//! Something to run once: a closure on the heap.

use core::mem::transmute;

/// Something to run once, by whoever has it. It never unwinds.
pub(crate) struct Job(Box<dyn FnOnce() + Send>);

impl Job {
    pub(crate) fn new(job: impl FnOnce() + Send + 'static) -> Self {
        Self(Box::new(job))
    }

    /// A job that borrows.
    ///
    /// # Safety
    /// It is run, and so gone, before what it borrows is.
    pub(crate) unsafe fn borrowing<'a>(job: impl FnOnce() + Send + 'a) -> Self {
        let job: Box<dyn FnOnce() + Send + 'a> = Box::new(job);
        // SAFETY: only the lifetime changes; the caller's.
        Self(unsafe { transmute::<Box<dyn FnOnce() + Send + 'a>, Box<dyn FnOnce() + Send>>(job) })
    }

    pub(crate) fn run(self) {
        (self.0)();
    }
}
