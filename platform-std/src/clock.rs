//! What a runtime tells a clock that tests can stop: what keeps it from moving.

use core::{marker::PhantomData, time::Duration};

use crate::context::Handle;

/// A clock that tests can stop, without its host's type: that of a [`Pausable`](crate::Pausable).
pub trait Clock: Sync {
    /// Called once, before all else, with the runtime whose workers the clock wakes.
    fn attach(&self, runtime: Handle);

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

/// The calling thread runs code of a runtime: a stopped clock moves only while the thread sleeps.
/// Stays on its thread.
pub(crate) struct Busy(Handle, PhantomData<*const ()>);

impl Busy {
    pub(crate) fn new(handle: Handle) -> Self {
        if let Some(clock) = handle.0.clock {
            clock.begin();
        }
        Self(handle, PhantomData)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(clock) = self.0.0.clock {
            clock.end();
        }
    }
}

/// Something is under way outside of the workers: a stopped clock does not move.
pub(crate) struct Hold(Option<(&'static dyn Clock, u64)>);

impl Hold {
    pub(crate) fn new(handle: Handle) -> Self {
        Self(handle.0.clock.map(|clock| (clock, clock.hold())))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some((clock, run)) = self.0 {
            clock.release(run);
        }
    }
}
