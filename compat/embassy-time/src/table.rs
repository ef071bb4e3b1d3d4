//! The wakes that are due at some time: a table of slots that is used without a lock.

use core::{
    ptr::{from_ref, null_mut},
    task::{RawWakerVTable, Waker},
};

use filch::atomic::{AtomicPtr, AtomicU32, Ordering, UnsafeCell};

/// There is no wake in the slot.
const FREE: u32 = 0;
/// A context uses the slot.
const BUSY: u32 = 1;
/// A context uses the slot, and the keeper has passed it by meanwhile: the former tells the latter when it is done.
const PASSED: u32 = 2;
/// There is a wake in the slot.
const SET: u32 = 3;

/// Room for one wake.
///
/// INV-SLOT: the context that changed `state` from FREE or SET to BUSY owns the slot until it changes `state` to FREE or
/// SET. It alone touches `at`, and it alone changes the words of the waker. The slot holds a waker if, and only if,
/// `state` is SET or the owner has put it there: the words are then those of one waker, which is taken out once.
///
/// No context waits for a slot. So a handler may use the table, whatever it has interrupted.
pub(crate) struct Slot {
    state: AtomicU32,
    /// The waker's words. Other contexts compare them with those of their own waker, and look again as owners.
    data: AtomicPtr<()>,
    vtable: AtomicPtr<RawWakerVTable>,
    /// In ticks.
    at: UnsafeCell<u64>,
}

// SAFETY: INV-SLOT; wakers are `Send` and `Sync`.
unsafe impl Sync for Slot {}

/// What became of a wake that was put into the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The keeper needs to hear of it, if it would otherwise sleep beyond the time.
    New,
    /// A wake of the same waker is due earlier.
    Merged,
    /// The keeper has passed a slot by, and looks at the table again.
    Passed,
}

