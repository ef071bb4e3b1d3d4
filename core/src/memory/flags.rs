//! The free slots of a slab on targets whose word has no room for a tag: a mark in each slot, and a count of them.
//!
//! A linked stack needs a tag to tell a head from one that left and came back. In 32 bits the tag has 16: a context
//! that is held up for 65,536 changes would take a slot that is in use. Here nothing is linked. A context claims a slot
//! by exchanging the slot's own mark, and it does not matter how often the slot was used before.

use core::ptr::NonNull;

use crate::{
    atomic::{AtomicU32, Ordering, maybe_const, spin_loop},
    task::header::Header,
};

/// The slots of a slab that were used and are free.
///
/// INV-FLAG: a slot whose `link` is `FREE` belongs to the context that exchanges the mark. There are at least as many
/// marked slots as permits: `give` marks a slot before it adds the permit, and `take` takes a permit before it claims a
/// slot. So at any moment a context with a permit has a slot to find, and finds one if it looks often enough.
#[derive(Debug)]
pub(crate) struct Flags {
    permits: AtomicU32,
    /// The index of the slot that was taken last, where the next search begins. A hint.
    last: AtomicU32,
}

/// The link of a free slot. It is neither a header's address nor the null link of the last task in a queue.
const FREE: *mut Header = core::ptr::without_provenance_mut(1);

impl Flags {
    /// A slab has fewer slots than this.
    pub(crate) const MOST: usize = u32::MAX as usize;

    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { permits: AtomicU32::new(0), last: AtomicU32::new(0) }
        }
    }

    /// Takes a slot, or none if at one moment there was none. Lock-free; callable from any context. At worst it looks
    /// at every slot that was ever used, beginning where the last one was found.
    ///
    /// # Safety
    /// For each index below `used`, `slot` returns a header that stays for ever. Slots that are given back are among
    /// them.
    pub(crate) unsafe fn take(
        &self,
        used: &AtomicU32,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Option<NonNull<Header>> {
        let less = |n: u32| n.checked_sub(1);
        // Ordering: Acquire pairs with the Release in `give`: the slots of all permits given until now are marked, and
        // below `used`. A context with a later permit may take one of those; then it leaves its own, which may lie
        // above `used`.
        self.permits.fetch_update(Ordering::Acquire, Ordering::Relaxed, less).ok()?;
        // Ordering: a hint.
        let last = self.last.load(Ordering::Relaxed);
        let mut is_sure = cfg!(filch_loom);
        loop {
            // Ordering: Acquire pairs with the Release in `take_fresh`: all slots below `used` have memory.
            let used = used.load(Ordering::Acquire);
            let mut next = if last < used { last } else { 0 };
            for _ in 0..used {
                let index = next;
                next = if index + 1 < used { index + 1 } else { 0 };
                let found = slot(index);
                // SAFETY: INV-FLAG: the index is below `used`, so that the header stays for ever.
                let link = unsafe { &found.as_ref().link };
                // The first round tries only slots that look free. This view may be old, so later rounds try every
                // slot.
                // Ordering: a hint.
                if !is_sure && link.load(Ordering::Relaxed) != FREE {
                    continue;
                }
                let none = core::ptr::null_mut();
                // Ordering: Acquire pairs with the Release in `give`: the slot's last user has finished with it.
                let (set, load) = (Ordering::Acquire, Ordering::Relaxed);
                if link.compare_exchange(FREE, none, set, load).is_ok() {
                    self.last.store(index, Ordering::Relaxed);
                    return Some(found);
                }
            }
            // Another context took the slot that this permit stands for, so the slot of that context's permit is free.
            is_sure = true;
            spin_loop();
        }
    }

    /// Gives a slot back. Lock-free; callable from any context.
    ///
    /// # Safety
    /// The caller owns the slot: INV-FLAG.
    pub(crate) unsafe fn give(&self, slot: NonNull<Header>) {
        // Ordering: Release pairs with the Acquire of the exchange in `take`.
        // SAFETY: the caller owns the slot, whose header stays for ever.
        unsafe { slot.as_ref() }.link.store(FREE, Ordering::Release);
        // Ordering: Release pairs with the Acquire in `take`: a context that gets this permit sees the mark.
        self.permits.fetch_add(1, Ordering::Release);
    }
}
