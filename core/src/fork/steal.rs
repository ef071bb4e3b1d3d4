//! How jobs reach other workers: which are made public, which worker takes them, and how a worker waits for a job of its own.
//!
//! A worker that forks keeps its jobs private until another worker asks for some (`Deque::ask`): one that looks for work and
//! finds none, one that goes to sleep, or one that waits for a job. At its next fork or join the owner sees the request, makes
//! jobs public, and notifies as for a task (rule 1 in the scheduler's README). So the proof for tasks in a ring covers public
//! jobs. Private jobs need no proof, since their owner runs them.
//!
//! **Open jobs.** A worker that becomes idle while the owner is in a long call, without forks, waits for the end of that call. Where
//! this is not wanted (`Fork::join_open`) the oldest few jobs are public from the beginning. That costs a fence when the owner takes
//! one back. It costs none at the fork: the owner notifies if it has seen a request. A worker that asks at that very moment may so
//! overlook the job and sleep; then the owner sees the request at its next fork or join. Open jobs, as private ones, need no
//! proof, since their owner runs them.
//!
//! **Locks.** A worker that waits for a job takes only pieces of that job, from the thief's deque: no tasks, and no other jobs.
//! So on top of a call to `join` runs only what would run in it on one worker, and code that holds a lock across the call meets
//! the lock again only where it would in a sequential program. The exceptions are the closure of a broadcast, what
//! `Platform::foreign_broadcast` returns, and wakers of the worker's timers and of I/O: they must take no such lock.
//!
//! **Fairness.** A worker looks for tasks before each job that it steals: its own, the injector's and those of others. So a task
//! waits for the end of one job at most, as it would for a poll. A piece of a loop (`each.rs`) gives back its rest after a time
//! slice, `Config::job_slice`, if no worker sleeps that could take tasks, I/O and timers. Other jobs run to their end, and
//! `Config::job_workers` keeps workers free of them. Jobs need no such rule: if all other workers are busy with tasks, the worker
//! that forked the jobs runs them itself, so a run is never slower than on one worker.
//!
//! An owner takes the request down before it looks which workers are without work, with a fence in between. A worker that goes to
//! sleep sets its bit, fences, and asks: either the owner sees the bit, or it is asked anew. If a job is public already the owner
//! publishes no more. Then the worker that takes the last public job, a thief or the owner, asks again for the jobs that are
//! left.

use core::ptr::NonNull;

use super::worker::{Crew, ForkWorker, Job, OffLoop};
use crate::{
    atomic::{Ordering, fence},
    platform::WorkerId,
    queue::deque::Steal,
};

/// A job that was stolen, and its owner.
pub(crate) type Stolen = (NonNull<Job>, WorkerId);

impl ForkWorker {
    /// Answers a request for jobs, if there is one. True if a worker is without work and there was no job for it.
    #[inline(always)]
    pub(super) fn answer_if_asked(&self) -> bool {
        self.deque.is_asked() && self.answer()
    }

    /// Answers a request for jobs: makes private jobs public, and has workers take them.
    #[cold]
    #[inline(never)]
    fn answer(&self) -> bool {
        if !self.is_here() {
            // A fork in place outlives its run, on the stack of a coroutine: it has nothing here.
            return false;
        }
        self.deque.wake_up();
        // Taken down first: a request that comes from here on is seen at the next fork.
        self.deque.unask();
        // Ordering: pairs with the fences in `Idle::announce`, `sleep_for`, `steal` and `Place::drop`: see the module's text.
        fence(Ordering::SeqCst);
        // Ordering: hints, read after the fence.
        let (crew, me) = self.link();
        let takers = crew.idle(me) + self.waiting.load(Ordering::Relaxed) as usize;
        if takers == 0 {
            return false;
        }
        if self.deque.is_public() {
            // A thief will take what is public already. No worker was notified of an open job.
            self.announce();
            return false;
        }
        if self.publish(takers) {
            return false;
        }
        self.deque.ask();
        true
    }

    /// Makes up to `n` of the worker's jobs public, and has other workers take them. False if there is none.
    fn publish(&self, n: usize) -> bool {
        // SAFETY: INV-FORK-WORKER: this is the calling worker's (INV-DEQUE-OWNER).
        if unsafe { self.deque.publish(n) } == 0 {
            return false;
        }
        self.announce();
        true
    }

    /// Jobs are public: has other workers take them.
    fn announce(&self) {
        let (crew, me) = self.link();
        // Its fence also orders `publish` before the look at `sleeper`.
        crew.notify(me);
        // Ordering: after that fence, which pairs with the one in `sleep_for`. The exchange only picks one context to unpark the
        // sleeper.
        if self.sleeper.load(Ordering::Relaxed) != 0 {
            if let Some(id) = self.sleeper.swap(0, Ordering::Relaxed).checked_sub(1) {
                crew.unpark(WorkerId::new(id as u16));
            }
        }
    }

    /// Publishes all jobs: the calling worker begins something that may take long, and others cannot see its private jobs.
    pub(crate) fn publish_all(&self) {
        self.publish(usize::MAX);
    }

