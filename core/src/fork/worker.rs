//! A worker's part in fork-join: its deque of jobs, the workers that wait for pieces of them, and the back-link to the crew, which is
//! what fork-join asks of the scheduler.

use core::cell::Cell;

use super::job;
use crate::{
    atomic::{AtomicU32, Ordering, maybe_const},
    platform::{Panic, WorkerId},
    queue::deque::Deque,
};

pub(crate) type Job = job::Job<ForkWorker>;

/// How many jobs of one worker can wait to be stolen. A fork beyond that runs its job in place.
const JOBS: usize = if cfg!(filch_loom) { 2 } else { 64 };

/// A fork worker: what fork-join keeps for one worker.
///
/// INV-FORK-WORKER: only the worker's own context uses a fork worker (INV-LOCAL), except for the atomics and the thieves' side of
/// `deque`; and that context has called `open` before it uses anything else. A `&ForkWorker` that was not reached through [`Crew::fork_worker`] or the slots is held by that context alone.
pub(crate) struct ForkWorker {
    pub(super) deque: Deque<Job, JOBS>,
    /// Workers that wait for a job that this worker has stolen, and would take pieces of that job.
    pub(super) waiting: AtomicU32,
    /// The id, plus one, of one of these workers that sleeps; zero if there is none.
    pub(super) sleeper: AtomicU32,
    /// Levels of foreign work on top of the run under way.
    foreign: AtomicU32,
    link: Cell<Option<(&'static dyn Crew, WorkerId)>>,
    /// Fork-join runs that began on this worker and have not ended, and the stolen jobs on its stack.
    runs: Cell<u32>,
    /// Stolen jobs on this worker's stack.
    pub(super) depth: Cell<u32>,
    /// At loop level: the loop stole the innermost of these jobs with nothing else on the stack.
    pub(super) at_loop_level: Cell<bool>,
}

impl ForkWorker {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                deque: Deque::new(),
                waiting: AtomicU32::new(0),
                sleeper: AtomicU32::new(0),
                foreign: AtomicU32::new(0),
                link: Cell::new(None),
                runs: Cell::new(0),
                depth: Cell::new(0),
                at_loop_level: Cell::new(false),
            }
        }
    }

    /// Sets the back-link. The caller is about to enter as worker `me` of this crew, whose fork worker this is.
    pub(crate) fn open(&self, crew: &'static dyn Crew, me: WorkerId) {
        self.link.set(Some((crew, me)));
    }

    /// The crew, and the id of this worker in it.
    #[inline]
    pub(super) fn link(&self) -> (&'static dyn Crew, WorkerId) {
        debug_assert!(self.link.get().is_some(), "INV-FORK-WORKER");
        // SAFETY: INV-FORK-WORKER: the caller is the worker, and has entered.
        unsafe { self.link.get().unwrap_unchecked() }
    }

    /// The index of the next job.
    #[inline(always)]
    pub(super) fn bottom(&self) -> usize {
        // SAFETY: INV-FORK-WORKER: the caller is the worker (INV-DEQUE-OWNER).
        unsafe { self.deque.bottom() }
    }

    /// Calls `f`, and contains its panic where the platform can.
    pub(super) fn guard(&self, f: impl FnOnce()) -> Result<(), Panic> {
        let mut f = Some(f);
        self.link().0.guard(&mut || {
            if let Some(f) = f.take() {
                f();
            }
        })
    }

    /// Whether this worker, in a piece of a run since `since`, should go back to its loop; and the current time. Both times are
    /// in nanoseconds.
    #[cold]
    #[inline(never)]
    pub(super) fn is_due(&self, since: u64) -> (bool, u64) {
        let (crew, me) = self.link();
        crew.is_due(me, since)
    }

    /// Whether a run or a stolen job is on this worker's stack.
    pub(crate) fn is_in_run(&self) -> bool {
        self.runs.get() > 0
    }

    /// A run, or a stolen job, is on this worker's stack until the result is dropped.
    pub(super) fn begin_run(&self) -> Run<'_> {
        self.runs.set(self.runs.get() + 1);
        Run(self)
    }

    /// Foreign work begins (`on`) or ends on top of the run under way: a nested loop that polls tasks in a wait, the closure of a
    /// broadcast. Without a run under way this does nothing.
    pub(crate) fn foreign_work(&self, on: bool) {
        if self.is_in_run() {
            // Ordering: one writer. The publication of the jobs passes it on, see `has_foreign_work`.
            let levels = self.foreign.load(Ordering::Relaxed);
            self.foreign.store(if on { levels + 1 } else { levels - 1 }, Ordering::Relaxed);
        }
    }

    /// Whether this worker's jobs may belong to other runs than the innermost one.
    pub(super) fn has_foreign_work(&self) -> bool {
        // Ordering: a thief that has seen a public job sees what its owner did before (`Deque::steal_if`).
        self.foreign.load(Ordering::Relaxed) > 0
    }
}

/// A worker in a run.
pub(super) struct Run<'w>(&'w ForkWorker);

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.0.runs.set(self.0.runs.get() - 1);
    }
}

/// The workers of an executor, as fork-join sees them.
pub(crate) trait Crew: Sync {
    /// The fork worker of a worker that exists.
    fn fork_worker(&self, worker: WorkerId) -> &ForkWorker;
    /// How many workers may take jobs of worker `me` now.
    fn idle(&self, me: WorkerId) -> usize;
    /// Whether a worker sleeps, or more than one searches.
    fn has_more_idle(&self) -> bool;
    /// A job of worker `me` is public: rule 1 of the idle protocol, which begins with a fence.
    fn notify(&self, me: WorkerId);
    fn unpark(&self, worker: WorkerId);
    /// Calls `f`, and contains its panic where the platform can.
    fn guard(&self, f: &mut dyn FnMut()) -> Result<(), Panic>;
    /// See [`ForkWorker::is_due`].
    fn is_due(&self, me: WorkerId, since: u64) -> (bool, u64);
    /// Calls `wait`, in which worker `me`, the caller, waits for a job.
    fn wait(&'static self, me: WorkerId, wait: &dyn Fn(&dyn OffLoop));
}

/// The calling worker while it is out of its loop, and owes the others nothing: what it can do in a wait for a job.
pub(crate) trait OffLoop {
    /// Runs a stolen job, and contains its panic.
    fn run(&self, job: &mut dyn FnMut()) -> Result<(), Panic>;
    /// Takes part in a broadcast, or in what the platform has of that kind: its caller may be the worker that this one waits for.
    fn join_broadcast(&self);
    /// How many stolen jobs the worker's stack can hold.
    fn nesting(&self) -> u32;
    /// How many rounds to look for pieces before a sleep.
    fn spin_rounds(&self) -> u32;
    /// Waits a moment between two looks.
    fn relax(&self, round: u32);
    /// Sleeps once, if `still`. The worker counts as one that runs no tasks from before the call of `still` on.
    fn sleep(&self, still: &dyn Fn() -> bool);
    /// Gives the worker's queues away, has a replacement started, and sleeps while `still`.
    fn block(&self, still: &dyn Fn() -> bool);
}
