//! Fork-join jobs: who is given some, who takes them, and how one waits for another's.
//!
//! A worker that forks keeps its jobs private until somebody asks (`Deque::ask`): a worker that looks for work and finds
//! none, one that goes to sleep, one that waits for a job. At its next fork or join the owner sees that it was asked,
//! makes jobs public, and notifies as for a task (rule 1 in the README). So public jobs are covered by the same proof as
//! tasks in a ring; private ones need none, since their owner runs them.
//!
//! **Locks.** A worker that waits for a job takes pieces of that job, from the thief's deque, and nothing else: neither
//! tasks nor other jobs. So what runs on top of a call to `join` is what would run in it on one worker, and who holds a lock
//! across the call meets it again only where it would in a sequential program.
//!
//! **Fairness.** A worker looks for tasks first, its own, the injector's and others', before each job that it steals, so a
//! task waits for the end of one job at most, as it would for a poll. A piece of a loop (`fork/each.rs`) gives back what is left
//! of it after a time slice, `Config::job_slice`, if nobody sleeps who could see to tasks, I/O and timers; other jobs run
//! to their end, and `Config::job_workers` keeps workers free of them. Jobs need no such rule: whoever has forked them runs
//! them itself, if all others are busy with tasks, so that a run is never slower than on one worker.
//!
//! An owner forgets that it was asked before it looks who is without work, with a fence between. One that goes to sleep sets
//! its bit, fences, and asks: either the owner sees the bit, or it is asked anew. If something is public already the owner
//! leaves it at that; then whoever takes the last public job, a thief or the owner itself, asks again for those that are left.

use core::ptr::NonNull;

use super::{
    bay::{Bay, BayOps},
    duties::Away,
    executor::Scheduler,
    job::Job,
    replace::Counted,
    slot::{Slots, WorkerSlot},
    worker::Worker,
};
use crate::{
    atomic::{Ordering, fence},
    platform::{Panic, Platform, WorkerId},
    queue::deque::Steal,
    task::schedule::Anchor,
};

