//! Fork-join jobs: which workers are given some, which take them, and how one worker waits for a job of another.
//!
//! A worker that forks keeps its jobs private until another worker asks for some (`Deque::ask`): one that looks for work and
//! finds none, one that goes to sleep, or one that waits for a job. At its next fork or join the owner sees the request, makes
//! jobs public, and notifies as for a task (rule 1 in the README). So the proof for tasks in a ring covers public jobs. Private
//! jobs need no proof, since their owner runs them.
//!
//! **Locks.** A worker that waits for a job takes only pieces of that job, from the thief's deque: no tasks, and no other jobs.
//! So on top of a call to `join` runs only what would run in it on one worker, and code that holds a lock across the call meets
//! the lock again only where it would in a sequential program. The exception is the closure of a broadcast, which must take no
//! such lock.
//!
//! **Fairness.** A worker looks for tasks before each job that it steals: its own, the injector's and those of others. So a task
//! waits for the end of one job at most, as it would for a poll. A piece of a loop (`fork/each.rs`) gives back its rest after a
//! time slice, `Config::job_slice`, if no worker sleeps that could take tasks, I/O and timers. Other jobs run to their end, and
//! `Config::job_workers` keeps workers free of them. Jobs need no such rule: if all other workers are busy with tasks, the worker
//! that forked the jobs runs them itself, so a run is never slower than on one worker.
//!
//! An owner takes the request down before it looks which workers are without work, with a fence in between. A worker that goes to
//! sleep sets its bit, fences, and asks: either the owner sees the bit, or it is asked anew. If a job is public already the owner
//! publishes no more. Then the worker that takes the last public job, a thief or the owner, asks again for the jobs that are
//! left.

use core::ptr::NonNull;

use super::{
    away::Away,
    bay::{Bay, BayOps},
    context::Worker,
    estimate::TICK,
    executor::Scheduler,
    job::Job,
    slot::{Slots, WorkerSlot},
};
use crate::{
    atomic::{Ordering, fence},
    platform::{Panic, Platform, WorkerId},
    queue::deque::Steal,
    task::schedule::Anchor,
};

