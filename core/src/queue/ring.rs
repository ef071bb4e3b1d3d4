//! The run queue of one worker: a fixed ring. Its owner uses it as a FIFO; other workers steal half of it.
//!
//! ```text
//!            steal      real                 tail
//!              v          v                    v
//!   slots  [ . | x | x | x | t | t | t | t | t | . | . ]
//!              being copied    may be popped
//! ```
//!
//! `head` holds two indices in one word. The next pop or steal begins at `real`. `steal` stays behind while a thief
//! copies the tasks that it has claimed. A steal has three steps:
//!
//! 1. **claim**: one exchange advances `real` over half the tasks and leaves `steal`;
//! 2. **copy**: the thief moves `[steal, real)` to its own ring. Meanwhile the owner may pop and push, but not into
//!    slots at or above `steal + CAP`, and no other thief may claim;
//! 3. **release**: one exchange sets `steal` to `real`.
//!
//! Indices run freely and wrap. With 64-bit atomics they have 32 bits: a thief would claim by an old tail only if the
//! owner popped exactly 2^32 tasks between the thief's loads and its claim. With narrow words they have 16 bits, and
//! 65,536 pops can happen while a thief is preempted. There a thief first announces itself, by a `steal` one behind
//! `real`. Then it is the only thief, and loads the tail again, while the owner can advance by at most `CAP`.
//!
//! After the dual-head ring of Tokio and Volt. Differences: the thief's room is checked, and a full ring sheds one
//! linked chain.

use core::{fmt, mem::MaybeUninit, ptr::NonNull};

use crate::{
    atomic::{AtomicU32, AtomicWord, Ordering, UnsafeCell, Word, array_of, maybe_const},
    bits::Field,
    parts::{Apart, On},
    queue::chain::Chain,
    task::header::{Header, Ready},
};

/// Bits of an index. Few in models with narrow words, so that they see it wrap.
const INDEX: u32 = if cfg!(all(filch_loom, filch_narrow)) { 4 } else { Word::BITS / 2 };
const REAL: Field = Field::first(INDEX);
const STEAL: Field = REAL.then(INDEX);
/// The largest index.
#[cfg(all(test, filch_loom))]
pub(super) const LAST: u32 = REAL.max() as u32;

/// The two indices of `head`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Head(Word);

impl Head {
    const fn new(steal: u32, real: u32) -> Self {
        Self(STEAL.set(REAL.set(0, real as Word & REAL.max()), steal as Word & STEAL.max()))
    }
    #[inline(always)]
    const fn real(self) -> u32 {
        REAL.get(self.0) as u32
    }
    #[inline(always)]
    fn steal(self) -> u32 {
        STEAL.get(self.0) as u32
    }
    fn is_being_stolen(self) -> bool {
        self.real() != self.steal()
    }
}

/// The distance from `from` to `to`, in indices.
#[inline(always)]
fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) & REAL.max() as u32
}

/// A ring of `CAP` tasks.
///
/// INV-RING-OWNER: only the owner calls `push` and `pop` and stores `tail`, in one context at a time.
/// INV-RING-SLOT: slots `[real, tail)` hold `Ready`s that belong to the ring; `[steal, real)` belong to the thief that
/// claimed them; the others are empty and the owner's.
pub(crate) struct Ring<const CAP: usize> {
    head: Apart<AtomicWord, On>,
    tail: Apart<AtomicU32, On>,
    slots: Apart<[UnsafeCell<MaybeUninit<NonNull<Header>>>; CAP], On>,
}

// SAFETY: INV-RING-SLOT: `Ready`s are `Send`, and each slot has one owner at a time.
unsafe impl<const CAP: usize> Sync for Ring<CAP> {}
// SAFETY: as above.
unsafe impl<const CAP: usize> Send for Ring<CAP> {}

