//! The slabs of one size class: they grow by quarters, and are never given back to the allocator.

use core::{alloc::Layout, ptr::NonNull};

use super::{header::Header, memory::Home, stacks::Stacks};
use crate::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, Word, array_of, maybe_const};

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
///
/// All of it is zero until the first use, so that a heap in a `static` takes no room in an image.
pub(crate) struct Chunks {
    first: AtomicU32,
    /// Bytes from one slot to the next.
    stride: AtomicUsize,
    /// For `divide` by the stride.
    inverse: AtomicUsize,
    chunks: [AtomicPtr<Header>; CHUNKS],
    free: Stacks,
}

impl Chunks {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                first: AtomicU32::new(0),
                stride: AtomicUsize::new(0),
                inverse: AtomicUsize::new(0),
                chunks: array_of!(AtomicPtr::new(core::ptr::null_mut()); CHUNKS),
                free: Stacks::new(),
            }
        }
    }

    /// Says how large the slots are: before all else, and always the same. Who knows of a slot came by it after that.
    pub(crate) fn settle(&self, stride: usize) {
        let small = stride <= FIRST_CHUNKS >> PARTS;
        let first = if small { (FIRST_CHUNKS / stride).ilog2() - PARTS } else { 0 };
        // Ordering: published by who tells of the chunks (`Home::found`).
        self.first.store(first, Ordering::Relaxed);
        self.stride.store(stride, Ordering::Relaxed);
        self.inverse.store(inverse(stride), Ordering::Relaxed);
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        // Ordering: see `settle`.
        self.first.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn stride(&self) -> usize {
        // Ordering: see `settle`.
        self.stride.load(Ordering::Relaxed)
    }

    /// In which chunk slot `index` is.
    pub(crate) fn chunk(&self, index: u32) -> usize {
        self.locate(index).0
    }

    /// Which chunk, and where in it.
    #[inline]
    fn locate(&self, index: u32) -> (usize, usize) {
        // Counted so that a doubling begins at each power of two.
        let shifted = u64::from(index) + (1 << (self.first() + PARTS));
        let parts = shifted.ilog2() - PARTS;
        let part = (shifted >> parts) as usize & ((1 << PARTS) - 1);
        let chunk = ((parts - self.first()) as usize) << PARTS | part;
        (chunk, (shifted & ((1 << parts) - 1)) as usize)
    }

    /// How many slots a chunk has.
    #[inline]
    fn slots(&self, chunk: usize) -> usize {
        1 << (self.first() as usize + (chunk >> PARTS))
    }

    /// The index of a chunk's first slot.
    #[inline]
    fn begin(&self, chunk: usize) -> usize {
        let slots = self.slots(chunk);
        let part = chunk & ((1 << PARTS) - 1);
        ((slots - (1 << self.first())) << PARTS) + part * slots
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
        let Some(size) = self.slots(chunk).checked_mul(self.stride()) else { return false };
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

    /// # Safety
    /// The index has been reached.
    #[inline]
    pub(crate) unsafe fn slot(&self, index: u32) -> NonNull<Header> {
        let (chunk, offset) = self.locate(index);
        // SAFETY: the caller's (INV-CHUNK).
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
            NonNull::new_unchecked(base.byte_add(offset * self.stride()))
        }
    }

    /// Takes a free slot, for the context of this number.
    #[inline]
    pub(crate) fn take(&self, near: usize) -> Option<NonNull<Header>> {
        // SAFETY: what is pushed there is pushed by `give`, with its name.
        unsafe { self.free.take(near, |name| self.named(name)) }
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
        let bytes = slot.as_ptr().addr().wrapping_sub(base);
        // Ordering: see `settle`.
        let offset = divide(bytes, self.stride(), self.inverse.load(Ordering::Relaxed));
        debug_assert!(offset < self.slots(chunk), "INV-CHUNK");
        (if WIDE { chunk << OFFSET | offset } else { self.begin(chunk) + offset }) as u32
    }

    /// # Safety
    /// A slot has this name.
    #[inline]
    unsafe fn named(&self, name: u32) -> NonNull<Header> {
        if !WIDE {
            // SAFETY: the caller's; its index, that is.
            return unsafe { self.slot(name) };
        }
        // SAFETY: a slot that has a name has been reached (INV-CHUNK).
        unsafe { self.at(name as usize >> OFFSET, name as usize & ((1 << OFFSET) - 1)) }
    }
}

/// What [`divide`] by this takes: the inverse of its odd part, modulo 2^BITS.
const fn inverse(by: usize) -> usize {
    let odd = by >> by.trailing_zeros();
    // Newton: right in three bits, then in twice as many each time.
    let (mut inverse, mut bits) = (odd, 3);
    while bits < usize::BITS {
        inverse = inverse.wrapping_mul(2_usize.wrapping_sub(odd.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
}

/// Divides what is known to be a multiple, without a division (Granlund and Montgomery 1994).
#[inline(always)]
const fn divide(multiple: usize, by: usize, inverse: usize) -> usize {
    (multiple >> by.trailing_zeros()).wrapping_mul(inverse)
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, sync::mpsc::sync_channel, thread};

    use super::*;

    /// A test's own chunks: in a `static`, where leak checkers look.
    macro_rules! chunks {
        ($stride:expr) => {{
            static CHUNKS: Chunks = Chunks::new();
            CHUNKS.settle($stride);
            &CHUNKS
        }};
    }

    impl Chunks {
        /// A slot that has been reached.
        fn fresh(&self, index: u32) -> NonNull<Header> {
            assert!(self.reach(index));
            // SAFETY: just now.
            unsafe { self.slot(index) }
        }

        /// As `give`, for a slot that has not been settled.
        fn put(&self, near: usize, index: u32) -> NonNull<Header> {
            let slot = self.fresh(index);
            // SAFETY: the caller's own, and of this name.
            unsafe { self.free.near(near).push(slot, self.name(self.chunk(index), slot)) };
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
            assert!(WIDE || name == index);
        }
    }

    /// Takes as many slots as there are given back, and looks which context's stack has them.
    #[test]
    fn slots_are_found_wherever_they_were_given_back() {
        let chunks = chunks!(64);
        for (round, (taker, giver)) in [(0, 3), (3, 3), (1, 0), (2, 17)].into_iter().enumerate() {
            let begin = round as u32 * 20;
            let mut given: Vec<_> = (begin..begin + 20).map(|i| chunks.put(giver, i)).collect();
            let first = chunks.take(taker);
            // It has taken over the whole stack: what is left is near.
            // SAFETY: names of these chunks.
            let near = |_| unsafe { chunks.free.near(taker).pop(|name| chunks.named(name)) }.ok();
            let mut taken: Vec<_> = first.into_iter().chain((1..20).map_while(near)).collect();
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
        let stack = core::ptr::from_ref(chunks.free.near(2));
        assert_eq!(chunks.take(1), Some(slot));
        assert_eq!(core::ptr::from_ref(chunks.free.near(2)), stack);
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
        // One in the taker's hands, one in the giver's, the others on their way.
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
