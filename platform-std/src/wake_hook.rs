//! The hook that is called as the worker of a runtime of one thread is woken, for as long as the runtime lives.

use core::ptr::null_mut;

use filch::atomic::{AtomicPtr, AtomicU32, Ordering, fence};

/// A value that any thread or signal handler visits, and that one thread takes away.
///
/// INV-HOOK: null, or from `Box::into_raw`; a value that [`set`](WakeHook::set) has taken out is visited by no thread any more.
#[derive(Debug)]
pub(crate) struct WakeHook<T> {
    hook: AtomicPtr<T>,
    /// Threads and signal handlers that visit.
    visits: AtomicU32,
}

impl<T: Send + Sync> WakeHook<T> {
    pub(crate) fn none() -> Self {
        Self { hook: AtomicPtr::new(null_mut()), visits: AtomicU32::new(0) }
    }

    /// Puts a value in place, or takes it away. Returns the one before, once no thread visits it. Not in a visit.
    pub(crate) fn set(&self, hook: Option<T>, relax: impl Fn()) -> Option<T> {
        let new = hook.map_or(null_mut(), |hook| Box::into_raw(Box::new(hook)));
        // Ordering: Release pairs with the Acquire in `visit`: the value is whole. The fence pairs with the one there: either this thread
        // sees the visit, or the visitor sees that the value has gone; and a thread that finds the worker at rest, which it is later
        // than this, sees the new one.
        let old = self.hook.swap(new, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        // Ordering: Acquire pairs with the Release in `visit`: the visit is over.
        while self.visits.load(Ordering::Acquire) != 0 {
            relax();
        }
        // SAFETY: INV-HOOK: it was in place once, and no thread visits it.
        (!old.is_null()).then(|| *unsafe { Box::from_raw(old) })
    }

    /// Calls `f` with the value, if there is one. From any context; `f` does not unwind.
    pub(crate) fn visit(&self, f: impl FnOnce(&T)) {
        // Ordering: the fence pairs with the one in `set`.
        self.visits.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // Ordering: Acquire pairs with the Release in `set`.
        // SAFETY: INV-HOOK: the visit keeps it.
        if let Some(hook) = unsafe { self.hook.load(Ordering::Acquire).as_ref() } {
            f(hook);
        }
        // Ordering: Release pairs with the Acquire in `set`.
        self.visits.fetch_sub(1, Ordering::Release);
    }
}
