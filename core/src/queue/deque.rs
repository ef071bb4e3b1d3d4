//! The deque of one worker's fork-join jobs. Its owner pushes and takes at the bottom; thieves take from the top.
//!
//! ```text
//!             top        split         bottom
//!              v           v              v
//!   slots  [ . | public    | private      | . | . ]
//!              thieves ->                 <- owner
//! ```
//!
//! Only the public part is a Chase-Lev deque, with `split` as its bottom. Thieves do not see the jobs above `split`, so
//! the owner pushes and takes there without a fence or an exchange. The owner raises `split` when a thief has asked for
//! work.
//!
//! Jobs are taken back each by its own index, so that the owner of a job need not search: `take(at)` says whether the job
//! is still in the deque. On one stack the newest job is taken first. Coroutines with stacks of their own take jobs in any
//! order: a job that is not the newest leaves an empty slot, which thieves skip. When all jobs have left through `top`, the
//! deque begins anew at `top`: so indices rise by one with each job that leaves that way.
//!
//! The orderings are those of Lê, Pop, Cohen and Zappa Nardelli, "Correct and efficient work-stealing for weak memory
//! models" (2013); the split is that of van Dijk and van de Pol, "Lace" (2014).

use core::{cell::Cell, fmt, ptr::NonNull};

use crate::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, array_of, fence, maybe_const};

// Not aligned in models: they put executors on small stacks.
#[cfg_attr(not(filch_loom), repr(align(128)))]
struct Line<T>(T);

/// A deque of at most `CAP` jobs.
///
/// INV-DEQUE-OWNER: only the owner calls the functions other than `steal_if`, `is_public`, `ask` and `is_asked`, in one
/// context at a time.
/// INV-DEQUE-SLOT: slots `[top, bottom)` hold jobs, or null where a job was taken back that was not the newest; at most
/// `CAP`. A job in `[top, split)` belongs to the context that moves `top` past it, or to the owner once it has lowered
/// `split` below it. Jobs in `[split, bottom)` belong to the owner.
/// INV-DEQUE-INDEX: no job is pushed at the index of another one that its owner has not taken back or settled. `bottom` is
/// lowered only to the index of the job that leaves, the newest, or past an empty slot.
pub(crate) struct Deque<T, const CAP: usize> {
    /// Written by thieves.
    top: Line<AtomicUsize>,
    /// Read by thieves, and by the owner at each push: kept off the cache lines that change as often as `top` and
    /// `own`.
    public: Line<Public>,
    own: Line<Own>,
    slots: [AtomicPtr<T>; CAP],
}

struct Public {
    split: AtomicUsize,
    asked: AtomicBool,
}

struct Own {
    bottom: Cell<usize>,
    /// The value of `Public::split`, which only the owner changes.
    split: Cell<usize>,
    /// As many indices below `bottom` are of no account to an owner of jobs: those that have left through `top` and were
    /// settled, and empty slots. It begins where the indices do.
    settled: Cell<usize>,
    /// A push below this index needs no check: the `top` that was seen last, plus `SHALLOW`.
    limit: Cell<usize>,
    /// From this index on the owner need not push: see `is_deep`. Out of reach at first.
    deep: Cell<usize>,
    /// Pushes that reached `limit` since a thief asked last.
    spills: Cell<u32>,
}

/// A deque is deep after this many pushes at its `limit` without a thief that asks.
const SPILLS: u32 = if cfg!(filch_loom) { 1 } else { 512 };

/// Further from `top` than any index is.
const FAR: usize = usize::MAX / 4;

// SAFETY: INV-DEQUE-OWNER for `own`. INV-DEQUE-SLOT: each job is handed out once, and `T` is `Send`.
unsafe impl<T: Send, const CAP: usize> Sync for Deque<T, CAP> {}
// SAFETY: as above.
unsafe impl<T: Send, const CAP: usize> Send for Deque<T, CAP> {}

/// The result of an attempt to steal.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steal<T> {
    /// No job is public.
    Empty,
    /// The oldest job.
    Success(T),
    /// Another context was faster. There may be more jobs.
    Retry,
}

/// Whether index `a` is at `b` or above it. Indices wrap.
#[inline(always)]
fn at_or_above(a: usize, b: usize) -> bool {
    a.wrapping_sub(b) as isize >= 0
}

