//! Questions that a worker asks before it decides: is there work, is there a worker for it. They change nothing.

use super::{
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::{
    parts::{Parts, Switch},
    platform::{Platform, WorkerId},
    scheduler::core::faces::{JobOffers, OwnQueues, Queues},
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
                && self
                    .slots_in_use()
                    .iter()
                    .enumerate()
                    .any(|(i, slot)| Some(i) != me && has(slot)))
    }

    /// Whether a task waits that any worker may take, in a ring or in a queue that is no worker's.
    pub(crate) fn has_queued(&self) -> bool {
        self.has_injected() || self.slots_in_use().iter().any(WorkerSlot::has_queued)
    }

    /// Whether a task waits that any worker may take, in a queue that is no worker's.
    #[inline]
    pub(crate) fn has_injected(&self) -> bool {
        let waits = match self.injector.get() {
            Some(injector) => !injector.is_empty(),
            None => self.slot_of(WorkerId::new(0)).inbox.has_mail(),
        };
        waits || self.has_special()
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
    pub(crate) fn has_reactor(&self) -> bool {
        <S::Parts as Parts>::Io::ON && self.platform.has_reactor()
    }

    /// Whether workers sleep, and none of them watches. A hint.
    pub(crate) fn needs_watcher(&self) -> bool {
        self.config.has_watchdog() && !self.watchdog.is_on() && self.idle.any_parked(self)
    }

    /// Whether a worker watches. If none sleeps, the next one that does will watch.
    pub(crate) fn has_watcher(&self) -> bool {
        self.config.has_watchdog() && (self.watchdog.is_on() || !self.idle.any_parked(self))
    }

    /// Whether a worker other than `me` is in a poll behind which a task or timers wait, some worker sleeps, and none watches.
    pub(crate) fn is_unwatched_by_all_but(&self, me: WorkerId) -> bool {
        let waits = |slot: &WorkerSlot<RING, S::Parts>| {
            !slot.lifo.is_empty() || (slot.lifo.is_in_poll() && slot.has_timers())
        };
        self.needs_watcher()
            && self
                .slots_in_use()
                .iter()
                .enumerate()
                .any(|(i, slot)| i != me.index() && waits(slot))
    }

    /// Whether a task waits behind a poll, some worker sleeps, and none watches: for simulations.
    #[doc(hidden)]
    pub fn is_unwatched(&self) -> bool {
        let waits =
            |slot: &WorkerSlot<RING, S::Parts>| slot.lifo.is_in_poll() && !slot.lifo.is_empty();
        self.needs_watcher() && self.config.stealing() && self.slots_in_use().iter().any(waits)
    }

    /// Whether I/O is not heard of before some worker looks: none is in the reactor. A hint.
    pub(crate) fn is_unheard(&self) -> bool {
        self.has_reactor() && self.idle.listener.is_none()
    }
}
