//! The slots of one size class, in chunks. A class grows by a quarter of a doubling at a time, and never gives memory
//! back to the allocator.

use core::{alloc::Layout, ptr::NonNull};

#[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
use super::names::Names;
use super::{header::Header, memory::Slab};
use crate::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, array_of, maybe_const};

/// Every chunk has at least this alignment. A task may ask for no more.
pub(crate) const ALIGN: usize = 128;
/// Roughly the bytes of a class's first four chunks together.
const FIRST_CHUNKS: usize = 4096;
/// Chunks in each doubling of a class, as a power of two. At most a fifth of a class's slots are unused because it has
/// grown.
const PARTS: u32 = 2;
const CHUNKS: usize = 26 << PARTS;
const _: () = assert!(CHUNKS <= Slab::MAX_CHUNK, "INV-SLAB-CHUNK");
/// Bits of a slot's offset in its chunk.
pub(super) const OFFSET: u32 = 25;

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
    pub(super) chunks: [AtomicPtr<Header>; CHUNKS],
    #[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
    pub(super) names: Names,
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
    pub(super) fn stride(&self) -> usize {
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
    pub(super) fn slots(&self, chunk: usize) -> usize {
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
    pub(super) unsafe fn at(&self, chunk: usize, offset: usize) -> NonNull<Header> {
        // SAFETY: INV-CHUNK: the chunk exists and has this slot, says the caller.
        unsafe {
            // Ordering: Acquire pairs with the Release in `grow`.
            let base = self.chunks.get_unchecked(chunk).load(Ordering::Acquire);
            NonNull::new_unchecked(base.byte_add(offset * self.stride()))
        }
    }
}
