//! Tasks in static memory: a pool of slots, or a cell for one.

use core::{alloc::Layout, fmt, future::Future, mem::ManuallyDrop, mem::MaybeUninit, ptr::NonNull};

use super::{
    header::{Header, Named, Task},
    memory::{Home, Memory, Sealed},
};
use crate::atomic::{array_of, maybe_const};

/// `N` slots of `SLOT` bytes each, in a `static`: any future that fits becomes a task without an allocator.
///
/// A slot holds the whole task: a header of four words, two words for whoever joins it, and the larger of the future and
/// its output. `SLOT` is rounded up to a multiple of 16. Futures aligned to more than 16 bytes do not fit.
///
/// Spawning into a full pool, or a future that does not fit, hands the future back in a
/// [`SpawnError`](crate::SpawnError). Slots are handed out and taken back by a lock-free list, from any context: one list for
/// all workers, to which each spawn and each end of a task writes. Where many workers spawn, give each a pool of its own. On
/// targets without 64-bit atomics a spawn looks for a free slot, past each that is in use, from where it found the last one.
///
/// ```
/// use filch::TaskPool;
/// static POOL: TaskPool<128, 64> = TaskPool::new();
/// assert_eq!(POOL.capacity(), 64);
/// ```
#[repr(C)]
pub struct TaskPool<const SLOT: usize, const N: usize> {
    home: Home,
    slots: [Slot<SLOT>; N],
}

/// Aligned memory that begins with a header.
#[repr(C, align(16))]
union Bytes<const SLOT: usize> {
    header: ManuallyDrop<Header>,
    bytes: [MaybeUninit<u8>; SLOT],
}

struct Slot<const SLOT: usize>(core::cell::UnsafeCell<Bytes<SLOT>>);

// SAFETY: a slot's bytes are owned by whoever took it off the free list; its header is made to be shared
// (INV-HOME-SLOT).
unsafe impl<const SLOT: usize, const N: usize> Sync for TaskPool<SLOT, N> {}
// SAFETY: as above.
unsafe impl<const SLOT: usize, const N: usize> Send for TaskPool<SLOT, N> {}

impl<const SLOT: usize, const N: usize> TaskPool<SLOT, N> {
    maybe_const! {
        /// An empty pool.
        ///
        /// # Panics
        /// If `N` is zero, or more than the free list can index: 2^32 - 2. At compile time in a `static`.
        pub fn new() -> Self {
            assert!(N > 0 && N < Home::MOST, "too few or too many slots");
            Self {
                home: Home::new(),
                slots: array_of!(Slot::new(); N),
            }
        }
    }

    /// The number of slots.
    pub const fn capacity(&self) -> usize {
        N
    }
}

impl<const SLOT: usize> Slot<SLOT> {
    maybe_const! {
        fn new() -> Self {
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

impl<const SLOT: usize, const N: usize> Sealed for TaskPool<SLOT, N> {
    #[inline]
    fn home(&'static self, task: Layout) -> Result<&'static Home, Layout> {
        let slot = Layout::new::<Slot<SLOT>>();
        if task.size() > slot.size() || task.align() > slot.align() {
            return Err(slot);
        }
        // SAFETY: the slots are there for ever, `stride` apart, and begin as vacant headers.
        unsafe { self.home.fix(NonNull::from(&self.slots).cast(), slot.size(), N as u32) };
        Ok(&self.home)
    }
}

impl<const SLOT: usize, const N: usize> fmt::Debug for TaskPool<SLOT, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPool")
            .field("slot", &SLOT)
            .field("slots", &N)
            .field("home", &self.home)
            .finish()
    }
}

/// Memory for one task of type `F`, in a `static` or leaked: exactly as large as it must be.
///
/// It can be spawned into again once its task is complete and neither a handle nor a waker refers to it. For a future
/// whose type has no name, use a `TaskPool<SLOT, 1>`.
///
/// ```
/// use core::future::Ready;
/// use filch::TaskCell;
/// static CELL: TaskCell<Ready<u32>> = TaskCell::new();
/// # let _ = &CELL;
/// ```
#[repr(C)]
pub struct TaskCell<F: Future> {
    home: Home,
    slot: core::cell::UnsafeCell<CellSlot<F>>,
}

#[repr(C)]
union CellSlot<F: Future> {
    header: ManuallyDrop<Header>,
    task: ManuallyDrop<MaybeUninit<Task<F, Named<true>>>>,
}

// SAFETY: as for `TaskPool`; which futures may be spawned is the executor's business.
unsafe impl<F: Future> Sync for TaskCell<F> {}
// SAFETY: as above.
unsafe impl<F: Future> Send for TaskCell<F> {}

impl<F: Future> TaskCell<F> {
    maybe_const! {
        /// An empty cell.
        pub fn new() -> Self {
            let slot = CellSlot { header: ManuallyDrop::new(Header::vacant()) };
            Self {
                home: Home::new(),
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

impl<F: Future> Sealed for TaskCell<F> {
    fn home(&'static self, task: Layout) -> Result<&'static Home, Layout> {
        let slot = Layout::new::<CellSlot<F>>();
        if task.size() > slot.size() || task.align() > slot.align() {
            return Err(slot);
        }
        // SAFETY: as for `TaskPool`.
        unsafe { self.home.fix(NonNull::from(&self.slot).cast(), slot.size(), 1) };
        Ok(&self.home)
    }
}

impl<F: Future> fmt::Debug for TaskCell<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskCell").field("home", &self.home).finish()
    }
}
