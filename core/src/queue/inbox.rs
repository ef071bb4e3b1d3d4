//! The inbox of one worker: tasks pinned to it. Never stolen.

use core::cell::Cell;

use crate::{
    atomic::maybe_const,
    queue::chain::{Chain, Stack},
    task::header::Ready,
};

/// A FIFO that anybody pushes to and one worker pops.
///
/// INV-INBOX: `ordered` is touched by the worker alone.
pub(crate) struct Inbox {
    stack: Stack,
    ordered: Cell<Chain>,
}

// SAFETY: INV-INBOX.
unsafe impl Sync for Inbox {}

impl Inbox {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { stack: Stack::new(), ordered: Cell::new(Chain::new()) }
        }
    }

    /// Adds a task. Lock-free, from any context.
    pub(crate) fn push(&self, ready: Ready) {
        self.stack.push(ready);
    }

    /// Whether nothing waits.
    ///
    /// # Safety
    /// The caller is the worker.
    #[inline]
    pub(crate) unsafe fn is_empty(&self) -> bool {
        // SAFETY: INV-INBOX; a shared look, while nobody else can look.
        self.stack.is_empty() && unsafe { (*self.ordered.as_ptr()).is_empty() }
    }

    /// Whether tasks wait for a worker that has left. Only what came since `put_back`, which is all of them.
    pub(crate) fn has_mail(&self) -> bool {
        !self.stack.is_empty()
    }

    /// The worker leaves: what it had put in order goes back to where others see it, behind what came since.
    ///
    /// # Safety
    /// The caller is the worker.
    pub(crate) unsafe fn put_back(&self) {
        self.stack.push_chain(self.ordered.replace(Chain::new()));
    }

    /// Takes the oldest task.
    ///
    /// # Safety
    /// The caller is the worker.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Option<Ready> {
        // SAFETY: INV-INBOX; no user code runs while the reference lives.
        let ordered = unsafe { &mut *self.ordered.as_ptr() };
        if ordered.is_empty() {
            if self.stack.is_empty() {
                return None;
            }
            *ordered = self.stack.take_all();
        }
        ordered.pop_front()
    }
}
