//! Threads that are in a runtime, and what a host does about them.

use core::marker::PhantomData;

use crate::context::{Handle, enter};

/// What else is done in each thread that is in a runtime: its workers, also the threads that help it for a while; those of its blocking
/// pool; callers of [`Handle::block_on`]. The calls of a thread mostly pair like brackets, also those of several runtimes; but runtimes of one
/// thread come and go in any order. Neither unwinds.
pub trait Entry: Sync {
    /// The calling thread is in the runtime from now on.
    fn enter(&self);

    /// The end of the calling thread's last [`enter`](Self::enter) of this runtime that has not ended; nothing if there is none.
    fn leave(&self);
}

/// The calling thread is in a runtime until this is dropped. Stays on its thread.
pub(crate) struct Within {
    entry: Option<&'static dyn Entry>,
    before: Option<Handle>,
    _on_its_thread: PhantomData<*const ()>,
}

impl Within {
    #[inline]
    pub(crate) fn new(handle: Handle) -> Self {
        let before = enter(Some(handle));
        let entry = handle.0.entry;
        if let Some(entry) = entry {
            entry.enter();
        }
        Self { entry, before, _on_its_thread: PhantomData }
    }
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        if let Some(entry) = self.entry {
            entry.leave();
        }
        enter(self.before);
    }
}