/// In nanoseconds: how often a worker that runs one job after another looks for I/O and timers.
const LOOK: u64 = 100_000;

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    pub(crate) const BAY: &'static BayOps = &BayOps {
        answer: Self::op_answer,
        wait: Self::op_wait,
        is_due: Self::op_is_due,
        guard: Self::op_guard,
    };

    unsafe fn op_answer(anchor: NonNull<Anchor>, bay: &Bay) -> bool {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.answer(bay)
    }

    unsafe fn op_wait(anchor: NonNull<Anchor>, me: WorkerId, job: &Job) {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.wait_for(me, job);
    }

    unsafe fn op_is_due(anchor: NonNull<Anchor>, me: WorkerId, since: u64) -> (bool, u64) {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.is_due(me, since)
    }

    /// The slot of a worker that exists.
    fn slot_of(&self, worker: WorkerId) -> &WorkerSlot<RING> {
        debug_assert!(worker.index() < self.slots().len());
        // SAFETY: slots stay, and ids of workers come from slots.
        unsafe { self.slots().get_unchecked(worker.index()) }
    }

    unsafe fn op_guard(anchor: NonNull<Anchor>, f: &mut dyn FnMut()) -> Result<(), Panic> {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.platform.guard(f)
    }

    /// How many workers would take a job from this bay now.
    fn hungry(&self, bay: &Bay) -> usize {
        // Ordering: hints. The look that counts is the one after the fence in `answer`.
        let free = if self.may_run_jobs() { self.without_work() } else { 0 };
        free + bay.waiting.load(Ordering::Relaxed) as usize
    }

    /// See [`Bay::answer`].
    fn answer(&self, bay: &Bay) -> bool {
        bay.deque.wake_up();
        // Taken down first: a request that comes from here on is seen at the next fork.
        bay.deque.unask();
        // Ordering: pairs with the fences in `Idle::announce`, `sleep_for`, `steal_job` and `Place::drop`: see the module's
        // text.
        fence(Ordering::SeqCst);
        let hungry = self.hungry(bay);
        // A thief will take what is public already.
        if hungry == 0 || bay.deque.is_public() || self.publish(bay, hungry) {
            return false;
        }
        bay.deque.ask();
        true
    }

    /// Makes up to `n` of the calling worker's jobs public, and has other workers take them. False if there is none.
    fn publish(&self, bay: &Bay, n: usize) -> bool {
        // SAFETY: INV-BAY: the bay is the calling worker's.
        if unsafe { bay.deque.publish(n) } == 0 {
            return false;
        }
        // Its fence also orders `publish` before the look at `sleeper`.
        self.notify();
        // Ordering: after that fence, which pairs with the one in `sleep_for`. The exchange only picks one context to unpark the
        // sleeper.
        if bay.sleeper.load(Ordering::Relaxed) != 0 {
            if let Some(id) = bay.sleeper.swap(0, Ordering::Relaxed).checked_sub(1) {
                self.unpark(WorkerId::new(id as u16));
            }
        }
        true
    }

    /// Publishes all jobs: the calling worker begins something that may take long, and others cannot see its private jobs.
    pub(crate) fn publish_all(&self, bay: &Bay) {
        if bay.roots.get() > 0 {
            self.publish(bay, usize::MAX);
        }
    }

    /// Steals one job of a worker. With `of`, only a piece of that job, which the worker is in. Asks the worker to publish jobs
    /// if none is public.
    #[inline(never)]
    fn steal_job(&self, victim: WorkerId, of: Option<&Job>) -> Option<(NonNull<Job>, WorkerId)> {
        let bay = &self.slot_of(victim).bay;
        let deque = &bay.deque;
        loop {
            if !deque.is_public() {
                deque.ask();
                return None;
            }
            match deque.steal_if(|| of.is_none_or(|job| Self::is_piece(job, bay))) {
                Steal::Success(job) => {
                    // Ordering: pairs with the fence in `answer`: either the owner sees that the job is gone, or this thief sees
                    // that the owner has taken the request down.
                    fence(Ordering::SeqCst);
                    if !deque.is_public()
                        && (self.idle.any_parked(self) || self.idle.searching() > 1)
                    {
                        deque.ask();
                    }
                    return Some((job, victim));
                }
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    /// Steals a job of any other worker.
    fn steal_any_job(
        &self,
        me: WorkerId,
        slot: &WorkerSlot<RING>,
    ) -> Option<(NonNull<Job>, WorkerId)> {
        let n = self.in_use().len();
        let mut victim = slot.local.rng.below(n as u32) as usize;
        for _ in 0..n {
            if victim != me.index() {
                if let Some(found) = self.steal_job(WorkerId::new(victim as u16), None) {
                    return Some(found);
                }
            }
            victim = if victim + 1 == n { 0 } else { victim + 1 };
        }
        None
    }

    /// Asks all workers to publish jobs.
    pub(crate) fn ask_all(&self) {
        self.in_use().iter().for_each(|slot| slot.bay.deque.ask());
    }

    /// Runs a job that the calling worker has stolen from `owner`. `bottom`: at loop level, with nothing else on the stack.
    #[inline(never)]
    fn run_stolen(
        &self,
        me: WorkerId,
        slot: &WorkerSlot<RING>,
        (job, owner): (NonNull<Job>, WorkerId),
        bottom: bool,
        _: &Away<'_>,
    ) {
        let bay = &slot.bay;
        let was_bottom = bay.bottom.replace(bottom);
        // SAFETY: INV-JOB: the job is this worker's, and its owner waits for the end of it.
        unsafe { job.as_ref() }.stolen_by(me);
        bay.depth.set(bay.depth.get() + 1);
        bay.roots.set(bay.roots.get() + 1);
        // SAFETY: as above, once; the bay is ours.
        let outcome = self.platform.guard(&mut || unsafe { Job::run(job, bay) });
        bay.roots.set(bay.roots.get() - 1);
        bay.depth.set(bay.depth.get() - 1);
        bay.bottom.set(was_bottom);
        slot.counters.jobs.add(1);
        // SAFETY: we have run it.
        if unsafe { Job::finish(job, outcome.err()) } {
            self.unpark(owner);
        }
    }

    /// See [`Bay::wait`].
    fn wait_for(&'static self, me: WorkerId, job: &Job) {
        let slot = self.slot_of(me);
        let worker = Worker::of(self, me);
        // The caller may be in a batch of wakers, and may have put off a notification.
        let (away, _batch) = worker.leave_batch();
        let mut round = 0;
        let thief = loop {
            match job.thief() {
                Some(thief) => break thief,
                None if job.is_done() => return,
                // The thief has not recorded itself yet.
                None => self.platform.relax(round.min(5)),
            }
            round += 1;
        };
        let theirs = &self.slot_of(thief).bay;
        // Ordering: the fence in `sleep_for` follows, which pairs with the one in `answer`.
        theirs.waiting.fetch_add(1, Ordering::Relaxed);
        round = 0;
        while !job.is_done() {
            // The caller of a broadcast may be the worker that this one waits for.
            self.join_broadcast(me, slot, &away);
            let deep = slot.bay.depth.get() >= self.config.nesting();
            if deep {
                self.block_for(&worker, job, &away);
            } else if let Some(piece) = self.steal_job(thief, Some(job)) {
                // This worker is busy while it runs the piece.
                theirs.waiting.fetch_sub(1, Ordering::Relaxed);
                self.run_stolen(me, slot, piece, false, &away);
                theirs.waiting.fetch_add(1, Ordering::Relaxed);
                round = 0;
            } else if round < self.config.spin_rounds() {
                self.platform.relax(round);
                round += 1;
            } else {
                self.sleep_for(&worker, theirs, job, &away);
                round = 0;
            }
        }
        theirs.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether the public jobs of a job's thief, as far as the caller has looked, are pieces of that job.
    ///
    /// The thief's deque was empty when it stole the job, or its bay is mixed. Until the job is done, all that it forks is pieces
    /// of the job, or its bay is mixed.
    fn is_piece(job: &Job, theirs: &Bay) -> bool {
        !theirs.is_mixed() && !job.is_done()
    }

    /// Sleeps until the job is done, or its thief has published pieces of it. May return early.
    ///
    /// The worker is not announced as asleep: it can take no task, and a pusher of a task would rely on it.
    fn sleep_for(&self, worker: &Worker<P, S, RING>, theirs: &Bay, job: &Job, away: &Away<'_>) {
        theirs.sleeper.store(worker.id().index() as u32 + 1, Ordering::Relaxed);
        let counted = self.count_out(self.census.joining.up());
        // Ordering: pairs with the fence of `notify` in `publish`: either the thief sees `sleeper`, or this worker sees what is
        // public. Pairs with the fence in `answer` too: either the thief sees that this worker waits, or this worker asks after
        // the thief has taken the request down.
        fence(Ordering::SeqCst);
        theirs.deque.ask();
        if job.fall_asleep() && (theirs.is_mixed() || !theirs.deque.is_public()) {
            worker.wait(away);
        }
        drop(counted);
    }

    /// Waits too deep to help: has a replacement started, and sleeps until the job is done.
    #[cold]
    fn block_for(&'static self, worker: &Worker<P, S, RING>, job: &Job, away: &Away<'_>) {
        let slot = worker.slot();
        let was = slot.lifo.replace_accept(false);
        worker.give_away();
        slot.lifo.accept(was);
        let _blocked = self.block(slot);
        // A watcher fires the timers of this worker.
        let _deaf = self.census.deaf.up();
        while job.fall_asleep() {
            self.join_broadcast(worker.id(), slot, away);
            worker.wait(away);
        }
    }
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// See [`Bay::is_due`]. A worker that sleeps would take the tasks that wait, except those that only this worker can take. A
    /// worker that watches handles I/O and timers.
    fn is_due(&self, me: WorkerId, since: u64) -> (bool, u64) {
        let slot = self.slot_of(me);
        let now = self.platform.now();
        let over = now.as_nanos().saturating_sub(since) >= self.config.job_slice();
        // SAFETY: INV-BAY: the caller is the worker.
        let own = || unsafe { !slot.lifo.is_empty() || !slot.inbox.is_empty() };
        let kept = || !self.config.stealing() && !slot.ring.is_empty();
        let unseen =
            || !self.watchdog.is_on() && (slot.timed.wheel.is_overdue(now) || self.is_unheard());
        let due = over && (own() || kept() || !self.idle.any_parked(self) || unseen());
        if due {
            // INV-ACCEPTING: the caller is in user code.
            let was = slot.lifo.replace_accept(false);
            // The loop looks for I/O and timers before it steals again.
            slot.local.in_tick.set(TICK);
            slot.lifo.accept(was);
        }
        (due, now.as_nanos())
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// Runs a job of another worker, if there is one; whether it did. For a searcher that has found no task.
    pub(crate) fn run_job(&self) -> bool {
        let (executor, slot) = (self.executor, self.slot());
        if !slot.local.duties.is_searching() || slot.local.guest.get() {
            return false;
        }
        if !executor.may_run_jobs() {
            return false;
        }
        let Some(found) = executor.steal_any_job(self.id(), slot) else { return false };
        let away = self.leave_for_long();
        // A worker that waits in sync code, or is in a run, has frames below.
        let bottom = slot.local.frame.get().is_null() && slot.bay.roots.get() == 0;
        let counted = executor.census.thieves.up();
        executor.run_stolen(self.id(), slot, found, bottom, &away);
        drop(counted);
        if executor.config.job_workers() < u32::from(u16::MAX) || !executor.census.helpers.is_zero()
        {
            // A worker may have been refused a job, and sleep.
            executor.notify();
        }
        let now = executor.platform.now().as_nanos();
        if now.saturating_sub(slot.local.looked.get()) >= LOOK {
            slot.local.looked.set(now);
            // The next pass looks for I/O and timers.
            slot.local.in_tick.set(TICK);
        }
        true
    }
}
