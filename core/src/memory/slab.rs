//! A slab: slots of one size, and the executor that they serve.

use core::{alloc::Layout, fmt, ptr::NonNull};

#[cfg(feature = "alloc")]
use super::chunks::Chunks;
#[cfg(any(not(target_has_atomic = "64"), filch_narrow))]
use super::flags::Flags as Free;
#[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
use super::free_list::Stack as Free;
use crate::{
    atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, maybe_const},
    task::{
        error::SpawnErrorKind,
        executor_ref::{Caller, ExecutorRef},
        header::{Header, Slot},
        owner::{Owner, Owners},
        spawn::Sealed,
    },
};

/// Memory that consists of slabs.
pub(crate) trait Slabs {
    /// The slab for tasks of this layout. Otherwise the largest layout that fits.
    fn slab(&'static self, task: Layout) -> Result<&'static Slab, Layout>;
}

impl<M: Slabs> Sealed for M {
    #[inline]
    fn take(
        &'static self,
        task: Layout,
        executor: ExecutorRef,
        caller: Caller,
    ) -> Result<Slot, SpawnErrorKind> {
        let slab = self.slab(task).map_err(|slot| SpawnErrorKind::TooLarge {
            needed: task.size(),
            align: task.align(),
            slot: slot.size(),
            slot_align: slot.align(),
        })?;
        if !slab.bind(executor) {
            return Err(SpawnErrorKind::ForeignMemory);
        }
        slab.take(caller).ok_or(SpawnErrorKind::Full)
    }
}

/// Slots of one size, and the executor that they serve.
///
/// INV-SLAB-SLOT: slot `i`, for `i` below `fresh`, is a valid header for ever. The context that took it owns it until
/// `give`; then the free list does (INV-FREE, INV-FLAG).
///
/// INV-SLAB-CHUNK: a slab's alignment leaves its lowest bits free for the number of a chunk, at most
/// `Owner::MAX_CHUNK`.
#[repr(C)]
#[cfg_attr(feature = "alloc", repr(align(128)))]
pub(crate) struct Slab {
    /// The first field: INV-OWNER.
    owner: Owner,
    fresh: AtomicU32,
    fixed: Fixed,
    /// The free slots of a fixed slab; on narrow words, of any slab.
    free: Free,
    /// Null for a fixed slab.
    #[cfg(feature = "alloc")]
    chunks: AtomicPtr<Chunks>,
}

/// An array of slots whose address is known from the first use. Like the whole slab it is all zeros until then, so that
/// a pool in a `static` takes no room in an image.
struct Fixed {
    base: AtomicPtr<Header>,
    /// Bytes from one slot to the next.
    stride: AtomicUsize,
    len: AtomicU32,
}

const _: () = assert!(align_of::<Slab>() > Owner::MAX_CHUNK, "INV-SLAB-CHUNK");

enum Place<'a> {
    Fixed(&'a Fixed),
    #[cfg(feature = "alloc")]
    Grown(&'static Chunks),
}

impl Slab {
    /// The number of slots of a slab is below this.
    pub(crate) const MOST: usize = Free::MOST;

    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                owner: Owner::new(),
                fresh: AtomicU32::new(0),
                fixed: Fixed {
                    base: AtomicPtr::new(core::ptr::null_mut()),
                    stride: AtomicUsize::new(0),
                    len: AtomicU32::new(0),
                },
                free: Free::new(),
                #[cfg(feature = "alloc")]
                chunks: AtomicPtr::new(core::ptr::null_mut()),
            }
        }
    }

    /// Sets the slots of a fixed slab.
    ///
    /// # Safety
    /// `at` points to `slots` slots, `bytes` apart, each a valid free header for ever. Every call passes the same
    /// values.
    #[inline]
    pub(crate) unsafe fn set_storage(&self, at: NonNull<Header>, bytes: usize, slots: u32) {
        let Fixed { base, stride, len, .. } = &self.fixed;
        // Ordering: every call stores the same values. Release pairs with the Acquire here: a context that sees the
        // base sees the stride and the length.
        if base.load(Ordering::Acquire).is_null() {
            stride.store(bytes, Ordering::Relaxed);
            len.store(slots, Ordering::Relaxed);
            base.store(at.as_ptr(), Ordering::Release);
        }
    }

    /// Sets the chunks of a growing slab, and the size of its slots. Every call passes the same values.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn set_chunks(&self, chunks: &'static Chunks, stride: usize) {
        // Ordering: as in `set_storage`.
        if self.chunks.load(Ordering::Acquire).is_null() {
            chunks.set_stride(stride);
            self.chunks.store(core::ptr::from_ref(chunks).cast_mut(), Ordering::Release);
        }
    }

    /// Where the slots are. Called after `set_storage` or `set_chunks`, which come before the first slot is taken.
    #[inline(always)]
    fn place(&self) -> Place<'_> {
        // Ordering: Relaxed: the caller got the slab after `set_chunks` has stored this.
        // SAFETY: `set_chunks` stored a `'static` reference.
        #[cfg(feature = "alloc")]
        if let Some(chunks) = unsafe { self.chunks.load(Ordering::Relaxed).as_ref() } {
            return Place::Grown(chunks);
        }
        Place::Fixed(&self.fixed)
    }

    #[inline(always)]
    fn as_owner(&'static self) -> NonNull<Owner> {
        // The slab begins with its owner, and this pointer may reach all of it.
        NonNull::from(self).cast()
    }

    /// # Safety
    /// INV-OWNER.
    #[inline(always)]
    unsafe fn of(owner: NonNull<Owner>) -> &'static Self {
        // SAFETY: INV-OWNER: the pointer is that of `as_owner`.
        unsafe { owner.cast().as_ref() }
    }

    /// Has the slab serve an executor. False if it serves another.
    #[inline]
    pub(super) fn bind(&'static self, executor: ExecutorRef) -> bool {
        // SAFETY: INV-OWNER: the slab begins with its owner, and is `'static`.
        unsafe { executor.adopt(self.as_owner()) }
    }

    /// Takes a free slot. Lock-free; callable from any context.
    #[inline]
    pub(super) fn take(&'static self, caller: Caller) -> Option<Slot> {
        let slot = self.take_free(caller).or_else(|| self.take_fresh())?;
        // SAFETY: INV-SLAB-SLOT: the slot is ours, and is passed on.
        Some(unsafe { Slot::from_raw(slot) })
    }

    #[cfg(any(not(target_has_atomic = "64"), filch_narrow))]
    fn take_free(&'static self, _caller: Caller) -> Option<NonNull<Header>> {
        // SAFETY: INV-SLAB-SLOT; only slots of this slab are passed to `give`.
        unsafe { self.free.take(&self.fresh, |index| self.slot(index)) }
    }

    #[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
    #[inline]
    #[cfg_attr(
        not(feature = "alloc"),
        expect(unused_variables, reason = "a fixed slab has one stack for all")
    )]
    fn take_free(&'static self, caller: Caller) -> Option<NonNull<Header>> {
        match self.place() {
            // SAFETY: a slot's name is its index.
            Place::Fixed(_) => unsafe { self.free.pop(|index| self.slot(index)).ok() },
            #[cfg(feature = "alloc")]
            Place::Grown(chunks) => chunks.take(number(caller)),
        }
    }

    #[cold]
    pub(super) fn take_fresh(&'static self) -> Option<NonNull<Header>> {
        let mut index = self.fresh.load(Ordering::Relaxed);
        loop {
            if !self.has_room(index) {
                return None;
            }
            // Ordering: Release pairs with the Acquire in `for_each`: a context that counts the slot sees its chunk.
            match self.fresh.compare_exchange_weak(
                index,
                index + 1,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    // SAFETY: INV-SLAB-SLOT: the slot is ours from now on, and was never used.
                    unsafe {
                        let slot = self.slot(index);
                        slot.as_ref().init_owner(self.as_owner(), self.chunk_index(index));
                        return Some(slot);
                    }
                }
                Err(seen) => index = seen,
            }
        }
    }

    #[cfg_attr(
        not(feature = "alloc"),
        expect(unused_variables, reason = "a fixed slab has no chunks")
    )]
    fn chunk_index(&self, index: u32) -> usize {
        match self.place() {
            Place::Fixed(_) => 0,
            #[cfg(feature = "alloc")]
            Place::Grown(chunks) => chunks.chunk(index),
        }
    }

    fn has_room(&self, index: u32) -> bool {
        match self.place() {
            Place::Fixed(fixed) => index < fixed.len.load(Ordering::Relaxed),
            #[cfg(feature = "alloc")]
            Place::Grown(chunks) => (index as usize) < Self::MOST - 1 && chunks.reach(index),
        }
    }

    /// Gives a slot back to its slab. `caller` is asked only if the slab has free slots for each few workers. Lock-free;
    /// callable from any context.
    #[inline]
    pub(crate) fn give(slot: Slot, caller: impl FnOnce() -> Caller) {
        let slot = slot.into_raw();
        // SAFETY: the slot is ours, and was taken before; INV-OWNER.
        let this = unsafe { Self::of(slot.as_ref().owner()) };
        // SAFETY: the slot is ours, and of this slab.
        unsafe { this.give_free(slot, caller) };
    }

    /// # Safety
    /// The caller owns the slot, which is of this slab.
    #[cfg(any(not(target_has_atomic = "64"), filch_narrow))]
    unsafe fn give_free(&self, slot: NonNull<Header>, _caller: impl FnOnce() -> Caller) {
        // SAFETY: INV-FLAG: the caller owns the slot, which is of this slab.
        unsafe { self.free.give(slot) };
    }

    /// # Safety
    /// The caller owns the slot, which is of this slab.
    #[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
    #[inline]
    #[cfg_attr(
        not(feature = "alloc"),
        expect(unused_variables, reason = "a fixed slab has one stack for all")
    )]
    unsafe fn give_free(&self, slot: NonNull<Header>, caller: impl FnOnce() -> Caller) {
        match self.place() {
            Place::Fixed(Fixed { base, stride, .. }) => {
                let bytes = slot.as_ptr().addr() - base.load(Ordering::Relaxed).addr();
                // The stride is never zero; `checked_div` saves the check that would panic.
                let index = bytes.checked_div(stride.load(Ordering::Relaxed)).unwrap_or(0) as u32;
                // SAFETY: INV-FREE: the caller owns the slot, whose name is its index.
                unsafe { self.free.push(slot, index) };
            }
            #[cfg(feature = "alloc")]
            // SAFETY: the caller owns the slot; it was taken before, so `init_owner` has been called.
            Place::Grown(chunks) => unsafe { chunks.give(number(caller()), slot) },
        }
    }

    /// # Safety
    /// The index is below `fresh`.
    #[inline]
    unsafe fn slot(&self, index: u32) -> NonNull<Header> {
        match self.place() {
            Place::Fixed(Fixed { base, stride, .. }) => {
                let (base, stride) = (base.load(Ordering::Relaxed), stride.load(Ordering::Relaxed));
                // SAFETY: `set_storage` has stored the base, and the index is below `len`.
                unsafe { NonNull::new_unchecked(base.byte_add(index as usize * stride)) }
            }
            #[cfg(feature = "alloc")]
            // SAFETY: the caller's index has been reached.
            Place::Grown(chunks) => unsafe { chunks.slot(index) },
        }
    }

    /// Calls `f` with every slot that was ever used, in every slab of an executor's.
    pub(crate) fn for_each(owners: &Owners, mut f: impl FnMut(NonNull<Header>)) {
        owners.for_each(|owner| {
            // SAFETY: INV-OWNER.
            let this = unsafe { Self::of(owner) };
            // Ordering: Acquire pairs with the Release in `take_fresh`.
            for index in 0..this.fresh.load(Ordering::Acquire) {
                // SAFETY: the index is below `fresh`.
                f(unsafe { this.slot(index) });
            }
        });
    }
}

/// The number of the calling context among the shards of free slots: a worker's index plus one, zero outside of the
/// workers.
#[cfg(all(feature = "alloc", target_has_atomic = "64", not(filch_narrow)))]
#[inline(always)]
fn number(caller: Caller) -> usize {
    caller.map_or(0, |worker| worker.index() + 1)
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slab").field("used", &self.fresh).finish_non_exhaustive()
    }
}
