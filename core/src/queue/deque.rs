//! The deque of one worker's fork-join jobs: its owner works at the bottom, thieves take from the top.
//!
//! ```text
//!             top        split         bottom
//!              v           v              v
//!   slots  [ . | public    | private      | . | . ]
//!              thieves ->                 <- owner
//! ```
//!
//! Only the public part is a Chase-Lev deque, with `split` for its bottom: what is above is invisible to thieves, and
//! pushing and taking there needs neither fence nor exchange. The owner moves `split` up when somebody has asked for work.
//!
//! Jobs are taken back in the reverse order of their pushes, each by its own index, so that a job on the stack of the owner
//! need not be found: `take(at)` says whether it is still here. A deque that thieves or the owner have emptied through
//! `top` begins anew where `top` is, so that indices rise by one with each job that leaves that way.
//!
//! The orderings are those of Lê, Pop, Cohen and Zappa Nardelli, "Correct and efficient work-stealing for weak memory
//! models" (2013); the split is that of van Dijk and van de Pol, "Lace" (2014).

use core::{cell::Cell, fmt, ptr::NonNull};

use crate::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, array_of, fence, maybe_const};

// Models have executors on small stacks.
#[cfg_attr(not(filch_loom), repr(align(128)))]
struct Line<T>(T);

/// A deque of at most `CAP` jobs.
///
/// INV-DEQUE-OWNER: all but `steal`, `is_public` and `ask` are the owner's, one context at a time.
/// INV-DEQUE-SLOT: slots `[top, bottom)` hold jobs, at most `CAP`. Those in `[top, split)` are whoever's moves `top` past
/// them, or, of the last, lowers `split` below it first; those in `[split, bottom)` are the owner's.
/// INV-DEQUE-ORDER: whoever takes job `at` has taken all jobs above it, or knows them stolen, or knows job `at` stolen.
pub(crate) struct Deque<T, const CAP: usize> {
    /// Written by thieves.
    top: Line<AtomicUsize>,
    /// Read by thieves, and by the owner at each push: it must not share a line with what changes as often.
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
    /// Up to where a push need not look: `top` as it was seen last, and `SHALLOW`.
    limit: Cell<usize>,
    /// From where on the owner need not push: see `is_deep`. Out of reach at first.
    deep: Cell<usize>,
    /// Pushes above `limit` since somebody asked.
    spills: Cell<u32>,
}

/// After how many pushes above its `limit` that nobody has asked for a deque is deep.
const SPILLS: u32 = if cfg!(filch_loom) { 1 } else { 512 };

/// Further than any index is from `top`.
const FAR: usize = usize::MAX / 4;

// SAFETY: INV-DEQUE-OWNER for `own`; jobs are handed out once each (INV-DEQUE-SLOT), and `T` may change threads.
unsafe impl<T: Send, const CAP: usize> Sync for Deque<T, CAP> {}
// SAFETY: as above.
unsafe impl<T: Send, const CAP: usize> Send for Deque<T, CAP> {}

