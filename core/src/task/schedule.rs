//! The operations that a task needs of its scheduler.
//!
//! `task` declares the table and `scheduler` fills it in, so that `task` does not import `scheduler`. A scheduler
//! begins with an [`Anchor`]: a thin pointer to the anchor reaches the table.

use core::{cell::Cell, ptr::NonNull, task::Waker};

use super::{header::Ready, memory::Slab};
use crate::{
    atomic::{AtomicPtr, AtomicU32},
    platform::WorkerId,
};

/// The first field of a scheduler.
pub(crate) struct Anchor {
    ops: &'static Ops,
}

/// The scheduler's operations. Each takes the anchor of the scheduler that the table was made for, which is `'static`.
pub(crate) struct Ops {
    pub(crate) schedule: unsafe fn(NonNull<Anchor>, Ready),
    /// The budget of the poll that the calling context is in, if it is in one.
    pub(crate) budget: unsafe fn(NonNull<Anchor>) -> Option<NonNull<Cell<u32>>>,
    pub(crate) current: unsafe fn(NonNull<Anchor>) -> Option<Current>,
    /// Runs other tasks until the condition holds. False if it gives up before.
    pub(crate) help: Help,
    pub(crate) block: unsafe fn(NonNull<Anchor>, &AtomicU32),
    pub(crate) unblock: unsafe fn(NonNull<Anchor>, &AtomicU32),
    pub(crate) unpark: unsafe fn(NonNull<Anchor>, WorkerId),
    /// Counts a new task, and gives the number of the calling context as `caller` does; none if the executor takes no task.
    pub(crate) admit: unsafe fn(NonNull<Anchor>) -> Option<usize>,
    /// Takes an `admit` back: no task was launched.
    pub(crate) dismiss: unsafe fn(NonNull<Anchor>),
    /// Schedules a new task, in the context whose number `admit` returned.
    pub(crate) launch: unsafe fn(NonNull<Anchor>, Ready, usize),
    /// The list of slabs that serve the scheduler.
    pub(crate) registry: unsafe fn(NonNull<Anchor>) -> &'static AtomicPtr<Slab>,
    pub(crate) workers: unsafe fn(NonNull<Anchor>) -> usize,
    /// The number of the calling context: a worker's index plus one, zero outside the workers. It selects the free
    /// slots that the context shares with few others.
    pub(crate) caller: unsafe fn(NonNull<Anchor>) -> usize,
    /// Counts a new local task of the calling worker, if the calling context polls a task that is pinned to it. Returns
    /// the worker.
    pub(crate) admit_local: unsafe fn(NonNull<Anchor>) -> Option<WorkerId>,
    /// Takes an `admit_local` back.
    pub(crate) dismiss_local: unsafe fn(NonNull<Anchor>),
    pub(crate) may_wait: unsafe fn(NonNull<Anchor>) -> bool,
    /// Calls user code, and discards its panic.
    pub(crate) guard: unsafe fn(NonNull<Anchor>, &mut dyn FnMut()),
}

/// See [`Ops::help`].
pub(crate) type Help = unsafe fn(NonNull<Anchor>, &mut dyn FnMut() -> bool) -> bool;

/// The worker that runs in the calling context.
pub(crate) struct Current {
    /// Unparks the worker. It holds no reference to a task.
    pub(crate) waker: Waker,
    /// The tasks that the worker is polling, innermost first.
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
        // SAFETY: the anchor is that of a `'static` scheduler.
        unsafe { this.as_ref().ops }
    }
}
