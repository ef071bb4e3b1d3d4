//! Task memory in a `static` or given at run time: a pool of slots, or a cell for one task.

use core::{alloc::Layout, fmt, future::Future, mem::ManuallyDrop, mem::MaybeUninit, ptr::NonNull};

use super::slab::{Slab, Slabs};
use crate::{
    atomic::{array_of, maybe_const},
    task::{cell::Task, header::Header, options::Optioned, spawn::Memory},
};

/// `N` slots of `SLOT` bytes each, in a `static`. Any future that fits becomes a task without an allocator.
///
/// A slot holds the whole task: a header of four words, two words for the joining side, and the larger of the future
/// and its output. `SLOT` is rounded up to a multiple of 16. Futures aligned to more than 16 bytes do not fit.
///
/// A spawn into a full pool, or of a future that does not fit, returns the future in a
/// [`SpawnError`](crate::SpawnError). A lock-free list hands slots out and takes them back, from any context. All
/// workers share it, and each spawn and each end of a task writes to it: where many workers spawn, give each a pool of
/// its own. On targets without 64-bit atomics a spawn searches for a free slot, from where it found the last one, past
/// those in use.
///
/// ```
/// use filch::TaskPool;
/// static POOL: TaskPool<128, 64> = TaskPool::new();
/// assert_eq!(POOL.capacity(), 64);
/// ```
#[repr(C)]
pub struct TaskPool<const SLOT: usize, const N: usize> {
    slab: Slab,
    slots: [TaskSlot<SLOT>; N],
}

/// Aligned memory that begins with a header.
#[repr(C, align(16))]
union Bytes<const SLOT: usize> {
    header: ManuallyDrop<Header>,
    bytes: [MaybeUninit<u8>; SLOT],
}

/// Room for one task, of `SLOT` bytes rounded up to a multiple of 16. For [`TaskSlots`].
#[repr(transparent)]
pub struct TaskSlot<const SLOT: usize>(core::cell::UnsafeCell<Bytes<SLOT>>);

// SAFETY: INV-SLAB-SLOT: the context that took a slot owns its bytes, except for the header, which is made to be
// shared.
unsafe impl<const SLOT: usize> Sync for TaskSlot<SLOT> {}
// SAFETY: as above.
unsafe impl<const SLOT: usize> Send for TaskSlot<SLOT> {}
// SAFETY: as above.
unsafe impl<const SLOT: usize, const N: usize> Sync for TaskPool<SLOT, N> {}
// SAFETY: as above.
unsafe impl<const SLOT: usize, const N: usize> Send for TaskPool<SLOT, N> {}

impl<const SLOT: usize, const N: usize> TaskPool<SLOT, N> {
    maybe_const! {
        /// An empty pool.
        ///
        /// # Panics
        /// If `N` is zero, or larger than the free list can index: 2^32 - 2. In a `static` this fails at compile time.
        pub fn new() -> Self {
            assert!(N > 0 && N < Slab::MOST, "too few or too many slots");
            Self {
                slab: Slab::new(),
                slots: array_of!(TaskSlot::new(); N),
            }
        }
    }

    /// The number of slots.
    pub const fn capacity(&self) -> usize {
        N
    }
}

impl<const SLOT: usize> TaskSlot<SLOT> {
    maybe_const! {
        /// An empty slot.
        pub fn new() -> Self {
            Self(core::cell::UnsafeCell::new(Bytes { header: ManuallyDrop::new(Header::vacant()) }))
        }
    }
}

impl<const SLOT: usize, const N: usize> Default for TaskPool<SLOT, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SLOT: usize, const N: usize> Memory for TaskPool<SLOT, N> {}

impl<const SLOT: usize, const N: usize> Slabs for TaskPool<SLOT, N> {
    #[inline]
    fn slab(&'static self, task: Layout) -> Result<&'static Slab, Layout> {
        // SAFETY: the slots stay for ever.
        unsafe { slab_over(&self.slab, &self.slots, task) }
    }
}

/// The slab, if a task of this layout fits its slots. Otherwise the layout of the slots.
///
/// # Safety
/// Every call for this slab passes the same slots, which serve no other.
#[inline]
unsafe fn slab_over<const SLOT: usize>(
    slab: &'static Slab,
    slots: &'static [TaskSlot<SLOT>],
    task: Layout,
) -> Result<&'static Slab, Layout> {
    let slot = Layout::new::<TaskSlot<SLOT>>();
    if task.size() > slot.size() || task.align() > slot.align() {
        return Err(slot);
    }
    let len = slots.len().min(Slab::MOST - 1) as u32;
    // SAFETY: the slots stay for ever, are `slot.size()` apart, and begin as vacant headers; the caller's contract.
    unsafe { slab.set_storage(NonNull::from(slots).cast(), slot.size(), len) };
    Ok(slab)
}

