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
/// INV-FREE: a slot in the stack is a header for ever, and the stack's alone; its name was pushed with it, so that
/// whoever takes a name from a head gets the slot back by it.
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

    /// Takes a slot out; else the head, which says that there is none. Lock-free; callable from any context.
    ///
    /// # Safety
    /// `slot` gives the slot of each name that was pushed here: INV-FREE.
    #[inline]
    pub(crate) unsafe fn pop(
        &self,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Result<NonNull<Header>, Word> {
        // Ordering: Acquire pairs with the Release in `push`: the slot's last user is done with it, and its `link`
        // is what `push` wrote.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = slot((NAME.get(head) as u32).checked_sub(1).ok_or(head)?);
            // SAFETY: INV-FREE: a header for ever. It may be taken under our eyes; then `next` is garbage, and the tag
            // fails the exchange.
            let next = unsafe { first.as_ref() }.link.load(Ordering::Relaxed).addr();
            let new = next_head(head, next as Word);
            // Ordering: the failure is Acquire as above, since it is the next guess; a success finds what that has acquired.
            // Release pairs with the Acquire of whoever finds the stack empty thereby: it sees what this context gave to
            // another stack before.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Ok(first),
                Err(seen) => head = seen,
            }
        }
    }

    #[cfg(any(feature = "alloc", all(test, filch_loom)))]
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: a hint.
        NAME.get(self.head.load(Ordering::Relaxed)) == 0
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
            // Ordering: Release pairs with the Acquire in `pop`.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }
}

/// The head after a change: another name, and the next tag.
#[inline(always)]
fn next_head(head: Word, name: Word) -> Word {
    let tag = TAG.get(head).wrapping_add(1) & TAG.max();
    TAG.set(NAME.set(0, name), tag)
}
