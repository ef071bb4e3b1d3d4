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
//! Jobs are taken back in the reverse order of their pushes, each by its own index, so that the owner of a job need not
//! search: `take(at)` says whether the job is still in the deque. When all jobs have left through `top`, the deque
//! begins anew at `top`: so indices rise by one with each job that leaves that way.
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
/// INV-DEQUE-OWNER: only the owner calls the functions other than `steal_if`, `is_public`, `is_empty_at`, `ask` and
/// `is_asked`, in one context at a time.
/// INV-DEQUE-SLOT: slots `[top, bottom)` hold jobs, at most `CAP`. A job in `[top, split)` belongs to the context that
/// moves `top` past it, or, if it is the newest of them, to the owner once it has lowered `split` below it. Jobs in
/// `[split, bottom)` belong to the owner.
/// INV-DEQUE-ORDER: before the owner takes job `at` it has taken all jobs above it, or knows that they were stolen, or
/// knows that job `at` was stolen.
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

    /// Whether every job that was pushed below `at`, the bottom, has left the deque. Once true, it stays true until the
    /// next push.
    pub(crate) fn is_empty_at(&self, at: usize) -> bool {
        // Ordering: Relaxed: `top` only rises, and at most to the bottom.
        self.top.0.load(Ordering::Relaxed) == at
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
        // Ordering: published by `publish`.
        self.slot(at).store(job.as_ptr(), Ordering::Relaxed);
        own.bottom.set(at.wrapping_add(1));
        true
    }

    #[cold]
    #[inline(never)]
    fn find_room(&self, at: usize) -> bool {
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

    /// Makes the job at `at`, the newest, public with all older ones, while few wait: an *open* job. Without a fence: the caller need
    /// not notify a thief.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER), and has just pushed the job at `at`.
    #[inline(always)]
    pub(crate) unsafe fn open(&self, at: usize) {
        if !at_or_above(at, self.own.0.limit.get()) {
            // Ordering: Release, as in `publish`.
            self.public.0.split.store(at.wrapping_add(1), Ordering::Release);
        }
    }

    /// Takes the job at `at` back. False if it was stolen. Needs no fence if the job is private. `asks`: a job is public only if a
    /// thief has asked. It is not so of open jobs.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER). The job was pushed at `at`, and has not been taken back.
    /// INV-DEQUE-ORDER holds.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, at: usize, asks: bool) -> bool {
        // Ordering: only the owner stores `split`.
        let split = self.public.0.split.load(Ordering::Relaxed);
        if at_or_above(at, split) {
            self.own.0.bottom.set(at);
            return true;
        }
        self.take_public(at, split, asks)
    }

    #[cold]
    #[inline(never)]
    fn take_public(&self, at: usize, split: usize, asks: bool) -> bool {
        // Ordering of the stores of `split` here: Release, as in `publish`: a thief that reads one of these also relies
        // on it for the older jobs.
        const LOWER: Ordering = Ordering::Release;
        let next = at.wrapping_add(1);
        if split != next {
            // The deque became empty above this job. Thieves take the oldest job first, so they have taken this one.
            return false;
        }
        let public = &self.public.0.split;
        public.store(at, LOWER);
        // Ordering: pairs with the fence in `steal_if`: either the thief sees the lowered `split`, or we see the
        // thief's `top`.
        fence(Ordering::SeqCst);
        let top = self.top.0.load(Ordering::Relaxed);
        if top != at && at_or_above(at, top) {
            // Older jobs are left. A thief must take those first, so ours is out of its reach.
            self.own.0.bottom.set(at);
            return true;
        }
        // This is the last job: it belongs to the context that moves `top`.
        // Ordering: Relaxed: the job is our own, and only we write slots.
        let ours =
            self.top.0.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        public.store(next, LOWER);
        // The bottom is `next`, or higher if jobs were pushed after ours was stolen.
        if ours && asks {
            // That thief still has none.
            self.ask();
        }
        ours
    }

    /// Makes the `n` oldest private jobs public, or all if there are fewer. Returns how many. If there were any, the
    /// caller notifies thieves, with a fence.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER).
    pub(crate) unsafe fn publish(&self, n: usize) -> usize {
        // Ordering: only the owner stores `split`.
        let split = self.public.0.split.load(Ordering::Relaxed);
        let n = n.min(self.own.0.bottom.get().wrapping_sub(split));
        if n > 0 {
            // Ordering: Release pairs with the Acquire in `steal_if`: a thief sees the slots below `split`, and the
            // jobs.
            self.public.0.split.store(split.wrapping_add(n), Ordering::Release);
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
    /// left. Then the exchange fails.
    pub(crate) fn steal_if(&self, still: impl Fn() -> bool) -> Steal<NonNull<T>> {
        // Ordering: Relaxed, before the fence.
        let top = self.top.0.load(Ordering::Relaxed);
        // Ordering: pairs with the fence in `take_public`.
        fence(Ordering::SeqCst);
        // Ordering: Acquire pairs with the Release in `publish`.
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
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const CAP: usize = 8;

    /// The deque and the expected content: indices with the numbers of jobs, and how many are public.
    struct Pair {
        deque: Deque<u32, CAP>,
        model: VecDeque<(usize, u32)>,
        public: usize,
        jobs: Vec<u32>,
    }

    impl Pair {
        fn new() -> Self {
            Self {
                deque: Deque::new(),
                model: VecDeque::new(),
                public: 0,
                jobs: (0..100_000).collect(),
            }
        }

        fn push(&mut self, n: u32) {
            // SAFETY: one thread; the jobs stay.
            unsafe {
                let at = self.deque.bottom();
                let pushed = self.deque.push(at, NonNull::from(&mut self.jobs[n as usize]));
                assert_eq!(pushed, self.model.len() < CAP);
                if pushed {
                    self.model.push_back((at, n));
                }
            }
        }

        fn take(&mut self) {
            if let Some((at, _)) = self.model.pop_back() {
                // SAFETY: one thread; the newest job.
                assert!(unsafe { self.deque.take(at, true) });
                self.public = self.public.min(self.model.len());
            }
        }

        fn steal(&mut self) -> Option<usize> {
            let stolen = self.deque.steal();
            if self.public == 0 {
                assert_eq!(stolen, Steal::Empty);
                return None;
            }
            self.public -= 1;
            let (at, n) = self.model.pop_front().unwrap();
            let Steal::Success(job) = stolen else { panic!("{stolen:?}") };
            // SAFETY: it points into `jobs`.
            assert_eq!(unsafe { job.read() }, n);
            Some(at)
        }

        fn publish(&mut self, n: usize) {
            // SAFETY: one thread.
            let more = unsafe { self.deque.publish(n) };
            assert_eq!(more, n.min(self.model.len() - self.public));
            self.public += more;
            assert_eq!(self.deque.is_public(), self.public > 0);
        }
    }

    #[test]
    fn a_deque_does_what_a_list_does() {
        for seed in 1..=64_u64 {
            let mut pair = Pair::new();
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            for n in 0..2_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                match random >> 32 & 7 {
                    0..=2 => pair.push(n),
                    3..=4 => pair.take(),
                    5 => drop(pair.steal()),
                    _ => pair.publish((random >> 40 & 3) as usize),
                }
            }
        }
    }

    #[test]
    fn a_job_that_was_stolen_is_not_taken_back() {
        let mut pair = Pair::new();
        (0..4).for_each(|n| pair.push(n));
        pair.publish(3);
        assert_eq!([pair.steal(), pair.steal(), pair.steal()], [Some(0), Some(1), Some(2)]);
        pair.take();
        // SAFETY: one thread, newest first.
        unsafe {
            assert!((0..3).rev().all(|at| !pair.deque.take(at, true)));
            assert_eq!(pair.deque.bottom(), 3);
        }
        pair.push(4);
        pair.publish(1);
        assert_eq!(pair.steal(), Some(3));
    }

    #[test]
    fn a_deque_is_deep_after_many_pushes_that_nobody_asked_for() {
        let deque = Deque::<u32, 64>::new();
        let mut job = 0;
        let job = NonNull::from(&mut job);
        let fill = || {
            let mut most = 0;
            while most < 64 && !deque.is_deep(most) {
                // SAFETY: one thread; the job stays.
                assert!(unsafe { deque.push(most, job) });
                most += 1;
            }
            // SAFETY: as above, newest first.
            assert!((0..most).rev().all(|at| unsafe { deque.take(at, true) }));
            most
        };
        assert_eq!([fill(), fill(), fill()], [64; 3], "a few jobs all wait");
        let rounds = (0..).take_while(|_| fill() == 64).count();
        assert!(rounds < SPILLS as usize, "{rounds}");
        assert_eq!([fill(), fill()], [8; 2]);
        deque.wake_up();
        assert_eq!(fill(), 64, "somebody has asked");
    }

    #[test]
    fn who_asks_is_heard_once() {
        let deque = Deque::<u32, CAP>::new();
        assert!(!deque.is_asked());
        deque.ask();
        deque.ask();
        assert!(deque.is_asked());
        deque.unask();
        assert!(!deque.is_asked());
    }
}
