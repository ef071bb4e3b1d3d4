//! The slabs of one size class: they grow by quarters, and are never given back to the allocator.

use core::{alloc::Layout, ptr::NonNull};

#[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
use super::names::Names;
use super::{header::Header, memory::Home};
use crate::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, array_of, maybe_const};

/// Chunks have at least this alignment; a task may ask for no more.
pub(crate) const ALIGN: usize = 128;
/// About as large as a class's first four chunks together.
const FIRST_CHUNKS: usize = 4096;
/// Chunks in a doubling of a class, as a power of two: no more than a fifth of a class is ever idle for its growth.
const PARTS: u32 = 2;
const CHUNKS: usize = 26 << PARTS;
const _: () = assert!(CHUNKS <= Home::PARTS, "INV-HOME-PART");
/// An offset in a chunk has so many bits.
pub(super) const OFFSET: u32 = 25;

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

    /// Says how large the slots are: before all else, and always the same. Who knows of a slot came by it after that.
    pub(crate) fn settle(&self, stride: usize) {
        let small = stride <= FIRST_CHUNKS >> PARTS;
        let first = if small { (FIRST_CHUNKS / stride).ilog2() - PARTS } else { 0 };
        // Ordering: published by what tells of the chunks (`Home::found`).
        self.first.store(first, Ordering::Relaxed);
        self.stride.store(stride, Ordering::Relaxed);
        #[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
        self.names.settle(stride);
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        // Ordering: see `settle`.
        self.first.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(super) fn stride(&self) -> usize {
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
    pub(super) fn slots(&self, chunk: usize) -> usize {
        1 << (self.first() as usize + (chunk >> PARTS))
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
    pub(super) unsafe fn at(&self, chunk: usize, offset: usize) -> NonNull<Header> {
        // SAFETY: the caller's; INV-CHUNK.
        unsafe {
            // Ordering: Acquire pairs with the Release in `grow`.
            let base = self.chunks.get_unchecked(chunk).load(Ordering::Acquire);
            NonNull::new_unchecked(base.byte_add(offset * self.stride()))
        }
    }
}