impl<T, const CAP: usize> Deque<T, CAP> {
    const MASK: usize = {
        assert!(CAP.is_power_of_two() && CAP >= 2, "a deque's capacity is a power of two");
        CAP - 1
    };
    /// How many waiting jobs are enough while no thief asks.
    const SHALLOW: usize = if CAP < 8 { CAP } else { CAP / 8 };

    maybe_const! {
        pub(crate) fn new() -> Self {
            Self::starting_at(0)
        }
    }

    maybe_const! {
        /// An empty deque whose indices begin at `index`. Models and fuzz targets test the wrap-around with it.
        pub(crate) fn starting_at(index: usize) -> Self {
            Self {
                top: Line(AtomicUsize::new(index)),
                public: Line(Public { split: AtomicUsize::new(index), asked: AtomicBool::new(false) }),
                own: Line(Own {
                    bottom: Cell::new(index),
                    split: Cell::new(index),
                    settled: Cell::new(index),
                    limit: Cell::new(index.wrapping_add(Self::SHALLOW)),
                    deep: Cell::new(index.wrapping_add(FAR)),
                    spills: Cell::new(0),
                }),
                slots: array_of!(AtomicPtr::new(core::ptr::null_mut()); CAP),
            }
        }
    }

    #[inline(always)]
    fn slot(&self, index: usize) -> &AtomicPtr<T> {
        // SAFETY: the mask keeps the index below `CAP`.
        unsafe { self.slots.get_unchecked(index & Self::MASK) }
    }

    /// The index of the next push.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER).
    #[inline(always)]
    pub(crate) unsafe fn bottom(&self) -> usize {
        self.own.0.bottom.get()
    }

    /// How many jobs were pushed, and neither taken back nor settled.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER).
    pub(crate) unsafe fn unsettled(&self) -> usize {
        self.own.0.bottom.get().wrapping_sub(self.own.0.settled.get())
    }

    /// A job that was stolen is complete, and its owner has its outcome.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER); once for each such job.
    pub(crate) unsafe fn settle(&self) {
        self.own.0.settled.set(self.own.0.settled.get().wrapping_add(1));
    }

    /// Adds a job to the private part, at the bottom, which is `at`. False if there is no room. Wait-free, without a
    /// fence.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER), and `at` is `bottom`. The job stays in place until it is taken back,
    /// or its thief has finished with it.
    #[inline(always)]
    pub(crate) unsafe fn push(&self, at: usize, job: NonNull<T>) -> bool {
        let own = &self.own.0;
        if at_or_above(at, own.limit.get()) && !self.find_room(at) {
            return false;
        }
        self.put(at, job);
        true
    }

    #[cold]
    #[inline(never)]
    fn find_room(&self, at: usize) -> bool {
        if self.drop_empty() {
            // The bottom is lower now. The next push is there.
            return false;
        }
        // Ordering: Acquire pairs with the Release in `steal_if`: a thief's read of its slot comes before our next
        // write there.
        let top = self.top.0.load(Ordering::Acquire);
        let own = &self.own.0;
        own.limit.set(top.wrapping_add(Self::SHALLOW));
        if at_or_above(at, own.limit.get()) {
            own.spills.set(own.spills.get().saturating_add(1));
        }
        if own.spills.get() >= SPILLS {
            own.deep.set(own.limit.get());
        }
        at.wrapping_sub(top) < CAP
    }

    /// Whether so many jobs wait below `at`, the bottom, that the next one may as well run in place, which is cheaper.
    /// Only until a thief asks.
    ///
    /// A deque becomes deep only after many pushes that no thief asked for. So a program that forks a few large jobs
    /// has all of them in the deque.
    #[inline(always)]
    pub(crate) fn is_deep(&self, at: usize) -> bool {
        at_or_above(at, self.own.0.deep.get())
    }

    /// As `is_deep`, for a deque with open jobs: these also leave through `top` when their owner takes them.
    #[inline(always)]
    pub(crate) fn is_deep_now(&self, at: usize) -> bool {
        // Ordering: a hint.
        self.is_deep(at) && at.wrapping_sub(self.top.0.load(Ordering::Relaxed)) >= Self::SHALLOW
    }

    /// As `push`. The job is public with all older ones, if few wait: an *open* job. Without a fence: the caller need not
    /// notify a thief.
    ///
    /// # Safety
    /// As `push`.
    #[inline(always)]
    pub(crate) unsafe fn push_open(&self, at: usize, job: NonNull<T>) -> bool {
        let limit = &self.own.0.limit;
        if at_or_above(at, limit.get()) {
            if !self.find_room(at) {
                return false;
            }
            if at_or_above(at, limit.get()) {
                self.put(at, job);
                return true;
            }
        }
        self.put(at, job);
        self.set_split(at.wrapping_add(1));
        true
    }

