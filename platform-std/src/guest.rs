//! Threads in `block_on` that are no workers: a stopped clock must know whether they sleep.

use core::{cell::Cell, ptr::null, sync::atomic::Ordering};

use crate::{clock::Clock, context::Handle};

thread_local! {
    // Without a destructor, as everything that a runtime keeps for a thread.
    /// The innermost of the runtimes whose `block_on` the thread has called without being a worker.
    /// INV-GUEST: this one, and those that it leads to, are on this thread's stack.
    static GUESTS: Cell<*const Guest> = const { Cell::new(null()) };
}

/// A runtime whose `block_on` a thread has called, perhaps without being a worker of it. On the
/// stack of that `block_on`.
pub(crate) struct Guest {
    handle: Handle,
    below: *const Guest,
}

/// Whether the thread is in a `block_on` of the runtime with this clock, without being a worker of
/// it.
pub(crate) fn is_guest(clock: &Clock) -> bool {
    let mut next = GUESTS.get();
    // SAFETY: INV-GUEST.
    while let Some(guest) = unsafe { next.as_ref() } {
        if core::ptr::eq(guest.handle.0.core.clock(), clock) {
            return true;
        }
        next = guest.below;
    }
    false
}

impl Guest {
    pub(crate) fn of(handle: Handle) -> Self {
        Self { handle, below: GUESTS.get() }
    }

    /// Makes the thread a guest while the result lives; `None` if it is one already, or a worker.
    /// At most once.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let core = self.handle.0.core;
        if core.current_worker().is_some() || is_guest(core.clock()) {
            return None;
        }
        GUESTS.set(self);
        // Ordering: AcqRel pairs with the Acquire in `Clock::go_on`.
        core.clock().guests.fetch_add(1, Ordering::AcqRel);
        Some(Entered(self))
    }
}

/// See [`Guest::enter`].
pub(crate) struct Entered<'a>(&'a Guest);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        // Later guests are above this one on the stack, and have gone.
        GUESTS.set(self.0.below);
        let core = self.0.handle.0.core;
        // Ordering: as above.
        core.clock().guests.fetch_sub(1, Ordering::AcqRel);
        core.clock_recheck();
    }
}
