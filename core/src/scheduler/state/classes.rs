//! What an executor keeps for classes: queues for urgent and for background tasks, and the time that background tasks have had.

use core::cell::Cell;

use crate::{
    atomic::{AtomicBool, AtomicU32, Counter, Ordering, maybe_const},
    class::Class,
    fork::options::ForkOptions,
    parts::{Kept, Switch},
    platform::WorkerSet,
    queue::{affine::AffineQueue, inbox::Inbox, injector::Injector, ring::Ring, urgent::Urgent},
};

/// Of the executor.
pub(crate) struct Classes {
    /// Urgent tasks that any worker may run.
    pub(crate) urgent: Urgent,
    /// Background tasks from outside of the workers, and what did not fit a worker's ring.
    pub(crate) background: Injector,
    /// Tasks with an affinity to some workers, of any class.
    pub(crate) affine: AffineQueue,
    /// Background tasks may wait in the ring of a worker. A hint.
    background_in_rings: AtomicBool,
    /// Urgent fork-join runs under way.
    pub(crate) urgent_runs: AtomicU32,
    /// How often an urgent task was queued, for any worker or for one. INV-URGENT-EPOCH: a worker that has seen this count has seen to all
    /// that came before it was read.
    urgent_epoch: AtomicU32,
}

impl Classes {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                urgent: Urgent::new(),
                background: Injector::new(),
                affine: AffineQueue::new(),
                background_in_rings: AtomicBool::new(false),
                urgent_runs: AtomicU32::new(0),
                urgent_epoch: AtomicU32::new(0),
            }
        }
    }

    /// A background task is in a ring.
    #[inline]
    pub(crate) fn note_background(&self) {
        if !self.has_background_in_rings() {
            self.set_background_in_rings(true);
        }
    }

    pub(crate) fn set_background_in_rings(&self, on: bool) {
        // Ordering: a hint. If it is overlooked, the worker whose ring it is gives the task its share alone.
        self.background_in_rings.store(on, Ordering::Relaxed);
    }

    /// Whether background tasks may wait in the ring of a worker.
    #[inline]
    pub(crate) fn has_background_in_rings(&self) -> bool {
        // Ordering: see above.
        self.background_in_rings.load(Ordering::Relaxed)
    }

    /// Each worker looks at the queues of urgent tasks before its next poll.
    pub(crate) fn bump_urgent_epoch(&self) {
        // Ordering: Release pairs with the Acquire in `urgent_epoch`: a worker that sees the count sees the task.
        self.urgent_epoch.fetch_add(1, Ordering::Release);
    }

    /// How often that was done.
    #[inline(always)]
    pub(crate) fn urgent_epoch(&self) -> u32 {
        // Ordering: Acquire pairs with the Release in `bump_urgent_epoch`.
        self.urgent_epoch.load(Ordering::Acquire)
    }

    /// The count itself, for loops that look at it often.
    #[cfg(feature = "classes")]
    pub(crate) fn count(&self) -> &AtomicU32 {
        &self.urgent_epoch
    }
}

/// Of a worker.
pub(crate) struct OwnClasses<const RING: usize, C: Switch> {
    /// Background tasks, as in the worker's ring.
    pub(crate) ring: Kept<Ring<RING>, C>,
    /// Urgent tasks that are pinned to the worker.
    pub(crate) urgent: Urgent,
    /// Background tasks that are pinned to the worker.
    pub(crate) inbox: Inbox,
    /// What may wait with an affinity to this worker. INV-AFFINITY-HINT: a context that queues a task, or publishes a job, sets the hint
    /// afterwards; the worker alone takes it down, and looks afterwards.
    hints: AtomicU32,
    /// Of the fork-join run that the worker's jobs are pieces of.
    pub(crate) run: RunOptions,
    /// How often it was asked whether tasks with an affinity come first (INV-LOCAL).
    affinity_turn: Cell<u32>,
    /// The innermost run is of another kind, and all its jobs run in place.
    pub(crate) alone: Cell<bool>,
    /// Polls of urgent and of background tasks.
    pub(crate) urgent_polls: Counter,
    pub(crate) background_polls: Counter,
    /// Urgent polls that began after their deadlines.
    #[cfg(feature = "classes")]
    pub(crate) late: Counter,
    /// The worker's own (INV-LOCAL), as is the next.
    pub(crate) share: Share,
    /// Calls of `give_way` in vain.
    #[cfg(feature = "classes")]
    in_vain: Cell<u32>,
    /// The urgent epoch at which the worker last found no urgent task for it.
    pub(crate) urgent_epoch: Cell<u32>,
}

