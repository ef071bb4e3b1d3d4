//! The ring by itself, for the bench.

use alloc::sync::Arc;
use core::ptr::NonNull;

use crate::{
    queue::ring::{Overflow, Ring as Queue},
    task::header::{Header, Ready},
};

/// The capacity of a worker's own ring.
const CAP: usize = 256;

/// Stands for a task: a pointer to no header. The ring does not read headers, unless it sheds a chain.
#[derive(Debug)]
pub struct Item(NonNull<Header>);

// SAFETY: the pointer is never followed.
unsafe impl Send for Item {}

impl Item {
    /// An item. All are alike.
    pub const fn dangling() -> Self {
        Self(NonNull::dangling())
    }
}

/// A ring, for the one thread that pushes and pops.
#[derive(Debug)]
pub struct Owner(Arc<Queue<CAP>>);

/// A ring, for the threads that steal from it.
#[derive(Clone, Debug)]
pub struct Victim(Arc<Queue<CAP>>);

/// A new ring.
pub fn ring() -> (Owner, Victim) {
    let ring = Arc::new(Queue::new());
    (Owner(Arc::clone(&ring)), Victim(ring))
}

impl Owner {
    /// How many more items fit.
    pub fn room(&mut self) -> usize {
        // SAFETY: INV-RING-OWNER: there is one `Owner`, borrowed mutably.
        unsafe { self.0.room() }
    }

    /// Adds an item.
    ///
    /// # Safety
    /// There is room.
    #[inline]
    pub unsafe fn push(&mut self, item: Item) {
        // SAFETY: as in `room`. The ring has room, so it sheds no chain, which is the only operation that follows the
        // pointer.
        match unsafe { self.0.push(Ready::from_raw(item.0)) } {
            Overflow::None => {}
            Overflow::One(_) | Overflow::Chain(_) => unreachable!("the ring has room"),
        }
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<Item> {
        // SAFETY: as in `room`.
        unsafe { self.0.pop() }.map(|ready| Item(ready.into_raw()))
    }

    /// Steals half of another ring. Returns the first item, and how many there were.
    #[inline]
    pub fn steal(&mut self, from: &Victim) -> Option<(Item, usize)> {
        assert!(!Arc::ptr_eq(&self.0, &from.0), "a ring does not steal from itself");
        // SAFETY: as in `room`; the caller has two different rings.
        let (first, n) = unsafe { from.0.steal_into(&self.0) }?;
        Some((Item(first.into_raw()), n))
    }
}
