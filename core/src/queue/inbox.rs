//! The inbox of one worker: the tasks that are pinned to it. They are never stolen.

use core::cell::Cell;

use crate::{
    atomic::maybe_const,
    queue::chain::{Chain, Stack},
    task::header::Ready,
};

/// A FIFO. Any context pushes to it; one worker pops.
///
/// INV-INBOX: only the worker touches `ordered`.
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

    /// Adds a task. Lock-free, callable from any context.
    pub(crate) fn push(&self, ready: Ready) {
        self.stack.push(ready);
    }

    /// Whether no task waits.
    ///
    /// # Safety
    /// The caller is the worker.
    #[inline]
    pub(crate) unsafe fn is_empty(&self) -> bool {
        // SAFETY: INV-INBOX: a shared borrow, and no other borrow exists.
        self.stack.is_empty() && unsafe { (*self.ordered.as_ptr()).is_empty() }
    }

    /// Whether tasks wait for a worker that has left. Sees all of them, since `put_back` has moved the ordered ones to
    /// the stack.
    pub(crate) fn has_mail(&self) -> bool {
        !self.stack.is_empty()
    }

    /// The worker leaves. Moves its ordered tasks back to the stack, where other contexts see them. They stay before later ones.
    ///
    /// # Safety
    /// The caller is the worker.
    pub(crate) unsafe fn put_back(&self) {
        let mut ordered = self.ordered.replace(Chain::new());
        ordered.append(self.stack.take_all());
        self.stack.push_chain(ordered);
    }

    /// Takes the oldest task.
    ///
    /// # Safety
    /// The caller is the worker.
    #[inline]
    pub(crate) unsafe fn pop(&self) -> Option<Ready> {
        // SAFETY: as the caller promises.
        unsafe { if self.is_empty() { None } else { self.pop_some() } }
    }

    /// As `pop`, of the tasks that are bound to the worker. Without [`Cores`](crate::parts::Cores) all others are here too. Cost: linear in
    /// the tasks before it.
    ///
    /// # Safety
    /// The caller is the worker.
    pub(crate) unsafe fn pop_bound(&self) -> Option<Ready> {
        let mut rest = self.ordered.replace(Chain::new());
        rest.append(self.stack.take_all());
        let mut skipped = Chain::new();
        let mut found = None;
        while let Some(ready) = rest.pop_front() {
            if ready.header().state.load().is_bound() {
                found = Some(ready);
                break;
            }
            skipped.push_back(ready);
        }
        skipped.append(rest);
        // INV-INBOX: no user code has run meanwhile.
        let _empty = self.ordered.replace(skipped);
        found
    }

    /// As `pop`, of an inbox with a task.
    #[inline(never)]
    unsafe fn pop_some(&self) -> Option<Ready> {
        // SAFETY: INV-INBOX; no user code runs while the reference lives.
        let ordered = unsafe { &mut *self.ordered.as_ptr() };
        if ordered.is_empty() {
            *ordered = self.stack.take_all();
        }
        ordered.pop_front()
    }
}