impl<const SLOT: usize, const N: usize> fmt::Debug for TaskPool<SLOT, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPool")
            .field("slot", &SLOT)
            .field("slots", &N)
            .field("slab", &self.slab)
            .finish()
    }
}

impl<const SLOT: usize> Default for TaskSlot<SLOT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SLOT: usize> fmt::Debug for TaskSlot<SLOT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSlot").field("size", &size_of::<Self>()).finish_non_exhaustive()
    }
}

/// A [`TaskPool`] over the caller's own slots, for a number of tasks that is known at run time. It is the counterpart of
/// [`Scheduler::over`](crate::Scheduler::over).
///
/// ```
/// use filch::{TaskSlot, TaskSlots};
/// use std::sync::OnceLock;
/// static POOL: OnceLock<TaskSlots<128>> = OnceLock::new();
/// let slots: Vec<TaskSlot<128>> = (0..40).map(|_| TaskSlot::new()).collect();
/// let pool: &'static TaskSlots<128> = POOL.get_or_init(|| TaskSlots::over(slots.leak()));
/// assert_eq!(pool.capacity(), 40);
/// ```
#[repr(C)]
pub struct TaskSlots<const SLOT: usize> {
    slab: Slab,
    slots: &'static [TaskSlot<SLOT>],
}

impl<const SLOT: usize> TaskSlots<SLOT> {
    /// An empty pool over these slots. It uses at most as many of them as the free list can index: 2^32 - 3.
    pub fn over(slots: &'static mut [TaskSlot<SLOT>]) -> Self {
        Self { slab: Slab::new(), slots }
    }

    /// The number of slots.
    pub fn capacity(&self) -> usize {
        self.slots.len().min(Slab::MOST - 1)
    }
}

impl<const SLOT: usize> Memory for TaskSlots<SLOT> {}

impl<const SLOT: usize> Slabs for TaskSlots<SLOT> {
    #[inline]
    fn slab(&'static self, task: Layout) -> Result<&'static Slab, Layout> {
        // SAFETY: the constructor took the slots for this pool alone.
        unsafe { slab_over(&self.slab, self.slots, task) }
    }
}

impl<const SLOT: usize> fmt::Debug for TaskSlots<SLOT> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskSlots")
            .field("slot", &SLOT)
            .field("slots", &self.slots.len())
            .field("slab", &self.slab)
            .finish()
    }
}

/// Memory for one task of type `F`, in a `static` or leaked. It is exactly as large as the task needs.
///
/// It can be used again once its task is complete and neither a handle nor a waker refers to it. For a future whose
/// type cannot be named, use a `TaskPool<SLOT, 1>`.
///
/// ```
/// use core::future::Ready;
/// use filch::TaskCell;
/// static CELL: TaskCell<Ready<u32>> = TaskCell::new();
/// # let _ = &CELL;
/// ```
#[repr(C)]
pub struct TaskCell<F: Future> {
    slab: Slab,
    slot: core::cell::UnsafeCell<CellSlot<F>>,
}

#[repr(C)]
union CellSlot<F: Future> {
    header: ManuallyDrop<Header>,
    task: ManuallyDrop<MaybeUninit<Task<F, Optioned>>>,
}

// SAFETY: as for `TaskPool`; the executor decides which futures may be spawned.
unsafe impl<F: Future> Sync for TaskCell<F> {}
// SAFETY: as above.
unsafe impl<F: Future> Send for TaskCell<F> {}

impl<F: Future> TaskCell<F> {
    maybe_const! {
        /// An empty cell.
        pub fn new() -> Self {
            let slot = CellSlot { header: ManuallyDrop::new(Header::vacant()) };
            Self {
                slab: Slab::new(),
                slot: core::cell::UnsafeCell::new(slot),
            }
        }
    }
}

impl<F: Future> Default for TaskCell<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Future> Memory for TaskCell<F> {}

impl<F: Future> Slabs for TaskCell<F> {
    fn slab(&'static self, task: Layout) -> Result<&'static Slab, Layout> {
        let slot = Layout::new::<CellSlot<F>>();
        if task.size() > slot.size() || task.align() > slot.align() {
            return Err(slot);
        }
        // SAFETY: as for `TaskPool`.
        unsafe { self.slab.set_storage(NonNull::from(&self.slot).cast(), slot.size(), 1) };
        Ok(&self.slab)
    }
}

impl<F: Future> fmt::Debug for TaskCell<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCell").field("slab", &self.slab).finish()
    }
}
