#![doc = include_str!("README.md")]

use crate::{
    atomic::{AtomicU32, AtomicWord, Ordering, Word, fence, maybe_const},
    platform::WorkerId,
};

/// Workers in one word of the bitmap. Models use two, so that the second level is within their reach.
pub(crate) const GROUP: usize = if cfg!(filch_loom) { 2 } else { Word::BITS as usize };

/// Where the second level's words are: one for each [`GROUP`] workers. Only asked for above `GROUP` workers.
pub(crate) trait Leaves {
    fn workers(&self) -> usize;
    fn leaf(&self, group: usize) -> &AtomicWord;
}

/// Who sleeps and who searches.
///
/// INV-IDLE-BIT: a worker sets its own bit; whoever clears it has claimed the worker, and if that is not the worker
/// itself, has counted it as searching before, and unparks it then.
/// INV-IDLE-COUNT: `searching` counts the workers that search, and those claimed that do not yet know.
#[derive(Debug)]
pub(crate) struct Idle {
    searching: AtomicU32,
    /// Up to `GROUP` workers: a bit for each that sleeps. Above: a bit for each group in which one may sleep.
    top: AtomicWord,
}

/// What became of a worker's bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleared {
    /// It was clear before.
    Not,
    Set,
    /// It was set, and the group's bit was down for a moment while another slept there.
    Hasty,
}

/// What came of a claim.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The worker is the claimer's to unpark.
    Made,
    /// It does not sleep.
    Awake,
    /// It woke by itself in the midst of the claim, whose count somebody may have taken for a searcher: look whether there
    /// is work.
    Missed,
}

