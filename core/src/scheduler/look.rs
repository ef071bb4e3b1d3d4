//! Questions that a worker asks before it decides: is there work, is there a worker for it. They change nothing.

#[cfg(feature = "classes")]
use super::classes::Classes;
use super::{
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
#[cfg(feature = "classes")]
use crate::{atomic::AtomicU32, instant::Instant};
use crate::{
    class::Class,
    fork::worker::ForkWorker,
    parts::{Parts, Switch},
    platform::{Platform, WorkerId},
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Whether there is a task that worker `me` could take from the injector or from another's ring, or a job of another.
    pub(crate) fn has_work(&self, me: WorkerId) -> bool {
        self.has_work_but_of(Some(me.index()))
    }

    /// As `has_work`, for any worker: in the injector, in any ring, and public jobs of any worker.
    pub(crate) fn has_work_for_any(&self) -> bool {
        self.has_work_but_of(None)
    }

    fn has_work_but_of(&self, me: Option<usize>) -> bool {
        let jobs = self.may_run_jobs();
        let has =
            |slot: &WorkerSlot<RING, S::Parts>| slot.has_queued() || (jobs && Self::has_jobs(slot));
        self.has_injected()
            || (self.config.stealing()
                && self.in_use().iter().enumerate().any(|(i, slot)| Some(i) != me && has(slot)))
    }

    /// Whether any other worker may take jobs of this one: those of a run that is held to a set mark its workers.
    fn has_jobs(slot: &WorkerSlot<RING, S::Parts>) -> bool {
        slot.fork.get().is_some_and(ForkWorker::has_jobs)
            && slot.classes.get().is_none_or(|own| own.run.get().set().is_none())
    }

    /// Whether a task waits that any worker may take, in a ring or in a queue that is no worker's.
    pub(crate) fn has_queued(&self) -> bool {
        self.has_injected() || self.in_use().iter().any(WorkerSlot::has_queued)
    }

    /// Whether a task waits that any worker may take, in a queue that is no worker's.
    #[inline]
    pub(crate) fn has_injected(&self) -> bool {
        !self.injector.is_empty()
            || self
                .classes
                .get()
                .is_some_and(|classes| !classes.urgent.is_empty() || !classes.background.is_empty())
    }

    /// Whether an urgent task waits that the worker may run.
    #[inline(always)]
    pub(crate) fn is_pressed(&self, slot: &WorkerSlot<RING, S::Parts>) -> bool {
        let (Some(all), Some(own)) = (self.classes.get(), slot.classes.get()) else { return false };
        all.calls() != own.calls.get() && own.has_urgent(all)
    }

    /// Whether an urgent task waits for the poll of a task of another class, in the context of the worker whose slot it is.
    #[inline(always)]
    pub(crate) fn must_give_way(&self, slot: &WorkerSlot<RING, S::Parts>) -> bool {
        self.is_pressed(slot) && Self::class_of(slot).is_some_and(|class| class != Class::Urgent)
    }

    /// The class of the task that the worker polls, for the worker itself.
    pub(crate) fn class_of(slot: &WorkerSlot<RING, S::Parts>) -> Option<Class> {
        // SAFETY: the caller is the worker.
        unsafe { slot.polled() }.map(|task| task.state.load().class())
    }

    /// Whether the worker polls an urgent task.
    pub(crate) fn is_in_urgent(slot: &WorkerSlot<RING, S::Parts>) -> bool {
        // SAFETY: the caller is the worker.
        unsafe { slot.polled() }.is_some_and(|task| task.state.load().is_urgent())
    }

    /// A count that grows with each urgent task that comes: [`give_way`](Self::give_way) finds one only after it has changed.
    #[cfg(feature = "classes")]
    #[doc(hidden)]
    pub fn urgent_count(&self) -> Option<&AtomicU32> {
        self.classes.get().map(Classes::count)
    }

    /// How often urgent tasks have come, if one waits now that this worker may run: for simulations.
    #[doc(hidden)]
    pub fn urgent_calls(&self, worker: WorkerId) -> Option<u32> {
        let (all, own) = (self.classes.get()?, self.slots().get(worker.index())?.classes.get()?);
        own.has_urgent(all).then(|| all.calls())
    }

    /// The earliest deadline of the urgent tasks that wait for any worker: for simulations.
    #[cfg(feature = "classes")]
    #[doc(hidden)]
    pub fn first_deadline(&self) -> Option<Instant> {
        self.classes.get()?.urgent.first_deadline()
    }

    /// Whether one more worker may run jobs of others (`Config::job_workers`).
    pub(crate) fn may_run_jobs(&self) -> bool {
        // Two workers that pass the limit at once do no harm for long. A worker that counts down looks for jobs itself afterwards.
        self.census.thieves.get() < self.config.job_workers() && self.helpers_leave_room()
    }

    /// Whether one of the workers without work may run a job. Each helper has the place of one such worker.
    #[inline]
    fn helpers_leave_room(&self) -> bool {
        let helpers = self.census.helpers.get() as usize;
        helpers == 0 || self.without_work() > helpers
    }

    /// How many workers sleep or search.
    pub(crate) fn without_work(&self) -> usize {
        self.idle.parked(self) + self.idle.searching() as usize
    }

    /// Whether there may be a worker to wake: an only worker is awake, as it calls this.
    #[inline]
    pub(crate) fn has_company(&self) -> bool {
        // A worker that comes online at this moment may miss a task that is being pushed, and sleep. Its first
        // sleep is a short one. Without a watchdog there is no such sleep, and it must be seen.
        let alone = self.census.online() <= 1 && self.config.has_watchdog();
        !alone && self.slots().len() > 1
    }

    /// Whether a worker may have to be seen to, once the caller is announced.
    pub(crate) fn is_one_awake(&self) -> bool {
        self.census.is_one_awake(self.idle.parked(self))
    }

    /// Whether there is a reactor for workers to listen in.
    #[inline(always)]
    pub(crate) fn listens(&self) -> bool {
        <S::Parts as Parts>::Io::ON && self.platform.listens()
    }

    /// Whether workers sleep, and none of them watches. A hint.
    pub(crate) fn lacks_watcher(&self) -> bool {
        self.config.has_watchdog() && !self.watchdog.is_on() && self.idle.any_parked(self)
    }

    /// Whether a worker watches, or will before any sleeps.
    pub(crate) fn has_watcher(&self) -> bool {
        self.config.has_watchdog() && (self.watchdog.is_on() || !self.idle.any_parked(self))
    }

    /// Whether a worker other than `me` is in a poll behind which a task or timers wait, some worker sleeps, and none watches.
    pub(crate) fn is_unwatched_by_all_but(&self, me: WorkerId) -> bool {
        let waits = |slot: &WorkerSlot<RING, S::Parts>| {
            !slot.lifo.is_empty() || (slot.lifo.is_in_poll() && slot.has_timers())
        };
        self.lacks_watcher()
            && self.in_use().iter().enumerate().any(|(i, slot)| i != me.index() && waits(slot))
    }

    /// Whether a task waits behind a poll, some worker sleeps, and none watches: for simulations.
    #[doc(hidden)]
    pub fn is_unwatched(&self) -> bool {
        let waits =
            |slot: &WorkerSlot<RING, S::Parts>| slot.lifo.is_in_poll() && !slot.lifo.is_empty();
        self.lacks_watcher() && self.config.stealing() && self.in_use().iter().any(waits)
    }

    /// Whether I/O is not heard of before some worker looks: none is in the reactor. A hint.
    pub(crate) fn is_unheard(&self) -> bool {
        self.listens() && self.idle.listener.is_none()
    }
}
