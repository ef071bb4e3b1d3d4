//! The slabs of one size class: they grow by quarters, and are never given back to the allocator.

use core::{alloc::Layout, ptr::NonNull};

use super::{free::Stacks, header::Header, memory::Home};
use crate::atomic::{AtomicPtr, Ordering, Word};

/// Chunks have at least this alignment; a task may ask for no more.
pub(crate) const ALIGN: usize = 128;
/// About as large as a class's first four chunks together.
const FIRST_CHUNKS: usize = 4096;
/// Chunks in a doubling of a class, as a power of two: no more than a fifth of a class is ever idle for its growth.
const PARTS: u32 = 2;
const CHUNKS: usize = 26 << PARTS;
const _: () = assert!(CHUNKS <= Home::PARTS, "INV-HOME-PART");
/// Whether a name has room for a chunk and an offset of so many bits.
const WIDE: bool = Word::BITS == 64;
const OFFSET: u32 = 25;

/// The chunks of one class: the first four have `2^first` slots each, the next four twice as many, and so on.
///
/// INV-CHUNK: a chunk pointer that is not null points to that many slots for ever; their bytes began as zeros, which is
/// what a vacant header is.
pub(crate) struct Chunks {
    first: u32,
    /// Bytes from one slot to the next.
    stride: usize,
    divisor: Divisor,
    chunks: [AtomicPtr<Header>; CHUNKS],
    free: Stacks,
}

impl Chunks {
    /// For slots of so many bytes.
    pub(crate) const fn new(stride: usize) -> Self {
        let slots = FIRST_CHUNKS >> PARTS;
        let first = if stride > slots { 0 } else { (FIRST_CHUNKS / stride).ilog2() - PARTS };
        let chunks = [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS];
        Self { first, stride, divisor: Divisor::new(stride), chunks, free: Stacks::new() }
    }

    /// In which chunk slot `index` is.
    pub(crate) fn chunk(&self, index: u32) -> usize {
        self.locate(index).0
    }

    /// Which chunk, and where in it.
    #[inline]
    fn locate(&self, index: u32) -> (usize, usize) {
        // Counted so that a doubling begins at each power of two.
        let shifted = u64::from(index) + (1 << (self.first + PARTS));
        let parts = shifted.ilog2() - PARTS;
        let part = (shifted >> parts) as usize & ((1 << PARTS) - 1);
        let chunk = ((parts - self.first) as usize) << PARTS | part;
        (chunk, (shifted & ((1 << parts) - 1)) as usize)
    }

    /// How many slots a chunk has.
    #[inline]
    fn slots(&self, chunk: usize) -> usize {
        1 << (self.first as usize + (chunk >> PARTS))
    }

    /// The index of a chunk's first slot.
    #[inline]
    fn begin(&self, chunk: usize) -> usize {
        let slots = self.slots(chunk);
        let part = chunk & ((1 << PARTS) - 1);
        ((slots - (1 << self.first)) << PARTS) + part * slots
    }

    /// Makes sure that there is memory for slot `index`.
    pub(crate) fn reach(&self, index: u32) -> bool {
        let (chunk, _) = self.locate(index);
        let Some(pointer) = self.chunks.get(chunk).filter(|_| self.slots(chunk) <= 1 << OFFSET)
        else {
            return false;
        };
        // Ordering: Acquire pairs with the Release below: the bytes are zeros.
        !pointer.load(Ordering::Acquire).is_null() || self.grow(pointer, chunk)
    }

