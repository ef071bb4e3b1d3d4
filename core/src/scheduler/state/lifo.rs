//! A worker's LIFO slot, and what else its owner writes and others read: the count of its polls.

use core::ptr::{NonNull, null_mut};

use crate::{
    atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, compiler_fence, maybe_const},
    parts::{Kept, Switch},
    task::header::{Header, Ready},
};

/// What the owner writes and others read. An only worker keeps no task here, and counts no polls: there is no other to look.
pub(crate) struct LifoSlot<C: Switch> {
    task: Kept<AtomicPtr<Header>, C>,
    /// Counts up at each begin and each end of a poll: odd inside one.
    polls: Kept<AtomicU32, C>,
    /// Whether a wake in this context may use the worker's own queues. INV-USER-CODE: true only while user code runs: a poll, a waker, a
    /// broadcast, an `as_poll`, the condition of a wait, the drop of a local task; false in every owner-only operation, so that a wake by
    /// an interrupt or a signal that came in one finds it false and goes through the injector.
    in_user_code: AtomicBool,
}

impl<C: Switch> LifoSlot<C> {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                task: Kept::new(AtomicPtr::new(null_mut())),
                polls: Kept::new(AtomicU32::new(0)),
                in_user_code: AtomicBool::new(false),
            }
        }
    }

    /// Puts a task in, and takes the one before out; if there is no place for any, gives it back. Only the owner.
    #[inline]
    pub(crate) fn put(&self, ready: Ready) -> Option<Ready> {
        let Some(place) = self.task.get() else { return Some(ready) };
        let task = ready.into_raw().as_ptr();
        // Only the owner fills the slot: found empty, it stays so, and a store costs less than a swap.
        if self.is_empty() {
            // Ordering: Release gives the task to the Acquire of another worker in `take`.
            place.store(task, Ordering::Release);
            return None;
        }
        // Ordering: as above; Acquire is for the one taken away, as in `take`.
        Self::ready(place.swap(task, Ordering::AcqRel))
    }

    /// Takes the task out. The owner, or a worker that sees it stuck.
    #[inline]
    pub(crate) fn take(&self) -> Option<Ready> {
        // Ordering: a look first, since the slot is most often empty and a swap is dear. The owner sees its own puts;
        // they come again.
        if self.is_empty() {
            return None;
        }
        // Ordering: Acquire pairs with the Release in `put`.
        Self::ready(self.task.get()?.swap(null_mut(), Ordering::AcqRel))
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.task.get().is_none_or(|task| task.load(Ordering::Relaxed).is_null())
    }

    #[inline(always)]
    fn ready(task: *mut Header) -> Option<Ready> {
        // SAFETY: the slot held the task's `Ready`.
        NonNull::new(task).map(|task| unsafe { Ready::from_raw(task) })
    }

    /// Sets the flag of INV-USER-CODE.
    #[inline(always)]
    pub(crate) fn set_in_user_code(&self, on: bool) {
        // Ordering: only this context and interrupts on it look at the flag; the compiler must keep it where it is.
        compiler_fence(Ordering::SeqCst);
        self.in_user_code.store(on, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// As `set_in_user_code`, and gives what it was.
    pub(crate) fn replace_in_user_code(&self, on: bool) -> bool {
        let was = self.is_in_user_code();
        self.set_in_user_code(on);
        was
    }

    #[inline(always)]
    pub(crate) fn is_in_user_code(&self) -> bool {
        self.in_user_code.load(Ordering::Relaxed)
    }

    /// Whether the worker is in a poll, in a batch of wakers, or in a broadcast.
    pub(crate) fn is_in_poll(&self) -> bool {
        self.polls() & 1 == 1
    }

    /// How often a poll has begun or ended: odd inside one.
    #[inline(always)]
    pub(crate) fn polls(&self) -> u32 {
        // Ordering: the worker's own look; for others a hint.
        self.polls.get().map_or(0, |polls| polls.load(Ordering::Relaxed))
    }

    /// A poll begins or ends.
    #[inline(always)]
    pub(crate) fn count_poll(&self) {
        let Some(polls) = self.polls.get() else { return };
        // Ordering: one writer; others compare two looks, an old value only makes it come again.
        polls.store(polls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Other user code begins, which may take as long as a poll and counts as one. False in a poll, which goes on.
    pub(crate) fn begin_as_poll(&self) -> bool {
        let begins = !self.is_in_poll();
        self.end_as_poll(begins);
        begins
    }

    /// It ends, if it `began`.
    pub(crate) fn end_as_poll(&self, began: bool) {
        if began {
            self.count_poll();
        }
    }
}
