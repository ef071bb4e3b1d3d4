//! Workers added and retired while the runtime runs.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::thread;

/// How many calls of [`Handle::resize`](crate::Handle::resize) are under way. The end of the runtime waits for them, as they start threads
/// that it joins.
#[derive(Default)]
pub(crate) struct Resizes {
    under_way: AtomicUsize,
    /// The runtime starts its own threads.
    allowed: AtomicBool,
}

impl Resizes {
    /// Says whether the runtime that begins starts its own threads.
    pub(crate) fn allow(&self, on: bool) {
        // Ordering: the runtime's handle is given out later.
        self.allowed.store(on, Ordering::Relaxed);
    }

    pub(crate) fn are_allowed(&self) -> bool {
        // Ordering: see above.
        self.allowed.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) -> impl Drop {
        // Ordering: before the fence.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        // Ordering: pairs with the fence in `wait`: either the runtime is seen to have ended, or this call is waited for.
        fence(Ordering::SeqCst);
        During(self)
    }

    /// Waits for those that have not seen the runtime's end, which the caller has made known.
    pub(crate) fn wait(&self) {
        // Ordering: pairs with the fence in `begin`.
        fence(Ordering::SeqCst);
        // Ordering: Acquire pairs with the Release of `During`: the threads that were started are known.
        while self.under_way.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
    }
}

struct During<'a>(&'a Resizes);

impl Drop for During<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Release);
    }
}
