//! A timer's node: the part of a sleep that is linked into a wheel.

use core::{
    ptr::{from_ref, null_mut},
    task::{RawWakerVTable, Waker},
};

use crate::atomic::{AtomicPtr, AtomicU32, Ordering, UnsafeCell, maybe_const};

/// The node is in no wheel.
pub(crate) const UNLINKED: u32 = 0;
/// The node is in a wheel.
pub(crate) const LINKED: u32 = 1;
/// The deadline has passed, and the node is in no wheel.
pub(crate) const FIRED: u32 = 2;

/// A deadline in a wheel, inside its owner's memory.
///
/// INV-TIMER: in state LINKED the node is in a list of one wheel. It stays in place and alive until that wheel has
/// unlinked it, and everything but its state is touched only under that wheel's lock. In the other states it belongs to
/// its owner alone. The state leaves LINKED under the lock, as the wheel's last access.
///
/// INV-TIMER-WAKER: a node has a waker if, and only if, it is LINKED or its owner is about to link it. As long as
/// `vtable` is not null, its two words are those of one waker. Only the context that INV-TIMER permits changes them.
/// The owner may compare them at any time, because no other context puts a waker there.
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

    /// Whether this waker is the node's. Then the wheel wakes it, or is about to, if the node is linked. Called by the
    /// owner, with or without the lock.
    #[inline]
    pub(super) fn wakes(&self, waker: &Waker) -> bool {
        // Ordering: Relaxed: the owner wrote the words itself, or they are null. A wheel that takes the waker out
        // meanwhile wakes it afterwards.
        self.vtable.load(Ordering::Relaxed).cast_const() == from_ref(waker.vtable())
            && self.data.load(Ordering::Relaxed).cast_const() == waker.data()
    }

    /// Gives the node a waker.
    ///
    /// # Safety
    /// INV-TIMER permits the access, and the node has no waker.
    pub(super) unsafe fn put_waker(&self, waker: Waker) {
        // Ordering: Relaxed; the wheel's lock publishes it.
        self.data.store(waker.data().cast_mut(), Ordering::Relaxed);
        self.vtable.store(from_ref(waker.vtable()).cast_mut(), Ordering::Relaxed);
        core::mem::forget(waker);
    }

    /// Takes the node's waker out, if it has one.
    ///
    /// # Safety
    /// INV-TIMER permits the access.
    pub(super) unsafe fn take_waker(&self) -> Option<Waker> {
        // Ordering: Relaxed; the wheel's lock published it.
        let vtable = self.vtable.load(Ordering::Relaxed);
        self.vtable.store(null_mut(), Ordering::Relaxed);
        // SAFETY: INV-TIMER-WAKER: `put_waker` forgot a waker of these words, and it is taken out once.
        unsafe {
            vtable.as_ref().map(|vtable| Waker::new(self.data.load(Ordering::Relaxed), vtable))
        }
    }

    /// # Safety
    /// INV-TIMER: the caller holds the lock of the node's wheel, or owns an unlinked node.
    pub(super) unsafe fn with<R>(this: *const Self, f: impl FnOnce(&mut Links) -> R) -> R {
        // SAFETY: the caller has access; the node is alive.
        unsafe { (*this).links.with_mut(|links| f(&mut *links)) }
    }
}

/// Hints the memory as gone, for models, which do not see that memory is freed.
#[cfg(filch_loom)]
impl Drop for Node {
    fn drop(&mut self) {
        self.links.with_mut(|_| ());
    }
}
