//! What the path of a task asks of the rooms beside it: a trait for each room, which implements it.
//!
//! So the path names no room, and can be read without them. Where an executor lacks the part that a room is for, the answers are empty.

use super::{
    context::Worker,
    slot::{Slots, WorkerSlot},
};
use crate::{
    class::Class,
    parts::Parts,
    platform::{Platform, WorkerId},
    queue::ring::Ring,
    scheduler::error::RunError,
    task::{executor_ref::Frame, header::Ready, run::Polled},
};

/// Tasks that are not like all others: urgent ones, background ones, and those that are tied to workers (`placement/`). Asked by a worker
/// in its loop.
pub(crate) trait Placement {
    /// What comes before all of the worker's own queues.
    fn take_first(&self) -> Option<Ready>;
    /// What comes before the injector, each time that the worker looks around.
    fn take_in_turn(&self) -> Option<Ready>;
    /// What comes before the queues of all workers, most often.
    fn take_before_shared(&self) -> Option<Ready>;
    /// What comes after them.
    fn take_after_shared(&self) -> Option<Ready>;
    /// What comes when there is neither another task nor a job.
    fn take_last(&self) -> Option<Ready>;
    /// Whatever this worker alone may be able to run: it is in a wait that is too deep for other tasks.
    fn take_bound(&self) -> Option<Ready>;
    /// Whether a task waits that this worker may run and others may not.
    fn has_bound(&self) -> bool;
    /// The worker was woken, perhaps for a task that several may run, and turns to something else.
    fn wake_next_of_set(&self);
    /// The worker leaves its loop for long: what passes meanwhile is no time of its polls.
    fn pause_share(&self);
    /// It is back.
    fn resume_share(&self);
}

