//! The timer wheel: deadlines in coarse slots, each kept exactly.
//!
//! Six levels of 64 slots, or of 8 in a small wheel, after Varghese and Lauck (1987). A slot of level 0 is `1 << slot_log2` nanoseconds
//! wide, a unit of the wheel; a slot of any other level is as wide as the whole level below. A deadline's level is the highest digit, in
//! base 64 or 8, in which it differs from the time that the wheel has seen. So everything in one level comes before everything in the next.
//! Deadlines that differ above the sixth digit wait in a list of their own.
//!
//! The first few timers of urgent tasks are in a list of their own, which is searched first: however many others are due, they do not wait
//! behind these.
//!
//! Slots are coarse, but deadlines are exact: nodes keep them in nanoseconds. In the slot of the current unit each
//! deadline is compared, and a worker sleeps until the earliest deadline, not until the end of a unit.

use core::{
    ptr::{NonNull, null_mut},
    task::Waker,
};

use super::{
    node::{FIRED, Node},
    wheel::Batch,
};
use crate::{
    atomic::Ordering,
    parts::{Kept, Switch},
};

/// One in models, which have small stacks.
const LEVELS: usize = if cfg!(filch_loom) { 1 } else { 6 };
/// Slots of a level, in a small wheel and in another.
const FEW: usize = 8;
const MANY: usize = 64;
/// How many nodes of a coarse slot are searched for the earliest deadline. For a slot with more, the beginning of the
/// slot counts.
const SCAN: usize = 64;

/// How many timers the list of urgent ones has at most. More are as others.
const URGENT: u32 = 32;

/// The lists of a wheel, under its lock.
///
/// INV-SLOT-TIME: a node is in the slot that its deadline belongs to, or in an earlier one.
pub(super) struct Slots<M: Switch> {
    /// The time that the wheel has seen, in units.
    pub(super) elapsed: u64,
    /// No deadline is before this time, in nanoseconds.
    pub(super) earliest: u64,
    /// Whether the node with the deadline `earliest` has left.
    pub(super) stale: bool,
    pub(super) count: u32,
    /// How many of them are in the list of urgent ones.
    urgent: u32,
    /// A bit for each slot that holds nodes, for each level.
    pub(super) occupied: [u64; LEVELS],
    heads: Heads<M>,
}

/// Circular lists, by their first node: `FIRST + 1` of them, one after the other.
///
/// INV-SLOT: every index into this is `FIRST`, or comes from `slot_of` or `first`, and then is at most `FAR`.
#[repr(C)]
struct Heads<M: Switch> {
    few: [*mut Node; LEVELS * FEW + 2],
    more: Kept<[*mut Node; LEVELS * (MANY - FEW)], M>,
}

// SAFETY: INV-TIMER: the nodes belong to the holder of the lock.
unsafe impl<M: Switch> Send for Slots<M> {}

impl<M: Switch> Slots<M> {
    /// Slots of a level, and bits of their number.
    const WIDTH: usize = if M::ON { MANY } else { FEW };
    const DIGIT: u32 = Self::WIDTH.trailing_zeros();
    /// The list of the deadlines that are further away than six digits.
    const FAR: usize = LEVELS * Self::WIDTH;
    /// The list of urgent timers. It is in no level.
    const FIRST: usize = Self::FAR + 1;

    pub(super) const fn new() -> Self {
        Self {
            elapsed: 0,
            earliest: u64::MAX,
            stale: false,
            count: 0,
            urgent: 0,
            occupied: [0; LEVELS],
            heads: Heads {
                few: [null_mut(); LEVELS * FEW + 2],
                more: Kept::new([null_mut(); LEVELS * (MANY - FEW)]),
            },
        }
    }

