//! The waiters of a cell: a waker for each direction, and a list of nodes in pinned futures.

use core::{marker::PhantomPinned, ptr::NonNull, task::Waker};

use super::ready::{Direction, Ready};
use crate::atomic::{UnsafeCell, maybe_const};

/// How many wakers are taken out under one lock. Few, because they lie on the stack of an interrupt handler.
const BATCH: usize = if cfg!(filch_loom) { 2 } else { 8 };

/// The waiters of one cell.
///
/// INV-WAITERS: only the holder of the cell's lock touches these fields and those of each linked node.
/// INV-NODE: a node is linked if, and only if, it has a waker. A linked node stays in place until it is unlinked: it is
/// pinned, and its owner unlinks it before it is freed (a leaked node stays for ever).
///
/// No function here clones, wakes or drops a waker: those run user code, which may call back into the cell.
pub(super) struct Waiters {
    slots: [Option<Waker>; 2],
    head: Option<NonNull<Node>>,
    tail: Option<NonNull<Node>>,
}

/// Where a waker is kept.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Slot(Direction),
    Node(NonNull<Node>),
}

impl Waiters {
    pub(super) const fn new() -> Self {
        Self { slots: [None, None], head: None, tail: None }
    }

    /// Keeps `fresh` at `place`. Leaves in `fresh` what the caller must drop: the earlier waker, or `fresh` itself if
    /// both wake the same task.
    ///
    /// # Safety
    /// The caller holds the lock. By INV-NODE, this cell may link the node.
    pub(super) unsafe fn put(&mut self, place: Place, fresh: &mut Option<Waker>) {
        match place {
            Place::Slot(direction) => replace(&mut self.slots[direction as usize], fresh),
            Place::Node(node) => {
                // SAFETY: INV-WAITERS: the caller holds the lock, and the node is alive.
                let linked = unsafe { links(node, |links| links.waker.is_some()) };
                if !linked {
                    // SAFETY: INV-WAITERS; the node has no waker, so it is not linked.
                    unsafe { self.link(node) };
                }
                // SAFETY: INV-WAITERS.
                unsafe { links(node, |links| replace(&mut links.waker, fresh)) };
            }
        }
    }

    /// Takes the waker from `place`, if there is one.
    ///
    /// # Safety
    /// As for `put`.
    pub(super) unsafe fn take(&mut self, place: Place) -> Option<Waker> {
        match place {
            Place::Slot(direction) => self.slots[direction as usize].take(),
            // SAFETY: the caller holds the lock, and the node is of this cell.
            Place::Node(node) => unsafe { self.unlink(node) },
        }
    }

    /// Where there is one waiter at most: takes its waker, if it waits for a bit of `ready`. Whether there are more, and then it has
    /// taken none.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline]
    pub(super) unsafe fn take_only(&mut self, ready: Ready) -> (Option<Waker>, bool) {
        let [read, write] = &mut self.slots;
        match (read.is_some(), write.is_some(), self.head) {
            (false, false, None) => (None, false),
            (true, false, None) if !Direction::Read.interest().intersects(ready) => (None, false),
            (false, true, None) if !Direction::Write.interest().intersects(ready) => (None, false),
            (true, false, None) => (read.take(), false),
            (false, true, None) => (write.take(), false),
            (false, false, Some(node)) if self.tail == Some(node) => {
                // SAFETY: INV-WAITERS, INV-NODE: the node is linked.
                let is_ready = unsafe { node.as_ref() }.interest.intersects(ready);
                // SAFETY: as above. Its owner may free the node as soon as we unlock; we have its waker.
                (is_ready.then(|| unsafe { self.unlink(node) }).flatten(), false)
            }
            _ => (None, true),
        }
    }