impl<const RING: usize, C: Switch> OwnClasses<RING, C> {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                ring: Kept::new(Ring::new()),
                urgent: Urgent::new(),
                inbox: Inbox::new(),
                hints: AtomicU32::new(0),
                run: RunOptions::new(),
                affinity_turn: Cell::new(0),
                alone: Cell::new(false),
                urgent_polls: Counter::new(),
                background_polls: Counter::new(),
                #[cfg(feature = "classes")]
                late: Counter::new(),
                share: Share::new(),
                #[cfg(feature = "classes")]
                in_vain: Cell::new(0),
                urgent_epoch: Cell::new(0),
            }
        }
    }

    /// True each 16th time.
    #[cfg(feature = "classes")]
    #[inline]
    pub(crate) fn is_time_to_look_around(&self) -> bool {
        self.in_vain.set(self.in_vain.get().wrapping_add(1));
        self.in_vain.get() % 16 == 0
    }

    /// Whether tasks with an affinity come after those for all workers this time: one time in `n`. A count of its own: one that others
    /// set back, as the search for background tasks does with the count of searches, would let them wait for ever.
    pub(crate) fn shared_before_affine(&self, n: u32) -> bool {
        self.affinity_turn.set(self.affinity_turn.get().wrapping_add(1));
        self.affinity_turn.get() % n == 0
    }

    /// Whether an urgent task waits that the worker may run.
    #[inline]
    pub(crate) fn has_urgent(&self, all: &Classes) -> bool {
        !all.urgent.is_empty()
            || !self.urgent.is_empty()
            || self.is_hinted(Hints::of(Class::Urgent))
    }

    /// Whether one of these hints is set.
    #[inline(always)]
    pub(crate) fn is_hinted(&self, hints: Hints) -> bool {
        // Ordering: a hint while the worker is awake; before it sleeps, after the fence in `Idle::announce`, which pairs with the one in
        // `wake_one_of`.
        self.hints.load(Ordering::Relaxed) & hints.0 != 0
    }

    /// Something is there for the worker: INV-AFFINITY-HINT.
    pub(crate) fn set_hint(&self, hints: Hints) {
        // Ordering: after a fence, `push_affine`'s for a task and `announce_jobs`' for a job: had the worker looked before it was there,
        // then we would see that the hint was taken down, so one that is set stays. For a task that fence pairs with the swap in
        // `Stack::take_all`, whose Release the push has read; for a job with the fence in `clear_job_hint`.
        if self.hints.load(Ordering::Relaxed) & hints.0 != hints.0 {
            // Ordering: Release pairs with the Acquire in `clear_hint`: the worker sees what is there.
            self.hints.fetch_or(hints.0, Ordering::Release);
        }
    }

    /// The worker is about to look: INV-AFFINITY-HINT.
    pub(crate) fn clear_hint(&self, hints: Hints) {
        // Ordering: Acquire pairs with the Release in `set_hint`.
        self.hints.fetch_and(!hints.0, Ordering::Acquire);
    }

    /// Whether a task waits here that is pinned to the worker, or may wait with an affinity to it.
    ///
    /// # Safety
    /// The caller is the worker.
    pub(crate) unsafe fn has_bound(&self) -> bool {
        // SAFETY: as the caller promises.
        !self.urgent.is_empty() || unsafe { !self.inbox.is_empty() } || self.is_hinted(Hints::TASKS)
    }

    /// As `has_bound`, of a worker that has left.
    pub(crate) fn has_mail(&self) -> bool {
        self.is_hinted(Hints::TASKS) || !self.urgent.is_empty() || self.inbox.has_mail()
    }
}

/// Hints of a worker.
#[derive(Clone, Copy)]
pub(crate) struct Hints(u32);

impl Hints {
    /// A task of any class.
    pub(crate) const TASKS: Self = Self(7);
    /// A job of a run.
    pub(crate) const JOBS: Self = Self(8);

    /// A task of this class.
    pub(crate) const fn of(class: Class) -> Self {
        Self(1 << class as u32)
    }
}

/// A [`ForkOptions`]. The worker writes it while none of its jobs waits, and thieves read it before they steal one.
///
/// INV-RUN: a thief that has stolen a job has read the options of the run that it is a piece of: had they changed since, its exchange
/// would have failed (`Deque::steal_if`).
pub(crate) struct RunOptions {
    /// The class, and from bit 16 on the first worker of the set.
    class: AtomicU32,
    /// The set's mask, in halves; zero for all workers.
    mask: [AtomicU32; 2],
}

impl RunOptions {
    maybe_const! {
        fn new() -> Self {
            Self {
                class: AtomicU32::new(Class::Normal as u32),
                mask: [AtomicU32::new(0), AtomicU32::new(0)],
            }
        }
    }

    /// Ordering of all accesses: Relaxed. The publication of the jobs passes the options on: INV-RUN.
    pub(crate) fn get(&self) -> ForkOptions {
        let class = self.class.load(Ordering::Relaxed);
        let [low, high] = [0, 1].map(|i: usize| u64::from(self.mask[i].load(Ordering::Relaxed)));
        let set = WorkerSet::from_raw((class >> 16) as u16, low | high << 32);
        let class = match class & 3 {
            0 => Class::Urgent,
            1 => Class::Normal,
            _ => Class::Background,
        };
        ForkOptions::new().class(class).affine_to(set)
    }

    /// See `get`.
    pub(crate) fn set(&self, options: ForkOptions) {
        let (first, mask) = options.set().map_or((0, 0), WorkerSet::into_raw);
        self.class.store(options.class as u32 | u32::from(first) << 16, Ordering::Relaxed);
        self.mask[0].store(mask as u32, Ordering::Relaxed);
        self.mask[1].store((mask >> 32) as u32, Ordering::Relaxed);
    }
}

