//! Threads that are in a runtime, and what a host does about them.

use core::{any::Any, fmt, marker::PhantomData, mem::ManuallyDrop, ptr::null};
use std::sync::OnceLock;

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

/// Something that runs beside a runtime: the host lets its threads enter it, and ends it.
pub trait Beside: Entry + Send {
    /// The runtime has ended: no worker of it runs any more.
    fn stop(&self);

    /// For those that know its type.
    fn as_any(&self) -> &dyn Any;
}

/// The place in a host for what runs beside its runtimes, whose type the host does not know. Once taken it stays: the next runtime on this host
/// may start the same thing again.
#[derive(Default)]
pub struct BesideSlot(OnceLock<Box<dyn Beside>>);

impl BesideSlot {
    /// What is here, if it is a `T`.
    pub fn get<T: Beside + 'static>(&self) -> Option<&T> {
        self.0.get()?.as_any().downcast_ref()
    }

    /// What is here; puts a new `T` here if that is nothing.
    pub fn get_or_default<T: Beside + Default + 'static>(&self) -> Option<&T> {
        self.0.get_or_init(|| Box::<T>::default());
        self.get()
    }

    /// As [`Beside::stop`].
    pub fn stop(&self) {
        if let Some(beside) = self.0.get() {
            beside.stop();
        }
    }
}

impl Entry for BesideSlot {
    fn enter(&self) {
        if let Some(beside) = self.0.get() {
            beside.enter();
        }
    }

    fn leave(&self) {
        if let Some(beside) = self.0.get() {
            beside.leave();
        }
    }
}

impl fmt::Debug for BesideSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BesideSlot").field("is_taken", &self.0.get().is_some()).finish()
    }
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
