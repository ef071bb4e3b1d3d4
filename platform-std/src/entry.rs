//! Threads that are in a runtime, and what a host does about them.

use core::{marker::PhantomData, mem::ManuallyDrop, ptr::null};

use crate::context::{Handle, Inner, current, enter};

/// What else is done in each thread that is in a runtime: its workers, also the threads that help it for a while; those of its blocking
/// pool; callers of [`Handle::block_on`]. The calls of a thread for one runtime pair like brackets. Those for several do so too, unless a
/// [`LocalRuntime`](crate::LocalRuntime) is dropped in another one. Neither unwinds.
pub trait Entry: Sync {
    /// The calling thread is in the runtime from now on.
    fn enter(&self);

    /// The end of the calling thread's last [`enter`](Self::enter) of this runtime.
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

/// A worker of this runtime works in a wait of code that may be in another: the thread is in this one until [`unnest`], with what this
/// returns.
#[inline]
pub(crate) fn nest(here: Handle) -> *const () {
    if current().is_some_and(|current| current.is(here)) {
        return address(Some(here));
    }
    address(ManuallyDrop::new(Within::new(here)).before)
}

/// Where a thread was, for [`unnest`].
pub(crate) fn address(before: Option<Handle>) -> *const () {
    before.map_or(null(), |handle| core::ptr::from_ref(handle.0).cast())
}

/// The end of the thread's last [`nest`], or of a [`Seat::stay`](crate::seat::Seat::stay).
///
/// # Safety
/// `before` is from that, for the same runtime.
#[inline]
pub(crate) unsafe fn unnest(here: Handle, before: *const ()) {
    // SAFETY: `nest` made it of a handle, whose target is never freed.
    let before = unsafe { before.cast::<Inner>().as_ref() }.map(Handle);
    if !before.is_some_and(|before| before.is(here)) {
        drop(Within { entry: here.0.entry, before, _on_its_thread: PhantomData });
    }
}
