//! The waker of a worker: for waits in sync code.

use core::{
    ptr::null_mut,
    task::{RawWaker, RawWakerVTable, Waker},
};

use crate::{
    atomic::{AtomicPtr, AtomicU32, Ordering, maybe_const},
    platform::WorkerId,
    task::executor_ref::ExecutorRef,
};

/// What the worker's own waker points to: enough to find the worker's executor.
///
/// INV-BELL: the data of a waker with the table `BELL` is a `&'static Bell`.
pub(crate) struct Bell {
    /// Null, or an `ExecutorRef`.
    executor: AtomicPtr<()>,
    worker: AtomicU32,
}

static BELL: RawWakerVTable = RawWakerVTable::new(bell_clone, bell_ring, bell_ring, bell_drop);

impl Bell {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { executor: AtomicPtr::new(null_mut()), worker: AtomicU32::new(0) }
        }
    }

    pub(crate) fn hang(&self, executor: ExecutorRef, worker: WorkerId) {
        self.worker.store(worker.index() as u32, Ordering::Relaxed);
        // Ordering: Release pairs with the Acquire in `bell_ring`.
        self.executor.store(executor.into_raw(), Ordering::Release);
    }

    /// A waker that unparks the worker. It counts no references.
    pub(crate) fn waker(&'static self) -> Waker {
        // SAFETY: INV-BELL: the functions of `BELL` need no more.
        unsafe { Waker::from_raw(RawWaker::new(core::ptr::from_ref(self).cast(), &BELL)) }
    }
}

fn bell_clone(bell: *const ()) -> RawWaker {
    RawWaker::new(bell, &BELL)
}

unsafe fn bell_ring(bell: *const ()) {
    // SAFETY: INV-BELL.
    let bell = unsafe { &*bell.cast::<Bell>() };
    // Ordering: Acquire pairs with the Release in `hang`.
    // SAFETY: only `hang` writes it.
    if let Some(executor) = unsafe { ExecutorRef::from_raw(bell.executor.load(Ordering::Acquire)) }
    {
        executor.unpark(WorkerId::new(bell.worker.load(Ordering::Relaxed) as u16));
    }
}

fn bell_drop(_: *const ()) {}
