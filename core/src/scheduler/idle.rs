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
/// itself, counts it as searching and then unparks it.
/// INV-IDLE-COUNT: `searching` counts the workers that search, and those claimed that do not yet know.
#[derive(Debug)]
pub(crate) struct Idle {
    searching: AtomicU32,
    /// Up to `GROUP` workers: a bit for each that sleeps. Above: a bit for each group in which one may sleep.
    top: AtomicWord,
}

impl Idle {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { searching: AtomicU32::new(0), top: AtomicWord::new(0) }
        }
    }

    /// How many search.
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
        // Ordering: a count. Its order against the queues is made by the fences of `notify` and of who stops.
        self.searching.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A searcher stops searching, and the queues are re-read after this; true if it was the last.
    pub(crate) fn stop_searching(&self) -> bool {
        let last = self.searching.fetch_sub(1, Ordering::Relaxed) == 1;
        self.fence();
        last
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
            #[cfg(not(filch_mutant = "idle_retire"))]
            self.top.fetch_or(1 << group, Ordering::Release);
            #[cfg(filch_mutant = "idle_retire")]
            self.top.fetch_or(1 << group, Ordering::Relaxed);
        }
        if was_searching {
            self.searching.fetch_sub(1, Ordering::Relaxed);
        }
        self.fence();
        #[cfg(not(any(filch_mutant = "idle_gap", filch_mutant = "idle_recheck")))]
        return self.searching() == 0;
        #[cfg(filch_mutant = "idle_gap")]
        return was_searching && self.searching() == 0;
        #[cfg(filch_mutant = "idle_recheck")]
        return false;
    }

    /// `me` is awake by itself. True if nobody has claimed it; else it is a searcher now (INV-IDLE-COUNT).
    pub(crate) fn retract(&self, leaves: &impl Leaves, me: WorkerId) -> bool {
        self.clear(leaves, me)
    }

    /// Claims one sleeper, if there is work that nobody looks for: nobody searches. The work was queued before.
    /// `last` is claimed only if no other sleeps.
    #[inline]
    pub(crate) fn notify(&self, leaves: &impl Leaves, last: Option<WorkerId>) -> Option<WorkerId> {
        self.fence();
        // Ordering: Relaxed, after the fence.
        if self.searching() != 0 || !self.any_parked() {
            return None;
        }
        self.claim_any(leaves, last)
    }

    /// Claims one sleeper, whoever searches.
    fn claim_any(&self, leaves: &impl Leaves, last: Option<WorkerId>) -> Option<WorkerId> {
        let one_level = leaves.workers() <= GROUP;
        let find = |avoid: Option<usize>| {
            let top = self.top.load(Ordering::Relaxed);
            if one_level {
                return Bits(top).find(|w| Some(*w) != avoid);
            }
            Bits(top).find_map(|g| {
                let leaf = leaves.leaf(g).load(Ordering::Relaxed);
                Bits(leaf).map(|b| g * GROUP + b).find(|w| Some(*w) != avoid)
            })
        };
        loop {
            let worker = find(last.map(WorkerId::index)).or_else(|| find(None))?;
            let worker = WorkerId::new(worker as u16);
            if self.claim(leaves, worker) {
                return Some(worker);
            }
        }
    }

    /// Claims this worker, if it sleeps.
    pub(crate) fn claim(&self, leaves: &impl Leaves, worker: WorkerId) -> bool {
        let claimed = self.clear(leaves, worker);
        if claimed {
            // Ordering: it comes before the unpark (Release), and so before whatever the worker does with it.
            self.searching.fetch_add(1, Ordering::Relaxed);
        }
        claimed
    }

    /// Clears a worker's bit; whether it was set.
    fn clear(&self, leaves: &impl Leaves, worker: WorkerId) -> bool {
        if leaves.workers() <= GROUP {
            let bit = 1 << worker.index();
            // Ordering: Relaxed: which of two clears comes first, the word itself decides.
            return self.top.fetch_and(!bit, Ordering::Relaxed) & bit != 0;
        }
        let (group, bit) = split(worker);
        let leaf = leaves.leaf(group);
        let before = leaf.fetch_and(!bit, Ordering::Relaxed);
        if before == bit {
            self.retire(group, leaf);
        }
        before & bit != 0
    }

    /// Nobody sleeps in the group any more: takes its bit down, and puts it up again if that was too hasty.
    fn retire(&self, group: usize, leaf: &AtomicWord) {
        // Ordering: Acquire pairs with the Release in `announce`: if we took a newcomer's bit down, we see its leaf.
        self.top.fetch_and(!(1 << group), Ordering::Acquire);
        if leaf.load(Ordering::Relaxed) != 0 {
            self.top.fetch_or(1 << group, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn fence(&self) {
        // Ordering: the store-load race of pushers and sleepers, see the README: each side writes, fences, reads. All
        // these fences pair with each other.
        #[cfg(not(filch_mutant = "idle_fence"))]
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
