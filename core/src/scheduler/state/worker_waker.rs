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
/// INV-WORKER-WAKER: the data of a waker with the table `VTABLE` is a `&'static WorkerWaker`.
pub(crate) struct WorkerWaker {
    /// Null, or an `ExecutorRef`.
    executor: AtomicPtr<()>,
    worker: AtomicU32,
}

static VTABLE: RawWakerVTable =
    RawWakerVTable::new(clone_waker, wake_worker_of, wake_worker_of, drop_waker);

impl WorkerWaker {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { executor: AtomicPtr::new(null_mut()), worker: AtomicU32::new(0) }
        }
    }

    pub(crate) fn bind(&self, executor: ExecutorRef, worker: WorkerId) {
        self.worker.store(worker.index() as u32, Ordering::Relaxed);
        // Ordering: Release pairs with the Acquire in `wake_worker_of`.
        self.executor.store(executor.into_raw(), Ordering::Release);
    }

    /// A waker that unparks the worker. It counts no references.
    pub(crate) fn waker(&'static self) -> Waker {
        // SAFETY: INV-WORKER-WAKER: the functions of `VTABLE` need no more.
        unsafe { Waker::from_raw(RawWaker::new(core::ptr::from_ref(self).cast(), &VTABLE)) }
    }
}

fn clone_waker(this: *const ()) -> RawWaker {
    RawWaker::new(this, &VTABLE)
}

unsafe fn wake_worker_of(this: *const ()) {
    // SAFETY: INV-WORKER-WAKER.
    let this = unsafe { &*this.cast::<WorkerWaker>() };
    // Ordering: Acquire pairs with the Release in `bind`.
    // SAFETY: only `bind` writes it.
    if let Some(executor) = unsafe { ExecutorRef::from_raw(this.executor.load(Ordering::Acquire)) }
    {
        executor.unpark(WorkerId::new(this.worker.load(Ordering::Relaxed) as u16));
    }
}

fn drop_waker(_: *const ()) {}
