//! Tasks linked through their headers: a FIFO chain with one owner, and a stack that any context pushes to.

use core::{
    mem::ManuallyDrop,
    ptr::{NonNull, null_mut},
};

use crate::{
    atomic::{AtomicPtr, Ordering, maybe_const},
    task::header::{Header, Ready},
};

/// A FIFO of tasks, each linked to the next. Its owner holds all their `Ready`s.
#[must_use = "a chain that is dropped loses its tasks"]
pub(crate) struct Chain {
    head: *mut Header,
    tail: *mut Header,
    len: usize,
}

// SAFETY: a chain is a list of `Ready`s, which are `Send`.
unsafe impl Send for Chain {}

impl Chain {
    pub(crate) const fn new() -> Self {
        Self { head: null_mut(), tail: null_mut(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push_back(&mut self, ready: Ready) {
        let task = ready.into_raw();
        link(task).store(null_mut(), Ordering::Relaxed);
        match NonNull::new(self.tail) {
            Some(tail) => link(tail).store(task.as_ptr(), Ordering::Relaxed),
            None => self.head = task.as_ptr(),
        }
        self.tail = task.as_ptr();
        self.len += 1;
    }

    pub(crate) fn push_front(&mut self, ready: Ready) {
        let task = ready.into_raw();
        link(task).store(self.head, Ordering::Relaxed);
        if self.head.is_null() {
            self.tail = task.as_ptr();
        }
        self.head = task.as_ptr();
        self.len += 1;
    }

    /// Looks at the first task.
    pub(crate) fn peek<R>(&self, look: impl FnOnce(&Ready) -> R) -> Option<R> {
        // SAFETY: the chain holds the task's `Ready`, and keeps it.
        let first = NonNull::new(self.head).map(|task| unsafe { Ready::from_raw(task) });
        first.map(|ready| look(&ManuallyDrop::new(ready)))
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<Ready> {
        let task = NonNull::new(self.head)?;
        self.head = link(task).load(Ordering::Relaxed);
        if self.head.is_null() {
            self.tail = null_mut();
        }
        self.len -= 1;
        // SAFETY: the chain held the task's `Ready`.
        Some(unsafe { Ready::from_raw(task) })
    }

    /// Appends all tasks of `other`.
    pub(crate) fn append(&mut self, other: Chain) {
        match NonNull::new(self.tail) {
            Some(tail) => link(tail).store(other.head, Ordering::Relaxed),
            None => self.head = other.head,
        }
        if !other.tail.is_null() {
            self.tail = other.tail;
        }
        self.len += other.len;
    }
}

/// The link of a task whose `Ready` belongs to the caller.
fn link<'a>(task: NonNull<Header>) -> &'a AtomicPtr<Header> {
    // Ordering of all accesses through it: Relaxed. Only the holder of a `Ready` uses its link, and passing the `Ready`
    // on publishes the link.
    // SAFETY: a `Ready` keeps its header.
    unsafe { &(*task.as_ptr()).link }
}

/// A stack. Any context pushes to it; one consumer at a time takes all of it.
///
/// A push is one compare-and-swap. A push that is interrupted hides no task that others push, so an interrupt handler
/// may push whatever it has interrupted. Single tasks are never popped, so there is no ABA problem: a head that was
/// taken and came back is as good as the first.
#[derive(Debug)]
pub(crate) struct Stack(AtomicPtr<Header>);

impl Stack {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicPtr::new(null_mut()))
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: Acquire pairs with the Release of the swap in `take_all`: a context that sees the stack emptied
        // sees what its taker did before. A caller that must not overlook a task puts a SeqCst fence before (see
        // `scheduler::idle`).
        self.0.load(Ordering::Acquire).is_null()
    }

    pub(crate) fn push(&self, ready: Ready) {
        let task = ready.into_raw().as_ptr();
        self.push_linked(task, task);
    }

    /// Pushes a chain with one operation. Its tasks come out in the chain's order.
    pub(crate) fn push_chain(&self, mut chain: Chain) {
        // `take_all` reverses the whole stack, so the chain is reversed now.
        let mut turned = Chain::new();
        while let Some(ready) = chain.pop_front() {
            turned.push_front(ready);
        }
        if !turned.is_empty() {
            self.push_linked(turned.head, turned.tail);
        }
    }

    fn push_linked(&self, first: *mut Header, last: *mut Header) {
        // SAFETY: the caller owns the tasks' `Ready`s.
        let end = unsafe { &(*last).link };
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            end.store(head, Ordering::Relaxed);
            // Ordering: Release pairs with the Acquire in `take_all`: the taker sees the links, and the tasks as their
            // wakers left them.
            match self.0.compare_exchange_weak(head, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes everything, oldest first.
    pub(crate) fn take_all(&self) -> Chain {
        // Ordering: AcqRel. Acquire pairs with the Release in `push_linked`, Release with the Acquire in `is_empty`.
        let mut next = self.0.swap(null_mut(), Ordering::AcqRel);
        let mut chain = Chain::new();
        while let Some(task) = NonNull::new(next) {
            next = link(task).load(Ordering::Relaxed);
            // SAFETY: the stack held the task's `Ready`.
            chain.push_front(unsafe { Ready::from_raw(task) });
        }
        chain
    }
}
