//! The calling context as a worker.

use core::{fmt, marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};

use super::{
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::{
    parts::Parts,
    platform::{Platform, WorkerId, ward::Ward},
    trace::Event,
};

/// The calling context as a worker of an executor, to be stepped by hand. See [`Scheduler::worker`].
///
/// Dropping it takes the worker offline: queued tasks go to the others; local tasks are cancelled; pinned ones wait for
/// the worker to come back. Dropped while the executor is at work in its slot (in the closure of a
/// [`help_until`](Scheduler::help_until), of an [`as_poll`](Scheduler::as_poll), of a broadcast or of a fork-join run, by a task that a
/// [`join`](crate::JoinHandle::join) polls, or in an event sink), it goes offline at the end of that.
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
    pub fn id(&self) -> WorkerId {
        self.id
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> &'static WorkerSlot<RING, S::Parts> {
        self.slot
    }

    /// Reports an event of this worker to the platform.
    #[inline(always)]
    pub(crate) fn trace(&self, event: Event<'_>) {
        self.executor.trace(Some((self.id, self.slot)), event);
    }

    /// Ends the busy period under way: its time goes to the estimate and to the metrics. Search time does not.
    pub(crate) fn end_busy_period(&self) {
        let slot = self.slot();
        if let Some(pace) = slot.local.pace.get().filter(|pace| pace.is_busy()) {
            let now = self.executor.platform.now().as_nanos();
            slot.counters.busy.add(pace.end_busy_period(now));
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> fmt::Debug for Worker<P, S, RING> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A call is at work in the slot of the calling worker until this is dropped. If the worker's handle is dropped meanwhile, the worker
/// leaves at the end of the outermost call.
pub(crate) struct SlotGuard<P: Platform, S: Slots<RING>, const RING: usize>(
    ManuallyDrop<Worker<P, S, RING>>,
);

impl<P: Platform, S: Slots<RING>, const RING: usize> SlotGuard<P, S, RING> {
    /// The caller is worker `id`.
    #[inline(always)]
    pub(crate) fn enter(executor: &'static Scheduler<P, S, RING>, id: WorkerId) -> Self {
        let worker = Worker::of(executor, id);
        let calls = &worker.slot().local.calls;
        calls.set(calls.get() + 1);
        Self(worker)
    }

    pub(crate) fn worker(&self) -> &Worker<P, S, RING> {
        &self.0
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for SlotGuard<P, S, RING> {
    #[inline(always)]
    fn drop(&mut self) {
        let local = &self.0.slot().local;
        local.calls.set(local.calls.get() - 1);
        if local.calls.get() > 0 {
            return;
        }
        if let Some(leave) = local.abandoned.get() {
            // INV-USER-CODE: the user code whose flag this may be was in a poll that is over, on another stack.
            self.0.slot().lifo.set_in_user_code(false);
            // SAFETY: this value has the place of the handle that is gone, which was of its type; this is its last use.
            unsafe { leave(NonNull::from(&mut self.0).cast()) }
        }
    }
}

/// The worker that the calling context is, and its slot, even if the worker has not entered.
pub(crate) type Here<'s, const RING: usize, F> = Option<(WorkerId, &'s WorkerSlot<RING, F>)>;

/// Where a context that would wait is.
pub(crate) enum Waits<'s, const RING: usize, F: Parts> {
    /// In user code of this worker, or between two steps of it.
    OnWorker(WorkerId, &'s WorkerSlot<RING, F>),
    /// In no worker.
    Outside,
    /// Where nothing may wait: in a handler, in a forked child, and in an event sink, which the scheduler calls in the midst of its own
    /// work.
    Nowhere,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Reports an event to the platform, in the context of this worker if it is one. Its sink may be user code, and is called in the midst
    /// of the scheduler's own work: it may wait for nothing, nor run the worker's loop.
    #[inline(always)]
    pub(crate) fn trace(&self, by: Here<'_, RING, S::Parts>, event: Event<'_>) {
        let Some((worker, slot)) = by else { return self.platform.event(None, event) };
        let was = slot.local.in_sink.replace(true);
        self.platform.event(Some(worker), event);
        slot.local.in_sink.set(was);
    }

    /// Whether and as what the calling context may wait, or run a loop of its own.
    pub(crate) fn waits(&self) -> Waits<'_, RING, S::Parts> {
        if !self.platform.may_wait() {
            return Waits::Nowhere;
        }
        match self.online_worker() {
            None => Waits::Outside,
            Some((_, slot)) if slot.local.in_sink.get() => Waits::Nowhere,
            Some((id, slot)) => Waits::OnWorker(id, slot),
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
