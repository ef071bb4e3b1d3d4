//! The free slots of a slab: a lock-free stack of their names.

use core::ptr::NonNull;

use crate::{
    atomic::{AtomicWord, Ordering, Word, maybe_const},
    bits::Field,
    task::header::Header,
};

/// A head: the name of the first slot plus one, or zero if the stack is empty. Each change increments the tag, so that
/// a head is told from an earlier one with the same slot.
const NAME: Field = Field::first(Word::BITS / 2);
const TAG: Field = NAME.then(Word::BITS / 2);

/// A stack of free slots, linked through `link` by names: numbers that their slab gives them.
///
/// INV-FREE: a slot in the stack is a header for ever, and belongs to the stack alone. It was pushed with its name, so
/// that the name in a head leads back to the slot.
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

    /// Takes a slot out. If there is none, returns the head that was empty. Lock-free; callable from any context.
    ///
    /// # Safety
    /// `slot` returns the slot of each name that was pushed here: INV-FREE.
    #[inline]
    pub(crate) unsafe fn pop(
        &self,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Result<NonNull<Header>, Word> {
        // Ordering: Acquire pairs with the Release in `push`: the slot's last user has finished with it, and its `link`
        // is what `push` wrote.
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let first = slot((NAME.get(head) as u32).checked_sub(1).ok_or(head)?);
            // SAFETY: INV-FREE: a header for ever. Another context may take the slot meanwhile; then `next` is garbage,
            // and the tag makes the exchange fail.
            let next = unsafe { first.as_ref() }.link.load(Ordering::Relaxed).addr();
            let new = next_head(head, next as Word);
            // Ordering: a failure is Acquire, as the load above, because it is the next guess; a success keeps what
            // that guess acquired. Release pairs with the Acquire of a `pop` that finds the stack empty after this one:
            // that context sees what this one pushed to another stack before.
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
    /// The caller owns the slot, and `name` is its name: INV-FREE.
    #[inline]
    pub(crate) unsafe fn push(&self, slot: NonNull<Header>, name: u32) {
        // SAFETY: INV-FREE: it is a header, and the caller owns it.
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

/// The head after a change: the new name and the next tag.
#[inline(always)]
fn next_head(head: Word, name: Word) -> Word {
    let tag = TAG.get(head).wrapping_add(1) & TAG.max();
    TAG.set(NAME.set(0, name), tag)
}
