//! Calls of hooks and of event sinks, which are the user's, from the midst of the scheduler's own work.
//!
//! What they do there must not wait: the scheduler may hold what they would wait for, such as a task that it is about to queue. On a worker
//! the core refuses it; what is here is for all threads.

use core::cell::Cell;

use crate::panics::quietly;

thread_local! {
    /// How many hooks are on the thread's stack. Without a destructor.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Calls a hook. A panic of it has been printed, and goes no further.
pub(crate) fn call(hook: impl FnOnce()) {
    DEPTH.set(DEPTH.get() + 1);
    quietly(hook);
    DEPTH.set(DEPTH.get() - 1);
}

/// Whether the calling thread is in a hook: a runtime that is dropped there ends on another thread.
pub(crate) fn are_on_stack() -> bool {
    DEPTH.get() > 0
}

/// For what waits.
///
/// # Panics
/// If the calling thread is in a hook.
#[track_caller]
pub(crate) fn refuse(what: &str) {
    assert!(
        !are_on_stack(),
        "`{what}` waits, which a hook of the runtime and a logger of its events must not"
    );
}
