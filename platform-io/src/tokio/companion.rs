//! The tokio runtime beside a runtime: its driver has a thread of its own, and all other threads have its handle.

use core::{
    any::Any, cell::RefCell, fmt, future::pending, mem::ManuallyDrop, panic::AssertUnwindSafe,
    ptr::null,
};
use std::{
    io,
    panic::catch_unwind,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use filch_std::internal::{Beside, BesideSlot, Entry};
use futures_util::future::{AbortHandle, abortable};
use tokio::runtime::{self, EnterGuard, Handle};

/// The tokio runtime beside the runtime on a host, while there is one.
#[derive(Default)]
pub struct Companion(Mutex<Option<Running>>);

struct Running {
    handle: Arc<Handle>,
    stop: AbortHandle,
    thread: thread::JoinHandle<()>,
}

thread_local! {
    /// What the calling thread is in, the innermost last. What is still there as the thread ends is leaked, as tokio's own value of the
    /// thread may be gone by then.
    static ENTERED: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

struct Place {
    /// Whose it is; null once that was left. It ends with those above it, as tokio wants its guards dropped in order.
    of: *const Companion,
    /// `None` for a runtime without a companion.
    entered: ManuallyDrop<Option<Entered>>,
}

impl Companion {
    /// Builds one in this slot, and starts the thread of its driver, unless one runs there. Called before the first worker starts.
    ///
    /// # Errors
    /// If the system refuses the thread or a file.
    pub fn start(slot: &BesideSlot, here: filch_std::Handle) -> io::Result<()> {
        let companion: Option<&Self> = slot.get_or_default();
        let companion =
            companion.ok_or_else(|| io::Error::other("another thing is in the slot"))?;
        // `filch-tokio` has started it, and the program has the feature `tokio` of `filch-linux` too.
        if companion.running().is_some() {
            return Ok(());
        }
        let mut builder = runtime::Builder::new_current_thread();
        // The threads of its blocking pool.
        let (begin, end) = here.settle_threads();
        builder.enable_all().on_thread_start(begin).on_thread_stop(end);
        let tokio = builder.build()?;
        let handle = Arc::new(tokio.handle().clone());
        let tokio = Owned(Some(tokio));
        let (forever, stop) = abortable(pending::<()>());
        let thread = here.start_thread("tokio", move || tokio.block_on(forever))?;
        *companion.running() = Some(Running { handle, stop, thread });
        Ok(())
    }

    /// The handle of the one in this slot, while it runs.
    pub fn handle(slot: &BesideSlot) -> Option<Handle> {
        slot.get::<Self>()?.running().as_ref().map(|running| Handle::clone(&running.handle))
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry for Companion {
    fn enter(&self) {
        let handle = self.running().as_ref().map(|running| Arc::clone(&running.handle));
        let entered = ManuallyDrop::new(handle.and_then(Entered::new));
        // A thread that is about to end has no place for it.
        let _ = ENTERED.try_with(|all| all.borrow_mut().push(Place { of: self, entered }));
    }

    fn leave(&self) {
        let mark = |all: &RefCell<Vec<Place>>| {
            let mut all = all.borrow_mut();
            if let Some(last) = all.iter_mut().rfind(|place| core::ptr::eq(place.of, self)) {
                last.of = null();
            }
        };
        let pop = |all: &RefCell<Vec<Place>>| {
            let mut all = all.borrow_mut();
            let is_over = all.last().is_some_and(|place| place.of.is_null());
            if is_over { all.pop() } else { None }
        };
        let _ = ENTERED.try_with(mark);
        while let Ok(Some(last)) = ENTERED.try_with(pop) {
            let last = ManuallyDrop::into_inner(last.entered);
            // It panics, and has printed why, if the program has kept a guard of its own on this thread.
            drop(catch_unwind(AssertUnwindSafe(|| drop(last))));
        }
    }
}

impl Beside for Companion {
    /// Ends it: its tasks are dropped on its thread, which has ended by the return, unless that is the caller.
    fn stop(&self) {
        let Some(running) = self.running().take() else { return };
        running.stop.abort();
        if running.thread.thread().id() != thread::current().id() {
            // A panic of its driver has been printed.
            drop(running.thread.join());
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Debug for Companion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Companion").field("runs", &self.running().is_some()).finish()
    }
}

/// The calling thread is in a tokio runtime until this is dropped.
///
/// INV-ENTERED: the guard borrows what the `Arc` points to. It is the first field, so it is dropped first.
struct Entered {
    _guard: EnterGuard<'static>,
    _handle: Arc<Handle>,
}

impl Entered {
    fn new(handle: Arc<Handle>) -> Option<Self> {
        if Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed()) {
            return None;
        }
        let guard = handle.enter();
        // SAFETY: INV-ENTERED: the handle lives as long as the guard, and stays in its place when the `Arc` moves.
        let guard = unsafe { core::mem::transmute::<EnterGuard<'_>, EnterGuard<'static>>(guard) };
        Some(Self { _guard: guard, _handle: handle })
    }
}

/// Does not wait when it is dropped: as in the pool of `filch-std`, closures that block go on to their ends.
struct Owned(Option<runtime::Runtime>);

impl Owned {
    fn block_on<F: Future>(&self, future: F) {
        if let Some(tokio) = &self.0 {
            tokio.block_on(future);
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(tokio) = self.0.take() {
            tokio.shutdown_background();
        }
    }
}