/// What came of an attempt to steal.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steal<T> {
    /// There is nothing public.
    Empty,
    /// The oldest job.
    Success(T),
    /// Somebody was faster; there may be more.
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
    /// How many jobs that wait are enough while nobody wants any.
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

    /// Where the next push goes.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER).
    #[inline(always)]
    pub(crate) unsafe fn bottom(&self) -> usize {
        self.own.0.bottom.get()
    }

    /// Whether all that was pushed below `at`, the bottom, has left the deque. Once true it stays so until the next push.
    pub(crate) fn is_empty_at(&self, at: usize) -> bool {
        // Ordering: `top` only rises, and up to the bottom at most.
        self.top.0.load(Ordering::Relaxed) == at
    }

    /// Adds a job at the bottom, which is `at`, to the private part; false if there is no room. Wait-free, without a fence.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER), `at` is `bottom`, and the job stays where it is until it is taken back, or
    /// whoever stole it is done with it.
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
        // Ordering: Acquire pairs with the Release in `steal`: a thief's read of its slot comes before our next write there.
        let top = self.top.0.load(Ordering::Acquire);
        let own = &self.own.0;
        own.limit.set(top.wrapping_add(Self::SHALLOW));
        own.spills.set(own.spills.get().saturating_add(1));
        if own.spills.get() >= SPILLS {
            own.deep.set(own.limit.get());
        }
        at.wrapping_sub(top) < CAP
    }

    /// Whether enough jobs wait below `at`, the bottom, for as long as nobody asks: then what would be pushed may as well run
    /// in place, which is cheaper.
    ///
    /// That takes many pushes that were for nothing, so that a few large jobs are in the deque, however deep.
    #[inline(always)]
    pub(crate) fn is_deep(&self, at: usize) -> bool {
        at_or_above(at, self.own.0.deep.get())
    }

    /// Takes the job at `at` back; false if it was stolen. Without a fence if it is private.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER); the job was pushed at `at`, and has not been taken back; INV-DEQUE-ORDER.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, at: usize) -> bool {
        // Ordering: only the owner stores `split`.
        let split = self.public.0.split.load(Ordering::Relaxed);
        if at_or_above(at, split) {
            self.own.0.bottom.set(at);
            return true;
        }
        self.take_public(at, split)
    }

    #[cold]
    #[inline(never)]
    fn take_public(&self, at: usize, split: usize) -> bool {
        // Ordering of the stores of `split` here: Release, as in `publish`, on which a thief that reads these relies as well,
        // for the older jobs.
        const LOWER: Ordering = Ordering::Release;
        let next = at.wrapping_add(1);
        if split != next {
            // The deque was emptied above: thieves have taken all that is older, oldest first.
            return false;
        }
        let public = &self.public.0.split;
        public.store(at, LOWER);
        // Ordering: pairs with the fence in `steal`: either the thief sees that `split` is lowered, or we see in `top` what it
        // saw.
        fence(Ordering::SeqCst);
        let top = self.top.0.load(Ordering::Relaxed);
        if top != at && at_or_above(at, top) {
            // Older jobs are left, and a thief must take those first: ours is out of its reach.
            self.own.0.bottom.set(at);
            return true;
        }
        // The last one: whoever moves `top` has it.
        // Ordering: Relaxed: it is our own job, and slots are written by us alone.
        let ours =
            self.top.0.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        public.store(next, LOWER);
        // The bottom is `next`, or above jobs that were pushed when ours had been stolen.
        if ours {
            // Somebody was to have it, and is without.
            self.ask();
        }
        ours
    }

    /// Makes the `n` oldest private jobs public, or all; how many. The caller notifies thieves, with a fence, if there were any.
    ///
    /// # Safety
    /// The caller is the owner (INV-DEQUE-OWNER).
    pub(crate) unsafe fn publish(&self, n: usize) -> usize {
        // Ordering: only the owner stores `split`.
        let split = self.public.0.split.load(Ordering::Relaxed);
        let n = n.min(self.own.0.bottom.get().wrapping_sub(split));
        if n > 0 {
            // Ordering: Release pairs with the Acquire in `steal`: a thief sees the slots below `split`, and the jobs.
            self.public.0.split.store(split.wrapping_add(n), Ordering::Release);
        }
        n
    }

    /// Whether thieves would find something. A look, not a promise; who must not overlook a job puts a SeqCst fence before.
    #[inline]
    pub(crate) fn is_public(&self) -> bool {
        // Ordering: Acquire, for `top` to be no newer than `split`: an old `top` gives too much, not too little.
        let top = self.top.0.load(Ordering::Acquire);
        let split = self.public.0.split.load(Ordering::Acquire);
        split != top && at_or_above(split, top)
    }

    /// Takes the oldest public job.
    #[cfg(all(test, not(any(filch_shuttle, filch_weakmem))))]
    pub(crate) fn steal(&self) -> Steal<NonNull<T>> {
        self.steal_if(|| true)
    }

    /// Takes the oldest public job if `still` holds: for a thief that wants the jobs of a certain time alone, one that ends with something which
    /// the owner does, or has others do, before it publishes the next job.
    ///
    /// Then no later job is taken: `still` is asked after the look at `split`, so that if a later job was public then, the end
    /// of that time is seen; and if one becomes public in the same place after that look, `top` has moved past the one before,
    /// since a public job leaves its place in no other way unless older ones are left; so the exchange fails.
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
        // Ordering: the slot is that of `top` as long as `top` does not move, which the exchange finds out.
        let job = self.slot(top).load(Ordering::Relaxed);
        let next = top.wrapping_add(1);
        // Ordering: Release pairs with the Acquire in `find_room`.
        match self.top.0.compare_exchange(top, next, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => NonNull::new(job).map_or(Steal::Retry, Steal::Success),
            Err(_) => Steal::Retry,
        }
    }

    /// Asks the owner for work: at its next push or take it sees that it should publish some.
    #[inline]
    pub(crate) fn ask(&self) {
        // Ordering: a hint; the jobs come by `publish`. A look first, for the line to stay with the owner.
        if !self.public.0.asked.load(Ordering::Relaxed) {
            self.public.0.asked.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody has asked.
    #[inline(always)]
    pub(crate) fn is_asked(&self) -> bool {
        self.public.0.asked.load(Ordering::Relaxed)
    }

    /// The owner has seen that somebody asked: all jobs count again.
    pub(crate) fn wake_up(&self) {
        let own = &self.own.0;
        own.spills.set(0);
        own.deep.set(own.bottom.get().wrapping_add(FAR));
    }

    /// The owner forgets that somebody asked.
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

    /// The deque, and what should be in it: indices with the numbers of jobs, and how many are public.
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
                assert!(unsafe { self.deque.take(at) });
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
            assert!((0..3).rev().all(|at| !pair.deque.take(at)));
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
            assert!((0..most).rev().all(|at| unsafe { deque.take(at) }));
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
