//! The park word: how one worker sleeps and is woken, over a platform that waits and wakes on a word.

use crate::atomic::{AtomicU32, Ordering, maybe_const};

const UNPARKED: u32 = 0;
const PARKED: u32 = 1;
/// As `PARKED`, in the reactor.
pub(crate) const LISTENING: u32 = 2;
const NOTIFIED: u32 = 3;

/// How a worker sleeps: what its park word says meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// On its word (`Platform::wait`).
    Wait = PARKED as isize,
    /// In the reactor (`Reactor::listen`).
    Listen = LISTENING as isize,
}

/// One worker's park word.
///
/// | from | by | to |
/// |---|---|---|
/// | UNPARKED | the worker, about to sleep | PARKED; LISTENING in the reactor |
/// | UNPARKED, NOTIFIED | a waker | NOTIFIED: the next sleep ends at once |
/// | PARKED | a waker | NOTIFIED, and it calls `Platform::wake` |
/// | LISTENING | a waker | NOTIFIED, and it calls `Reactor::interrupt` |
/// | all but UNPARKED | the worker, awake again | UNPARKED |
#[derive(Debug)]
pub(crate) struct ParkWord(AtomicU32);

impl ParkWord {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(UNPARKED))
        }
    }

    /// Sleeps by `sleep`, which gets the word and its value, and returns when that is another, or for a reason of its own. Only
    /// the worker itself calls this, and the two below.
    pub(crate) fn park(&self, how: Sleep, sleep: impl FnOnce(&AtomicU32, u32)) {
        if self.arm(how) {
            sleep(&self.0, how as u32);
        }
        self.disarm();
    }

    /// The worker is about to sleep: from now on a notifier wakes it. False if it has been notified.
    pub(crate) fn arm(&self, how: Sleep) -> bool {
        // Ordering: Acquire on failure pairs with the Release in `notify`: a notified worker sees why. Nothing is
        // published by going to sleep.
        self.0.compare_exchange(UNPARKED, how as u32, Ordering::Relaxed, Ordering::Acquire).is_ok()
    }

    /// The worker is awake.
    pub(crate) fn disarm(&self) {
        // A swap, not a store: it may overwrite NOTIFIED, and must then see what the notifier did before.
        // Ordering: Acquire pairs with the Release in `notify`.
        self.0.swap(UNPARKED, Ordering::Acquire);
    }

    /// The word itself.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// Whether the worker sleeps, or is about to, and has not been notified. A hint.
    pub(crate) fn is_parked(&self) -> bool {
        matches!(self.0.load(Ordering::Relaxed), PARKED | LISTENING)
    }

    /// Ends the worker's sleep, this one or the next; the sleep from which the caller must wake it then. From any context.
    #[must_use]
    pub(crate) fn notify(&self) -> Option<Sleep> {
        // Ordering: Release pairs with the Acquires in `park`.
        match self.0.swap(NOTIFIED, Ordering::Release) {
            PARKED => Some(Sleep::Wait),
            LISTENING => Some(Sleep::Listen),
            _ => None,
        }
    }
}
