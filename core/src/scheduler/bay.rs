//! What a worker keeps for fork-join: its deque of jobs, who waits for them, and the way from there to its scheduler.

use core::{cell::Cell, ptr::NonNull};

use super::job::Job;
use crate::{
    atomic::{AtomicU32, Ordering, maybe_const},
    platform::{Panic, WorkerId},
    queue::deque::Deque,
    task::schedule::Anchor,
};

/// How many jobs of one worker can wait to be stolen. What is forked beyond is run in place.
pub(crate) const JOBS: usize = if cfg!(filch_loom) { 2 } else { 64 };

/// One worker's part in fork-join.
///
/// INV-BAY: but for `deque`'s thieves' side and the atomics, a bay is its worker's own (INV-LOCAL). A `&Bay` that is not
/// reached through the slots is held by that worker's context alone.
pub(crate) struct Bay {
    pub(crate) deque: Deque<Job, JOBS>,
    /// How many wait for jobs that this worker has stolen, and would take pieces of them.
    pub(crate) waiting: AtomicU32,
    /// One of those that sleeps, plus one.
    pub(crate) sleeper: AtomicU32,
    /// How many other things than the run under way this worker does on top of it: tasks that it polls in a wait, the closure of
    /// a broadcast. Then its jobs may be of other runs.
    mixed: AtomicU32,
    seat: Cell<Option<Seat>>,
    /// Fork-join runs that began on this worker and have not ended.
    pub(crate) roots: Cell<u32>,
    /// Stolen jobs that it is in the midst of.
    pub(crate) depth: Cell<u32>,
    /// The stolen job that it is in the midst of was stolen by its loop, with nothing else on the stack.
    pub(crate) bottom: Cell<bool>,
}

/// The scheduler behind a bay, without its types.
#[derive(Clone, Copy)]
struct Seat {
    anchor: NonNull<Anchor>,
    ops: &'static BayOps,
    me: WorkerId,
}

/// The scheduler's side. All take the anchor of the scheduler that the table was made for, and are called by the bay's own
/// worker.
pub(crate) struct BayOps {
    /// See [`Bay::answer`].
    pub(crate) answer: unsafe fn(NonNull<Anchor>, &Bay) -> bool,
    /// See [`Bay::wait`].
    pub(crate) wait: unsafe fn(NonNull<Anchor>, WorkerId, &Job),
    /// See [`Bay::is_due`].
    pub(crate) is_due: unsafe fn(NonNull<Anchor>, WorkerId, u64) -> (bool, u64),
    pub(crate) guard: Guard,
    pub(crate) resume: unsafe fn(NonNull<Anchor>, Panic) -> !,
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

    /// The worker has entered.
    ///
    /// # Safety
    /// `anchor` is that of a `'static` scheduler, whose table this is; the caller is its worker `me`, whose bay this is.
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

    /// Somebody has asked for work: makes private jobs public, and wakes who should take them. True if somebody is without
    /// work, and there was no job for it.
    #[cold]
    #[inline(never)]
    pub(crate) fn answer(&self) -> bool {
        let Seat { anchor, ops, .. } = self.seat();
        // SAFETY: contract of `open`; INV-BAY.
        unsafe { (ops.answer)(anchor, self) }
    }

    /// Waits for the end of a job that was stolen, and works on its pieces meanwhile.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait(&self, job: &Job) {
        let Seat { anchor, ops, me } = self.seat();
        // SAFETY: as above.
        unsafe { (ops.wait)(anchor, me, job) }
    }

    /// Contains a panic, where the platform can.
    pub(crate) fn guard(&self, f: &mut dyn FnMut()) -> Result<(), Panic> {
        let Seat { anchor, ops, .. } = self.seat();
        // SAFETY: as above.
        unsafe { (ops.guard)(anchor, f) }
    }

    /// Goes on with a job's panic.
    #[cold]
    pub(crate) fn resume(&self, panic: Panic) -> ! {
        let Seat { anchor, ops, .. } = self.seat();
        // SAFETY: as above.
        unsafe { (ops.resume)(anchor, panic) }
    }

    /// Whether the loop of this worker, which has been in a piece of a run since that time, in nanoseconds, should have its turn;
    /// and what time it is.
    #[cold]
    #[inline(never)]
    pub(crate) fn is_due(&self, since: u64) -> (bool, u64) {
        let Seat { anchor, ops, me } = self.seat();
        // SAFETY: as above.
        unsafe { (ops.is_due)(anchor, me, since) }
    }

    /// The worker turns to something else on top of the run that it is in, if it is in one, or back.
    pub(crate) fn mix(&self, on: bool) {
        if self.roots.get() > 0 {
            let by = if on { 1 } else { 1_u32.wrapping_neg() };
            // Ordering: one writer; passed on by the publication of the jobs that come of it, see `is_mixed`.
            let now = self.mixed.load(Ordering::Relaxed).wrapping_add(by);
            self.mixed.store(now, Ordering::Relaxed);
        }
    }

    /// Whether jobs of this worker may be of other runs than the one that it is in the midst of.
    pub(crate) fn is_mixed(&self) -> bool {
        // Ordering: who has seen a job that is public sees what its owner did before (`Deque::steal_if`).
        self.mixed.load(Ordering::Relaxed) > 0
    }
}