    /// Takes the wakers of the tasks that wait for a bit of `ready`, oldest first. False if `batch` became full before
    /// that.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub(super) unsafe fn take_ready(&mut self, ready: Ready, batch: &mut Batch) -> bool {
        for direction in [Direction::Read, Direction::Write] {
            if direction.interest().intersects(ready) {
                let slot = &mut self.slots[direction as usize];
                if slot.is_some() && batch.is_full() {
                    return false;
                }
                batch.push(slot.take());
            }
        }
        let mut at = self.head;
        while let Some(node) = at {
            // SAFETY: INV-WAITERS, INV-NODE: the node is linked.
            let interest = unsafe { node.as_ref() }.interest;
            // SAFETY: as above.
            at = unsafe { links(node, |links| links.next) };
            if interest.intersects(ready) {
                if batch.is_full() {
                    return false;
                }
                // SAFETY: as above. Its owner may free the node as soon as we unlock; we have its waker.
                batch.push(unsafe { self.unlink(node) });
            }
        }
        true
    }

    /// # Safety
    /// The caller holds the lock. The node is not linked, and gets a waker before the lock is released.
    unsafe fn link(&mut self, node: NonNull<Node>) {
        let prev = self.tail.replace(node);
        // SAFETY: INV-WAITERS.
        unsafe { links(node, |links| (links.prev, links.next) = (prev, None)) };
        match prev {
            None => self.head = Some(node),
            // SAFETY: INV-WAITERS, INV-NODE: the tail is linked.
            Some(prev) => unsafe { links(prev, |links| links.next = Some(node)) },
        }
    }

    /// Takes a node out of the list, and its waker out of the node. `None` if it was not linked.
    ///
    /// # Safety
    /// The caller holds the lock, and the node is not of another cell.
    unsafe fn unlink(&mut self, node: NonNull<Node>) -> Option<Waker> {
        // SAFETY: INV-WAITERS.
        let taken = unsafe {
            links(node, |links| links.waker.take().map(|waker| (waker, links.prev, links.next)))
        };
        let (waker, prev, next) = taken?;
        match prev {
            None => self.head = next,
            // SAFETY: INV-WAITERS, INV-NODE: the neighbours of a linked node are linked.
            Some(prev) => unsafe { links(prev, |links| links.next = next) },
        }
        match next {
            None => self.tail = prev,
            // SAFETY: as above.
            Some(next) => unsafe { links(next, |links| links.prev = prev) },
        }
        Some(waker)
    }
}

/// Swaps the two wakers, unless they wake the same task.
fn replace(kept: &mut Option<Waker>, fresh: &mut Option<Waker>) {
    let same = kept.as_ref().zip(fresh.as_ref()).is_some_and(|(kept, fresh)| kept.will_wake(fresh));
    if !same {
        core::mem::swap(kept, fresh);
    }
}

/// A waiter's place in the list. Used only through raw pointers once it is linked.
pub(super) struct Node {
    interest: Ready,
    links: UnsafeCell<Links>,
    /// The list points to the node.
    _pinned: PhantomPinned,
}

struct Links {
    prev: Option<NonNull<Node>>,
    next: Option<NonNull<Node>>,
    waker: Option<Waker>,
}

impl Node {
    maybe_const! {
        pub(super) fn new(interest: Ready) -> Self {
            let links = UnsafeCell::new(Links { prev: None, next: None, waker: None });
            Self { interest, links, _pinned: PhantomPinned }
        }
    }

    pub(super) fn interest(&self) -> Ready {
        self.interest
    }
}

/// # Safety
/// The caller holds the lock of the cell that may link the node, and the node is alive.
unsafe fn links<R>(node: NonNull<Node>, f: impl FnOnce(&mut Links) -> R) -> R {
    // SAFETY: INV-WAITERS; `f` is one of the short closures above, each of which touches one node at a time.
    unsafe { node.as_ref().links.with_mut(|links| f(&mut *links)) }
}

/// Wakers that were taken out under the lock and are woken after it.
pub(super) struct Batch {
    wakers: [Option<Waker>; BATCH],
    len: usize,
}

impl Batch {
    pub(super) const fn new() -> Self {
        Self { wakers: [const { None }; BATCH], len: 0 }
    }

    fn is_full(&self) -> bool {
        self.len == BATCH
    }

    /// Adds a waker, if there is one. The caller has made sure that there is room.
    pub(super) fn push(&mut self, waker: Option<Waker>) {
        debug_assert!(waker.is_none() || !self.is_full());
        // By `get_mut`, which has no panic in it.
        if let Some(place) = self.wakers.get_mut(self.len).filter(|_| waker.is_some()) {
            *place = waker;
            self.len += 1;
        }
    }

    /// Wakes all, oldest first. If one panics, the rest stays in the batch.
    pub(super) fn wake(&mut self) {
        self.len = 0;
        for waker in &mut self.wakers {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }
}
