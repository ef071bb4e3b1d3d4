//! A slot that was taken before its task is spawned.

use core::{fmt, future::Future, marker::PhantomData, ptr::NonNull};

use super::{
    cell::Task,
    executor_ref::ExecutorRef,
    header::{Header, Slot},
    join::JoinHandle,
    spawn::{Given, Spawner},
};

/// A slot taken ahead of its task. Dropping it gives the slot back.
///
/// ```
/// # filch_test_support::board!();
/// use core::future::{Ready, ready};
/// use filch::{Executor, Reservation, SpawnErrorKind, TaskPool, WorkerId};
/// static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// static TASKS: TaskPool<256, 1> = TaskPool::new();
///
/// let slot: Reservation<Ready<u32>> = EXECUTOR.spawner().reserve(&TASKS).unwrap();
/// assert_eq!(EXECUTOR.spawner().reserve::<Ready<u32>>(&TASKS).unwrap_err(), SpawnErrorKind::Full);
/// let mut task = slot.spawn(ready(7));
/// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
/// assert_eq!(task.join()?, 7);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Reservation<F> {
    spawner: Spawner,
    executor: ExecutorRef,
    /// INV-RESERVED: the slot is ours, and was taken for a `Task<F, ()>`.
    slot: NonNull<Header>,
    /// Invariant in `F`: the slot was chosen for this very type, even if it is a subtype of another.
    future: PhantomData<fn(F) -> F>,
}

// SAFETY: INV-RESERVED: an empty slot may be sent to any thread.
unsafe impl<F> Send for Reservation<F> {}

impl<F> Reservation<F> {
    /// # Safety
    /// INV-RESERVED.
    pub(super) unsafe fn new(
        spawner: Spawner,
        executor: ExecutorRef,
        slot: NonNull<Header>,
    ) -> Self {
        Self { spawner, executor, slot, future: PhantomData }
    }
}

impl<F> Reservation<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Spawns into the slot. It cannot fail. If the executor has shut down meanwhile, the future is dropped here, and
    /// the handle returns [`Cancelled`](crate::JoinError::Cancelled).
    pub fn spawn(self, future: F) -> JoinHandle<F::Output> {
        let this = core::mem::ManuallyDrop::new(self);
        let spawner = this.spawner;
        if let Some(caller) = this.executor.admit() {
            // SAFETY: INV-RESERVED; admitted.
            return unsafe { spawner.begin(this.slot, caller, future, (), Given::default()) };
        }
        // SAFETY: INV-RESERVED. The task is complete from the start, and the handle's reference is its only one.
        unsafe {
            Task::build(this.slot, future, ());
            Task::<F, ()>::cancel_unscheduled(this.slot);
            JoinHandle::new(this.slot)
        }
    }
}

impl<F> Drop for Reservation<F> {
    fn drop(&mut self) {
        // SAFETY: INV-RESERVED; the slot holds no task.
        self.executor.free(unsafe { Slot::from_raw(self.slot) });
    }
}

impl<F> fmt::Debug for Reservation<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").finish_non_exhaustive()
    }
}