impl Idle {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { searching: AtomicU32::new(0), top: AtomicWord::new(0) }
        }
    }

    /// How many search.
    #[inline]
    pub(crate) fn searching(&self) -> u32 {
        // Ordering: callers that decide by it put a SeqCst fence before: see the README.
        self.searching.load(Ordering::Relaxed)
    }

    /// How many sleep. A figure, not a promise.
    pub(crate) fn parked(&self, leaves: &impl Leaves) -> usize {
        let top = self.top.load(Ordering::Relaxed);
        if leaves.workers() <= GROUP {
            return top.count_ones() as usize;
        }
        Bits(top).map(|g| leaves.leaf(g).load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// Whether somebody sleeps. A figure, not a promise.
    #[inline(always)]
    pub(crate) fn any_parked(&self) -> bool {
        self.top.load(Ordering::Relaxed) != 0
    }

    /// Becomes a searcher, unless half of the `awake` workers are searching.
    pub(crate) fn try_search(&self, online: u32) -> bool {
        // The cap is a matter of thrift: two that pass it at once do no harm.
        if 2 * self.searching() >= online {
            return false;
        }
        // Ordering: a count. Its order against the queues is made by the fences of `must_notify` and of who stops.
        self.searching.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A worker that has seen work on its way to sleep is a searcher, whatever the cap.
    pub(crate) fn search_on(&self) {
        // Ordering: as in `try_search`.
        self.searching.fetch_add(1, Ordering::Relaxed);
    }

    /// A searcher stops searching, and the queues are re-read after this; true if it was the last.
    pub(crate) fn stop_searching(&self) -> bool {
        self.count_down() == 1
    }

    /// Says that `me` is about to sleep; a searcher stops searching. True if `me` must look at all queues again.
    pub(crate) fn announce(&self, leaves: &impl Leaves, me: WorkerId, was_searching: bool) -> bool {
        // Ordering of both: before the fence below, and thereby before the re-check.
        if leaves.workers() <= GROUP {
            self.top.fetch_or(1 << me.index(), Ordering::Relaxed);
        } else {
            let (group, bit) = split(me);
            leaves.leaf(group).fetch_or(bit, Ordering::Relaxed);
            // Ordering: Release pairs with the Acquire in `retire`, which must not miss the leaf's bit.
            self.top.fetch_or(1 << group, Ordering::Release);
        }
        if was_searching {
            self.count_down();
        } else {
            self.fence();
        }
        self.searching() == 0
    }

    /// `me` is awake by itself. True if it is nothing else; false if it is a searcher now (INV-IDLE-COUNT): somebody has
    /// claimed it, or may have gone away because it took its group's bit down.
    pub(crate) fn retract(&self, leaves: &impl Leaves, me: WorkerId) -> bool {
        match self.clear(leaves, me) {
            Cleared::Not => false,
            Cleared::Set => true,
            Cleared::Hasty => {
                // Ordering: as in `try_search`.
                self.searching.fetch_add(1, Ordering::Relaxed);
                false
            }
        }
    }

    /// Whether a sleeper must be claimed for work that was queued before: nobody searches, and somebody sleeps.
    #[inline]
    pub(crate) fn must_notify(&self) -> bool {
        self.fence();
        // Ordering: Relaxed, after the fence.
        self.searching() == 0 && self.any_parked()
    }

    /// Claims one sleeper, even if a worker searches.
    pub(crate) fn claim_any(&self, leaves: &impl Leaves) -> Option<WorkerId> {
        let one_level = leaves.workers() <= GROUP;
        let find = || {
            let top = self.top.load(Ordering::Relaxed);
            if one_level {
                return Bits(top).next();
            }
            Bits(top).find_map(|g| {
                let leaf = leaves.leaf(g).load(Ordering::Relaxed);
                Bits(leaf).map(|b| g * GROUP + b).next()
            })
        };
        loop {
            let worker = WorkerId::new(find()? as u16);
            // If that one woke by itself meanwhile, another may have relied on our count: go on looking.
            if self.claim(leaves, worker) == Claim::Made {
                return Some(worker);
            }
        }
    }

    /// Claims this worker, if it sleeps.
    pub(crate) fn claim(&self, leaves: &impl Leaves, worker: WorkerId) -> Claim {
        if !self.is_parked(leaves, worker) {
            return Claim::Awake;
        }
        // Counted first: who finds its bit cleared is a searcher, and may count itself down at once.
        // Ordering: Relaxed: it comes before the clear in the worker's eyes by the clear's Release.
        self.searching.fetch_add(1, Ordering::Relaxed);
        if self.clear(leaves, worker) != Cleared::Not {
            return Claim::Made;
        }
        if self.count_down() == 1 { Claim::Missed } else { Claim::Awake }
    }

    /// Whether this worker is announced asleep.
    pub(crate) fn is_parked(&self, leaves: &impl Leaves, worker: WorkerId) -> bool {
        let (word, bit) = if leaves.workers() <= GROUP {
            (&self.top, 1 << worker.index())
        } else {
            let (group, bit) = split(worker);
            (leaves.leaf(group), bit)
        };
        // Ordering: after the caller's fence.
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// One searcher less; how many there were.
    fn count_down(&self) -> u32 {
        // Ordering: Release, and the fence below acquires: who counts down later, and looks at the queues, sees the
        // tasks that this searcher has moved.
        let before = self.searching.fetch_sub(1, Ordering::Release);
        self.fence();
        before
    }

    /// Clears a worker's bit.
    fn clear(&self, leaves: &impl Leaves, worker: WorkerId) -> Cleared {
        let (group, bit) = split(worker);
        if leaves.workers() <= GROUP {
            // Ordering: AcqRel: a worker that finds its bit cleared sees that it was counted (`claim`).
            let before = self.top.fetch_and(!bit, Ordering::AcqRel);
            return if before & bit == 0 { Cleared::Not } else { Cleared::Set };
        }
        let leaf = leaves.leaf(group);
        // Ordering: as above.
        let before = leaf.fetch_and(!bit, Ordering::AcqRel);
        if before & bit == 0 {
            Cleared::Not
        } else if before == bit && self.retire(group, leaf) {
            Cleared::Hasty
        } else {
            Cleared::Set
        }
    }

    /// Nobody sleeps in the group any more: takes its bit down, and puts it up again if that was too hasty.
    fn retire(&self, group: usize, leaf: &AtomicWord) -> bool {
        // Ordering: Acquire pairs with the Release in `announce`: if we took a newcomer's bit down, we see its leaf.
        self.top.fetch_and(!(1 << group), Ordering::Acquire);
        let hasty = leaf.load(Ordering::Relaxed) != 0;
        if hasty {
            self.top.fetch_or(1 << group, Ordering::Relaxed);
        }
        hasty
    }

    #[inline(always)]
    fn fence(&self) {
        // Ordering: the store-load race of pushers and sleepers, see the README: each side writes, fences, reads. All
        // these fences pair with each other.
        // Loom does not switch threads at a fence: give it a place to, or what comes before is one step with it.
        #[cfg(filch_loom)]
        self.searching.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

fn split(worker: WorkerId) -> (usize, Word) {
    (worker.index() / GROUP, 1 << (worker.index() % GROUP))
}

/// The indices of a word's set bits, lowest first.
struct Bits(Word);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let index = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(index)
    }
}
