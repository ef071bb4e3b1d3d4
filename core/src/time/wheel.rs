//! The timer wheel: deadlines in coarse slots, each kept exactly.
//!
//! Six levels of 64 slots, after Varghese and Lauck (1987). A slot of level 0 is one tick wide, a slot of the level above as wide
//! as the whole level below. A deadline's level is the highest digit, to the base 64, in which it differs from the
//! time that the wheel has seen, so that all of one level comes before all of the next. Deadlines that differ above
//! the sixth digit wait in a list of their own.
//!
//! Slots are coarse, deadlines are not: nodes keep them in nanoseconds, in the slot of the present tick each is compared, and a
//! worker sleeps until the earliest, not until a tick.

use core::{ptr::NonNull, ptr::null_mut, task::Waker};

use crate::{
    atomic::{AtomicU32, Ordering, UnsafeCell, maybe_const},
    instant::Instant,
    lock::Spin,
};

/// Models have small stacks.
const LEVELS: usize = if cfg!(filch_loom) { 1 } else { 6 };
const DIGIT: u32 = 6;
const WIDTH: usize = 1 << DIGIT;
/// The list of what is further away than six digits.
const FAR: usize = LEVELS * WIDTH;
/// How many nodes of a coarse slot are looked at for their earliest deadline; of a slot with more, its beginning counts.
const SCAN: usize = 64;

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

struct Links {
    next: *mut Node,
    prev: *mut Node,
    deadline: u64,
    slot: u16,
    waker: Option<Waker>,
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
    unsafe fn with<R>(this: *const Self, f: impl FnOnce(&mut Links) -> R) -> R {
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

/// The deadlines of one worker.
pub(crate) struct Wheel {
    /// How many nodes it holds: a hint for who does not hold the lock.
    armed: AtomicU32,
    inner: Spin<Inner>,
}

/// What is woken at a time.
pub(crate) type Batch = [Option<Waker>; 16];

struct Inner {
    /// The time that the wheel has seen, in ticks.
    elapsed: u64,
    /// No deadline is before this, in nanoseconds.
    earliest: u64,
    /// `earliest` was the deadline of a node that has gone.
    stale: bool,
    count: u32,
    /// Which slots hold nodes, for each level.
    occupied: [u64; LEVELS],
    /// Circular lists, by their first node.
    heads: [*mut Node; FAR + 1],
}

// SAFETY: the nodes belong to whoever holds the lock (INV-TIMER).
unsafe impl Send for Inner {}

impl Wheel {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { armed: AtomicU32::new(0), inner: Spin::new(Inner::new()) }
        }
    }