/// The time, in nanoseconds, that one worker owes its background tasks while other tasks never end.
///
/// One of n: while background tasks wait, each nanosecond for others earns them 1/(n-1), and each of their own takes one. A long
/// poll is so paid for afterwards, and the share holds however long polls are.
pub(crate) struct Share {
    credit: Cell<i64>,
    /// When it was counted last; none while no background task waits.
    since: Cell<Option<u64>>,
    /// Whether a background task has run since.
    spends: Cell<bool>,
    /// How many of them one after the other took no time, by the clock.
    still: Cell<u32>,
    /// The worker is out of its loop for long.
    paused: Cell<bool>,
    /// So many nanoseconds of others earn one.
    others: Cell<u32>,
    /// Which of three queues comes first.
    turn: Cell<u8>,
}

/// What is earned is kept up to this: background tasks that were held up for long do not hold up others for long.
const MOST: i64 = 10_000_000;
/// What is owed, down to this: one poll of a second does not starve the next tasks for longer than 15.
const LEAST: i64 = -1_000_000_000;
/// So many background polls come in a row at most while the clock stands still.
const STILL: u32 = 64;

impl Share {
    pub(crate) const fn new() -> Self {
        Self {
            credit: Cell::new(0),
            since: Cell::new(None),
            spends: Cell::new(false),
            still: Cell::new(0),
            paused: Cell::new(false),
            others: Cell::new(1),
            turn: Cell::new(0),
        }
    }

    /// No background task waits, or nothing else does.
    pub(crate) fn rest(&self, now: impl FnOnce() -> u64) {
        if self.since.get().is_some() {
            self.count(now());
        }
        self.since.set(None);
        self.spends.set(false);
        self.paused.set(false);
        self.credit.set(self.credit.get().min(0));
    }

    /// Whether it is the turn of a background task, whose share is one of `n`. If so, it runs now.
    pub(crate) fn is_due(&self, now: u64, n: u32) -> bool {
        self.others.set(n.saturating_sub(1).max(1));
        if !self.count(now) {
            return false;
        }
        let is_due = self.credit.get() > 0 && self.still.get() < STILL;
        if !is_due {
            self.still.set(0);
        }
        self.spends.set(is_due);
        is_due
    }

    /// It was the turn of a background task, and another worker has taken the last.
    pub(crate) fn reset_after_miss(&self) {
        self.spends.set(false);
    }

    /// Earns or pays for the time since the last count. False if that is not known.
    fn count(&self, now: u64) -> bool {
        let Some(since) = self.since.replace(Some(now)) else { return false };
        let passed = now.saturating_sub(since).min(LEAST.unsigned_abs());
        let change = if self.spends.replace(false) {
            self.still.set(if passed == 0 { self.still.get() + 1 } else { 0 });
            -(passed as i64)
        } else {
            (passed / u64::from(self.others.get())) as i64
        };
        self.credit.set((self.credit.get() + change).clamp(LEAST, MOST));
        true
    }

    /// If the last poll was a background task's, it is over.
    pub(crate) fn settle(&self, now: impl FnOnce() -> u64) {
        if self.spends.get() {
            self.count(now());
        }
    }

    /// The worker leaves its loop for long: what passes meanwhile is no time of its polls.
    #[inline]
    pub(crate) fn pause(&self, now: impl FnOnce() -> u64) {
        if self.since.get().is_some() {
            self.count(now());
            self.since.set(None);
            self.paused.set(true);
        }
    }

    /// It is back.
    #[inline]
    pub(crate) fn resume(&self, now: impl FnOnce() -> u64) {
        if self.paused.replace(false) {
            self.since.set(Some(now()));
        }
    }

    /// Each of three queues, another one first each time.
    pub(crate) fn rotation(&self) -> impl Iterator<Item = u8> {
        let first = self.turn.replace((self.turn.get() + 1) % 3);
        (first..3).chain(0..first)
    }

    /// Whether a background task has run since the last look.
    pub(crate) fn has_spent(&self) -> bool {
        self.spends.get()
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod tests {
    use super::Share;

    /// With polls of any two lengths, the share is one of `n`.
    #[test]
    fn the_share_is_kept_whatever_polls_take() {
        for (n, others, own) in
            [(16, 1_000, 1_000), (16, 100, 1_000_000), (16, 1_000_000, 50), (2, 7, 7)]
        {
            let share = Share::new();
            let (mut now, mut background) = (0_u64, 0_u64);
            let end = 4_000 * (u64::from(n) * own).max(8 * others);
            while now < end {
                // A worker looks after each background poll, and after each eighth of the others.
                if share.is_due(now, n) {
                    now += own;
                    background += own;
                } else {
                    now += 8 * others;
                }
            }
            let wanted = now / u64::from(n);
            let off = background.abs_diff(wanted);
            assert!(off <= wanted / 50 + own + 8 * others, "1 in {n}: {background} of {now}");
        }
    }
}
