//! A worker's part in fork-join: its deque of jobs, the workers that wait for pieces of them, and the back-link to the scheduler.

use core::{cell::Cell, ptr::NonNull};

use super::job::Job;
use crate::{
    atomic::{AtomicU32, Ordering, maybe_const},
    platform::{Panic, WorkerId},
    queue::deque::Deque,
    task::schedule::Anchor,
};

/// How many jobs of one worker can wait to be stolen. A fork beyond that runs its job in place.
pub(crate) const JOBS: usize = if cfg!(filch_loom) { 2 } else { 64 };

/// A fork worker: what fork-join keeps for one worker.
///
/// INV-BAY: only the worker's own context uses a bay (INV-LOCAL), except for the atomics and the thieves' side of `deque`. A
/// `&Bay` that was not reached through the slots is held by that context alone.
pub(crate) struct Bay {
    pub(crate) deque: Deque<Job, JOBS>,
    /// Workers that wait for a job that this worker has stolen, and would take pieces of that job.
    pub(crate) waiting: AtomicU32,
    /// The id, plus one, of one of these workers that sleeps; zero if there is none.
    pub(crate) sleeper: AtomicU32,
    /// Levels of foreign work on top of the run under way: a nested loop that polls tasks in a wait, the closure of a broadcast.
    /// While there is one, this worker's jobs may belong to other runs.
    mixed: AtomicU32,
    seat: Cell<Option<Seat>>,
    /// Fork-join runs that began on this worker and have not ended, and the stolen jobs on its stack.
    pub(crate) roots: Cell<u32>,
    /// Stolen jobs on this worker's stack.
    pub(crate) depth: Cell<u32>,
    /// At loop level: the loop stole the innermost of these jobs with nothing else on the stack.
    pub(crate) bottom: Cell<bool>,
}

/// The back-link from a bay to its scheduler, without the scheduler's types.
#[derive(Clone, Copy)]
struct Seat {
    anchor: NonNull<Anchor>,
    ops: &'static BayOps,
    me: WorkerId,
}

/// The scheduler's functions for a bay. The bay's own worker calls them, with the anchor of the scheduler that the table was made
/// for.
pub(crate) struct BayOps {
    /// See [`Bay::answer`].
    pub(crate) answer: unsafe fn(NonNull<Anchor>, &Bay) -> bool,
    /// See [`Bay::wait`].
    pub(crate) wait: unsafe fn(NonNull<Anchor>, WorkerId, &Job),
    /// See [`Bay::is_due`].
    pub(crate) is_due: unsafe fn(NonNull<Anchor>, WorkerId, u64) -> (bool, u64),
    pub(crate) guard: Guard,
}

type Guard = unsafe fn(NonNull<Anchor>, &mut dyn FnMut()) -> Result<(), Panic>;

impl Bay {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                deque: Deque::new(),
                waiting: AtomicU32::new(0),
                sleeper: AtomicU32::new(0),
                mixed: AtomicU32::new(0),
                seat: Cell::new(None),
                roots: Cell::new(0),
                depth: Cell::new(0),
                bottom: Cell::new(false),
            }
        }
    }

    /// Sets the back-link. The worker has entered.
    ///
    /// # Safety
    /// `anchor` is that of a `'static` scheduler, and `ops` is that scheduler's table. The caller is worker `me`, whose bay this
    /// is.
    pub(crate) unsafe fn open(&self, anchor: NonNull<Anchor>, ops: &'static BayOps, me: WorkerId) {
        self.seat.set(Some(Seat { anchor, ops, me }));
    }

    #[inline]
    fn seat(&self) -> Seat {
        // Set by `open`, before the bay's worker can fork.
        match self.seat.get() {
            Some(seat) => seat,
            None => unreachable!("a bay is open while its worker is"),
        }
    }

    /// Answers a request for jobs: makes private jobs public, and wakes workers to take them. True if a worker is without work
    /// and there was no job for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn answer(&self) -> bool {
        let Seat { anchor, ops, .. } = self.seat();
        // SAFETY: contract of `open`; INV-BAY.
        unsafe { (ops.answer)(anchor, self) }
    }

    /// Waits for the end of a job that was stolen, and runs pieces of it meanwhile.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait(&self, job: &Job) {
        let Seat { anchor, ops, me } = self.seat();
        // SAFETY: as above.
        unsafe { (ops.wait)(anchor, me, job) }
    }

    /// Calls `f`, and contains its panic where the platform can.
    pub(crate) fn guard(&self, f: &mut dyn FnMut()) -> Result<(), Panic> {
        let Seat { anchor, ops, .. } = self.seat();
        // SAFETY: as above.
        unsafe { (ops.guard)(anchor, f) }
    }

    /// Whether this worker, in a piece of a run since `since`, should go back to its loop; and the current time. Both times are
    /// in nanoseconds.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_due(&self, since: u64) -> (bool, u64) {
        let Seat { anchor, ops, me } = self.seat();
        // SAFETY: as above.
        unsafe { (ops.is_due)(anchor, me, since) }
    }

    /// Foreign work begins (`on`) or ends on top of the run under way. Without a run under way this does nothing.
    pub(crate) fn mix(&self, on: bool) {
        if self.roots.get() > 0 {
            let by = if on { 1 } else { 1_u32.wrapping_neg() };
            // Ordering: one writer. The publication of the jobs passes it on, see `is_mixed`.
            let now = self.mixed.load(Ordering::Relaxed).wrapping_add(by);
            self.mixed.store(now, Ordering::Relaxed);
        }
    }

    /// Whether this worker's jobs may belong to other runs than the innermost one.
    pub(crate) fn is_mixed(&self) -> bool {
        // Ordering: a thief that has seen a public job sees what its owner did before (`Deque::steal_if`).
        self.mixed.load(Ordering::Relaxed) > 0
    }
}