/// How often a worker that runs one job after the other looks for I/O and timers, in nanoseconds.
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
        resume: Self::op_resume,
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

    unsafe fn op_resume(anchor: NonNull<Anchor>, panic: Panic) -> ! {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.platform.resume(panic)
    }

    /// How many workers would take a job of this one's now.
    fn hungry(&self, bay: &Bay) -> usize {
        // Ordering: hints; see the module's text for the look that counts.
        let free = if self.may_run_jobs() { self.without_work() } else { 0 };
        free + bay.waiting.load(Ordering::Relaxed) as usize
    }

    /// See [`Bay::answer`].
    fn answer(&self, bay: &Bay) -> bool {
        bay.deque.wake_up();
        // Forgotten first: whoever asks from here on is heard at the next fork.
        bay.deque.unask();
        // Ordering: pairs with the fences of `Idle::announce`, `sleep_for` and `steal_job`: see the module's text.
        fence(Ordering::SeqCst);
        let hungry = self.hungry(bay);
        // What is public already is on its way to somebody.
        if hungry == 0 || bay.deque.is_public() || self.publish(bay, hungry) {
            return false;
        }
        bay.deque.ask();
        true
    }

    /// Makes up to `n` of the calling worker's jobs public, and sees to it that somebody takes them; false if there is none.
    fn publish(&self, bay: &Bay, n: usize) -> bool {
        // SAFETY: INV-BAY: the bay is the calling worker's.
        if unsafe { bay.deque.publish(n) } == 0 {
            return false;
        }
        // With the fence that also orders `publish` before the look at `sleeper`.
        self.notify();
        // Ordering: after that fence, which pairs with the one in `sleep_for`; AcqRel for nothing but the exchange.
        if bay.sleeper.load(Ordering::Relaxed) != 0 {
            if let Some(id) = bay.sleeper.swap(0, Ordering::Relaxed).checked_sub(1) {
                self.unpark(WorkerId::new(id as u16));
            }
        }
        true
    }

    /// The calling worker turns to something that may take long, with jobs that only it can see: others shall see them too.
    pub(crate) fn publish_all(&self, bay: &Bay) {
        if bay.roots.get() > 0 {
            self.publish(bay, usize::MAX);
        }
    }

    /// Steals one job of a worker, a piece of the one that it is in the midst of if that is said, or asks it to publish some.
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
                    // Ordering: pairs with the fence in `answer`: either its owner sees that the job is gone, or we see that
                    // the owner has forgotten who asked.
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

    /// Steals a job of any worker but this.
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

    /// Asks all workers to publish jobs: the caller is about to sleep.
    pub(crate) fn ask_all(&self) {
        self.in_use().iter().for_each(|slot| slot.bay.deque.ask());
    }

    /// Runs a job that the calling worker has stolen from `owner`; `bottom`: in its loop, with nothing else on the stack.
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
        // SAFETY: INV-JOB: it is ours, and its owner waits for us.
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
        // In a batch of wakers there may be a notification that it has put off.
        let away = worker.leave_loop();
        let mut round = 0;
        let thief = loop {
            match job.thief() {
                Some(thief) => break thief,
                None if job.is_done() => return,
                // It has taken the job this moment.
                None => self.platform.relax(round.min(5)),
            }
            round += 1;
        };
        let theirs = &self.slot_of(thief).bay;
        // Ordering: pairs with the fence in `answer`, by the one in `sleep_for`.
        theirs.waiting.fetch_add(1, Ordering::Relaxed);
        round = 0;
        while !job.is_done() {
            // Its caller may be whom we wait for.
            self.join_broadcast(me, slot, &away);
            let deep = slot.bay.depth.get() >= self.config.nesting();
            if deep {
                self.block_for(&worker, job, &away);
            } else if let Some(piece) = self.steal_job(thief, Some(job)) {
                // Busy, for as long as that takes.
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

    /// Whether what a job's thief has published, as far as we have looked, is pieces of that job.
    ///
    /// Its deque was empty when it stole the job, or it is mixed; until the job is done, all that it forks is pieces of it, or
    /// it is mixed.
    fn is_piece(job: &Job, theirs: &Bay) -> bool {
        !theirs.is_mixed() && !job.is_done()
    }

    /// Sleeps until the job is done, or its thief has published pieces of it. May return early.
    ///
    /// The worker is not announced as asleep: it can take no task, and whoever had one would rely on it.
    fn sleep_for(&self, worker: &Worker<P, S, RING>, theirs: &Bay, job: &Job, away: &Away<'_>) {
        theirs.sleeper.store(worker.id().index() as u32 + 1, Ordering::Relaxed);
        let counted = self.count_out(&self.joining);
        // Ordering: pairs with the fence of `notify` in `publish`: either that one sees us, or we see what is public; and with
        // the one in `answer`: either that one sees that we wait, or we ask after it has forgotten that it was asked.
        fence(Ordering::SeqCst);
        theirs.deque.ask();
        if job.fall_asleep() && (theirs.is_mixed() || !theirs.deque.is_public()) {
            worker.wait(away);
        }
        drop(counted);
    }

    /// Too deep to help: has a replacement started, and sleeps until the job is done.
    #[cold]
    fn block_for(&'static self, worker: &Worker<P, S, RING>, job: &Job, away: &Away<'_>) {
        let slot = worker.slot();
        let was = slot.lifo.replace_accept(false);
        worker.give_away();
        slot.lifo.accept(was);
        let _blocked = self.block(&slot.shared.relies);
        // Its timers are for a watcher to see to.
        let _deaf = Counted::up(&self.deaf);
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
    /// Whether one more worker may turn to jobs of others (`Config::job_workers`).
    pub(crate) fn may_run_jobs(&self) -> bool {
        // Ordering: two that pass at once do no harm for long. Whoever counts down looks for jobs itself afterwards.
        self.thieves.load(Ordering::Relaxed) < self.config.job_workers()
            && self.helpers_leave_room()
    }

    /// See [`Bay::is_due`]. While another sleeps, that one would take the tasks that wait, but for what is this worker's own; and
    /// while one watches, that one hears of I/O and timers.
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
            // INV-ACCEPTING: the caller is in the midst of user code.
            let was = slot.lifo.replace_accept(false);
            // The next pass looks for I/O and timers.
            slot.local.duties.shall_look(true);
            slot.lifo.accept(was);
        }
        (due, now.as_nanos())
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// A searcher that has found no task runs a job of another worker, if there is one.
    pub(crate) fn run_job(&self) -> bool {
        let (executor, slot) = (self.executor, self.slot());
        if !slot.local.duties.is_searching() || slot.local.guest.get() {
            return false;
        }
        if !executor.may_run_jobs() {
            return false;
        }
        let Some(found) = executor.steal_any_job(self.id(), slot) else { return false };
        let away = self.leave_loop();
        // A job is as long as a poll may be.
        self.cover_poll();
        // A worker that waits in sync code has something below.
        let bottom = slot.local.frame.get().is_null() && slot.bay.roots.get() == 0;
        let counted = Counted::up(&executor.thieves);
        executor.run_stolen(self.id(), slot, found, bottom, &away);
        drop(counted);
        if executor.config.job_workers() < u32::from(u16::MAX)
            || executor.helpers.load(Ordering::Relaxed) > 0
        {
            // Somebody may have been refused, and sleep.
            executor.notify();
        }
        let now = executor.platform.now().as_nanos();
        if now.saturating_sub(slot.local.looked.get()) >= LOOK {
            slot.local.looked.set(now);
            // The next pass looks for I/O and timers.
            slot.local.duties.shall_look(true);
        }
        true
    }
}
