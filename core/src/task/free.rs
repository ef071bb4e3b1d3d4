//! Free slots of a home: lock-free stacks of their names.

use core::ptr::NonNull;

use super::header::Header;
use crate::{
    atomic::{AtomicWord, Ordering, Word, maybe_const},
    bits::Field,
};

/// A head: the name of the first slot and one, or zero. The tag grows with each change, so that a slot which left and
/// came back is told apart.
const NAME: Field = Field::first(Word::BITS / 2);
const TAG: Field = NAME.then(Word::BITS / 2);

/// A stack of free slots, linked through `link` by numbers that their home gives them.
///
/// INV-FREE: a slot in the stack is a header for ever, and the stack's alone.
pub(crate) struct Stack {
    head: AtomicWord,
}

impl Stack {
    /// Names are below this.
    pub(crate) const MOST: usize = NAME.max() as usize;

    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { head: AtomicWord::new(0) }
        }
    }

    /// Takes a slot out. Lock-free; callable from any context.
    #[inline]
    pub(crate) fn pop(&self, slot: impl Fn(u32) -> NonNull<Header>) -> Option<NonNull<Header>> {
        // Ordering: Acquire pairs with the Release in `push`: the slot's last user is done with it, and its `link`
        // is what `push` wrote.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = slot((NAME.get(head) as u32).checked_sub(1)?);
            // SAFETY: INV-FREE: a header for ever. It may be taken under our eyes; then `next` is garbage, and the tag
            // fails the exchange.
            let next = unsafe { first.as_ref() }.link.load(Ordering::Relaxed).addr();
            let new = next_head(head, next as Word);
            // Ordering: Acquire as above; the failure too, since it is the next guess.
            match self.head.compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(first),
                Err(seen) => head = seen,
            }
        }
    }

    /// Puts a slot in. Lock-free; callable from any context.
    ///
    /// # Safety
    /// The caller owns the slot, which has this name: INV-FREE.
    #[inline]
    pub(crate) unsafe fn push(&self, slot: NonNull<Header>, name: u32) {
        // SAFETY: INV-FREE: a header, and the caller's.
        let link = unsafe { &slot.as_ref().link };
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Ordering: published by the exchange.
            link.store(
                core::ptr::without_provenance_mut(NAME.get(head) as usize),
                Ordering::Relaxed,
            );
            let new = next_head(head, name as Word + 1);
            #[cfg(not(filch_mutant = "free_give"))]
            const GIVE: Ordering = Ordering::Release;
            #[cfg(filch_mutant = "free_give")]
            const GIVE: Ordering = Ordering::Relaxed;
            // Ordering: Release pairs with the Acquire in `pop`.
            match self.head.compare_exchange_weak(head, new, GIVE, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }
}

/// The head after a change: another name, and the next tag.
#[inline(always)]
fn next_head(head: Word, name: Word) -> Word {
    #[cfg(not(filch_mutant = "free_tag"))]
    let tag = TAG.get(head).wrapping_add(1) & TAG.max();
    #[cfg(filch_mutant = "free_tag")]
    let tag = TAG.get(head);
    TAG.set(NAME.set(0, name), tag)
}

/// Stacks, one for each worker as far as they go and one for all other contexts: workers that spawn, and whose tasks end,
/// share no line of memory for it as long as each finds what it has given back.
///
/// Slots never move from one stack to another: a context whose stack is empty takes over that of another, and leaves it
/// its own. So whoever finds them all empty has overlooked those slots alone that came back while it looked, and memory
/// grows with the number of tasks, not with where they end.
#[cfg(feature = "alloc")]
pub(crate) struct Stacks {
    stacks: [Line<Stack>; STACKS],
    /// Which stack the contexts of each number use, in four bits for each. A hint: any stack will do.
    turns: Line<AtomicWord>,
}

#[cfg(feature = "alloc")]
const STACKS: usize = (Word::BITS / 4) as usize;

#[cfg(feature = "alloc")]
#[repr(align(64))]
struct Line<T>(T);

#[cfg(feature = "alloc")]
impl Stacks {
    pub(crate) const fn new() -> Self {
        let turns = Line(AtomicWord::new(0xFEDC_BA98_7654_3210_u64 as Word));
        Self { stacks: [const { Line(Stack::new()) }; STACKS], turns }
    }

    /// The stack of the contexts with this number.
    #[inline]
    pub(crate) fn near(&self, number: usize) -> &Stack {
        // Ordering: a hint.
        let turns = self.turns.0.load(Ordering::Relaxed);
        // SAFETY: the mask keeps the index below `STACKS`.
        unsafe { &self.stacks.get_unchecked(turn(turns, number) % STACKS).0 }
    }

    /// Takes a slot from the near stack, or else from another. Lock-free; callable from any context.
    #[inline]
    pub(crate) fn take(
        &self,
        number: usize,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Option<NonNull<Header>> {
        self.near(number).pop(&slot).or_else(|| self.take_far(number, slot))
    }

    #[cold]
    fn take_far(
        &self,
        number: usize,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Option<NonNull<Header>> {
        (0..STACKS).map(|n| (number + n) % STACKS).find_map(|at| {
            let taken = self.stacks[at].0.pop(&slot)?;
            self.take_over(number, at);
            Some(taken)
        })
    }

    /// The contexts with this number change their stack with those who use that one, unless others change theirs.
    fn take_over(&self, number: usize, at: usize) {
        // Ordering: hints.
        let turns = self.turns.0.load(Ordering::Relaxed);
        let Some(other) = (0..STACKS).find(|other| turn(turns, *other) == at) else { return };
        let both = (turn(turns, number) ^ at) as Word;
        let changed = turns ^ both << shift(number) ^ both << shift(other);
        // One that failed comes again with the next slot.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.turns.0.compare_exchange(turns, changed, success, failure);
    }
}

/// Which stack a number has.
#[cfg(feature = "alloc")]
#[inline(always)]
fn turn(turns: Word, number: usize) -> usize {
    (turns >> shift(number)) as usize & 0xF
}

/// Where its bits are in `Stacks::turns`.
#[cfg(feature = "alloc")]
#[inline(always)]
fn shift(number: usize) -> usize {
    number % STACKS * 4
}