/// What a push did not keep.
#[must_use]
pub(crate) enum Overflow {
    /// Nothing: the ring has the task.
    None,
    /// Half the ring, oldest first, and the new task behind them.
    Chain(Chain),
    /// The new task alone: a thief is copying from the slots that would have been freed.
    One(Ready),
}

impl<const CAP: usize> Ring<CAP> {
    const CAPACITY: u32 = {
        assert!(CAP.is_power_of_two() && CAP >= 2, "a ring's capacity is a power of two");
        assert!(
            (CAP as Word) < REAL.max() / 2,
            "a ring's capacity is far below the range of its indices"
        );
        CAP as u32
    };

    maybe_const! {
        pub(crate) fn new() -> Self {
            Self::starting_at(0)
        }
    }

    maybe_const! {
        /// An empty ring whose indices begin at `index`. Models and fuzz targets test the wrap-around with it.
        pub(crate) fn starting_at(index: u32) -> Self {
            let head = Head::new(index, index);
            Self {
                head: Apart::new(AtomicWord::new(head.0)),
                tail: Apart::new(AtomicU32::new(head.real())),
                slots: Apart::new(array_of!(UnsafeCell::new(MaybeUninit::uninit()); CAP)),
            }
        }
    }

    fn slot(&self, index: u32) -> &UnsafeCell<MaybeUninit<NonNull<Header>>> {
        // SAFETY: the mask keeps the index below `CAP`.
        unsafe { self.slots.0.get_unchecked((index & (Self::CAPACITY - 1)) as usize) }
    }

