//! Which sleeping worker is woken, and for what.

use super::{
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::{
    atomic::{Ordering, fence},
    platform::{Platform, WorkerId, WorkerSet},
    scheduler::core::faces::{Lifecycle, Waiting},
    sleep::{idle::Claim, park::Sleep},
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// There is work that any worker can take.
    #[inline]
    pub(crate) fn notify(&self) {
        if !self.is_shared() || self.idle.must_notify(self) {
            self.wake_one();
        }
    }

    /// There is work for others in the worker's queues: notifies, or puts that off to the end of its batch.
    #[inline(always)]
    pub(crate) fn notify_of(&self, slot: &WorkerSlot<RING, S::Parts>) {
        if !slot.local.duties.defer_notify() {
            self.notify();
        }
    }

    /// Wakes a sleeper, if there is one: for work, to watch or to listen.
    #[cold]
    pub(crate) fn wake_one(&self) {
        if !self.is_shared() {
            // Its park word keeps the notice.
            return self.unpark(WorkerId::new(0));
        }
        // A handler that has interrupted the sleep of its own worker wakes that one: its core is awake.
        let near = if self.platform.is_handler() { self.current() } else { None };
        let near = near.map(|(worker, _)| worker);
        if let Some(worker) = self.idle.claim_any(self, near) {
            self.unpark(worker);
        }
    }

    /// Wakes a sleeper for timers that belong to all workers, or for I/O of which none hears. If none is parked, those that are blocked in
    /// waits are woken, and see to it. After a fence.
    #[cold]
    pub(crate) fn wake_for_upkeep(&self) {
        if !self.is_shared() || self.idle.any_parked(self) {
            self.wake_one();
        } else {
            self.recheck_blocked();
        }
    }

    /// There is a task in this worker's inbox: wakes it if it sleeps.
    pub(crate) fn wake_worker(&self, worker: WorkerId) {
        if self.is_shared() {
            // Ordering: pairs with the fence in `Idle::announce`: either we see the worker's bit, or it sees its inbox.
            fence(Ordering::SeqCst);
            self.claim(worker);
            self.tell_blocked(worker);
        } else {
            self.unpark(worker);
        }
        self.wake_shutdown_waiter();
    }

    /// There is a task for any of these workers: wakes one that sleeps.
    pub(crate) fn wake_one_of(&self, set: WorkerSet) {
        if self.is_shared() {
            // Ordering: pairs with the fence in `Idle::announce`: either we see a worker's bit, or it sees its flag.
            fence(Ordering::SeqCst);
            let _woken = set.iter().any(|worker| self.claim(worker));
            set.iter().for_each(|worker| self.tell_blocked(worker));
        } else {
            self.unpark(WorkerId::new(0));
        }
        self.wake_shutdown_waiter();
    }

    /// Wakes this worker, if it sleeps; whether it did. After a fence.
    pub(crate) fn claim(&self, worker: WorkerId) -> bool {
        let claim = self.idle.claim(self, worker);
        match claim {
            Claim::Made => self.unpark(worker),
            // The worker woke by itself. The claim had counted it as a searcher for a moment, and other contexts that pushed in that moment
            // have woken no worker.
            Claim::Missed if self.has_work_for_any() => self.notify(),
            Claim::Missed | Claim::Awake => {}
        }
        claim == Claim::Made
    }

    /// Ends the sleep of every worker: it looks at what has changed.
    pub(crate) fn wake_all(&self) {
        (0..self.slots().len()).for_each(|i| self.unpark(WorkerId::new(i as u16)));
    }

    pub(crate) fn unpark(&self, worker: WorkerId) {
        let Some(slot) = self.slots().get(worker.index()) else { return };
        let park = &slot.shared.park;
        match park.notify() {
            Some(Sleep::Wait) => self.platform.wake(worker, park.word()),
            Some(Sleep::Listen) => self.platform.interrupt(worker, park.word()),
            None => {}
        }
    }

    /// Ends the sleep of a worker, this one or the next: for a waiter in sync code whose condition has come true. The worker
    /// looks around and goes to sleep again if there is nothing. Callable from any context.
    pub fn unpark_worker(&self, worker: WorkerId) {
        self.unpark(worker);
    }

    /// A task went into an empty LIFO slot: a sleeper should watch this worker.
    #[inline(always)]
    pub(crate) fn wake_watcher_for_lifo(&self, slot: &WorkerSlot<RING, S::Parts>) {
        // A worker that is parking at this moment, and is not seen here, sees that this one is awake, and watches.
        if !self.watchdog.is_on()
            && self.config.has_watchdog()
            && self.config.stealing()
            && self.idle.any_parked(self)
        {
            self.notify_of(slot);
        }
    }

    /// A timer is the first now in the wheel of a worker. If the poll that this one is in lasts, only a watcher sees to it.
    #[cold]
    pub(crate) fn wake_watcher_for_timer(&self, slot: &WorkerSlot<RING, S::Parts>) {
        // Ordering: hints, all of them, after the fence in `Wheels::tell`, which pairs with that in `Idle::announce`: either a
        // sleeper is seen here, or it sees that this worker is online and awake, and watches.
        // A searcher will watch when it finds nothing, as it is with a push.
        if slot.lifo.is_in_poll() && self.needs_watcher() && self.idle.searching() == 0 {
            self.wake_one();
        }
    }

    /// A worker has left, its timers have not.
    pub(crate) fn wake_for_orphaned_timers(&self, slot: &WorkerSlot<RING, S::Parts>) {
        // Ordering: after the fence in `Gate::tell_if_closing`, which pairs with the one in `tell`: either we see the
        // timer, or the thread that added it sees that we have left; and with the one in `Idle::announce`: either we see a sleeper,
        // or it sees that we have left.
        if slot.has_timers() {
            self.wake_for_upkeep();
        }
    }

    /// A worker has left, which perhaps was the one that listened: a sleeper takes its place.
    pub(crate) fn wake_new_listener(&self) {
        if self.is_unheard() {
            self.wake_for_upkeep();
        }
    }
}
