//! Small helpers.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after a panic: what the locks here guard is whole at any time.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
