//! A timer's node: what a sleep has in the wheel.

use core::{ptr::null_mut, task::Waker};

use crate::atomic::{AtomicU32, UnsafeCell, maybe_const};

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
pub(crate) struct Node {
    pub(crate) state: AtomicU32,
    links: UnsafeCell<Links>,
}

pub(super) struct Links {
    pub(super) next: *mut Node,
    pub(super) prev: *mut Node,
    /// In nanoseconds.
    pub(super) deadline: u64,
    pub(super) slot: u16,
    pub(super) waker: Option<Waker>,
}

impl Node {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                state: AtomicU32::new(UNLINKED),
                links: UnsafeCell::new(Links {
                    next: null_mut(),
                    prev: null_mut(),
                    deadline: 0,
                    slot: 0,
                    waker: None,
                }),
            }
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
