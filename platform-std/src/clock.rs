//! What a runtime tells a clock that tests can stop: what keeps it from moving.

use core::{fmt, time::Duration};

use filch::WorkerId;

/// The workers that sleep by a clock.
pub trait Workers: Sync {
    /// The largest number of them.
    fn slots(&self) -> usize;

    /// Has a worker look at the clock again.
    fn unpark(&self, worker: WorkerId);
}

impl fmt::Debug for dyn Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("slots", &self.slots()).finish()
    }
}

/// A clock that tests can stop, without its host's type: that of a [`Pausable`](crate::runtime::Pausable).
pub trait Clock: Sync {
    /// Called once, before all else, with the workers that the clock wakes.
    fn attach(&self, workers: &'static dyn Workers);

    /// Stops the clock.
    fn pause(&self);

    /// Lets the clock go on from where it stands.
    fn resume(&self);

    /// Moves the clock; false if it is not stopped.
    fn advance(&self, by: Duration) -> bool;

    /// Whether the clock has been moved so far that another runtime would come to the end of its time.
    fn is_used_up(&self) -> bool;

    /// The calling thread runs code of the runtime, except while it sleeps on a word, until as many
    /// calls of [`end`](Self::end).
    fn begin(&self);

    /// The end of one [`begin`](Self::begin).
    fn end(&self);

    /// Something is under way that no thread runs yet, until as many calls of
    /// [`release`](Self::release). Returns of which run of the runtime it is.
    fn hold(&self) -> u64;

    /// The end of one [`hold`](Self::hold), which returned this; nothing if that run is over.
    fn release(&self, run: u64);
}