/// The same room, asked in any context.
pub(crate) trait Queues<const RING: usize, F: Parts> {
    /// Queues a task that is special, in user code of the worker whose slot it is if there is one. A task that is like all others comes
    /// back.
    fn schedule_special(&self, slot: Option<&WorkerSlot<RING, F>>, ready: Ready) -> Option<Ready>;
    /// Queues a special task that this worker has polled, or had in its LIFO slot.
    fn requeue_special(&self, slot: &WorkerSlot<RING, F>, ready: Ready);
    /// Whether a special task waits that any worker may take. One that only some may take is `Placement::has_bound`'s.
    fn has_special(&self) -> bool;
    /// Whether a task waits that comes before all others and that the worker may run.
    fn has_urgent_for(&self, slot: &WorkerSlot<RING, F>) -> bool;
    /// Whether the worker polls such a task.
    fn is_in_urgent(slot: &WorkerSlot<RING, F>) -> bool;
    /// A new task whose spawn gave no class has that of the task that is being polled.
    fn inherit_class(&'static self, slot: Option<&WorkerSlot<RING, F>>, ready: &Ready);
}

/// The same room, asked of a worker's own queues.
pub(crate) trait OwnQueues<const RING: usize, F: Parts> {
    /// Whether a task may wait with an affinity to the worker.
    fn is_hinted(&self) -> bool;
    /// The ring for tasks of this class, which is not the urgent one.
    fn ring_of(&self, class: Class) -> Option<&Ring<RING>>;
    /// Whether tasks are in a ring of the worker's.
    fn has_queued(&self) -> bool;
    /// How many.
    fn queued(&self) -> usize;
    /// The next task that is pinned to the worker, whatever its class.
    ///
    /// # Safety
    /// The caller is the worker.
    unsafe fn pop_pinned(&self) -> Option<Ready>;
    /// Whether a task that is pinned to the worker waits, or one may with an affinity to it.
    ///
    /// # Safety
    /// The caller is the worker.
    unsafe fn has_bound(&self) -> bool;
    /// As `has_bound`, of a worker that has left.
    fn has_mail(&self) -> bool;
    /// The worker leaves: others see the tasks that are pinned to it.
    ///
    /// # Safety
    /// The caller is the worker.
    unsafe fn put_back(&self);
}

/// Fork-join jobs and broadcasts (`forks/`). Asked by a worker in its loop.
pub(crate) trait Jobs {
    /// Runs a job that goes before tasks; whether there was one.
    fn run_first_job(&self) -> bool;
    /// Runs what comes when there is no task: the closure of a broadcast, or a job. Whether there was one.
    fn run_next_job(&self) -> bool;
    /// Runs a job that comes after all tasks; whether there was one.
    fn run_last_job(&self) -> bool;
    /// Runs a broadcast's closure, if there is one for this worker; whether there was.
    fn join_broadcast(&self) -> bool;
    /// Whether a job may wait that is for this worker and some others alone.
    fn has_bound_jobs(&self) -> bool;
}

/// The same room, asked in any context.
pub(crate) trait JobOffers<const RING: usize, F: Parts> {
    /// Whether one more worker may run jobs of others.
    fn may_run_jobs(&self) -> bool;
    /// Whether any other worker may take jobs of this one.
    fn has_jobs(slot: &WorkerSlot<RING, F>) -> bool;
    /// Asks all workers to offer their jobs.
    fn ask_for_jobs(&self);
    /// A worker has left, and takes no part in a broadcast any more.
    fn decline_broadcast(&self, slot: &WorkerSlot<RING, F>);
}

/// Workers that come and go, and the end of the executor (`lifecycle/`).
pub(crate) trait Lifecycle<P: Platform, S: Slots<RING>, const RING: usize> {
    /// Becomes this worker in the calling context, if the slot has this status.
    fn enter_slot(&'static self, id: WorkerId, from: u32) -> Result<Worker<P, S, RING>, RunError>;
    /// Whether no task is left after a shutdown. Looks for the end, if one has begun.
    fn settle(&self) -> bool;
    /// Begins to retire, if the worker was asked to and no task keeps it; whether it does. The next pass stops then.
    fn try_retire(&self, slot: &WorkerSlot<RING, S::Parts>) -> bool;
    /// Whether the worker, which has just gone offline in the calling context, is to come back.
    fn is_wanted(&self, id: WorkerId) -> bool;
    /// Whether the platform has been asked to start the worker, which it is from now on.
    fn mark_as_started(slot: &WorkerSlot<RING, S::Parts>) -> bool;
    /// The calling context is no longer the worker of this slot, whose status becomes this one.
    fn leave_as(&self, slot: &WorkerSlot<RING, S::Parts>, status: u32);
    /// A task has ended that was tied to this worker, or to several of which it is the first.
    fn dismiss_affine(&self, first: WorkerId);
    /// Something has come for a worker that may be offline: the thread that waits for the end then works in its place.
    fn wake_shutdown_waiter(&self);
}

/// Workers that are blocked, and those that stand in for them (`waits/`).
pub(crate) trait Waiting<P: Platform, S: Slots<RING>, const RING: usize> {
    /// Counts the calling worker, whose slot this is, as blocked for as long as the result lives, and has another take its place.
    fn begin_block(&'static self, slot: &WorkerSlot<RING, S::Parts>) -> impl Sized;
    /// Counts the calling worker as one that sleeps until a stolen job is done, for as long as the result lives.
    fn begin_join_sleep(&'static self, slot: &WorkerSlot<RING, S::Parts>) -> impl Sized;
    /// Calls the function on a worker that the calling context, which is none, becomes for that time. Gives the value back if it cannot.
    fn with_helper<T, R>(
        &'static self,
        value: T,
        f: impl FnOnce(&Worker<P, S, RING>, T) -> Result<R, T>,
    ) -> Result<R, T>;
    /// Whether the worker stood in for another, and is no longer needed. Then it must leave.
    fn is_surplus(&self, id: WorkerId) -> bool;
    /// There is something for a worker that may be blocked. After a fence.
    fn tell_blocked(&self, worker: WorkerId);
    /// Has every blocked worker look again whether others can work. After a fence.
    fn recheck_blocked(&self);
    /// The poll of a frame is over that has left its worker meanwhile.
    fn end_outside(&'static self, frame: &Frame, polled: Polled);
}