    /// The slot that a deadline belongs to, at the time that the wheel has seen.
    fn slot_of(&self, deadline: u64, slot_log2: u32) -> usize {
        let time = (deadline >> slot_log2).max(self.elapsed);
        let differs = self.elapsed ^ time;
        let level = (63 - (differs | 1).leading_zeros()) / Self::DIGIT;
        if level as usize >= LEVELS {
            return Self::FAR;
        }
        level as usize * Self::WIDTH + (time >> (level * Self::DIGIT)) as usize % Self::WIDTH
    }

    #[inline(always)]
    fn head(&mut self, slot: usize) -> &mut *mut Node {
        // SAFETY: INV-SLOT; the lists are one after the other in `heads`, and the pointer is one to all of them.
        unsafe { &mut *(&raw mut self.heads).cast::<*mut Node>().add(slot) }
    }

    /// # Safety
    /// The node is in no list, and belongs to the caller.
    pub(super) unsafe fn add(
        &mut self,
        node: *mut Node,
        deadline: u64,
        slot_log2: u32,
        is_urgent: bool,
    ) -> bool {
        self.count += 1;
        let slot = if is_urgent && self.has_room_for_urgent() {
            Self::FIRST
        } else {
            self.slot_of(deadline, slot_log2)
        };
        // SAFETY: the node is in no list, and belongs to the caller.
        unsafe { self.place(node, deadline, slot) };
        let first = deadline < self.earliest;
        if first {
            self.earliest = deadline;
            self.stale = false;
        }
        first
    }

    /// Whether one more urgent timer may be told from others, which is then counted.
    #[cold]
    fn has_room_for_urgent(&mut self) -> bool {
        let has_room = self.urgent < URGENT;
        self.urgent += u32::from(has_room);
        has_room
    }

    /// Appends a node to the list of this slot.
    ///
    /// # Safety
    /// As for `add`.
    unsafe fn place(&mut self, node: *mut Node, deadline: u64, slot: usize) {
        if let Some(level) = self.occupied.get_mut(slot / Self::WIDTH) {
            *level |= 1 << (slot % Self::WIDTH);
        }
        let head = *self.head(slot);
        // SAFETY: the nodes of our lists are linked, and we hold the lock.
        unsafe {
            let (next, prev) = if head.is_null() {
                *self.head(slot) = node;
                (node, node)
            } else {
                let last = Node::with(head, |l| core::mem::replace(&mut l.prev, node));
                if last != head {
                    Node::with(last, |l| l.next = node);
                } else {
                    Node::with(head, |l| l.next = node);
                }
                (head, last)
            };
            Node::with(node, |l| {
                (l.next, l.prev, l.deadline, l.slot) = (next, prev, deadline, slot as u16);
            });
        }
    }

    /// Takes a node out of the wheel.
    ///
    /// # Safety
    /// The node is in one of our lists.
    pub(super) unsafe fn unlink(&mut self, node: *mut Node) -> Option<Waker> {
        // SAFETY: as in `place`.
        let (deadline, slot, waker) = unsafe {
            let (deadline, slot) = Node::with(node, |l| (l.deadline, l.slot as usize));
            self.detach(node);
            (deadline, slot, (*node).take_waker())
        };
        self.count -= 1;
        if slot == Self::FIRST {
            self.urgent -= 1;
        }
        self.forget(deadline);
        waker
    }

    /// A node with this deadline has left.
    fn forget(&mut self, deadline: u64) {
        if self.count == 0 {
            (self.earliest, self.stale) = (u64::MAX, false);
        } else if deadline <= self.earliest {
            self.stale = true;
        }
    }

