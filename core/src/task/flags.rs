//! Free slots of a home where a word has no room for a tag: a mark in each slot, and their count.
//!
//! A stack tells a head that left and came back by a tag. In 32 bits that tag would have 16, and a context that is held up for
//! 65,536 changes would take a slot that is in use. Here nothing is linked: a slot is claimed by an exchange of its own mark, for
//! which it is all the same how often the slot was in use before.

use core::ptr::NonNull;

use super::header::Header;
use crate::atomic::{AtomicU32, Ordering, maybe_const, spin_loop};

/// The slots of a home that were used and are free.
///
/// INV-FLAG: a slot whose `link` is `FREE` belongs to the one that exchanges it. There are at least as many of them as permits: a
/// slot is marked before its permit is given, and a permit is taken before a slot is claimed. So a context with a permit finds a slot, if it looks often enough: there is a free one at any moment.
#[derive(Debug)]
pub(crate) struct Flags {
    permits: AtomicU32,
    /// Where the last one was found: a hint.
    last: AtomicU32,
}

/// The link of a free slot: no header's address, and no task that is queued last.
const FREE: *mut Header = core::ptr::without_provenance_mut(1);

impl Flags {
    /// A home has fewer slots than this.
    pub(crate) const MOST: usize = u32::MAX as usize;

    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { permits: AtomicU32::new(0), last: AtomicU32::new(0) }
        }
    }

    /// Takes a slot; none if there was none at one moment. Lock-free; callable from any context. Looks at every slot that was ever
    /// used, at worst, beginning where it found the last one.
    ///
    /// # Safety
    /// `slot` gives a header that is there for ever, of each index below `used`; slots that are given back are among them.
    pub(crate) unsafe fn take(
        &self,
        used: &AtomicU32,
        slot: impl Fn(u32) -> NonNull<Header>,
    ) -> Option<NonNull<Header>> {
        let less = |n: u32| n.checked_sub(1);
        // Ordering: Acquire pairs with the Release in `give`: the slots of all permits given until now are marked, and below `used`.
        // Later ones may take those, and leave theirs, which need not be.
        self.permits.fetch_update(Ordering::Acquire, Ordering::Relaxed, less).ok()?;
        // Ordering: a hint.
        let last = self.last.load(Ordering::Relaxed);
        let mut is_sure = cfg!(filch_loom);
        loop {
            // Ordering: Acquire pairs with the Release in `take_fresh`: there is memory for all of them.
            let used = used.load(Ordering::Acquire);
            for index in (last.min(used)..used).chain(0..last.min(used)) {
                let found = slot(index);
                // SAFETY: the caller's.
                let link = unsafe { &found.as_ref().link };
                // First those that are seen to be free. The second time, what this context sees may be old.
                // Ordering: a hint.
                if !is_sure && link.load(Ordering::Relaxed) != FREE {
                    continue;
                }
                let none = core::ptr::null_mut();
                // Ordering: Acquire pairs with the Release in `give`: the slot's last user is done with it.
                let (set, load) = (Ordering::Acquire, Ordering::Relaxed);
                if link.compare_exchange(FREE, none, set, load).is_ok() {
                    self.last.store(index, Ordering::Relaxed);
                    return Some(found);
                }
            }
            // Another context has taken what this permit stands for, and what its own stands for is free.
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
        // SAFETY: the caller's.
        unsafe { slot.as_ref() }.link.store(FREE, Ordering::Release);
        // Ordering: Release pairs with the Acquire in `take`: one with this permit finds the slot.
        self.permits.fetch_add(1, Ordering::Release);
    }
}