    /// Asks the worker to publish jobs at its next fork or join.
    pub(crate) fn ask(&self) {
        self.deque.ask();
    }

    /// Whether others could take jobs of this worker's.
    pub(crate) fn has_jobs(&self) -> bool {
        self.deque.is_public()
    }

    /// Steals one of this worker's jobs, for a worker of `crew`, if `may`, which holds for all that is public or for none of it
    /// (`Deque::steal_if`). Asks for jobs if none is public.
    #[inline(never)]
    pub(crate) fn steal(&self, crew: &dyn Crew, may: impl Fn() -> bool) -> Option<NonNull<Job>> {
        let deque = &self.deque;
        loop {
            if !deque.is_public() {
                deque.ask();
                return None;
            }
            match deque.steal_if(&may) {
                Steal::Success(job) => {
                    // Ordering: pairs with the fence in `answer`: either the owner sees that the job is gone, or this thief sees
                    // that the owner has taken the request down.
                    fence(Ordering::SeqCst);
                    if !deque.is_public() && crew.has_more_idle() {
                        deque.ask();
                    }
                    return Some(job);
                }
                Steal::Empty => return None,
                Steal::Retry => {}
            }
        }
    }

    /// Whether this worker's public jobs, as far as the caller has looked, are pieces of a job that this worker has stolen.
    ///
    /// Its deque was empty when it stole the job, or there was foreign work. Until the job is done, all that it forks is pieces of
    /// the job, or there is foreign work.
    fn is_forking_pieces_of(&self, job: &Job) -> bool {
        !self.has_foreign_work() && !job.is_done()
    }

    /// Runs a job that the calling worker has stolen. `at_loop_level`: with nothing else on the stack.
    #[inline(never)]
    pub(crate) fn run(&self, (job, owner): Stolen, at_loop_level: bool, out: &dyn OffLoop) {
        let (crew, me) = self.link();
        let was_at_loop_level = self.at_loop_level.replace(at_loop_level);
        // SAFETY: INV-JOB: the job is this worker's, and its owner waits for the end of it.
        unsafe { job.as_ref() }.stolen_by(me);
        self.depth.set(self.depth.get() + 1);
        let run = self.begin_run();
        // SAFETY: as above, once; the fork worker is ours.
        let outcome = out.run(&mut || unsafe { Job::run(job, self) });
        drop(run);
        self.depth.set(self.depth.get() - 1);
        self.at_loop_level.set(was_at_loop_level);
        // SAFETY: we have run it.
        if unsafe { Job::finish(job, outcome.err()) } {
            crew.unpark(owner);
        }
    }

    /// Waits for the end of a job that was stolen, and runs pieces of it meanwhile.
    #[cold]
    #[inline(never)]
    pub(super) fn wait(&self, job: &Job) {
        let (crew, me) = self.link();
        crew.wait(me, &|out| self.wait_for(job, out));
    }

    fn wait_for(&self, job: &Job, out: &dyn OffLoop) {
        let (crew, _) = self.link();
        let mut round = 0;
        let thief = loop {
            match job.thief() {
                Some(thief) => break thief,
                None if job.is_done() => return,
                // The thief has not recorded itself yet.
                None => out.relax(round.min(5)),
            }
            round += 1;
        };
        let theirs = crew.fork_worker(thief);
        // Ordering: the fence in `sleep_for` follows, which pairs with the one in `answer`.
        theirs.waiting.fetch_add(1, Ordering::Relaxed);
        round = 0;
        while !job.is_done() {
            out.join_broadcast();
            if self.depth.get() >= out.nesting() {
                out.block(&|| job.fall_asleep());
            } else if let Some(piece) = theirs.steal(crew, || theirs.is_forking_pieces_of(job)) {
                // This worker is busy while it runs the piece.
                theirs.waiting.fetch_sub(1, Ordering::Relaxed);
                self.run((piece, thief), false, out);
                theirs.waiting.fetch_add(1, Ordering::Relaxed);
                round = 0;
            } else if round < out.spin_rounds() {
                out.relax(round);
                round += 1;
            } else {
                self.sleep_for(theirs, job, out);
                round = 0;
            }
        }
        theirs.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sleeps until the job is done, or its thief has published pieces of it. May return early.
    ///
    /// The worker is not announced as asleep: it can take no task, and a pusher of a task would rely on it.
    fn sleep_for(&self, theirs: &ForkWorker, job: &Job, out: &dyn OffLoop) {
        let (_, me) = self.link();
        theirs.sleeper.store(me.index() as u32 + 1, Ordering::Relaxed);
        out.sleep(&|| {
            // Ordering: pairs with the fence of `notify` in `publish`: either the thief sees `sleeper`, or this worker sees what is
            // public. Pairs with the fence in `answer` too: either the thief sees that this worker waits, or this worker asks after
            // the thief has taken the request down.
            fence(Ordering::SeqCst);
            theirs.deque.ask();
            job.fall_asleep() && (theirs.has_foreign_work() || !theirs.deque.is_public())
        });
    }
}
