//! Whether a worker is asked to retire, and how many live tasks keep it.
//!
//! A task that is pinned to a worker can run nowhere else. One with an affinity keeps the first worker of the set: those with the
//! highest numbers leave first. So a worker that leaves strands no task.

use crate::atomic::{AtomicU32, Ordering, maybe_const};

/// The worker is asked to retire: it takes no new task of its own.
const ASKED: u32 = 1;
/// The platform was asked to start the worker, which has not come yet.
const STARTED: u32 = 2;
/// The tasks are counted above the two flags.
const ONE: u32 = 4;

/// INV-RETIRING: the count is the number of live tasks with an affinity to the worker, each from before it is published to after its last
/// poll. It goes up only while the worker is to stay. So a worker that is asked to retire, and has no task, has none until the request is
/// withdrawn.
pub(crate) struct Retiring(AtomicU32);

impl Retiring {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Counts a new task; false if the worker is asked to retire.
    pub(crate) fn admit(&self) -> bool {
        let next = |word: u32| (word & ASKED == 0).then_some(word + ONE);
        // Ordering: a count; the queue publishes the task. That it came before the request is the order of this word alone.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// A task has ended. Whether it was the last, and the worker is to leave: it may have gone to sleep for that task.
    pub(crate) fn dismiss(&self) -> bool {
        // Ordering: Release pairs with the Acquire in `may_retire`: the worker leaves after all that the task did.
        let before = self.0.fetch_sub(ONE, Ordering::Release);
        debug_assert!(before >= ONE, "INV-RETIRING");
        before & !STARTED == ONE | ASKED
    }

    /// Asks the worker to retire.
    pub(crate) fn request(&self) {
        // Ordering: AcqRel pairs with itself and with that in `withdraw`: of two contexts that change it, the later one sees what the
        // earlier one has done before. The worker sees it by the notice to its park word, which follows.
        self.0.fetch_or(ASKED, Ordering::AcqRel);
    }

    /// The worker is to stay, or to come back.
    pub(crate) fn withdraw(&self) {
        // Ordering: as in `request`.
        self.0.fetch_and(!ASKED, Ordering::AcqRel);
    }

    /// Whether the worker is to leave, and no task keeps it.
    #[inline]
    pub(crate) fn may_retire(&self) -> bool {
        // Ordering: a hint first, as most workers are to stay.
        self.0.load(Ordering::Relaxed) & !STARTED == ASKED && self.is_left()
    }

    /// Looks at the latest value: an older one may be from before the worker was last asked to stay.
    #[cold]
    fn is_left(&self) -> bool {
        // Ordering: AcqRel: Acquire pairs with the Release in `dismiss`. Release pairs with the AcqRel in `withdraw`: a context that
        // withdraws the request after a worker that was offline has looked sees it offline.
        self.0.fetch_or(0, Ordering::AcqRel) & !STARTED == ASKED
    }

    /// The platform is asked to start the worker, which was seen offline; whether it was asked before.
    pub(crate) fn mark_started(&self) -> bool {
        // Ordering: Release pairs with the Acquire in `clear_started`.
        self.0.fetch_or(STARTED, Ordering::Release) & STARTED != 0
    }

    /// A context that was started for the worker is about to become it, or will not.
    pub(crate) fn clear_started(&self) {
        // Ordering: Acquire pairs with the Release in `mark_started`: for each context that has relied on this one, it sees the worker
        // offline as they did.
        self.0.fetch_and(!STARTED, Ordering::Acquire);
    }
}