    /// Whether there may be deadlines in it.
    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        // Ordering: a hint; who adds a deadline that matters tells the worker.
        self.armed.load(Ordering::Relaxed) > 0
    }

    /// Adds a node; whether its deadline is before all others.
    ///
    /// # Safety
    /// INV-TIMER: the node is unlinked, the caller its owner, and it will be unlinked before it moves or goes.
    pub(crate) unsafe fn insert(
        &self,
        node: NonNull<Node>,
        deadline: Instant,
        waker: Waker,
        tick: u32,
    ) -> bool {
        self.inner.with(|inner| {
            // SAFETY: the caller's.
            let first = unsafe {
                Node::with(node.as_ptr(), |links| links.waker = Some(waker));
                inner.add(node.as_ptr(), deadline.as_nanos(), tick)
            };
            // Ordering: the links pass by the lock; the owner alone reads it without.
            // SAFETY: the caller's: it is alive.
            unsafe { node.as_ref() }.state.store(LINKED, Ordering::Relaxed);
            self.count(inner);
            first
        })
    }

    /// Takes a node out; its waker, unless it has fired.
    ///
    /// # Safety
    /// INV-TIMER: the caller is the node's owner, and the node was put into this wheel.
    pub(crate) unsafe fn remove(&self, node: NonNull<Node>) -> Option<Waker> {
        self.inner.with(|inner| {
            // SAFETY: the caller's: it is alive.
            if unsafe { node.as_ref() }.state.load(Ordering::Relaxed) != LINKED {
                return None;
            }
            // SAFETY: it is linked, and we hold the lock.
            let waker = unsafe { inner.unlink(node.as_ptr()) };
            // Ordering: see `insert`.
            // SAFETY: as above.
            unsafe { node.as_ref() }.state.store(UNLINKED, Ordering::Relaxed);
            self.count(inner);
            waker
        })
    }

    /// Moves a node to another deadline; whether that is before all others, or `None` if it has fired.
    ///
    /// # Safety
    /// As for `remove`.
    pub(crate) unsafe fn reset(
        &self,
        node: NonNull<Node>,
        deadline: Instant,
        tick: u32,
    ) -> Option<bool> {
        self.inner.with(|inner| {
            // SAFETY: the caller's: it is alive.
            if unsafe { node.as_ref() }.state.load(Ordering::Relaxed) != LINKED {
                return None;
            }
            // SAFETY: it is linked, and we hold the lock.
            unsafe {
                let waker = inner.unlink(node.as_ptr());
                Node::with(node.as_ptr(), |links| links.waker = waker);
                Some(inner.add(node.as_ptr(), deadline.as_nanos(), tick))
            }
        })
    }

    /// Sees to it that a node will wake `waker`: changes places with `spare` if it would wake another and there is one.
    ///
    /// # Safety
    /// As for `remove`.
    pub(crate) unsafe fn rewake(
        &self,
        node: NonNull<Node>,
        waker: &Waker,
        spare: &mut Option<Waker>,
    ) -> Rewake {
        self.inner.with(|_| {
            // SAFETY: the caller's: it is alive.
            if unsafe { node.as_ref() }.state.load(Ordering::Relaxed) != LINKED {
                return Rewake::Fired;
            }
            let change = |links: &mut Links| {
                if links.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
                    Rewake::Done
                } else if spare.is_some() {
                    core::mem::swap(&mut links.waker, spare);
                    Rewake::Done
                } else {
                    Rewake::Other
                }
            };
            // SAFETY: it is linked, and we hold the lock.
            unsafe { Node::with(node.as_ptr(), change) }
        })
    }

    /// Takes the wakers of nodes whose deadlines are not after `now`, as many as fit; whether there may be more.
    pub(crate) fn expire(&self, now: Instant, tick: u32, batch: &mut Batch) -> bool {
        self.inner.with(|inner| {
            if inner.earliest > now.as_nanos() {
                return false;
            }
            let more = inner.expire(now.as_nanos(), tick, batch);
            if !more {
                inner.look(tick);
            }
            self.count(inner);
            more
        })
    }

    /// The earliest deadline, or a moment before it at which the wheel wants to be looked at.
    pub(crate) fn next(&self, tick: u32) -> Option<Instant> {
        if !self.is_armed() {
            return None;
        }
        self.inner.with(|inner| {
            if inner.stale {
                inner.look(tick);
            }
            (inner.earliest < u64::MAX).then(|| Instant::from_nanos(inner.earliest))
        })
    }

    /// Whether a deadline is, or may be, before `now`; false if somebody is at the wheel.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.is_armed()
            && self.inner.try_with(|inner| inner.earliest <= now.as_nanos()) == Some(true)
    }

    fn count(&self, inner: &Inner) {
        // Ordering: a hint, written under the lock.
        self.armed.store(inner.count, Ordering::Relaxed);
    }
}

/// What `Wheel::rewake` found.
pub(crate) enum Rewake {
    /// The node will wake this one.
    Done,
    /// It would wake another, and there was no spare.
    Other,
    /// It has fired.
    Fired,
}

impl Inner {
    const fn new() -> Self {
        Self {
            elapsed: 0,
            earliest: u64::MAX,
            stale: false,
            count: 0,
            occupied: [0; LEVELS],
            heads: [null_mut(); FAR + 1],
        }
    }

    /// Where a tick belongs, seen from now.
    fn slot_of(&self, tick: u64) -> usize {
        let differs = self.elapsed ^ tick;
        let level = (63 - (differs | 1).leading_zeros()) / DIGIT;
        if level as usize >= LEVELS {
            return FAR;
        }
        level as usize * WIDTH + (tick >> (level * DIGIT)) as usize % WIDTH
    }

    /// # Safety
    /// The node is in no list, and ours.
    unsafe fn add(&mut self, node: *mut Node, deadline: u64, tick: u32) -> bool {
        self.count += 1;
        // SAFETY: the caller's.
        unsafe { self.place(node, deadline, tick) };
        let first = deadline < self.earliest;
        if first {
            self.earliest = deadline;
            self.stale = false;
        }
        first
    }

