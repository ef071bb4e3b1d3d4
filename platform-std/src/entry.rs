//! What a host does about the threads that are in its runtime.

use core::{any::Any, fmt};
use std::sync::OnceLock;

/// What else is done in each thread that is in a runtime: its workers, also the threads that help it for a while; those of its blocking
/// pool; callers of [`Handle::block_on`](crate::Handle::block_on). The calls of a thread for one runtime pair like brackets. Those for
/// several do so too, unless a
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

/// The place in a host for what runs beside its runtimes, whose type the host does not know. Once taken it stays: the next runtime on this
/// host may start the same thing again.
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
