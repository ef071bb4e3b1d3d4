//! The idle bitmap and the count of searchers. The rules, and why no task is stranded: this room's text.

use super::listener::Listener;
use crate::{
    atomic::{AtomicU32, AtomicWord, Ordering, Word, fence, maybe_const},
    platform::WorkerId,
};

/// Workers in one word of the bitmap. Models use two, so that a second word is within their reach.
pub(crate) const GROUP: usize = if cfg!(filch_loom) { 2 } else { Word::BITS as usize };

/// The bitmap's words: one for each [`GROUP`] workers.
pub(crate) trait Bitmap {
    fn words(&self) -> usize;
    fn word(&self, group: usize) -> &AtomicWord;
}

/// The first word of the bitmap, and the count of searchers.
///
/// INV-IDLE-BIT: a worker sets its own bit; a context that clears it has claimed the worker, and if it is not the worker
/// itself, has counted it as searching before, and unparks it then.
/// INV-IDLE-COUNT: `searching` counts the workers that search, and those claimed that do not yet know.
#[derive(Debug)]
pub(crate) struct Idle {
    searching: AtomicU32,
    pub(crate) first: AtomicWord,
    /// Here for its place: sleepers write this cache line in any case.
    pub(crate) listener: Listener,
}

/// What came of a claim.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The worker is the claimer's to unpark.
    Made,
    /// It does not sleep.
    Awake,
    /// It woke by itself in the midst of the claim, and a pusher may have taken the claim's count for a searcher: the claimer looks
    /// whether there is work.
    Missed,
}

impl Idle {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { searching: AtomicU32::new(0), first: AtomicWord::new(0), listener: Listener::new() }
        }
    }

    /// How many search.
    #[inline]
    pub(crate) fn searching(&self) -> u32 {
        // Ordering: callers that decide by it put a SeqCst fence before: see the README.
        self.searching.load(Ordering::Relaxed)
    }

    /// How many sleep. A figure, not a promise.
    pub(crate) fn parked(&self, bitmap: &impl Bitmap) -> usize {
        // Ordering: a figure.
        let ones = |group| bitmap.word(group).load(Ordering::Relaxed).count_ones() as usize;
        (0..bitmap.words()).map(ones).sum()
    }

    /// Whether a worker sleeps. A figure, not a promise.
    #[inline(always)]
    pub(crate) fn any_parked(&self, bitmap: &impl Bitmap) -> bool {
        // Ordering: callers that decide by it put a SeqCst fence before: see the README.
        (0..bitmap.words()).any(|group| bitmap.word(group).load(Ordering::Relaxed) != 0)
    }

    /// Becomes a searcher, unless half of the `online` workers are searching.
    pub(crate) fn try_search(&self, online: u32) -> bool {
        // The cap is a matter of thrift: two that pass it at once do no harm.
        if 2 * self.searching() >= online {
            return false;
        }
        // Ordering: a count. The fences of `must_notify` and of `stop_searching` order it against the queues.
        self.searching.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A worker that has seen work on its way to sleep is a searcher, whatever the cap.
    pub(crate) fn search_on(&self) {
        // Ordering: as in `try_search`.
        self.searching.fetch_add(1, Ordering::Relaxed);
    }

    /// A searcher stops searching. If it was the last it looks once more; true if there is work, of which it must notify.
    pub(crate) fn stop_searching(&self, look: impl FnOnce() -> bool) -> bool {
        self.count_down() == 1 && look()
    }

    /// `me` is about to sleep; a searcher stops searching. If no worker searches, `me` looks once more; true if there is work.
    pub(crate) fn announce(
        &self,
        bitmap: &impl Bitmap,
        me: WorkerId,
        was_searching: bool,
        look: impl FnOnce() -> bool,
    ) -> bool {
        let (group, bit) = split(me);
        // Ordering: before the fence below, and thereby before the re-check.
        bitmap.word(group).fetch_or(bit, Ordering::Relaxed);
        if was_searching {
            self.count_down();
        } else {
            self.fence();
        }
        self.searching() == 0 && look()
    }

    /// `me` is awake. Whether it woke by itself: if not, it was claimed, and is a searcher now (INV-IDLE-COUNT).
    pub(crate) fn unannounce(&self, bitmap: &impl Bitmap, me: WorkerId) -> bool {
        self.clear(bitmap, me)
    }

    /// Whether a sleeper must be claimed for work that was queued before: no worker searches, and one sleeps.
    #[inline]
    pub(crate) fn must_notify(&self, bitmap: &impl Bitmap) -> bool {
        self.fence();
        self.searching() == 0 && self.any_parked(bitmap)
    }

    /// Claims one sleeper, even if a worker searches: `near` if that sleeps.
    pub(crate) fn claim_any(
        &self,
        bitmap: &impl Bitmap,
        near: Option<WorkerId>,
    ) -> Option<WorkerId> {
        if near.is_some_and(|near| self.claim(bitmap, near) == Claim::Made) {
            return near;
        }
        let first_in = |group| {
            // Ordering: after the caller's fence.
            let word = bitmap.word(group).load(Ordering::Relaxed);
            (word != 0).then(|| group * GROUP + word.trailing_zeros() as usize)
        };
        loop {
            let index = (0..bitmap.words()).find_map(first_in)?;
            let worker = WorkerId::new(index as u16);
            // If that one woke by itself meanwhile, another may have relied on our count: go on looking.
            if self.claim(bitmap, worker) == Claim::Made {
                return Some(worker);
            }
        }
    }

    /// Claims this worker, if it sleeps.
    pub(crate) fn claim(&self, bitmap: &impl Bitmap, worker: WorkerId) -> Claim {
        if !self.is_parked(bitmap, worker) {
            return Claim::Awake;
        }
        // Counted first: a worker that finds its bit cleared is a searcher, and may count itself down at once.
        // Ordering: Relaxed: it comes before the clear in the worker's eyes by the clear's Release.
        self.searching.fetch_add(1, Ordering::Relaxed);
        if self.clear(bitmap, worker) {
            return Claim::Made;
        }
        if self.count_down() == 1 { Claim::Missed } else { Claim::Awake }
    }

    /// Whether this worker is announced asleep.
    fn is_parked(&self, bitmap: &impl Bitmap, worker: WorkerId) -> bool {
        let (group, bit) = split(worker);
        // Ordering: after the caller's fence.
        bitmap.word(group).load(Ordering::Relaxed) & bit != 0
    }

    /// One searcher less; how many there were.
    fn count_down(&self) -> u32 {
        // Ordering: Release, and the fence below acquires: a worker that counts down later, and looks at the queues, sees the
        // tasks that this searcher has moved.
        let before = self.searching.fetch_sub(1, Ordering::Release);
        self.fence();
        before
    }

    /// Clears a worker's bit; whether it was set.
    fn clear(&self, bitmap: &impl Bitmap, worker: WorkerId) -> bool {
        let (group, bit) = split(worker);
        // Ordering: AcqRel: a worker that finds its bit cleared sees that it was counted (`claim`).
        bitmap.word(group).fetch_and(!bit, Ordering::AcqRel) & bit != 0
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