    /// Moves a node to another deadline. Returns whether that is before all deadlines that were there, its own old one
    /// included.
    ///
    /// # Safety
    /// As for `unlink`.
    pub(super) unsafe fn shift(&mut self, node: *mut Node, deadline: u64, slot_log2: u32) -> bool {
        // A worker that sleeps until the old deadline need not hear of a later one.
        let before = self.earliest;
        // SAFETY: as in `place`.
        let (old, slot) = unsafe { Node::with(node, |l| (l.deadline, l.slot as usize)) };
        if deadline >= old || slot == Self::FIRST || slot == self.slot_of(deadline, slot_log2) {
            // The node may stay (INV-SLOT-TIME): a timeout that is put off again and again moves only once, when the
            // time of its slot has come.
            // SAFETY: as above.
            unsafe { Node::with(node, |l| l.deadline = deadline) };
        } else {
            // SAFETY: the caller's node is in a list, and `put` takes it out first.
            unsafe { self.put(node, deadline, slot_log2) };
        }
        self.count -= 1;
        self.forget(old);
        self.count += 1;
        if deadline < self.earliest {
            (self.earliest, self.stale) = (deadline, false);
        }
        deadline < before
    }

    /// Moves a node to the slot that this deadline belongs to.
    ///
    /// # Safety
    /// As for `unlink`.
    #[inline(never)]
    unsafe fn put(&mut self, node: *mut Node, deadline: u64, slot_log2: u32) {
        // SAFETY: the caller's node is in a list until `detach`, and in none after it.
        unsafe {
            self.detach(node);
            self.place(node, deadline, self.slot_of(deadline, slot_log2));
        }
    }

    /// # Safety
    /// As for `unlink`.
    unsafe fn detach(&mut self, node: *mut Node) {
        // SAFETY: as in `place`; the neighbours are linked too.
        unsafe {
            let (next, prev, slot) = Node::with(node, |l| (l.next, l.prev, l.slot as usize));
            if next == node {
                *self.head(slot) = null_mut();
                if let Some(level) = self.occupied.get_mut(slot / Self::WIDTH) {
                    *level &= !(1 << (slot % Self::WIDTH));
                }
                return;
            }
            Node::with(next, |l| l.prev = prev);
            Node::with(prev, |l| l.next = next);
            if *self.head(slot) == node {
                *self.head(slot) = next;
            }
        }
    }

    /// The first slot that holds a node, and the unit at which it begins.
    fn first(&mut self) -> Option<(usize, u64)> {
        for level in 0..LEVELS {
            let occupied = self.occupied[level];
            if occupied != 0 {
                let digit = u64::from(occupied.trailing_zeros());
                let shift = level as u32 * Self::DIGIT;
                let above = self.elapsed >> (shift + Self::DIGIT) << (shift + Self::DIGIT);
                return Some((level * Self::WIDTH + digit as usize, above | digit << shift));
            }
        }
        let far = self.elapsed >> (LEVELS as u32 * Self::DIGIT);
        (!self.head(Self::FAR).is_null())
            .then(|| (Self::FAR, (far + 1) << (LEVELS as u32 * Self::DIGIT)))
    }

    /// Fires due nodes, as many as fit the batch. Returns whether there may be more.
    pub(super) fn expire(
        &mut self,
        now: u64,
        slot_log2: u32,
        batch: &mut Batch,
        is_task: fn(&Waker) -> bool,
    ) -> bool {
        if !self.fire(Self::FIRST, now, batch, is_task) {
            return true;
        }
        let present = (now >> slot_log2).max(self.elapsed);
        while let Some((slot, begin)) = self.first() {
            if begin > present {
                break;
            }
            // Everything before this slot is over, so that its nodes now belong to lower levels.
            self.elapsed = self.elapsed.max(begin);
            if slot < Self::WIDTH {
                if !self.fire(slot, now, batch, is_task) {
                    return true;
                }
                if begin == present {
                    // The nodes that are left in the slot are not due yet.
                    return false;
                }
            }
            // Moves the nodes to lower levels. Nodes of the lowest level go where their changed deadlines belong.
            self.spread(slot, slot_log2);
        }
        self.elapsed = present;
        false
    }

