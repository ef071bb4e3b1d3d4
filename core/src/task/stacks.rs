//! Free slots by worker: workers that spawn, and whose tasks end, seldom meet.

use core::ptr::NonNull;

use super::{free::Stack, header::Header};
use crate::atomic::{AtomicWord, Ordering, Word, array_of, maybe_const};

/// A stack for the contexts of each number (`Ops::near`): of zero, which are no worker, and of each worker as far as they go;
/// the next one begins anew.
///
/// Slots never move from one stack to another: a context whose stack is empty takes over that of another, and leaves it
/// its own.
pub(crate) struct Stacks {
    stacks: [Line<Stack>; STACKS],
    /// Which stack each number has, in four bits for each, but for `FIRST`. A hint: any stack will do.
    turns: Line<AtomicWord>,
}

#[cfg(not(filch_loom))]
const STACKS: usize = (Word::BITS / 4) as usize;
#[cfg(filch_loom)]
const STACKS: usize = 2;

/// At first, those of half of the numbers are no neighbours. All zeros stand for it, so that a heap takes no room in an image.
const FIRST: Word = match STACKS {
    16 => 0xFDB9_7531_ECA8_6420_u64 as Word,
    8 => 0x7531_6420,
    _ => 0x10,
};

/// A line of most machines, not the two that everything else here keeps apart: there are many stacks in a heap.
#[repr(align(64))]
struct Line<T>(T);

impl Stacks {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { stacks: array_of!(Line(Stack::new()); STACKS), turns: Line(AtomicWord::new(0)) }
        }
    }

    /// The stack of the contexts with this number.
    #[inline]
    pub(crate) fn near(&self, number: usize) -> &Stack {
        // Ordering: a hint.
        let turns = self.turns.0.load(Ordering::Relaxed);
        // SAFETY: `turn` is below `STACKS`.
        unsafe { &self.stacks.get_unchecked(turn(turns, number)).0 }
    }

    /// Takes a slot from the near stack, or else from another; none if they were all empty at one moment. Lock-free;
    /// callable from any context.
    ///
    /// # Safety
    /// `slot` gives the slot of each name that was pushed to one of these stacks.
    #[inline]
    pub(crate) unsafe fn take(
        &self,
        number: usize,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Option<NonNull<Header>> {
        // SAFETY: the caller's.
        unsafe { self.near(number).pop(&slot).ok().or_else(|| self.take_far(number, slot)) }
    }

    #[cold]
    unsafe fn take_far(
        &self,
        number: usize,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Option<NonNull<Header>> {
        // No empty head looks like this.
        let mut heads = [Word::MAX; STACKS];
        loop {
            let before = heads;
            for at in (0..STACKS).map(|n| (number + n) % STACKS) {
                // SAFETY: the caller's.
                match unsafe { self.stacks[at].0.pop(&slot) } {
                    Ok(taken) => {
                        // Not for one task at a time that ends elsewhere.
                        if !self.stacks[at].0.is_empty() {
                            self.take_over(number, at);
                        }
                        return Some(taken);
                    }
                    Err(head) => heads[at] = head,
                }
            }
            // Twice the same, tags included: so each was empty from its first look to its second, and all were in between.
            if heads == before {
                return None;
            }
        }
    }

    /// The contexts with this number change their stack with those who have that one.
    fn take_over(&self, number: usize, at: usize) {
        // Ordering: hints.
        let turns = self.turns.0.load(Ordering::Relaxed);
        let Some(other) = (0..STACKS).find(|other| turn(turns, *other) == at) else { return };
        let both = (turn(turns, number) ^ at) as Word;
        let changed = turns ^ both << shift(number) ^ both << shift(other);
        // If others change theirs meanwhile, the next slot comes from afar too.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.turns.0.compare_exchange(turns, changed, success, failure);
    }
}

/// Which stack a number has: below `STACKS`.
#[inline(always)]
fn turn(turns: Word, number: usize) -> usize {
    ((turns ^ FIRST) >> shift(number)) as usize % STACKS
}

/// Where its bits are in `Stacks::turns`.
#[inline(always)]
fn shift(number: usize) -> usize {
    number % STACKS * 4
}
