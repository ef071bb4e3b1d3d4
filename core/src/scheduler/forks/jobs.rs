//! Fork-join on this scheduler's workers: how a run begins, what the protocol in `fork/steal.rs` asks of the scheduler, and the
//! jobs that a worker's loop takes.

use crate::scheduler::core::faces::{OwnQueues, Queues};
use core::cell::Cell;

use super::off_loop::Out;
use crate::{
    atomic::{AtomicU32, Ordering, fence},
    class::Class,
    fork::{
        handle::Fork,
        options::ForkOptions,
        steal::Stolen,
        worker::{Crew, ForkWorker, OffLoop},
    },
    parts::{On, Parts, Switch},
    platform::{Panic, Platform, WorkerId, WorkerSet},
    scheduler::{
        core::{
            context::{Inside, SlotGuard, Waits, Worker},
            executor::Scheduler,
            faces::{JobOffers, Jobs, Waiting},
            slot::{Slots, WorkerSlot},
        },
        state::{broadcasts::Pending, classes::Hints},
    },
};

/// In nanoseconds: how often a worker that runs one job after another looks for I/O and timers.
const BETWEEN_JOBS: u64 = 100_000;

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Begins a fork-join run on the calling worker: from a task, from a job, or between two steps. Runs nest. Not for
    /// interrupt handlers. If no other worker can help, as on an executor of one worker or without stealing, everything
    /// runs in place.
    ///
    /// A thread that is no worker becomes one for the time of the run, in a spare slot
    /// ([`Config::spare_slots`](crate::Config::spare_slots)), if a worker is without work at that moment. Meanwhile one worker
    /// fewer takes jobs, so that no more contexts work than there are workers, except for a moment. A shutdown waits
    /// for the end of the run.
    ///
    /// While a worker waits for a job, wakers of its timers and of I/O run on it: neither they nor the closures of broadcasts may need a
    /// lock that is held across a fork.
    ///
    /// A run blocks its worker until it is over. A task that must not block its worker spawns another task for the run
    /// and awaits it, or, for a loop, calls [`Fork::map_reduce_slice`] and yields between the calls.
    ///
    /// # Errors
    /// The closure, if the calling context is no worker and cannot become one. It may then run with [`Fork::alone`], or
    /// in a task on a worker.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Executor, Fork, WorkerId};
    /// # static EXECUTOR: Executor<Board, 2> = Executor::new(Board);
    /// # let worker = EXECUTOR.worker(WorkerId::new(0))?;
    /// // On a worker:
    /// let sum = EXECUTOR.fork(|fork| fork.map_reduce(0..101, |i| i, |a, b| a + b));
    /// assert_eq!(sum.ok().flatten(), Some(5_050));
    /// # drop(worker);
    /// // Elsewhere: the closure comes back.
    /// let both = EXECUTOR.fork(|fork| fork.join(|_| 1, |_| 2)).unwrap_err();
    /// assert_eq!(both(Fork::alone()), (1, 2));
    /// # Ok::<(), filch::RunError>(())
    /// ```
    pub fn fork<F, R>(&'static self, f: F) -> Result<R, F>
    where
        F: FnOnce(Fork<'_>) -> R,
        S::Parts: Parts<Forks = On>,
    {
        self.begin_fork(None, f)
    }

    /// As [`fork`](Self::fork), with a class, and on some workers only. In another run, on the same stack, with other options than
    /// that one, everything runs in place, on whatever worker that is: a worker's jobs are pieces of runs of one kind, and the outer run
    /// may wait for this one. [`fork`](Self::fork) joins any.
    ///
    /// # Errors
    /// The closure, if the calling context is no worker and cannot become one, if it is none of the workers of [`ForkOptions::workers`],
    /// or if not all of those exist.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Class, Executor, ForkOptions, WorkerId};
    /// # static EXECUTOR: Executor<Board, 2> = Executor::new(Board);
    /// # let worker = EXECUTOR.worker(WorkerId::new(0))?;
    /// const BULK: ForkOptions = ForkOptions::new().class(Class::Background);
    /// let mut squares = [1, 2, 3];
    /// let done = EXECUTOR.fork_with(BULK, |fork| fork.for_each_mut(&mut squares, |n| *n *= *n));
    /// assert!(done.is_ok());
    /// assert_eq!(squares, [1, 4, 9]);
    /// # Ok::<(), filch::RunError>(())
    /// ```
    #[cfg(feature = "classes")]
    pub fn fork_with<F, R>(&'static self, options: ForkOptions, f: F) -> Result<R, F>
    where
        F: FnOnce(Fork<'_>) -> R,
        S::Parts: Parts<Forks = On, Classes = On>,
    {
        let class = if self.config.classes() { options.class } else { Class::Normal };
        self.begin_fork(Some(options.class(class)), f)
    }

    fn begin_fork<F, R>(&'static self, options: Option<ForkOptions>, f: F) -> Result<R, F>
    where
        F: FnOnce(Fork<'_>) -> R,
        S::Parts: Parts<Forks = On>,
    {
        let alone = self.workers() == 1 || !self.config.stealing();
        match self.waits() {
            Waits::Nowhere => return Err(f),
            Waits::OnWorker(id, slot) => {
                let guard = SlotGuard::enter(self, id);
                let Some(kind) = self.kind_of_run(id, slot, options) else { return Err(f) };
                // The caller may be in a batch of wakers, or between two steps.
                let (_out, _batch) = guard.worker().leave_batch();
                return Ok(Fork::run(slot.fork.always(), alone || kind.is_alone, f));
            }
            Waits::Outside => {}
        }
        self.with_helper(f, |worker, f| {
            let slot = worker.slot();
            match self.kind_of_run(worker.id(), slot, options) {
                Some(kind) => Ok(Fork::run(slot.fork.always(), alone || kind.is_alone, f)),
                None => Err(f),
            }
        })
    }

    /// The class and the set of workers of a run that begins on this worker: all of its jobs have them. `None` if the run may not begin
    /// there.
    fn kind_of_run<'c>(
        &'c self,
        id: WorkerId,
        slot: &'c WorkerSlot<RING, S::Parts>,
        options: Option<ForkOptions>,
    ) -> Option<Kind<'c>> {
        let (all, own) = match (self.classes.get(), slot.classes.get()) {
            (Some(all), Some(own)) => (all, own),
            _ => return Some(Kind::default()),
        };
        let is_in_run = slot.fork.get().is_some_and(ForkWorker::is_in_use);
        let options = match options {
            // As the run that it is in.
            None if is_in_run => return Some(Kind::within(&own.alone, own.alone.get())),
            options => options.unwrap_or_default(),
        };
        let exist = || options.set().is_none_or(|set| set.is_below(self.workers()));
        if !exist() {
            return None;
        }
        if is_in_run && own.run.get() != options {
            return Some(Kind::within(&own.alone, true));
        }
        if !options.is_allowed(id) {
            return None;
        }
        if !is_in_run {
            own.run.set(options);
        }
        // Ordering: a hint for workers between two polls.
        let urgent_runs = (options.class == Class::Urgent).then(|| {
            all.urgent_runs.fetch_add(1, Ordering::Relaxed);
            &all.urgent_runs
        });
        Some(Kind { urgent_runs, ..Kind::default() })
    }
}

/// A run's place among others. Its drop puts back what was.
#[derive(Default)]
struct Kind<'c> {
    /// Its jobs must not wait beside those of the run that it is in.
    is_alone: bool,
    /// Whether this was so of the run that it is in.
    outer: Option<(&'c Cell<bool>, bool)>,
    /// It is counted.
    urgent_runs: Option<&'c AtomicU32>,
}

impl<'c> Kind<'c> {
    /// A run in another one.
    fn within(alone: &'c Cell<bool>, is_alone: bool) -> Self {
        let outer = Some((alone, alone.replace(is_alone)));
        Self { is_alone, outer, urgent_runs: None }
    }
}

impl Drop for Kind<'_> {
    fn drop(&mut self) {
        if let Some((alone, was)) = self.outer {
            alone.set(was);
        }
        if let Some(runs) = self.urgent_runs {
            // Ordering: as where it was counted.
            runs.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// What the jobs of this worker are pieces of, if runs can differ.
    fn run_of(&self, worker: WorkerId) -> Option<ForkOptions> {
        self.slot_of(worker).classes.get().map(|own| own.run.get())
    }

    /// A job is public that only these workers may take.
    #[cold]
    fn announce_jobs(&self, set: WorkerSet) {
        // Ordering: pairs with the fence in `run_job`.
        fence(Ordering::SeqCst);
        for worker in set.iter() {
            if let Some(own) = self.slots().get(worker.index()).and_then(|slot| slot.classes.get())
            {
                own.set_hint(Hints::JOBS);
            }
        }
        self.wake_one_of(set);
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Crew for Scheduler<P, S, RING> {
    fn fork_worker(&self, worker: WorkerId) -> &ForkWorker {
        // SAFETY: a crew is what a fork worker is linked to; where one slot has a fork worker, all have.
        unsafe { self.slot_of(worker).fork.get().unwrap_unchecked() }
    }

    fn idle(&self, me: WorkerId) -> usize {
        // Those that are at work come for the pieces of an urgent run between two polls.
        let is_urgent = || self.run_of(me).is_some_and(|run| run.class == Class::Urgent);
        match self.may_run_jobs() {
            false => 0,
            true if is_urgent() => self.census.online() as usize,
            true => self.without_work(),
        }
    }

    fn has_more_idle(&self) -> bool {
        self.idle.any_parked(self) || self.idle.searching() > 1
    }

    fn notify(&self, me: WorkerId) {
        match self.run_of(me).and_then(|run| run.set()) {
            Some(set) => self.announce_jobs(set),
            None => Scheduler::notify(self),
        }
    }

    fn unpark(&self, worker: WorkerId) {
        Scheduler::unpark(self, worker);
    }

    fn is_worker(&self, worker: WorkerId) -> bool {
        self.platform.current_worker() == Some(worker)
    }

    fn leave(&'static self, me: WorkerId) {
        drop(SlotGuard::enter(self, me));
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
        let own = || unsafe { !slot.lifo.is_empty() || slot.has_bound() };
        let kept = || !self.config.stealing() && slot.has_queued();
        let unseen = || !self.watchdog.is_on() && (slot.is_overdue(now) || self.is_unheard());
        let awake = || !self.idle.any_parked(self);
        let waits = || own() || kept() || unseen();
        let due = match self.run_of(me).map_or(Class::Normal, |run| run.class) {
            Class::Urgent => over && (waits() || awake()),
            Class::Normal => self.has_urgent_for(slot) || over && (waits() || awake()),
            Class::Background => {
                self.has_urgent_for(slot) || waits() || awake() && self.has_queued()
            }
        };
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
        let (out, _batch) = worker.leave_batch();
        let _inside = Inside::enter(&self.platform);
        wait(&Out::new(&worker, out));
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Runs a job of another worker's run of this class, or one that goes before it, if there is one; whether it did. For a searcher
    /// that has found no task.
    pub(crate) fn run_job(&self, class: Class) -> bool {
        let (executor, slot) = (self.executor, self.slot());
        let local = &slot.local;
        let Some(fork) = slot.fork.get() else { return false };
        let is_hinted = class == Class::Background && self.clear_job_hint();
        let searches = is_hinted || local.duties.is_searching();
        if !searches || local.takes_no_jobs.get() || !executor.may_run_jobs() {
            return false;
        }
        let Some((stolen, run)) = self.steal_job(class) else { return false };
        if let Some(own) = slot.classes.get() {
            if let Some(set) = run.set() {
                // There may be more of them.
                own.set_hint(Hints::JOBS);
                if executor.fork_worker(stolen.1).has_jobs() {
                    executor.wake_one_of(set);
                }
            }
            if !fork.is_in_use() {
                own.run.set(run);
            }
        }
        let out = self.leave_for_long();
        // A worker that waits in sync code, or is in a run, has frames below.
        let at_loop_level = local.frame.get().is_null() && !fork.is_in_run();
        let counted = executor.census.thieves.up();
        fork.run(stolen, at_loop_level, &Out::new(self, out));
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

    /// Whether there may be jobs of runs with an affinity to this worker, for which it then looks whether it searches or not.
    #[inline]
    fn clear_job_hint(&self) -> bool {
        let Some(own) = self.slot().classes.get().filter(|own| own.is_hinted(Hints::JOBS)) else {
            return false;
        };
        own.clear_hint(Hints::JOBS);
        // Ordering: pairs with the fence in `announce_jobs`: either this worker sees the job, or its hint is set anew.
        fence(Ordering::SeqCst);
        true
    }

    /// Steals a job of any other worker, if the run that it is a piece of is of this class, or goes before it.
    fn steal_job(&self, class: Class) -> Option<(Stolen, ForkOptions)> {
        let (own, me) = (self.slot().classes.get(), self.id());
        let mine = own.filter(|_| self.slot().fork.get().is_some_and(ForkWorker::is_in_use));
        let mine = mine.map(|own| own.run.get());
        self.others().find_map(|(index, victim)| {
            let run = Cell::new(ForkOptions::new());
            let may = || {
                let Some(theirs) = victim.classes.get() else { return true };
                run.set(theirs.run.get());
                let run = run.get();
                !class.is_before(run.class)
                    && run.is_allowed(me)
                    && mine.is_none_or(|mine| mine == run)
            };
            let job = victim.fork.get()?.steal(self.executor, may)?;
            Some(((job, WorkerId::new(index as u16)), run.get()))
        })
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Jobs for Worker<P, S, RING> {
    #[inline]
    fn run_first_job(&self) -> bool {
        let Some(all) = self.executor.classes.get() else { return false };
        // Ordering: a hint.
        all.urgent_runs.load(Ordering::Relaxed) > 0
            && !self.executor.has_urgent_for(self.slot())
            && self.may_steal()
            && {
                // Pieces that never end must not starve timers and I/O.
                self.end_tick_if_over();
                if let Some(own) = self.slot().classes.get() {
                    own.share.settle(|| self.now());
                }
                self.run_job(Class::Urgent)
            }
    }

    #[inline]
    fn run_next_job(&self) -> bool {
        self.join_broadcast() || self.run_job(Class::Normal)
    }

    #[inline]
    fn run_last_job(&self) -> bool {
        <S::Parts as Parts>::Classes::ON && self.run_job(Class::Background)
    }

    #[inline]
    fn join_broadcast(&self) -> bool {
        let is_set = self.slot().shared.broadcast.get().is_some_and(Pending::is_set);
        is_set && self.run_broadcast(&self.leave_loop())
    }

    fn has_bound_jobs(&self) -> bool {
        self.slot().classes.get().is_some_and(|own| own.is_hinted(Hints::JOBS))
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> JobOffers<RING, S::Parts>
    for Scheduler<P, S, RING>
{
    fn may_run_jobs(&self) -> bool {
        // Two workers that pass the limit at once do no harm for long. A worker that counts down looks for jobs itself afterwards.
        self.census.thieves.get() < self.config.job_workers() && self.has_room_beside_helpers()
    }

    fn has_jobs(slot: &WorkerSlot<RING, S::Parts>) -> bool {
        slot.fork.get().is_some_and(ForkWorker::has_jobs)
            && slot.classes.get().is_none_or(|own| own.run.get().set().is_none())
    }

    fn ask_for_jobs(&self) {
        self.slots_in_use().iter().filter_map(|slot| slot.fork.get()).for_each(ForkWorker::ask);
    }

    fn decline_broadcast(&self, slot: &WorkerSlot<RING, S::Parts>) {
        let Some(pending) = slot.shared.broadcast.get() else { return };
        // Ordering: pairs with the fence in `mark_all`.
        fence(Ordering::SeqCst);
        if let Some(broadcast) = self.broadcasts.take_part(pending) {
            self.count_down(broadcast);
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Whether one of the workers without work may run a job. Each helper has the place of one such worker.
    #[inline]
    fn has_room_beside_helpers(&self) -> bool {
        let helpers = self.census.helpers.get() as usize;
        helpers == 0 || self.without_work() > helpers
    }
}
