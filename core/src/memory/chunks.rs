//! The slots of one size class, in chunks. A class grows by a quarter of a doubling at a time, and never gives memory
//! back to the allocator.

use core::{alloc::Layout, ptr::NonNull};

#[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
use super::names::Names;
use crate::{
    atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, array_of, maybe_const},
    task::{header::Header, owner::Owner},
};

/// Every chunk has at least this alignment. A task may ask for no more.
pub(crate) const ALIGN: usize = 128;
/// Roughly the bytes of a class's first four chunks together.
const FIRST_CHUNKS: usize = 4096;
/// Chunks in each doubling of a class, as a power of two. At most a fifth of a class's slots are unused because it has
/// grown.
const PARTS: u32 = 2;
const CHUNKS: usize = 26 << PARTS;
const _: () = assert!(CHUNKS <= Owner::MAX_CHUNK, "INV-SLAB-CHUNK");
/// Bits of a slot's offset in its chunk.
const OFFSET: u32 = 25;

/// The chunks of one class. The first four have `2^first` slots each, the next four twice as many, and so on.
///
/// INV-CHUNK: a chunk pointer that is not null points to that many slots for ever. Their bytes begin as zeros, and
/// zeros are a vacant header.
///
/// Every field is zero until the first use, so that a heap in a `static` takes no room in an image.
pub(crate) struct Chunks {
    first: AtomicU32,
    /// Bytes from one slot to the next.
    stride: AtomicUsize,
    chunks: [AtomicPtr<Header>; CHUNKS],
    #[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
    names: Names,
}

impl Chunks {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                first: AtomicU32::new(0),
                stride: AtomicUsize::new(0),
                chunks: array_of!(AtomicPtr::new(core::ptr::null_mut()); CHUNKS),
                #[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
                names: Names::new(),
            }
        }
    }

    /// Sets the size of a slot. Every call passes the same value, and the first comes before any other use of the
    /// chunks: a context that knows of a slot learned of it after this call.
    pub(crate) fn set_stride(&self, stride: usize) {
        let small = stride <= FIRST_CHUNKS >> PARTS;
        let first = if small { (FIRST_CHUNKS / stride).ilog2() - PARTS } else { 0 };
        // Ordering: Relaxed; the Release in `Slab::set_chunks` publishes it.
        self.first.store(first, Ordering::Relaxed);
        self.stride.store(stride, Ordering::Relaxed);
        #[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
        self.names.set_stride(stride);
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        // Ordering: see `set_stride`.
        self.first.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn stride(&self) -> usize {
        // Ordering: see `set_stride`.
        self.stride.load(Ordering::Relaxed)
    }

    /// The chunk that slot `index` is in.
    pub(crate) fn chunk(&self, index: u32) -> usize {
        self.locate(index).0
    }

    /// The chunk of slot `index`, and the offset in it.
    #[inline]
    fn locate(&self, index: u32) -> (usize, usize) {
        // Shifted so that each doubling begins at a power of two.
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

    /// Makes sure that slot `index` has memory. False if the allocator has none, or the class is at its largest.
    pub(crate) fn reach(&self, index: u32) -> bool {
        let (chunk, _) = self.locate(index);
        let Some(pointer) = self.chunks.get(chunk).filter(|_| self.slots(chunk) <= 1 << OFFSET)
        else {
            return false;
        };
        // Ordering: Acquire pairs with the Release in `grow`: the bytes are zeros.
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
        // Ordering: Release pairs with the Acquire in `reach` and `at`. Of two contexts that grow at once, one wins.
        let won = pointer.compare_exchange(
            core::ptr::null_mut(),
            fresh.cast(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if won.is_err() {
            // SAFETY: the chunk is ours, of this layout, and no other context has seen it.
            unsafe { alloc::alloc::dealloc(fresh, layout) };
        }
        true
    }

    /// # Safety
    /// `reach` has returned true for the index.
    #[inline]
    pub(crate) unsafe fn slot(&self, index: u32) -> NonNull<Header> {
        let (chunk, offset) = self.locate(index);
        // SAFETY: INV-CHUNK: the caller's index has been reached, so that its chunk exists.
        unsafe { self.at(chunk, offset) }
    }

    /// # Safety
    /// The chunk exists, and has more than `offset` slots.
    #[inline]
    unsafe fn at(&self, chunk: usize, offset: usize) -> NonNull<Header> {
        // SAFETY: INV-CHUNK: the chunk exists and has this slot, says the caller.
        unsafe {
            // Ordering: Acquire pairs with the Release in `grow`.
            let base = self.chunks.get_unchecked(chunk).load(Ordering::Acquire);
            NonNull::new_unchecked(base.byte_add(offset * self.stride()))
        }
    }
}

/// The free slots.
#[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
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
        let offset = self.names.offset(bytes, self.stride());
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

#[cfg(all(test, target_has_atomic = "64", not(filch_narrow)))]
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
}
