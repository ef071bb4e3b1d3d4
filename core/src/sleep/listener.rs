//! The listener: the one worker that is in the platform's reactor.
//!
//! A worker that goes to sleep listens if no other does, and waits on its word otherwise. It stops listening as soon as it is
//! awake; what it has heard of is its own to deliver. Then no worker listens, until the next one goes to sleep. Meanwhile a busy
//! worker asks the reactor at the end of each tick, without blocking; and a sleeper with a timeout (`watchdog/`) listens when it
//! goes back to sleep.

use crate::atomic::{AtomicU32, Ordering, maybe_const};

const NO_WORKER: u32 = 0;
/// The listener only asks: it is about to go on.
pub(crate) const ASKS: u32 = 1;
/// The listener sleeps, or is about to.
pub(crate) const SLEEPS: u32 = 2;

/// INV-LISTENER: one worker at a time is in `Reactor::listen`: the one that has changed this from `NO_WORKER`, until it changes it
/// back.
#[derive(Debug)]
pub(crate) struct Listener(AtomicU32);

impl Listener {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(NO_WORKER))
        }
    }

    /// Whether no worker is in the reactor. A hint.
    pub(crate) fn is_none(&self) -> bool {
        // Ordering: a hint.
        self.0.load(Ordering::Relaxed) == NO_WORKER
    }

    /// Whether the listener sleeps. A hint.
    pub(crate) fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Relaxed) == SLEEPS
    }

    /// Becomes the listener; false if there is one.
    pub(crate) fn begin(&self, how: u32) -> bool {
        // A look first: an exchange that fails takes the cache line all the same.
        // Ordering: Acquire pairs with the Release in `end`: the platform's reactor goes from one worker to the next.
        self.is_none()
            && self.0.compare_exchange(NO_WORKER, how, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn end(&self) {
        // Ordering: Release pairs with the Acquire in `begin`.
        self.0.store(NO_WORKER, Ordering::Release);
    }
}