    #[cold]
    fn grow(&self, pointer: &AtomicPtr<Header>, chunk: usize) -> bool {
        let Some(size) = self.slots(chunk).checked_mul(self.stride) else { return false };
        let Ok(layout) = Layout::from_size_align(size, ALIGN) else { return false };
        // SAFETY: the size is not zero: strides and slot counts are at least one.
        let fresh = unsafe { alloc::alloc::alloc_zeroed(layout) };
        if fresh.is_null() {
            return false;
        }
        // Ordering: Release pairs with the Acquire in `reach` and `slot`; of two who grow at once, one wins.
        let won = pointer.compare_exchange(
            core::ptr::null_mut(),
            fresh.cast(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if won.is_err() {
            // SAFETY: ours, of this layout, and seen by nobody.
            unsafe { alloc::alloc::dealloc(fresh, layout) };
        }
        true
    }

    #[inline]
    pub(crate) fn slot(&self, index: u32) -> NonNull<Header> {
        let (chunk, offset) = self.locate(index);
        // SAFETY: indices below `fresh` have been reached (INV-CHUNK).
        unsafe { self.at(chunk, offset) }
    }

    /// # Safety
    /// The chunk exists, and has so many slots.
    #[inline]
    unsafe fn at(&self, chunk: usize, offset: usize) -> NonNull<Header> {
        // SAFETY: the caller's; INV-CHUNK.
        unsafe {
            // Ordering: Acquire pairs with the Release in `grow`.
            let base = self.chunks.get_unchecked(chunk).load(Ordering::Acquire);
            NonNull::new_unchecked(base.byte_add(offset * self.stride))
        }
    }

    /// Takes a free slot, for the context of this number.
    #[inline]
    pub(crate) fn take(&self, near: usize) -> Option<NonNull<Header>> {
        self.free.take(near, |name| self.named(name))
    }

    /// Gives a slot back, in the context of this number.
    ///
    /// # Safety
    /// The slot is of this class, has been settled, and belongs to the caller.
    #[inline]
    pub(crate) unsafe fn give(&self, near: usize, slot: NonNull<Header>) {
        // SAFETY: the caller's.
        let chunk = unsafe { slot.as_ref().part() };
        // SAFETY: the caller's.
        unsafe { self.free.near(near).push(slot, self.name(chunk, slot)) };
    }

    /// What a slot is called while it is free: its chunk and where it is in there, if a word has the bits for it, else
    /// its index.
    #[inline]
    fn name(&self, chunk: usize, slot: NonNull<Header>) -> u32 {
        // Ordering: as in `slot`.
        let base = self.chunks.get(chunk).map_or(0, |c| c.load(Ordering::Acquire).addr());
        let offset = self.divisor.divide(slot.as_ptr().addr().wrapping_sub(base));
        (if WIDE { chunk << OFFSET | offset } else { self.begin(chunk) + offset }) as u32
    }

    #[inline]
    fn named(&self, name: u32) -> NonNull<Header> {
        if !WIDE {
            return self.slot(name);
        }
        // SAFETY: a slot that has a name has been reached (INV-CHUNK).
        unsafe { self.at(name as usize >> OFFSET, name as usize & ((1 << OFFSET) - 1)) }
    }
}

/// Divides what is known to be a multiple, without a division: a shift and the inverse of the odd rest, modulo 2^BITS
/// (Granlund and Montgomery 1994).
struct Divisor {
    shift: u32,
    inverse: usize,
}

impl Divisor {
    const fn new(by: usize) -> Self {
        let shift = by.trailing_zeros();
        let odd = by >> shift;
        // Newton: right in three bits, then in twice as many each time.
        let mut inverse = odd;
        let mut bits = 3;
        while bits < usize::BITS {
            inverse = inverse.wrapping_mul(2_usize.wrapping_sub(odd.wrapping_mul(inverse)));
            bits *= 2;
        }
        Self { shift, inverse }
    }

    #[inline(always)]
    const fn divide(&self, multiple: usize) -> usize {
        (multiple >> self.shift).wrapping_mul(self.inverse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_slots_are_inverse() {
        static CHUNKS: Chunks = Chunks::new(96);
        let chunks = &CHUNKS;
        for index in 0..1000 {
            assert!(chunks.reach(index));
            let (slot, chunk) = (chunks.slot(index), chunks.chunk(index));
            assert_eq!(chunks.named(chunks.name(chunk, slot)), slot);
            if !WIDE {
                assert_eq!(chunks.name(chunk, slot), index);
            }
        }
    }

    /// Takes as many slots as there are given back, and looks which context's stack has them.

    #[test]
    fn slots_are_found_wherever_they_were_given_back() {
        static CHUNKS: Chunks = Chunks::new(64);
        let chunks = &CHUNKS;
        let fresh = |index| {
            assert!(chunks.reach(index));
            chunks.slot(index)
        };
        let give = |near, index: u32| {
            let slot = fresh(index);
            // SAFETY: ours, and of this name.
            unsafe { chunks.free.near(near).push(slot, chunks.name(chunks.chunk(index), slot)) };
            slot
        };
        for (round, (taker, giver)) in [(0, 3), (3, 3), (1, 0), (2, 17)].into_iter().enumerate() {
            let begin = round as u32 * 20;
            let mut given: Vec<_> = (begin..begin + 20).map(|index| give(giver, index)).collect();
            let first = chunks.take(taker);
            // It has taken over the whole stack: what is left is near.
            let near = |_| chunks.free.near(taker).pop(|name| chunks.named(name));
            let mut taken: Vec<_> = first.into_iter().chain((1..20).map_while(near)).collect();
            given.sort_unstable();
            taken.sort_unstable();
            assert_eq!(given, taken);
            assert_eq!(chunks.take(taker), None);
        }
    }

    #[test]
    fn memory_does_not_grow_when_tasks_end_elsewhere() {
        static CHUNKS: Chunks = Chunks::new(64);
        const AT_ONCE: usize = 8;
        let (give, given) = std::sync::mpsc::sync_channel(AT_ONCE);
        let giver = std::thread::spawn(move || {
            for index in given {
                let slot = CHUNKS.slot(index);
                let name = CHUNKS.name(CHUNKS.chunk(index), slot);
                // SAFETY: the taker has given it to us.
                unsafe { CHUNKS.free.near(2).push(slot, name) };
            }
        });
        let mut fresh = 0;
        let mut indices = std::collections::HashMap::new();
        for _ in 0..10_000 {
            let slot = CHUNKS.take(1).unwrap_or_else(|| {
                assert!(CHUNKS.reach(fresh));
                let slot = CHUNKS.slot(fresh);
                indices.insert(slot, fresh);
                fresh += 1;
                slot
            });
            give.send(indices[&slot]).unwrap();
        }
        drop(give);
        giver.join().unwrap();
        // One in the taker's hands, one in the giver's, the others on their way.
        assert!(fresh as usize <= AT_ONCE + 2, "{fresh} slots");
    }

    #[test]
    fn multiples_are_divided_exactly() {
        for size in (32..2048).step_by(32).chain([usize::MAX / 7, 1 << 40, 5 << 30]) {
            let divisor = Divisor::new(size);
            for n in (0..1000).chain([usize::MAX / size - 1, usize::MAX / size]) {
                let Some(multiple) = n.checked_mul(size) else { continue };
                assert_eq!(divisor.divide(multiple), n, "{n} times {size}");
            }
        }
    }
}
