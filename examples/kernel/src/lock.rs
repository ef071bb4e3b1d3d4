//! A lock that spins, for tasks.

use core::hint::spin_loop;

use embassy_sync::blocking_mutex::raw::RawMutex;
use filch::atomic::{AtomicBool, Ordering};

/// A lock between the tasks of all cores: what embassy-sync's channels and signals take for their few instructions. No handler
/// may take it: it might have interrupted the task that holds it. Where handlers want such a lock, it masks interrupts too.
#[derive(Debug)]
pub struct TaskLock(AtomicBool);

// SAFETY: one context at a time is between the swap that finds `false` and the store of `false`.
unsafe impl RawMutex for TaskLock {
    const INIT: Self = Self::new();

    fn lock<R>(&self, f: impl FnOnce() -> R) -> R {
        // Ordering: Acquire pairs with the Release below, of the one that held the lock before.
        while self.0.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        let result = f();
        // Ordering: Release pairs with the Acquire above, of the next one.
        self.0.store(false, Ordering::Release);
        result
    }
}

impl TaskLock {
    /// A lock that is free.
    #[expect(clippy::new_without_default, reason = "for statics")]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
}