    /// # Safety
    /// The slot holds a `Ready` that belongs to the caller (INV-RING-SLOT). The call moves it out.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, index: u32) -> Ready {
        // SAFETY: INV-RING-SLOT: the slot holds a `Ready`, which is the caller's.
        unsafe { Ready::from_raw(self.slot(index).with(|p| (*p).assume_init())) }
    }

    /// # Safety
    /// The slot is empty and belongs to the caller.
    #[inline(always)]
    unsafe fn write(&self, index: u32, ready: Ready) {
        // SAFETY: the caller's slot.
        self.slot(index).with_mut(|p| unsafe { (*p).write(ready.into_raw()) });
    }

    /// How many tasks may be popped or stolen. Exact for the owner while there is no thief.
    pub(crate) fn len(&self) -> usize {
        // Ordering: Acquire on both, for `is_empty`. The head comes first: a stale head makes the result too large,
        // never too small. A caller that must not overlook a task puts a SeqCst fence before.
        let head = Head(self.head.0.load(Ordering::Acquire));
        let tail = self.tail.0.load(Ordering::Acquire);
        distance(head.real(), tail) as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many more tasks fit.
    ///
    /// # Safety
    /// The caller is the owner (INV-RING-OWNER).
    pub(crate) unsafe fn room(&self) -> usize {
        // Ordering: Acquire pairs with the Release in `release`: the slots that a thief has copied are free.
        let head = Head(self.head.0.load(Ordering::Acquire));
        let tail = self.tail.0.load(Ordering::Relaxed);
        // The distance is `CAP` plus one if a thief announces itself at a full ring.
        Self::CAPACITY.saturating_sub(distance(head.steal(), tail)) as usize
    }

    /// Adds a task at the end. Wait-free, except when a full ring sheds a chain.
    ///
    /// # Safety
    /// The caller is the owner (INV-RING-OWNER).
    #[inline]
    pub(crate) unsafe fn push(&self, ready: Ready) -> Overflow {
        // SAFETY: INV-RING-OWNER: the caller is the owner.
        match unsafe { self.try_push(ready) } {
            Ok(()) => Overflow::None,
            // SAFETY: INV-RING-OWNER: the caller is the owner.
            Err((ready, head)) => unsafe { self.push_full(ready, head) },
        }
    }

    /// Adds a task at the end. If there is no room, returns the task and the head that showed it.
    #[inline(always)]
    unsafe fn try_push(&self, ready: Ready) -> Result<(), (Ready, Head)> {
        // Ordering: only the owner stores `tail`.
        let tail = self.tail.0.load(Ordering::Relaxed);
        // Ordering: Acquire pairs with the Release in `release`: the thief's reads of the slots come before our writes.
        let head = Head(self.head.0.load(Ordering::Acquire));
        if distance(head.steal(), tail) >= Self::CAPACITY {
            return Err((ready, head));
        }
        // SAFETY: INV-RING-SLOT: the slot at `tail` is less than `CAP` above `steal`, so it is empty and ours.
        unsafe { self.write(tail, ready) };
        self.advance_tail(tail, 1);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    unsafe fn push_full(&self, mut ready: Ready, mut head: Head) -> Overflow {
        loop {
            if head.is_being_stolen() {
                return Overflow::One(ready);
            }
            // SAFETY: INV-RING-OWNER: the caller is the owner.
            if let Some(mut chain) = unsafe { self.shed(head) } {
                chain.push_back(ready);
                return Overflow::Chain(chain);
            }
            // SAFETY: INV-RING-OWNER: the caller is the owner.
            match unsafe { self.try_push(ready) } {
                Ok(()) => return Overflow::None,
                Err(full) => (ready, head) = full,
            }
        }
    }

    #[inline(always)]
    fn advance_tail(&self, tail: u32, by: u32) {
        // Ordering: Release pairs with the Acquire of `tail` in `claim` and `announce`: a thief sees the slots that it
        // claims.
        self.tail.0.store(tail.wrapping_add(by) & REAL.max() as u32, Ordering::Release);
    }

    /// Takes the older half of a full ring out, as a chain. `None` if a thief was faster.
    #[cold]
    unsafe fn shed(&self, head: Head) -> Option<Chain> {
        let half = Self::CAPACITY / 2;
        let new = Head::new(head.steal().wrapping_add(half), head.real().wrapping_add(half));
        // Ordering: as in `pop`.
        self.head.0.compare_exchange(head.0, new.0, Ordering::Release, Ordering::Relaxed).ok()?;
        let mut chain = Chain::new();
        for i in 0..half {
            // SAFETY: INV-RING-SLOT: the exchange gave us the tasks.
            chain.push_back(unsafe { self.read(head.real().wrapping_add(i)) });
        }
        Some(chain)
    }

    /// Takes the oldest task. Lock-free.
    ///
    /// # Safety
    /// The caller is the owner (INV-RING-OWNER).
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Option<Ready> {
        // Ordering: only the owner stores `tail`. The head is a guess, which the exchange checks. The owner wrote the
        // slots itself, also when it was the thief.
        let tail = self.tail.0.load(Ordering::Relaxed);
        let mut head = Head(self.head.0.load(Ordering::Relaxed));
        loop {
            let real = head.real();
            if real == tail {
                return None;
            }
            let next = real.wrapping_add(1);
            let steal = if head.is_being_stolen() { head.steal() } else { next };
            // Ordering: Release pairs with the Acquire of a later thief's claim. That thief's Release in `release`
            // passes it on to `try_push`, so that our read of this slot comes before the owner's next write to it. A
            // failure is a new guess.
            match self.head.0.compare_exchange_weak(
                head.0,
                Head::new(steal, next).0,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                // SAFETY: INV-RING-SLOT: the exchange gave us the task.
                Ok(_) => return Some(unsafe { self.read(real) }),
                Err(seen) => head = Head(seen),
            }
        }
    }

    /// Steals half of this ring, and at most half of its capacity, for the owner of `to`. Returns the first task and
    /// the number of stolen tasks; the others go into `to`. `None` if this ring is empty or another thief is at work.
    ///
    /// # Safety
    /// The caller is the owner of `to` (INV-RING-OWNER), which is not this ring.
    pub(crate) unsafe fn steal_into(&self, to: &Self) -> Option<(Ready, usize)> {
        // SAFETY: INV-RING-OWNER: the caller is the owner of `to`.
        let room = unsafe { to.room() } as u32;
        let (first, n) = self.claim(room + 1)?;
        // SAFETY: INV-RING-SLOT: `[first, first + n)` are ours until `release`.
        let stolen = unsafe { self.read(first) };
        let to_tail = to.tail.0.load(Ordering::Relaxed);
        for i in 1..n {
            // SAFETY: as above. `to` has room for `n - 1` tasks at its tail, in slots that are the caller's.
            unsafe { to.write(to_tail.wrapping_add(i - 1), self.read(first.wrapping_add(i))) };
        }
        if n > 1 {
            to.advance_tail(to_tail, n - 1);
        }
        self.release();
        Some((stolen, n as usize))
    }

    /// Step one: claims half of the tasks, at most `room`. Returns the first index and the number.
    pub(crate) fn claim(&self, room: u32) -> Option<(u32, u32)> {
        // Ordering: Acquire, so that the tail below is no older than the head. See also the exchange.
        let head = Head(self.head.0.load(Ordering::Acquire));
        if head.is_being_stolen() {
            return None;
        }
        if Word::BITS < 64 {
            return self.announce(head, room);
        }
        // Ordering: Acquire pairs with the Release in `advance_tail`: we see the slots below the tail.
        let tail = self.tail.0.load(Ordering::Acquire);
        let available = distance(head.real(), tail);
        // An old head with a new tail can show more tasks than the ring ever held.
        if available == 0 || available > Self::CAPACITY {
            return None;
        }
        let n = Self::share(available, room);
        let new = Head::new(head.steal(), head.real().wrapping_add(n));
        // Ordering: Acquire pairs with the Release of the owner's pops and of earlier thieves in `release`; our own
        // `release` passes both on. The claim itself needs no Release.
        self.head
            .0
            .compare_exchange(head.0, new.0, Ordering::AcqRel, Ordering::Relaxed)
            .ok()
            .map(|_| (head.real(), n))
    }

    /// How many of the available tasks a thief takes.
    fn share(available: u32, room: u32) -> u32 {
        let half = available - available / 2;
        half.min(Self::CAPACITY / 2).min(room)
    }

    /// Step one with narrow indices: becomes the only thief, then loads the tail.
    fn announce(&self, head: Head, room: u32) -> Option<(u32, u32)> {
        // Ordering: a hint, which saves the exchange.
        if distance(head.real(), self.tail.0.load(Ordering::Relaxed)) == 0 {
            return None;
        }
        let mut mine = Head::new(head.real().wrapping_sub(1), head.real());
        // Ordering: as in `claim`. If the exchange succeeds on a head that has wrapped around, the head is valid all
        // the same.
        let (set, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        self.head.0.compare_exchange(head.0, mine.0, set, seen).ok()?;
        loop {
            // Ordering: as in `claim`.
            let tail = self.tail.0.load(Ordering::Acquire);
            let available = distance(mine.real(), tail);
            if available == 0 {
                self.release();
                return None;
            }
            let n = Self::share(available, room);
            let new = Head::new(mine.real(), mine.real().wrapping_add(n));
            // Ordering: as in `claim`. Only the owner can have moved the head since, by popping at most `CAP` tasks,
            // and then the exchange fails.
            let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
            match self.head.0.compare_exchange(mine.0, new.0, set, seen) {
                Ok(_) => return Some((mine.real(), n)),
                Err(seen) => mine = Head(seen),
            }
        }
    }

    /// Step three: the claimed tasks have been copied.
    pub(crate) fn release(&self) {
        let mut head = Head(self.head.0.load(Ordering::Relaxed));
        loop {
            // Ordering: Release pairs with the Acquire of the head in `try_push` and `room`: our reads of the slots
            // come before the owner's next writes to them.
            match self.head.0.compare_exchange_weak(
                head.0,
                Head::new(head.real(), head.real()).0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => head = Head(seen),
            }
        }
    }
}

impl<const CAP: usize> fmt::Debug for Ring<CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("len", &self.len()).finish()
    }
}
