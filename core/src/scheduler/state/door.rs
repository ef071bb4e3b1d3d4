//! A worker's door: whether the worker is asked to leave, and how many tasks live that keep it.
//!
//! A task that is pinned to a worker can run nowhere else. One that is held to a set keeps the first worker of the set: those with the
//! highest numbers leave first. So a worker that leaves strands no task.

use crate::atomic::{AtomicU32, Ordering, maybe_const};

/// The worker is to leave, and no new task may be held to it.
const SHUT: u32 = 1;
/// The platform was asked to start the worker, which has not come yet.
const CALLED: u32 = 2;
/// The tasks are counted above the two marks.
const ONE: u32 = 4;

/// INV-DOOR: the count is the number of live tasks that are held to the worker, each from before it is published to after its last
/// poll. It goes up only while the door is open. So a shut door with no task stays so until it is opened.
pub(crate) struct Door(AtomicU32);

impl Door {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Counts a new task; false if the door is shut.
    pub(crate) fn admit(&self) -> bool {
        let next = |word: u32| (word & SHUT == 0).then_some(word + ONE);
        // Ordering: a count; the queue publishes the task. That it came before the shutting is the order of this word alone.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// A task has ended. Whether it was the last, and the worker is to leave: it may have gone to sleep for that task.
    pub(crate) fn dismiss(&self) -> bool {
        // Ordering: Release pairs with the Acquire in `lets_go`: the worker leaves after all that the task did.
        let before = self.0.fetch_sub(ONE, Ordering::Release);
        debug_assert!(before >= ONE, "INV-DOOR");
        before & !CALLED == ONE | SHUT
    }

    /// Asks the worker to leave.
    pub(crate) fn shut(&self) {
        // Ordering: AcqRel pairs with itself and with that in `open`: of two contexts that set the door, the later one sees what the
        // earlier one has done before. The worker sees it by the notice to its park word, which follows.
        self.0.fetch_or(SHUT, Ordering::AcqRel);
    }

    /// The worker is to stay, or to come back.
    pub(crate) fn open(&self) {
        // Ordering: as in `shut`.
        self.0.fetch_and(!SHUT, Ordering::AcqRel);
    }

    /// Whether the worker is to leave, and no task keeps it.
    #[inline]
    pub(crate) fn lets_go(&self) -> bool {
        // Ordering: a hint first, as the door is most often open.
        self.0.load(Ordering::Relaxed) & !CALLED == SHUT && self.is_left()
    }

    /// Looks at the latest value: an older one may be from before the door was last opened.
    #[cold]
    fn is_left(&self) -> bool {
        // Ordering: AcqRel: Acquire pairs with the Release in `dismiss`. Release pairs with the AcqRel in `open`: a context that opens the
        // door after a worker that was offline has looked sees it offline.
        self.0.fetch_or(0, Ordering::AcqRel) & !CALLED == SHUT
    }

    /// The platform is asked to start the worker, which was seen offline; whether it was asked before.
    pub(crate) fn call(&self) -> bool {
        // Ordering: Release pairs with the Acquire in `answer`.
        self.0.fetch_or(CALLED, Ordering::Release) & CALLED != 0
    }

    /// A context that was started for the worker is about to become it, or will not.
    pub(crate) fn answer(&self) {
        // Ordering: Acquire pairs with the Release in `call`: for each context that has relied on this one, it sees the worker offline
        // as they did.
        self.0.fetch_and(!CALLED, Ordering::Acquire);
    }
}