    /// Puts a node at the end of the list that its deadline belongs to.
    ///
    /// # Safety
    /// As for `add`.
    unsafe fn place(&mut self, node: *mut Node, deadline: u64, tick: u32) {
        let slot = self.slot_of((deadline >> tick).max(self.elapsed));
        if slot < FAR {
            self.occupied[slot / WIDTH] |= 1 << (slot % WIDTH);
        }
        let head = self.heads[slot];
        // SAFETY: the nodes of our lists are linked, and we hold the lock.
        unsafe {
            let (next, prev) = if head.is_null() {
                self.heads[slot] = node;
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
    /// It is in one of our lists.
    unsafe fn unlink(&mut self, node: *mut Node) -> Option<Waker> {
        // SAFETY: as in `place`.
        let (deadline, waker) = unsafe {
            self.detach(node);
            Node::with(node, |l| (l.deadline, l.waker.take()))
        };
        self.count -= 1;
        if self.count == 0 {
            (self.earliest, self.stale) = (u64::MAX, false);
        } else if deadline <= self.earliest {
            self.stale = true;
        }
        waker
    }

    /// # Safety
    /// As for `unlink`.
    unsafe fn detach(&mut self, node: *mut Node) {
        // SAFETY: as in `place`; neighbours are linked too.
        unsafe {
            let (next, prev, slot) = Node::with(node, |l| (l.next, l.prev, l.slot as usize));
            if next == node {
                self.heads[slot] = null_mut();
                if slot < FAR {
                    self.occupied[slot / WIDTH] &= !(1 << (slot % WIDTH));
                }
                return;
            }
            Node::with(next, |l| l.prev = prev);
            Node::with(prev, |l| l.next = next);
            if self.heads[slot] == node {
                self.heads[slot] = next;
            }
        }
    }

    /// The first slot that holds a node, and the tick at which it begins.
    fn first(&self) -> Option<(usize, u64)> {
        for level in 0..LEVELS {
            let occupied = self.occupied[level];
            if occupied != 0 {
                let digit = u64::from(occupied.trailing_zeros());
                let shift = level as u32 * DIGIT;
                let above = self.elapsed >> (shift + DIGIT) << (shift + DIGIT);
                return Some((level * WIDTH + digit as usize, above | digit << shift));
            }
        }
        let far = self.elapsed >> (LEVELS as u32 * DIGIT);
        (!self.heads[FAR].is_null()).then(|| (FAR, (far + 1) << (LEVELS as u32 * DIGIT)))
    }

    /// Fires what is due, as much as fits; whether there may be more.
    fn expire(&mut self, now: u64, tick: u32, batch: &mut Batch) -> bool {
        let present = (now >> tick).max(self.elapsed);
        let mut room = batch.iter_mut();
        while let Some((slot, begin)) = self.first() {
            if begin > present {
                break;
            }
            // All that is before the slot is over, so that what it holds now belongs to lower levels.
            self.elapsed = self.elapsed.max(begin);
            if slot < WIDTH {
                if !self.fire(slot, now, &mut room) {
                    return true;
                }
                if begin == present {
                    // What is left in it is not due yet.
                    return false;
                }
            } else {
                self.spread(slot, tick);
            }
        }
        self.elapsed = present;
        false
    }

    /// Fires what is due in a slot of the lowest level; false if there was no room for all.
    fn fire<'a>(
        &mut self,
        slot: usize,
        now: u64,
        room: &mut impl Iterator<Item = &'a mut Option<Waker>>,
    ) -> bool {
        let Some(mut node) = NonNull::new(self.heads[slot]) else { return true };
        // The last to look at; nodes that are not due stay in between.
        // SAFETY: as in `place`.
        let last = unsafe { Node::with(node.as_ptr(), |l| l.prev) };
        loop {
            // SAFETY: as in `place`.
            let (deadline, next) = unsafe { Node::with(node.as_ptr(), |l| (l.deadline, l.next)) };
            let is_last = node.as_ptr() == last;
            if deadline <= now {
                let Some(place) = room.next() else {
                    // The next look begins here.
                    self.heads[slot] = node.as_ptr();
                    return false;
                };
                // SAFETY: as in `place`; after the state has changed the node is not ours.
                unsafe {
                    *place = self.unlink(node.as_ptr());
                    #[cfg(not(filch_mutant = "timer_fired"))]
                    const TELL: Ordering = Ordering::Release;
                    #[cfg(filch_mutant = "timer_fired")]
                    const TELL: Ordering = Ordering::Relaxed;
                    // Ordering: Release pairs with the Acquire in `Sleep::poll` and `Sleep::drop`: the owner may free
                    // the node then.
                    (*node.as_ptr()).state.store(FIRED, TELL);
                }
            }
            match NonNull::new(next) {
                Some(next) if !is_last => node = next,
                _ => return true,
            }
        }
    }

    /// Spreads the nodes of a slot over the levels below.
    fn spread(&mut self, slot: usize, tick: u32) {
        // One round: some may come back, to the end of the list of what is far away.
        let head = self.heads[slot];
        // SAFETY: as in `place`.
        let last = unsafe { Node::with(head, |l| l.prev) };
        loop {
            let node = self.heads[slot];
            if node.is_null() {
                return;
            }
            // SAFETY: as in `place`.
            unsafe {
                let deadline = Node::with(node, |l| l.deadline);
                self.detach(node);
                self.place(node, deadline, tick);
            }
            if node == last {
                return;
            }
        }
    }

    /// Finds the earliest deadline.
    fn look(&mut self, tick: u32) {
        self.stale = false;
        self.earliest = u64::MAX;
        let Some((slot, begin)) = self.first() else { return };
        let most = if slot < WIDTH { usize::MAX } else { SCAN };
        let head = self.heads[slot];
        let (mut node, mut seen) = (head, 0);
        loop {
            // SAFETY: as in `place`.
            let (deadline, next) = unsafe { Node::with(node, |l| (l.deadline, l.next)) };
            self.earliest = self.earliest.min(deadline);
            (node, seen) = (next, seen + 1);
            if node == head {
                return;
            }
            if seen == most {
                self.earliest = self.earliest.min(begin.saturating_mul(1 << tick));
                return;
            }
        }
    }
}
