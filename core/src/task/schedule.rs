//! The one edge that points up, turned around: what a task asks of its scheduler.
//!
//! `task` declares it, `scheduler` fills it in. A scheduler begins with an [`Anchor`], so that a thin pointer to the
//! anchor is enough to reach it.

use core::{cell::Cell, ptr::NonNull, task::Waker};

use super::{header::Ready, memory::Home};
use crate::{
    atomic::{AtomicPtr, AtomicU32},
    platform::WorkerId,
};

/// The first field of a scheduler.
pub(crate) struct Anchor {
    ops: &'static Ops,
}

/// The scheduler's side. All take the anchor of the scheduler that the table was made for, which is `'static`.
pub(crate) struct Ops {
    pub(crate) schedule: unsafe fn(NonNull<Anchor>, Ready),
    /// The budget of the poll under way in the calling context.
    pub(crate) budget: unsafe fn(NonNull<Anchor>) -> Option<NonNull<Cell<u32>>>,
    pub(crate) current: unsafe fn(NonNull<Anchor>) -> Option<Current>,
    /// Works on other tasks until the condition holds; false if it cannot.
    pub(crate) help: Help,
    pub(crate) block: unsafe fn(NonNull<Anchor>, &AtomicU32),
    pub(crate) unblock: unsafe fn(NonNull<Anchor>, &AtomicU32),
    pub(crate) unpark: unsafe fn(NonNull<Anchor>, WorkerId),
    /// Counts a new task, and gives the number of the calling context as `near` does; none if the executor takes no task.
    pub(crate) admit: unsafe fn(NonNull<Anchor>) -> Option<usize>,
    /// Takes an `admit` back.
    pub(crate) dismiss: unsafe fn(NonNull<Anchor>),
    /// Schedules a new task, in the context that `admit` gave the number of.
    pub(crate) launch: unsafe fn(NonNull<Anchor>, Ready, usize),
    /// The homes that serve the scheduler.
    pub(crate) registry: unsafe fn(NonNull<Anchor>) -> &'static AtomicPtr<Home>,
    pub(crate) workers: unsafe fn(NonNull<Anchor>) -> usize,
    /// A number for the calling context, by which it finds what it shares with few others: zero outside the workers.
    pub(crate) near: unsafe fn(NonNull<Anchor>) -> usize,
    /// Counts a local task of the calling worker, from inside the poll of a task that is pinned to it.
    pub(crate) here: unsafe fn(NonNull<Anchor>) -> Option<WorkerId>,
    /// Takes a `here` back.
    pub(crate) not_here: unsafe fn(NonNull<Anchor>),
    pub(crate) may_wait: unsafe fn(NonNull<Anchor>) -> bool,
    /// Calls user code, and drops what it panics with.
    pub(crate) guard: unsafe fn(NonNull<Anchor>, &mut dyn FnMut()),
}

/// See [`Ops::help`].
pub(crate) type Help = unsafe fn(NonNull<Anchor>, &mut dyn FnMut() -> bool) -> bool;

/// The worker that runs in the calling context.
pub(crate) struct Current {
    /// Wakes the worker out of its sleep; it keeps nothing alive.
    pub(crate) waker: Waker,
    /// The tasks being polled by it, innermost first.
    pub(crate) frame: *const Frame,
}

/// A poll under way on some stack.
pub(crate) struct Frame {
    pub(crate) task: NonNull<super::header::Header>,
    pub(crate) below: *const Frame,
}

impl Anchor {
    pub(crate) const fn new(ops: &'static Ops) -> Self {
        Self { ops }
    }

    /// # Safety
    /// `this` is the anchor of a `'static` scheduler.
    #[inline(always)]
    pub(crate) unsafe fn ops(this: NonNull<Anchor>) -> &'static Ops {
        // SAFETY: the caller's.
        unsafe { this.as_ref().ops }
    }
}
