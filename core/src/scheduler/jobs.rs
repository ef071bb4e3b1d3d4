//! Fork-join on this scheduler's workers: how a run begins, what the protocol in `fork/steal.rs` asks of the scheduler, and the
//! jobs that a worker's loop takes.

use super::{
    context::{Leave, Worker},
    executor::Scheduler,
    leave_loop::Away,
    slot::Slots,
};
use crate::{
    fork::{
        handle::Fork,
        steal::Stolen,
        worker::{Crew, ForkWorker, OffLoop},
    },
    parts::{On, Parts},
    platform::{Panic, Platform, WorkerId},
};

/// In nanoseconds: how often a worker that runs one job after another looks for I/O and timers.
const BETWEEN_JOBS: u64 = 100_000;

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Begins a fork-join run on the calling worker: from a task, from a job, or between two steps. Runs nest. Not for
    /// interrupt handlers. If no other worker can help, as on an executor of one worker or without stealing, everything
    /// runs in place.
    ///
    /// A thread that is no worker becomes one for the time of the run, in a spare slot
    /// ([`Config::spares`](crate::Config::spares)), if a worker is without work at that moment. Meanwhile one worker
    /// fewer takes jobs, so that no more contexts work than there are workers, except for a moment. A shutdown waits
    /// for the end of the run.
    ///
    /// A run blocks its worker until it is over. A task that must not block its worker spawns another task for the run
    /// and awaits it, or, for a loop, calls [`Fork::map_reduce_slice`] and yields between the calls.
    ///
    /// # Errors
    /// The closure, if the calling context is no worker and cannot become one. It may then run with [`Fork::alone`], or
    /// in a task on a worker.
    pub fn fork<F, R>(&'static self, f: F) -> Result<R, F>
    where
        F: FnOnce(Fork<'_>) -> R,
        S::Parts: Parts<Forks = On>,
    {
        if !self.platform.may_wait() {
            return Err(f);
        }
        let alone = self.workers() == 1 || !self.config.stealing();
        if let Some((id, slot)) = self.working() {
            let leave = Leave::at_end(self, id);
            // The caller may be in a batch of wakers, or between two steps.
            let (_away, _batch) = leave.worker().leave_batch();
            return Ok(Fork::run(slot.fork.always(), alone, f));
        }
        let Some(helper) = self.helper() else { return Err(f) };
        Ok(Fork::run(helper.worker().slot().fork.always(), alone, f))
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Crew for Scheduler<P, S, RING> {
    fn fork_worker(&self, worker: WorkerId) -> &ForkWorker {
        // SAFETY: a crew is what a fork worker is linked to; where one slot has a fork worker, all have.
        unsafe { self.slot_of(worker).fork.get().unwrap_unchecked() }
    }

    fn idle(&self) -> usize {
        if self.may_run_jobs() { self.without_work() } else { 0 }
    }

    fn has_more_idle(&self) -> bool {
        self.idle.any_parked(self) || self.idle.searching() > 1
    }

    fn notify(&self) {
        Scheduler::notify(self);
    }

    fn unpark(&self, worker: WorkerId) {
        Scheduler::unpark(self, worker);
    }

    fn guard(&self, f: &mut dyn FnMut()) -> Result<(), Panic> {
        self.platform.guard(f)
    }

    /// A worker that sleeps would take the tasks that wait, except those that only this worker can take. A worker that watches
    /// handles I/O and timers.
    fn is_due(&self, me: WorkerId, since: u64) -> (bool, u64) {
        let slot = self.slot_of(me);
        let now = self.platform.now();
        let over = now.as_nanos().saturating_sub(since) >= self.config.job_slice();
        // SAFETY: INV-FORK-WORKER: the caller is the worker.
        let own = || unsafe { !slot.lifo.is_empty() || slot.has_pinned() };
        let kept = || !self.config.stealing() && slot.has_queued();
        let unseen = || !self.watchdog.is_on() && (slot.is_overdue(now) || self.is_unheard());
        let due = self.is_pressed(slot)
            || over && (own() || kept() || !self.idle.any_parked(self) || unseen());
        if due {
            // The loop looks for I/O and timers before it steals again.
            if let Some(pace) = slot.local.pace.get() {
                pace.cut_tick_short();
            }
        }
        (due, now.as_nanos())
    }

    fn wait(&'static self, me: WorkerId, wait: &dyn Fn(&dyn OffLoop)) {
        let worker = Worker::of(self, me);
        // The caller may be in a batch of wakers, and may have put off a notification.
        let (away, _batch) = worker.leave_batch();
        wait(&Out { worker: &worker, away });
    }
}

/// A worker that is out of its loop.
struct Out<'w, P: Platform, S: Slots<RING>, const RING: usize> {
    worker: &'w Worker<P, S, RING>,
    away: Away<'w>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> OffLoop for Out<'_, P, S, RING> {
    fn run(&self, job: &mut dyn FnMut()) -> Result<(), Panic> {
        let outcome = self.worker.executor.platform.guard(job);
        self.worker.slot().counters.jobs.add(1);
        outcome
    }

    fn join_broadcast(&self) {
        self.worker.join_broadcast();
    }

    fn nesting(&self) -> u32 {
        self.worker.executor.config.nesting()
    }

    fn spin_rounds(&self) -> u32 {
        self.worker.executor.config.spin_rounds()
    }

    fn relax(&self, round: u32) {
        self.worker.executor.platform.relax(round);
    }

    fn sleep(&self, still: &dyn Fn() -> bool) {
        let executor = self.worker.executor;
        let helps = self.worker.slot().local.helping.get();
        // A helper counts as one that runs no tasks in any case.
        let _counted = (!helps).then(|| executor.count_out(executor.census.joining.up()));
        if still() {
            self.worker.wait(&self.away);
        }
    }

    fn block(&self, still: &dyn Fn() -> bool) {
        let (executor, slot) = (self.worker.executor, self.worker.slot());
        let was = slot.lifo.replace_accept(false);
        self.worker.give_away();
        slot.lifo.accept(was);
        let _blocked = executor.block(slot);
        // A watcher fires the timers of this worker.
        let was_deaf = slot.local.deaf.replace(true);
        let deaf = (!was_deaf).then(|| executor.census.deaf.up());
        while still() {
            self.join_broadcast();
            self.worker.wait(&self.away);
        }
        slot.local.deaf.set(was_deaf);
        drop(deaf);
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Runs a job of another worker, if there is one; whether it did. For a searcher that has found no task.
    pub(crate) fn run_job(&self) -> bool {
        let (executor, slot) = (self.executor, self.slot());
        let local = &slot.local;
        let Some(fork) = slot.fork.get() else { return false };
        if !local.duties.is_searching() || local.guest.get() || !executor.may_run_jobs() {
            return false;
        }
        let Some(stolen) = self.steal_job() else { return false };
        let away = self.leave_for_long();
        // A worker that waits in sync code, or is in a run, has frames below.
        let at_loop_level = local.frame.get().is_null() && !fork.is_in_run();
        let counted = executor.census.thieves.up();
        fork.run(stolen, at_loop_level, &Out { worker: self, away });
        drop(counted);
        if executor.config.job_workers() < u32::from(u16::MAX) || !executor.census.helpers.is_zero()
        {
            // A worker may have been refused a job, and sleep.
            executor.notify();
        }
        let pace = local.pace.get();
        if let Some(pace) = pace.filter(|pace| pace.has_not_looked_for(BETWEEN_JOBS, self.now())) {
            pace.cut_tick_short();
        }
        true
    }

    /// Steals a job of any other worker.
    fn steal_job(&self) -> Option<Stolen> {
        self.others().find_map(|(index, victim)| {
            let job = victim.fork.get()?.steal(self.executor, None)?;
            Some((job, WorkerId::new(index as u16)))
        })
    }
}
