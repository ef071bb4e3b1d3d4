//! A lock that is held for a few instructions. Timers, broadcasts and the consumers of shared queues use it, and interrupt handlers are
//! none of them.

use core::fmt;

use crate::atomic::{AtomicBool, Ordering, UnsafeCell, maybe_const, spin};

/// A value that one context uses at a time, for some tens of nanoseconds, without calling foreign code.
///
/// INV-SPIN: only the context that has set `taken` touches the value, until it resets it.
///
/// A context that finds the lock taken spins. So interrupt handlers must not use it: one would spin for ever on the
/// context that it has interrupted. The lock is never held while user code runs.
pub(crate) struct Spin<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: INV-SPIN.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    maybe_const! {
        pub(crate) fn new(value: T) -> Self {
            Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }
    }

    /// Runs `f` on the value. `f` must not panic, nor run user code.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        while !self.take() {
            spin();
        }
        self.run(f)
    }

    /// As `with`, but returns `None` if another context holds the lock.
    #[inline]
    pub(crate) fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.take().then(|| self.run(f))
    }

    #[inline]
    fn take(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `run`.
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn run<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: INV-SPIN: we took it.
        let result = self.value.with_mut(|value| f(unsafe { &mut *value }));
        // Ordering: Release pairs with the Acquire in `take`.
        self.taken.store(false, Ordering::Release);
        result
    }
}

impl<T> fmt::Debug for Spin<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spin")
    }
}
