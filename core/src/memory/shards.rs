//! The free slots of a size class, in one stack for each few workers, so that workers that spawn or end tasks seldom
//! contend.

use core::ptr::NonNull;

use super::free_list::Stack;
use crate::{
    atomic::{AtomicWord, Ordering, Word, array_of, maybe_const},
    task::header::Header,
};

/// Free slots, in a stack for each number of a context modulo `STACKS`: a worker's index plus one. Number zero is every
/// context that is no worker.
///
/// A slot never moves from one stack to another. A context whose stack is empty exchanges its stack for one that has
/// slots.
pub(crate) struct Shards {
    stacks: [Line<Stack>; STACKS],
    /// The stack of each number, four bits each, combined with `FIRST` by exclusive or. A hint: any stack is correct.
    turns: Line<AtomicWord>,
}

#[cfg(not(filch_loom))]
const STACKS: usize = (Word::BITS / 4) as usize;
#[cfg(filch_loom)]
const STACKS: usize = 2;

/// The initial stack of each number: the lower half of the numbers get every second stack, so that their stacks are not
/// neighbours in memory. The table holds the difference to it, and begins as zeros, so that a heap takes no room in an
/// image.
const FIRST: Word = match STACKS {
    16 => 0xFDB9_7531_ECA8_6420_u64 as Word,
    8 => 0x7531_6420,
    _ => 0x10,
};

/// A cache line of most machines. Other modules separate their fields by two lines; a heap has too many stacks for
/// that.
#[repr(align(64))]
struct Line<T>(T);

impl Shards {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { stacks: array_of!(Line(Stack::new()); STACKS), turns: Line(AtomicWord::new(0)) }
        }
    }

    /// The stack of the contexts with this number.
    #[inline]
    pub(crate) fn of(&self, number: usize) -> &Stack {
        // Ordering: a hint.
        let turns = self.turns.0.load(Ordering::Relaxed);
        // SAFETY: `turn` is below `STACKS`.
        unsafe { &self.stacks.get_unchecked(turn(turns, number)).0 }
    }

    /// Takes a slot from the context's own stack, or else from another. None if all stacks were empty at one moment.
    /// Lock-free; callable from any context.
    ///
    /// # Safety
    /// `slot` returns the slot of each name that was pushed to one of these stacks.
    #[inline]
    pub(crate) unsafe fn take(
        &self,
        number: usize,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Option<NonNull<Header>> {
        // SAFETY: INV-FREE: the caller's `slot` returns the slot of each name.
        unsafe { self.of(number).pop(&slot).ok().or_else(|| self.take_far(number, slot)) }
    }

    #[cold]
    unsafe fn take_far(
        &self,
        number: usize,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Option<NonNull<Header>> {
        // The head of an empty stack never has this value.
        let mut heads = [Word::MAX; STACKS];
        loop {
            let before = heads;
            for at in (0..STACKS).map(|n| (number + n) % STACKS) {
                // SAFETY: INV-FREE: as in `take`.
                match unsafe { self.stacks[at].0.pop(&slot) } {
                    Ok(taken) => {
                        // A stack with one slot is not taken over: it may be the stack where one task at a time ends.
                        if !self.stacks[at].0.is_empty() {
                            self.take_over(number, at);
                        }
                        return Some(taken);
                    }
                    Err(head) => heads[at] = head,
                }
            }
            // Two rounds saw the same heads, tags included: each stack was empty from its first look to its second, so
            // all were empty between the two rounds.
            if heads == before {
                return None;
            }
        }
    }

    /// Exchanges the stack of this number with that of the number which has stack `at`.
    fn take_over(&self, number: usize, at: usize) {
        // Ordering: hints.
        let turns = self.turns.0.load(Ordering::Relaxed);
        let Some(other) = (0..STACKS).find(|other| turn(turns, *other) == at) else { return };
        let both = (turn(turns, number) ^ at) as Word;
        let changed = turns ^ both << shift(number) ^ both << shift(other);
        // If another context changes the table meanwhile, this one's next slot comes from another stack again.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.turns.0.compare_exchange(turns, changed, success, failure);
    }
}

/// The stack of a number: below `STACKS`.
#[inline(always)]
fn turn(turns: Word, number: usize) -> usize {
    ((turns ^ FIRST) >> shift(number)) as usize % STACKS
}

/// The position of a number's bits in `Shards::turns`.
#[inline(always)]
fn shift(number: usize) -> usize {
    number % STACKS * 4
}
