//! The names of free slots in chunks, and the stacks that keep the slots, for targets whose word has room for a tag
//! beside a name.

use core::ptr::NonNull;

use super::{
    chunks::{Chunks, OFFSET},
    header::Header,
    stacks::Stacks,
};
use crate::atomic::{AtomicUsize, Ordering, maybe_const};

/// What a class needs to name its slots, and to keep the free ones.
pub(crate) struct Names {
    /// The inverse of the stride, for `divide`.
    inverse: AtomicUsize,
    free: Stacks,
}

impl Names {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { inverse: AtomicUsize::new(0), free: Stacks::new() }
        }
    }

    pub(crate) fn set_stride(&self, stride: usize) {
        // Ordering: Relaxed; the Release in `Slab::set_chunks` publishes it.
        self.inverse.store(inverse(stride), Ordering::Relaxed);
    }
}

impl Chunks {
    /// Takes a free slot; `caller` is the number of the calling context.
    #[inline]
    pub(crate) fn take(&self, caller: usize) -> Option<NonNull<Header>> {
        // SAFETY: only `give` pushes slots there, each with its name.
        unsafe { self.names.free.take(caller, |name| self.named(name)) }
    }

    /// Gives a slot back; `caller` is the number of the calling context.
    ///
    /// # Safety
    /// The caller owns the slot, which is of this class, and `init_owner` has been called on it.
    #[inline]
    pub(crate) unsafe fn give(&self, caller: usize, slot: NonNull<Header>) {
        // SAFETY: the caller owns the slot, and `init_owner` has been called on it.
        let chunk = unsafe { slot.as_ref().chunk_index() };
        // SAFETY: the caller owns the slot, and this is its name.
        unsafe { self.names.free.of(caller).push(slot, self.name(chunk, slot)) };
    }

    /// The name of a slot while it is free: its chunk, and its offset in the chunk.
    #[inline]
    fn name(&self, chunk: usize, slot: NonNull<Header>) -> u32 {
        // Ordering: Acquire pairs with the Release in `Chunks::grow`.
        let base = self.chunks.get(chunk).map_or(0, |c| c.load(Ordering::Acquire).addr());
        let bytes = slot.as_ptr().addr().wrapping_sub(base);
        // Ordering: see `Names::set_stride`.
        let offset = divide(bytes, self.stride(), self.names.inverse.load(Ordering::Relaxed));
        debug_assert!(offset < self.slots(chunk), "INV-CHUNK");
        (chunk << OFFSET | offset) as u32
    }

    /// # Safety
    /// The name is that of a slot.
    #[inline]
    unsafe fn named(&self, name: u32) -> NonNull<Header> {
        // SAFETY: INV-CHUNK: only a slot that has been reached has a name.
        unsafe { self.at(name as usize >> OFFSET, name as usize & ((1 << OFFSET) - 1)) }
    }
}

/// The inverse for [`divide`]: that of the odd part of `by`, modulo 2^BITS.
const fn inverse(by: usize) -> usize {
    let odd = by >> by.trailing_zeros();
    // Newton's iteration: three correct bits at first, twice as many after each step.
    let (mut inverse, mut bits) = (odd, 3);
    while bits < usize::BITS {
        inverse = inverse.wrapping_mul(2_usize.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

/// Divides a multiple of `by` without a division instruction (Granlund and Montgomery 1994).
#[inline(always)]
const fn divide(multiple: usize, by: usize, inverse: usize) -> usize {
    (multiple >> by.trailing_zeros()).wrapping_mul(inverse)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::mpsc::sync_channel, thread};

    use super::*;

    /// Chunks for one test, in a `static`, where leak checkers look for references.
    macro_rules! chunks {
        ($stride:expr) => {{
            static CHUNKS: Chunks = Chunks::new();
            CHUNKS.set_stride($stride);
            &CHUNKS
        }};
    }

    impl Chunks {
        /// A slot that has been reached but never used.
        fn fresh(&self, index: u32) -> NonNull<Header> {
            assert!(self.reach(index));
            // SAFETY: the index has just been reached.
            unsafe { self.slot(index) }
        }

        /// As `give`, for a slot without an owner.
        fn put(&self, caller: usize, index: u32) -> NonNull<Header> {
            let slot = self.fresh(index);
            // SAFETY: the slot is the caller's, and this is its name.
            unsafe { self.names.free.of(caller).push(slot, self.name(self.chunk(index), slot)) };
            slot
        }
    }

    #[test]
    fn slots_names_and_indices_belong_together() {
        let chunks = chunks!(96);
        for index in 0..1000 {
            let (slot, chunk) = (chunks.fresh(index), chunks.chunk(index));
            let name = chunks.name(chunk, slot);
            // SAFETY: that is its name.
            assert_eq!(unsafe { chunks.named(name) }, slot);
        }
    }

    /// Takes as many slots as were given back, and checks which context's stack they come from.
    #[test]
    fn slots_are_found_wherever_they_were_given_back() {
        let chunks = chunks!(64);
        for (round, (taker, giver)) in [(0, 3), (3, 3), (1, 0), (2, 17)].into_iter().enumerate() {
            let begin = round as u32 * 20;
            let mut given: Vec<_> = (begin..begin + 20).map(|i| chunks.put(giver, i)).collect();
            let first = chunks.take(taker);
            // The first `take` took over the whole stack, so that the rest is in the taker's own.
            // SAFETY: these are names of these chunks.
            let own =
                |_| unsafe { chunks.names.free.of(taker).pop(|name| chunks.named(name)) }.ok();
            let mut taken: Vec<_> = first.into_iter().chain((1..20).map_while(own)).collect();
            given.sort_unstable();
            taken.sort_unstable();
            assert_eq!(given, taken);
            assert_eq!(chunks.take(taker), None);
        }
    }

    #[test]
    fn a_single_slot_leaves_its_stack_where_it_is() {
        let chunks = chunks!(64);
        let slot = chunks.put(2, 0);
        let stack = core::ptr::from_ref(chunks.names.free.of(2));
        assert_eq!(chunks.take(1), Some(slot));
        assert_eq!(core::ptr::from_ref(chunks.names.free.of(2)), stack);
    }

    #[test]
    fn memory_does_not_grow_when_tasks_end_elsewhere() {
        const AT_ONCE: usize = 8;
        let chunks = chunks!(64);
        let (give, given) = sync_channel(AT_ONCE);
        let giver = thread::spawn(move || {
            for index in given {
                chunks.put(2, index);
            }
        });
        let mut indices = HashMap::new();
        for _ in 0..10_000 {
            let slot = chunks.take(1).unwrap_or_else(|| chunks.fresh(indices.len() as u32));
            let new = indices.len() as u32;
            give.send(*indices.entry(slot).or_insert(new)).unwrap();
        }
        drop(give);
        giver.join().unwrap();
        // One slot is with the taker, one with the giver, and the others are in the channel.
        assert!(indices.len() <= AT_ONCE + 2, "{} slots", indices.len());
    }

    #[test]
    fn multiples_are_divided_exactly() {
        for size in (32..2048).step_by(32).chain([usize::MAX / 7, 1 << 40, 5 << 30]) {
            for n in (0..1000).chain([usize::MAX / size - 1, usize::MAX / size]) {
                let Some(multiple) = n.checked_mul(size) else { continue };
                assert_eq!(divide(multiple, size, inverse(size)), n, "{n} times {size}");
            }
        }
    }
}