    /// Stores a job that has room at the bottom.
    #[inline(always)]
    fn put(&self, at: usize, job: NonNull<T>) {
        // Ordering: published by `set_split`.
        self.slot(at).store(job.as_ptr(), Ordering::Relaxed);
        self.own.0.bottom.set(at.wrapping_add(1));
    }

    #[inline(always)]
    fn set_split(&self, split: usize) {
        self.own.0.split.set(split);
        // Ordering: Release pairs with the Acquire in `steal_if`: a thief sees the slots below `split`, and the jobs. Also
        // where it is lowered: a thief that reads that value relies on it for the older jobs.
        self.public.0.split.store(split, Ordering::Release);
    }

    /// Takes the job at `at` back. False if it was stolen: then `settle` follows, when the job is complete. Needs no fence
    /// if the job is private. `asks`: a job is public only if a thief has asked. It is not so of open jobs.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER). The job was pushed at `at`, and has not been taken back.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, at: usize, asks: bool) -> bool {
        // SAFETY: the caller's.
        unsafe { self.take_newest(at) || self.take_any(at, asks) }
    }

    /// Takes the job at `at` back if it is private and the newest. The first half of `take`.
    ///
    /// # Safety
    /// As `take`.
    #[inline(always)]
    pub(crate) unsafe fn take_newest(&self, at: usize) -> bool {
        let own = &self.own.0;
        // INV-DEQUE-INDEX: the job is at this index still, unless it has left through `top`; and that is not above `split`.
        let is_newest = at_or_above(at, own.split.get()) && own.bottom.get() == at.wrapping_add(1);
        if is_newest {
            own.bottom.set(at);
        }
        is_newest
    }

    /// Takes any job back. The second half of `take`.
    ///
    /// # Safety
    /// As `take`.
    #[inline(always)]
    pub(crate) unsafe fn take_any(&self, at: usize, asks: bool) -> bool {
        if at_or_above(at, self.own.0.split.get()) {
            self.take_private(at);
            return true;
        }
        self.take_public(at, asks)
    }

    /// A private job that is not the newest.
    #[cold]
    #[inline(never)]
    fn take_private(&self, at: usize) {
        self.drop_empty();
        self.remove(at);
    }

    #[cold]
    #[inline(never)]
    fn take_public(&self, at: usize, asks: bool) -> bool {
        let split = self.own.0.split.get();
        let next = at.wrapping_add(1);
        // Ordering: `top` only rises.
        if split != next && at_or_above(self.top.0.load(Ordering::Relaxed), next) {
            return false;
        }
        self.set_split(at);
        // Ordering: pairs with the fence in `steal_if`: either the thief sees the lowered `split`, or we see the
        // thief's `top`.
        fence(Ordering::SeqCst);
        let top = self.top.0.load(Ordering::Relaxed);
        if top == at {
            return self.take_oldest(at, asks);
        }
        if at_or_above(at, top) {
            // Older jobs are left. A thief must take those first, so ours is out of its reach, and so are those above it.
            self.remove(at);
            return true;
        }
        // It was stolen. A thief may be about to take the next one.
        self.set_split(split);
        false
    }

    /// Takes the oldest job, which belongs to the context that moves `top`.
    #[inline(always)]
    fn take_oldest(&self, at: usize, asks: bool) -> bool {
        let next = at.wrapping_add(1);
        // Ordering: Relaxed: the job is our own, and only we write slots.
        let ours =
            self.top.0.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        // Jobs above it, if there are any, stay out of reach: a thief that sees the new `top` sees the lowered `split`.
        self.set_split(next);
        // The bottom is `next`, or higher.
        if ours {
            // SAFETY: the caller is the owner, and this job leaves through `top`.
            unsafe { self.settle() };
            if asks {
                // That thief still has none.
                self.ask();
            }
        }
        ours
    }

    /// Takes a job out of the private part.
    fn remove(&self, at: usize) {
        let own = &self.own.0;
        if own.bottom.get() == at.wrapping_add(1) {
            own.bottom.set(at);
        } else {
            // Ordering: published by `set_split`.
            self.slot(at).store(core::ptr::null_mut(), Ordering::Relaxed);
            own.settled.set(own.settled.get().wrapping_add(1));
        }
    }

    /// Lowers the bottom below the empty slots at the end of the private part; whether there were any.
    fn drop_empty(&self) -> bool {
        let own = &self.own.0;
        let before = own.bottom.get();
        let mut bottom = before;
        // Ordering: the owner's own stores.
        while bottom != own.split.get()
            && self.slot(bottom.wrapping_sub(1)).load(Ordering::Relaxed).is_null()
        {
            bottom = bottom.wrapping_sub(1);
        }
        own.bottom.set(bottom);
        own.settled.set(own.settled.get().wrapping_sub(before.wrapping_sub(bottom)));
        bottom != before
    }

    /// Makes the `n` oldest private jobs public, or all if there are fewer. Returns how many. If there were any, the
    /// caller notifies thieves, with a fence.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER).
    pub(crate) unsafe fn publish(&self, n: usize) -> usize {
        let split = self.own.0.split.get();
        let n = n.min(self.own.0.bottom.get().wrapping_sub(split));
        if n > 0 {
            self.set_split(split.wrapping_add(n));
        }
        n
    }

    /// Whether a thief would find a job. A hint; a caller that must not overlook a job puts a SeqCst fence before.
    #[inline]
    pub(crate) fn is_public(&self) -> bool {
        // Ordering: Acquire, so that `top` is no newer than `split`: an old `top` makes a job appear, and never hides
        // one.
        let top = self.top.0.load(Ordering::Acquire);
        let split = self.public.0.split.load(Ordering::Acquire);
        split != top && at_or_above(split, top)
    }

    /// Takes the oldest public job.
    #[cfg(all(test, not(any(filch_shuttle, filch_weakmem))))]
    pub(crate) fn steal(&self) -> Steal<NonNull<T>> {
        self.steal_if(|| true)
    }

    /// Takes the oldest public job if `still` holds. For a thief that wants only the jobs of a certain period. The
    /// period ends with something that the owner does, or has others do, before it publishes the next job.
    ///
    /// No job from after the period is taken. `still` runs after the load of `split`: if a later job was public at that
    /// load, `still` sees the end of the period. If a later job becomes public at the same index after that load, `top`
    /// has moved past the earlier job, because a public job leaves its index in no other way unless older ones are
    /// left. Then the exchange fails. `Retry` also for an empty slot.
    pub(crate) fn steal_if(&self, still: impl Fn() -> bool) -> Steal<NonNull<T>> {
        // Ordering: Relaxed, before the fence.
        let top = self.top.0.load(Ordering::Relaxed);
        // Ordering: pairs with the fence in `take_public`.
        fence(Ordering::SeqCst);
        // Ordering: Acquire pairs with the Release in `set_split`.
        let split = self.public.0.split.load(Ordering::Acquire);
        if split == top || !at_or_above(split, top) || !still() {
            return Steal::Empty;
        }
        // Ordering: the slot holds the job of `top` as long as `top` has not moved, which the exchange checks.
        let job = self.slot(top).load(Ordering::Relaxed);
        let next = top.wrapping_add(1);
        // Ordering: Release pairs with the Acquire in `find_room`.
        match self.top.0.compare_exchange(top, next, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => NonNull::new(job).map_or(Steal::Retry, Steal::Success),
            Err(_) => Steal::Retry,
        }
    }

    /// Asks the owner for work: its next push or take sees that it should publish jobs.
    #[inline]
    pub(crate) fn ask(&self) {
        // Ordering: a hint; `publish` publishes the jobs. The load first keeps the cache line with the owner.
        if !self.public.0.asked.load(Ordering::Relaxed) {
            self.public.0.asked.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a thief has asked.
    #[inline(always)]
    pub(crate) fn is_asked(&self) -> bool {
        self.public.0.asked.load(Ordering::Relaxed)
    }

    /// The owner has seen that a thief asked: `is_deep` begins anew.
    pub(crate) fn wake_up(&self) {
        let own = &self.own.0;
        own.spills.set(0);
        own.deep.set(own.bottom.get().wrapping_add(FAR));
    }

    /// The owner forgets that a thief asked.
    pub(crate) fn unask(&self) {
        self.public.0.asked.store(false, Ordering::Relaxed);
    }
}

impl<T, const CAP: usize> fmt::Debug for Deque<T, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deque").field("public", &self.is_public()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
#[path = "deque_tests.rs"]
mod tests;
