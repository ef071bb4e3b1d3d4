//! The timer wheel of one worker: its slots, under a lock.

use core::{ptr::NonNull, task::Waker};

use super::{
    node::{LINKED, Node, UNLINKED},
    slots::Slots,
};
use crate::{
    atomic::{AtomicU32, Ordering, maybe_const},
    instant::Instant,
    lock::Spin,
    parts::{On, Switch},
};

/// The deadlines of one worker.
pub(crate) struct Wheel<M: Switch = On> {
    /// How many nodes the wheel holds. A hint, for contexts that do not hold the lock.
    armed: AtomicU32,
    inner: Spin<Slots<M>>,
}

/// The most wakers that are taken out at once.
const ROOM: usize = 16;

/// Wakers that are taken out at once, to be woken in a row.
///
/// A waker that is not a task's is user code, and may take long, or wait for another timer. So it is the last of its batch: the timers that
/// come after it stay in the wheel, where another worker finds them.
#[derive(Default)]
pub(crate) struct Batch {
    wakers: [Option<Waker>; ROOM],
    len: usize,
    has_user_code: bool,
}

impl Batch {
    /// Whether it has room for no more.
    pub(super) fn is_full(&self) -> bool {
        self.has_user_code || self.len == ROOM
    }

    /// `is_task`: whether a waker is a task's.
    pub(super) fn push(&mut self, waker: Option<Waker>, is_task: fn(&Waker) -> bool) {
        let Some(waker) = waker else { return };
        self.has_user_code = !is_task(&waker);
        if let Some(place) = self.wakers.get_mut(self.len) {
            *place = Some(waker);
            self.len += 1;
        }
    }

    /// How many wakers were put in.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Wakes what has not been woken. If a waker panics, the next call goes on behind it.
    pub(crate) fn wake(&mut self) {
        self.wakers.iter_mut().filter_map(Option::take).for_each(Waker::wake);
    }
}

impl<M: Switch> Wheel<M> {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { armed: AtomicU32::new(0), inner: Spin::new(Slots::new()) }
        }
    }

    /// Whether there may be deadlines in the wheel.
    #[inline(always)]
    pub(crate) fn is_armed(&self) -> bool {
        // Ordering: a hint; a context that adds an earlier deadline tells the worker.
        self.armed.load(Ordering::Relaxed) > 0
    }

    /// Adds a node, which is fired before others if it is urgent. Returns whether its deadline is before all others.
    ///
    /// # Safety
    /// INV-TIMER: the caller owns the node, which is unlinked, and will be taken out before it moves or is freed.
    #[inline]
    pub(crate) unsafe fn insert(
        &self,
        node: NonNull<Node>,
        deadline: Instant,
        waker: Waker,
        slot_log2: u32,
        is_urgent: bool,
    ) -> bool {
        // SAFETY: INV-TIMER-WAKER: the node is the owner's alone, and has no waker.
        unsafe { node.as_ref().put_waker(waker) };
        self.inner.with(|inner| {
            // SAFETY: the caller's node is in no list.
            let first =
                unsafe { inner.add(node.as_ptr(), deadline.as_nanos(), slot_log2, is_urgent) };
            // Ordering: Relaxed: the lock publishes the links, and only the owner reads the state without the lock.
            // SAFETY: the caller's node is alive.
            unsafe { node.as_ref() }.state.store(LINKED, Ordering::Relaxed);
            self.count(inner);
            first
        })
    }

    /// Takes a node out. Returns its waker, or `None` if it has fired.
    ///
    /// # Safety
    /// INV-TIMER: the caller is the node's owner, and the node was put into this wheel.
    pub(crate) unsafe fn remove(&self, node: NonNull<Node>) -> Option<Waker> {
        self.inner.with(|inner| {
            // SAFETY: the caller's node is alive.
            if unsafe { node.as_ref() }.state.load(Ordering::Relaxed) != LINKED {
                return None;
            }
            // SAFETY: the node is linked, and we hold the lock.
            let waker = unsafe { inner.unlink(node.as_ptr()) };
            // Ordering: see `insert`.
            // SAFETY: as above.
            unsafe { node.as_ref() }.state.store(UNLINKED, Ordering::Relaxed);
            self.count(inner);
            waker
        })
    }

    /// Moves a node to another deadline. Returns whether that is before all others, or `None` if the node has fired.
    ///
    /// # Safety
    /// As for `remove`.
    pub(crate) unsafe fn reset(
        &self,
        node: NonNull<Node>,
        deadline: Instant,
        slot_log2: u32,
    ) -> Option<bool> {
        self.inner.with(|inner| {
            // SAFETY: the caller's node is alive.
            if unsafe { node.as_ref() }.state.load(Ordering::Relaxed) != LINKED {
                return None;
            }
            // SAFETY: the node is linked, and we hold the lock.
            Some(unsafe { inner.shift(node.as_ptr(), deadline.as_nanos(), slot_log2) })
        })
    }

    /// Replaces the waker of a node. Returns the old waker, or, if the node has fired, the new one as an error. The
    /// caller drops it outside of the lock, because wakers are user code.
    ///
    /// # Safety
    /// As for `remove`.
    pub(crate) unsafe fn rewake(
        &self,
        node: NonNull<Node>,
        waker: Waker,
    ) -> Result<Option<Waker>, Waker> {
        self.inner.with(|_| {
            // SAFETY: the caller's node is alive.
            let node = unsafe { node.as_ref() };
            if node.state.load(Ordering::Relaxed) != LINKED {
                return Err(waker);
            }
            // SAFETY: the node is linked, and we hold the lock.
            unsafe {
                let old = node.take_waker();
                node.put_waker(waker);
                Ok(old)
            }
        })
    }

    /// Takes the wakers of nodes whose deadlines are not after `now`, as many as fit. Returns whether there may be
    /// more. `is_task`: whether a waker is a task's.
    pub(crate) fn expire(
        &self,
        now: Instant,
        slot_log2: u32,
        batch: &mut Batch,
        is_task: fn(&Waker) -> bool,
    ) -> bool {
        self.inner.with(|inner| {
            if inner.earliest > now.as_nanos() {
                return false;
            }
            let more = inner.expire(now.as_nanos(), slot_log2, batch, is_task);
            if !more {
                inner.look(slot_log2);
            }
            self.count(inner);
            more
        })
    }

    /// The earliest deadline, or an earlier time at which the wheel must be checked.
    pub(crate) fn next(&self, slot_log2: u32) -> Option<Instant> {
        if !self.is_armed() {
            return None;
        }
        self.inner.with(|inner| {
            if inner.stale {
                inner.look(slot_log2);
            }
            (inner.earliest < u64::MAX).then(|| Instant::from_nanos(inner.earliest))
        })
    }

    /// Whether a deadline is not after `now`, or may be. False if another context holds the lock.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.is_armed()
            && self.inner.try_with(|inner| inner.earliest <= now.as_nanos()) == Some(true)
    }

    fn count(&self, inner: &Slots<M>) {
        // Ordering: a hint, written under the lock.
        self.armed.store(inner.count, Ordering::Relaxed);
    }
}