impl Slot {
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            data: AtomicPtr::new(null_mut()),
            vtable: AtomicPtr::new(null_mut()),
            at: UnsafeCell::new(0),
        }
    }

    /// Owns the slot from now on, if it is in this state.
    fn claim(&self, from: u32) -> bool {
        // Ordering: Acquire pairs with the Release in `release`. Relaxed: a hint.
        self.state.load(Ordering::Relaxed) == from
            && self.state.compare_exchange(from, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Ends the ownership. Returns whether the keeper has passed the slot by.
    fn release(&self, to: u32) -> bool {
        // Ordering: Release pairs with the Acquire in `claim`. For a slot that was PASSED, the fence in `Shared::tell` follows.
        self.state.swap(to, Ordering::Release) == PASSED
    }

    /// Tells the owner that the slot was passed by. False if it has no owner any more.
    fn pass(&self) -> bool {
        // Ordering: Relaxed: the keeper's fence comes before, that of the slot's owner after.
        match self.state.compare_exchange(BUSY, PASSED, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(state) => state == PASSED,
        }
    }

    /// Whether the words are those of this waker. For a context that does not own the slot it is a hint.
    fn holds(&self, waker: &Waker) -> bool {
        // Ordering: Relaxed: the owner's claim has acquired them.
        self.vtable.load(Ordering::Relaxed).cast_const() == from_ref(waker.vtable())
            && self.data.load(Ordering::Relaxed).cast_const() == waker.data()
    }

    /// # Safety
    /// INV-SLOT: the caller owns the slot, which holds no waker.
    unsafe fn put(&self, at: u64, waker: Waker) {
        // Ordering: Relaxed; `release` publishes them.
        self.data.store(waker.data().cast_mut(), Ordering::Relaxed);
        self.vtable.store(from_ref(waker.vtable()).cast_mut(), Ordering::Relaxed);
        core::mem::forget(waker);
        // SAFETY: the caller's.
        self.at.with_mut(|place| unsafe { *place = at });
    }

    /// # Safety
    /// INV-SLOT: the caller owns the slot, which holds a waker.
    unsafe fn take(&self) -> Waker {
        // Ordering: Relaxed: `claim` has acquired them.
        let vtable = self.vtable.swap(null_mut(), Ordering::Relaxed);
        // SAFETY: INV-SLOT: `put` forgot a waker of these words, which is taken out once.
        unsafe { Waker::new(self.data.load(Ordering::Relaxed), &*vtable) }
    }

    /// # Safety
    /// INV-SLOT: the caller owns the slot.
    unsafe fn at(&self) -> u64 {
        // SAFETY: the caller's.
        self.at.with(|at| unsafe { *at })
    }

    /// As the keeper: takes the waker out if it is due at `now`, else returns when it is. Neither for an empty slot,
    /// nor for one whose owner will tell.
    fn look(&self, now: u64) -> Option<Result<Waker, u64>> {
        loop {
            // Ordering: Relaxed: `claim` acquires. See `Shared::tell` for a slot that is being set.
            match self.state.load(Ordering::Relaxed) {
                FREE => return None,
                SET if self.claim(SET) => {
                    // SAFETY: INV-SLOT: we have claimed it, and it was SET.
                    let at = unsafe { self.at() };
                    if at > now {
                        self.release(SET);
                        return Some(Err(at));
                    }
                    // SAFETY: as above.
                    let waker = unsafe { self.take() };
                    self.release(FREE);
                    return Some(Ok(waker));
                }
                // It has changed meanwhile.
                SET => {}
                _ if self.pass() => return None,
                _ => {}
            }
        }
    }
}

/// Gives the wake a slot: that of the same waker, or a free one. If there is none, a wake in the table, each in its
/// turn, gives way and wakes at once; `evicted` counts it. A task that is woken early puts its wake into the table again.
pub(crate) fn put(slots: &[Slot], at: u64, waker: &Waker, evicted: &AtomicU32) -> Put {
    let mut passed = false;
    let done = |put: Put, passed: bool| if passed { Put::Passed } else { put };
    for slot in slots.iter().filter(|slot| slot.holds(waker)) {
        if !slot.claim(SET) {
            continue;
        }
        // SAFETY: INV-SLOT: we have claimed it.
        let mine = slot.holds(waker).then(|| unsafe { slot.at() });
        if mine.is_some_and(|mine| at < mine) {
            // SAFETY: as above.
            slot.at.with_mut(|place| unsafe { *place = at });
        }
        passed |= slot.release(SET);
        if let Some(mine) = mine {
            return done(if at < mine { Put::New } else { Put::Merged }, passed);
        }
    }
    let clone = waker.clone();
    if let Some(slot) = slots.iter().find(|slot| slot.claim(FREE)) {
        // SAFETY: INV-SLOT: we have claimed it, and it was FREE.
        unsafe { slot.put(at, clone) };
        passed |= slot.release(SET);
        return done(Put::New, passed);
    }
    // Ordering: Relaxed: a counter, which is also the turn.
    let turn = evicted.fetch_add(1, Ordering::Relaxed) as usize % slots.len();
    let (before, after) = slots.split_at(turn);
    let Some(slot) = after.iter().chain(before).find(|slot| slot.claim(SET)) else {
        // Other contexts use all of them at this moment.
        clone.wake();
        return done(Put::Merged, passed);
    };
    // SAFETY: INV-SLOT: we have claimed it, and it was SET.
    let other = unsafe {
        let other = slot.take();
        slot.put(at, clone);
        other
    };
    passed |= slot.release(SET);
    other.wake();
    done(Put::New, passed)
}

/// As the keeper: wakes what is due at `now`. Returns when the next is, or [`NEVER`](crate::ticks::NEVER).
pub(crate) fn fire(slots: &[Slot], now: u64) -> u64 {
    let mut next = crate::ticks::NEVER;
    for slot in slots {
        match slot.look(now) {
            Some(Ok(waker)) => waker.wake(),
            Some(Err(at)) => next = next.min(at),
            None => {}
        }
    }
    next
}
