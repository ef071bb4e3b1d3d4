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
/// INV-FORK-WORKER: only the worker's own context uses a fork worker (INV-LOCAL), except for the atomics, the thieves' side of
/// `deque`, and `link`; and that context has called `open` before it uses anything else. It is the worker for as long as the worker
/// `is_in_use`. A `&ForkWorker` that was not reached through [`Crew::fork_worker`] or the slots is held by that context alone.
pub(crate) struct ForkWorker {
    pub(super) deque: Deque<Job, JOBS>,
    /// Workers that wait for a job that this worker has stolen, and would take pieces of that job.
    pub(super) waiting: AtomicU32,
    /// The id, plus one, of one of these workers that sleeps; zero if there is none.
    pub(super) sleeper: AtomicU32,
    /// Levels of foreign work on top of the run under way.
    foreign: AtomicU32,
    /// INV-LINK: does not change once it is set, so that a context that was the worker may read it.
    link: Cell<Option<(&'static dyn Crew, WorkerId)>>,
    /// Fork-join runs that began on this worker and have not ended, and the stolen jobs on its stack.
    runs: Cell<u32>,
    /// Its context leaves when the last run has ended, and the last fork.
    leaves: Cell<bool>,
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
                leaves: Cell::new(false),
                depth: Cell::new(0),
                at_loop_level: Cell::new(false),
            }
        }
    }

    /// Sets the back-link. The caller is about to enter as worker `me` of this crew, whose fork worker this is.
    pub(crate) fn open(&self, crew: &'static dyn Crew, me: WorkerId) {
        // Once: INV-LINK.
        if self.link.get().is_none() {
            self.link.set(Some((crew, me)));
        }
    }

    /// The crew, and the id of this worker in it.
    #[inline]
    pub(super) fn link(&self) -> (&'static dyn Crew, WorkerId) {
        debug_assert!(self.link.get().is_some(), "INV-FORK-WORKER");
        // SAFETY: INV-FORK-WORKER: the caller is the worker, and has entered.
        unsafe { self.link.get().unwrap_unchecked() }
    }

    /// Whether the calling context is this worker. For a context that was, too.
    pub(super) fn is_here(&self) -> bool {
        let (crew, me) = self.link();
        crew.is_worker(me)
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

    /// Whether a run, a stolen job, or a fork that has not ended relies on this worker's context. A fork outlives its run if
    /// it is on the stack of a coroutine, and the run on another one.
    pub(crate) fn is_in_use(&self) -> bool {
        // SAFETY: INV-FORK-WORKER: the caller is the worker (INV-DEQUE-OWNER).
        self.is_in_run() || unsafe { self.deque.unsettled() } > 0
    }

    /// The context wants to leave. If the worker `is_in_use`, it does so at the end of that.
    pub(crate) fn set_leaving(&self, is_in_use: bool) {
        self.leaves.set(is_in_use);
        self.open_if_leaving();
    }

    /// If the context wants to leave, makes all jobs public. So no fork takes its job back as `Taken::Ours`, and the last one
    /// gets to `Leaving`. Thieves need not know of them: see `steal.rs` on open jobs.
    fn open_if_leaving(&self) {
        if self.leaves.get() {
            // SAFETY: INV-FORK-WORKER: the caller is the worker (INV-DEQUE-OWNER).
            unsafe { self.deque.publish(usize::MAX) };
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaves.get()
    }

    /// Takes a job back.
    ///
    /// # Safety
    /// As `Deque::take`.
    #[inline(always)]
    pub(super) unsafe fn take(&self, at: usize, asks: bool) -> Taken {
        // SAFETY: the caller's.
        let (newest, any) = unsafe {
            let newest = self.deque.take_newest(at);
            (newest, newest || self.deque.take_any(at, asks))
        };
        match any {
            _ if newest => Taken::Ours,
            false => Taken::Stolen,
            true if self.leaves.get() => Taken::Late,
            true => Taken::Ours,
        }
    }

    /// A run, or a stolen job, is on this worker's stack until the result is dropped.
    pub(super) fn begin_run(&self) -> Run<'_> {
        let runs = self.runs.get();
        if runs == 0 {
            // Forks that outlive their run are none of this one.
            // SAFETY: INV-FORK-WORKER: the caller is the worker (INV-DEQUE-OWNER).
            let foreign = unsafe { self.deque.unsettled() } > 0;
            // Ordering: as in `foreign_work`.
            self.foreign.store(foreign.into(), Ordering::Relaxed);
        }
        self.runs.set(runs + 1);
        Run(self)
    }

    /// Foreign work begins (`on`) or ends on top of the run under way: a nested loop that polls tasks in a wait, the closure of a
    /// broadcast. Without a run under way this does nothing.
    pub(crate) fn foreign_work(&self, on: bool) {
        if self.is_in_run() {
            // Ordering: one writer. The publication of the jobs passes it on, see `has_foreign_work`.
            let levels = self.foreign.load(Ordering::Relaxed);
            // With coroutines, a level may end in a run that it did not begin in.
            let levels = if on { levels + 1 } else { levels.saturating_sub(1) };
            self.foreign.store(levels, Ordering::Relaxed);
        }
    }

    /// Whether this worker's jobs may belong to other runs than the innermost one.
    pub(super) fn has_foreign_work(&self) -> bool {
        // Ordering: a thief that has seen a public job sees what its owner did before (`Deque::steal_if`).
        self.foreign.load(Ordering::Relaxed) > 0
    }
}

/// What an owner has found where it wanted to take a job back.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Taken {
    /// The job.
    Ours,
    /// The job. The worker's context may leave at the end of it (`Leaving`).
    Late,
    /// A thief has the job.
    Stolen,
}

/// A worker in a run.
pub(super) struct Run<'w>(&'w ForkWorker);

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.0.runs.set(self.0.runs.get() - 1);
        self.0.open_if_leaving();
    }
}

/// At its end the worker's context leaves, if it wants to and nothing relies on it any more.
pub(super) struct Leaving<'w>(pub(super) &'w ForkWorker);

impl Drop for Leaving<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.0.leaves.get() {
            let (crew, me) = self.0.link();
            crew.leave(me);
        }
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
    /// Whether the calling context is this worker.
    fn is_worker(&self, worker: WorkerId) -> bool;
    /// Worker `me`, the caller, leaves if its handle is gone, and nothing relies on it any more.
    fn leave(&'static self, me: WorkerId);
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
    /// Gives the worker's queues away, has a compensation worker started, and sleeps while `still`.
    fn block(&self, still: &dyn Fn() -> bool);
}
