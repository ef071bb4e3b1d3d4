//! The calling context as a worker.

use core::{fmt, marker::PhantomData, mem::ManuallyDrop};

use super::{
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::platform::{Platform, WorkerId, ward::Ward};

/// The calling context as a worker of an executor, to be stepped by hand. See [`Scheduler::worker`].
///
/// Dropping it takes the worker offline: queued tasks go to the others; local tasks are cancelled; pinned ones wait for
/// the worker to come back. Dropped while the executor is at work in its slot (in the closure of a
/// [`help_until`](Scheduler::help_until), of a broadcast or of a fork-join run, or by a task that a
/// [`join`](crate::JoinHandle::join) polls), it goes offline at the end of that.
///
/// It is neither `Send` nor `Sync`: it *is* the context that it was made in.
///
/// ```
/// # filch_test_support::board!();
/// # use core::time::Duration;
/// # use filch::{Executor, Step, TaskPool, WorkerId};
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<512, 8> = TaskPool::new();
/// let worker = EXECUTOR.worker(WorkerId::new(0))?;
/// assert_eq!(worker.id(), WorkerId::new(0));
/// let task = EXECUTOR.spawn(&TASKS, EXECUTOR.sleep(Duration::from_millis(5))).unwrap();
/// // One poll, and the task sleeps.
/// assert_eq!(worker.run_for(10), 1);
/// while !task.is_finished() {
///     worker.park();
///     let (Step::Polled | Step::Idle) = worker.step() else { break };
/// }
/// assert!(!worker.is_at_work());
/// // Another loop drives it: nothing to do, and no timer to wait for.
/// assert_eq!(worker.begin_park(), Some(None));
/// worker.end_park();
/// assert_eq!(worker.step(), Step::Idle);
/// # Ok::<(), filch::RunError>(())
/// ```
pub struct Worker<P: Platform, S, const RING: usize = 256>
where
    S: Slots<RING>,
{
    pub(crate) executor: &'static Scheduler<P, S, RING>,
    slot: &'static WorkerSlot<RING, S::Parts>,
    id: WorkerId,
    not_send: PhantomData<*mut ()>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    pub(crate) fn new(executor: &'static Scheduler<P, S, RING>, id: WorkerId) -> Self {
        // SAFETY: `attach` has checked that there is such a slot.
        let slot = unsafe { executor.slots().get_unchecked(id.index()) };
        Self { executor, slot, id, not_send: PhantomData }
    }

    /// As `new`, for a look in the midst of something: dropped, it leaves the worker where it is.
    pub(crate) fn of(executor: &'static Scheduler<P, S, RING>, id: WorkerId) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self::new(executor, id))
    }

    /// Which worker this is.
    ///
    /// Example: [`Worker`].
    pub fn id(&self) -> WorkerId {
        self.id
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> &'static WorkerSlot<RING, S::Parts> {
        self.slot
    }

    /// Ends the stretch of polls under way: its time goes to the estimate and to the metrics. Search time does not.
    pub(crate) fn end_stretch(&self) {
        let slot = self.slot();
        if let Some(pace) = slot.local.pace.get().filter(|pace| pace.is_in_stretch()) {
            let now = self.executor.platform.now().as_nanos();
            slot.counters.busy.add(pace.end_stretch(now));
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> fmt::Debug for Worker<P, S, RING> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The end of a call that works in the slot of the calling worker. If the worker's handle was dropped meanwhile, and nothing else
/// on the stack relies on the slot, the worker leaves.
pub(crate) struct Leave<P: Platform, S: Slots<RING>, const RING: usize>(
    ManuallyDrop<Worker<P, S, RING>>,
);

impl<P: Platform, S: Slots<RING>, const RING: usize> Leave<P, S, RING> {
    /// The caller is worker `id`.
    pub(crate) fn at_end(executor: &'static Scheduler<P, S, RING>, id: WorkerId) -> Self {
        Self(Worker::of(executor, id))
    }

    pub(crate) fn worker(&self) -> &Worker<P, S, RING> {
        &self.0
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Leave<P, S, RING> {
    fn drop(&mut self) {
        let slot = self.0.slot();
        if slot.local.abandoned.get() && !slot.is_at_work() {
            // SAFETY: this value has the place of the handle that is gone; this is its last use.
            unsafe { ManuallyDrop::drop(&mut self.0) }
        }
    }
}

/// The platform is in this executor's context, whatever context the code of the caller is in. Its drop puts that back.
pub(crate) struct Inside<P: Platform> {
    platform: &'static Ward<P>,
    before: *const (),
}

impl<P: Platform> Inside<P> {
    pub(crate) fn enter(platform: &'static Ward<P>) -> Self {
        Self { platform, before: platform.nest() }
    }
}

impl<P: Platform> Drop for Inside<P> {
    fn drop(&mut self) {
        self.platform.unnest(self.before);
    }
}
