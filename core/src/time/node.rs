//! A timer's node: what a sleep has in the wheel.

use core::{
    ptr::{from_ref, null_mut},
    task::{RawWakerVTable, Waker},
};

use crate::atomic::{AtomicPtr, AtomicU32, Ordering, UnsafeCell, maybe_const};

/// In no wheel.
pub(crate) const UNLINKED: u32 = 0;
/// In a wheel.
pub(crate) const LINKED: u32 = 1;
/// Its time has come, and it is in no wheel.
pub(crate) const FIRED: u32 = 2;

/// A deadline in a wheel, inside its owner's memory.
///
/// INV-TIMER: in state LINKED the node is in the list of one wheel; it stays where it is, alive, until that wheel has
/// unlinked it; all but its state is touched under that wheel's lock only. Else it is its owner's alone. The state leaves
/// LINKED under the lock, as the wheel's last access.
///
/// INV-TIMER-WAKER: a node has a waker if, and only if, it is LINKED, or its owner is about to link it. Its two words are
/// those of one waker as long as the vtable's is not null, and are changed by whoever the invariant above lets. The owner may
/// compare them at any time: nobody else puts a waker there.
pub(crate) struct Node {
    pub(crate) state: AtomicU32,
    data: AtomicPtr<()>,
    vtable: AtomicPtr<RawWakerVTable>,
    links: UnsafeCell<Links>,
}

pub(super) struct Links {
    pub(super) next: *mut Node,
    pub(super) prev: *mut Node,
    /// In nanoseconds.
    pub(super) deadline: u64,
    pub(super) slot: u16,
}

impl Node {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                state: AtomicU32::new(UNLINKED),
                data: AtomicPtr::new(null_mut()),
                vtable: AtomicPtr::new(null_mut()),
                links: UnsafeCell::new(Links {
                    next: null_mut(),
                    prev: null_mut(),
                    deadline: 0,
                    slot: 0,
                }),
            }
        }
    }

    /// Whether the node will wake this waker, or is about to, if it is linked. For its owner, with or without the lock.
    #[inline]
    pub(super) fn wakes(&self, waker: &Waker) -> bool {
        // Ordering: what the owner wrote itself, or null. A wheel that takes the waker out meanwhile wakes it afterwards.
        self.vtable.load(Ordering::Relaxed).cast_const() == from_ref(waker.vtable())
            && self.data.load(Ordering::Relaxed).cast_const() == waker.data()
    }

    /// Gives the node a waker.
    ///
    /// # Safety
    /// INV-TIMER, and that it has none.
    pub(super) unsafe fn put_waker(&self, waker: Waker) {
        // Ordering: passed on by the wheel's lock.
        self.data.store(waker.data().cast_mut(), Ordering::Relaxed);
        self.vtable.store(from_ref(waker.vtable()).cast_mut(), Ordering::Relaxed);
        core::mem::forget(waker);
    }

    /// Takes the node's waker out, if it has one.
    ///
    /// # Safety
    /// INV-TIMER.
    pub(super) unsafe fn take_waker(&self) -> Option<Waker> {
        // Ordering: passed on by the wheel's lock.
        let vtable = self.vtable.load(Ordering::Relaxed);
        self.vtable.store(null_mut(), Ordering::Relaxed);
        // SAFETY: INV-TIMER-WAKER: it was forgotten in `put_waker` with these words, and is taken out once.
        unsafe {
            vtable.as_ref().map(|vtable| Waker::new(self.data.load(Ordering::Relaxed), vtable))
        }
    }

    /// # Safety
    /// INV-TIMER: under the lock of the node's wheel, or by the owner of an unlinked one.
    pub(super) unsafe fn with<R>(this: *const Self, f: impl FnOnce(&mut Links) -> R) -> R {
        // SAFETY: the caller's; the node is alive.
        unsafe { (*this).links.with_mut(|links| f(&mut *links)) }
    }
}

/// For models, which do not see that memory is freed.
#[cfg(filch_loom)]
impl Drop for Node {
    fn drop(&mut self) {
        self.links.with_mut(|_| ());
    }
}
