//! The ground of this crate: what a handle is, and the runtime that the calling thread is in. It imports nothing that imports it.

use core::{
    cell::Cell,
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
    mem::ManuallyDrop,
    panic::{RefUnwindSafe, UnwindSafe},
    ptr::null,
};
#[cfg(not(feature = "tracing"))]
use filch::Spawner;
use filch::{Heap, SpawnErrorKind, Timers, atomic::AtomicU32};

#[cfg(feature = "tracing")]
use crate::tracing::Spawner;
use crate::{
    clock::Clock, entry::Entry, erased::Core, error::NoRuntime, fork, metrics::Metrics,
    unhandled::Fall,
};

/// A copyable handle to a runtime, to spawn tasks with. It may outlive the runtime.
///
/// After the runtime has shut down, spawns with its handle fail with [`SpawnErrorKind::Shutdown`]. A later runtime with as many workers may
/// reuse the memory, in the same process; an old handle then refers to that runtime.
#[derive(Clone, Copy)]
pub struct Handle(pub(crate) &'static Inner);

impl Inner {
    /// See [`Handle::metrics`].
    pub(crate) fn metrics(&'static self) -> Metrics {
        if Handle(self).check().is_ok() { self.core.metrics() } else { Metrics::default() }
    }
}

/// Whether both are of one runtime.
impl PartialEq for Handle {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Handle {}

impl Hash for Handle {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        core::ptr::hash(self.0, hasher);
    }
}

impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

/// What a handle points to. The handle is one word, so that a signal handler sees all of it or nothing. Lives in the memory of a runtime,
/// for ever.
pub(crate) struct Inner {
    pub(crate) core: &'static dyn Core,
    pub(crate) heap: &'static Heap,
    pub(crate) spawner: Spawner,
    pub(crate) timers: Timers,
    /// What else is done in each thread that enters the runtime.
    pub(crate) entry: Option<&'static dyn Entry>,
    /// [`filch::Scheduler::urgent_count`].
    pub(crate) urgent: Option<&'static AtomicU32>,
    /// The clock, if tests can stop it.
    pub(crate) clock: Option<&'static dyn Clock>,
    /// The process in which the runtime has its threads.
    pub(crate) process: u32,
    /// Whether a task's panic has ended the runtime.
    pub(crate) fall: Fall,
    /// Whether a recorder keeps what the tasks do.
    #[cfg(feature = "observe")]
    pub(crate) records: bool,
}

thread_local! {
    // Without destructors: a runtime may be built and dropped in the destructor of any other
    // thread-local value.
    /// Where the innermost bracket of the thread is: a worker, or a call that runs code of a runtime. Each puts back what was there.
    static CURRENT: Cell<Option<Handle>> = const { Cell::new(None) };
    /// Where the thread is outside of all brackets: the oldest of its runtimes of one thread, which end in any order.
    static RESIDENCE: Cell<Option<Handle>> = const { Cell::new(None) };
}

/// Puts the calling thread in this runtime until the next call, with what this returns.
pub(crate) fn enter(handle: Option<Handle>) -> Option<Handle> {
    CURRENT.replace(handle)
}

/// Puts the calling thread in this runtime where it is in none by [`enter`].
pub(crate) fn reside(handle: Option<Handle>) {
    RESIDENCE.set(handle);
}

/// The runtime that the calling thread is in.
#[inline]
pub(crate) fn current() -> Option<Handle> {
    CURRENT.get().or_else(|| RESIDENCE.get())
}

impl Handle {
    #[inline]
    pub(crate) fn check(&self) -> Result<(), SpawnErrorKind> {
        if self.0.process == fork::generation() { Ok(()) } else { Err(SpawnErrorKind::Forked) }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("totals", &self.0.core.totals()).finish()
    }
}

#[inline]
#[track_caller]
pub(crate) fn expect_current() -> Handle {
    match current() {
        Some(here) => here,
        None => panic!("{NoRuntime}"),
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
    if current() == Some(here) {
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
    if before != Some(here) {
        drop(Within { entry: here.0.entry, before, _on_its_thread: PhantomData });
    }
}

/// The calling thread runs code of a runtime: a stopped clock moves only while the thread sleeps.
/// Stays on its thread.
pub(crate) struct Busy(Option<&'static dyn Clock>, PhantomData<*const ()>);

impl Busy {
    pub(crate) fn new(handle: Handle) -> Self {
        if let Some(clock) = handle.0.clock {
            clock.begin();
        }
        Self(handle.0.clock, PhantomData)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(clock) = self.0 {
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