    /// Fires the due nodes in a slot of the lowest level, or the urgent ones. False if the batch had no room for all.
    fn fire(
        &mut self,
        slot: usize,
        now: u64,
        batch: &mut Batch,
        is_task: fn(&Waker) -> bool,
    ) -> bool {
        let Some(mut node) = NonNull::new(*self.head(slot)) else { return true };
        // The last node to check. Nodes that are not due stay in between.
        // SAFETY: as in `place`.
        let last = unsafe { Node::with(node.as_ptr(), |l| l.prev) };
        loop {
            // SAFETY: as in `place`.
            let (deadline, next) = unsafe { Node::with(node.as_ptr(), |l| (l.deadline, l.next)) };
            let is_last = node.as_ptr() == last;
            if deadline <= now {
                if batch.is_full() {
                    // The next call begins here.
                    *self.head(slot) = node.as_ptr();
                    return false;
                }
                // SAFETY: as in `place`; after the store of the state the node is not ours.
                unsafe {
                    batch.push(self.unlink(node.as_ptr()), is_task);
                    // Ordering: Release pairs with the Acquire in `Sleep::has_ended`, `Sleep::reset` and `Sleep::drop`:
                    // the owner may free the node then.
                    (*node.as_ptr()).state.store(FIRED, Ordering::Release);
                }
            }
            match NonNull::new(next) {
                Some(next) if !is_last => node = next,
                _ => return true,
            }
        }
    }

    /// Moves the nodes of a slot whose time has come to where they belong.
    fn spread(&mut self, slot: usize, slot_log2: u32) {
        // One round: some nodes may come back, to the end of the list of far deadlines.
        let Some(head) = NonNull::new(*self.head(slot)) else { return };
        // SAFETY: as in `place`.
        let last = unsafe { Node::with(head.as_ptr(), |l| l.prev) };
        loop {
            let node = *self.head(slot);
            if node.is_null() {
                return;
            }
            // SAFETY: as in `place`.
            unsafe {
                let deadline = Node::with(node, |l| l.deadline);
                self.put(node, deadline, slot_log2);
            }
            if node == last {
                return;
            }
        }
    }

    /// Recomputes the earliest deadline.
    pub(super) fn look(&mut self, slot_log2: u32) {
        self.stale = false;
        self.earliest = self.first_urgent();
        while let Some((slot, begin)) = self.first() {
            if self.look_into(slot, begin, slot_log2) {
                return;
            }
        }
    }

    /// The earliest deadline of the urgent timers.
    fn first_urgent(&mut self) -> u64 {
        let head = *self.head(Self::FIRST);
        let (mut node, mut earliest) = (head, u64::MAX);
        while !node.is_null() {
            // SAFETY: as in `place`.
            let (deadline, next) = unsafe { Node::with(node, |l| (l.deadline, l.next)) };
            earliest = earliest.min(deadline);
            node = if next == head { null_mut() } else { next };
        }
        earliest
    }

    /// Finds the earliest deadline of a slot. False if no node belongs there; then the slot is empty now.
    fn look_into(&mut self, slot: usize, begin: u64, slot_log2: u32) -> bool {
        let most = if slot < Self::WIDTH { usize::MAX } else { SCAN };
        let mut node = *self.head(slot);
        // SAFETY: as in `place`; the slot is not empty.
        let last = unsafe { Node::with(node, |l| l.prev) };
        let mut seen = 0;
        loop {
            // SAFETY: as in `place`.
            let (deadline, next) = unsafe { Node::with(node, |l| (l.deadline, l.next)) };
            if self.slot_of(deadline, slot_log2) == slot {
                self.earliest = self.earliest.min(deadline);
                seen += 1;
            } else {
                // SAFETY: the node is in this list, and `put` takes it out first.
                unsafe { self.put(node, deadline, slot_log2) };
            }
            if node == last {
                return seen > 0;
            }
            if seen == most {
                self.earliest = self.earliest.min(begin.saturating_mul(1 << slot_log2));
                return true;
            }
            node = next;
        }
    }
}
