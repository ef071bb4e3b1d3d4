//! Reference counts with the ordering that they need.

use core::{borrow::Borrow, fmt, mem::ManuallyDrop, ops::Deref};

use crate::atomic::{AtomicUsize, Ordering, fence};

/// As [`std::sync::Arc`], whose counting is invisible to the run: its last owner would drop the
/// value without being ordered after the others.
pub struct Arc<T: ?Sized> {
    /// The number of owners. Never dropped during the run, as the real count keeps it.
    owners: std::sync::Arc<ManuallyDrop<AtomicUsize>>,
    value: std::sync::Arc<T>,
}

impl<T> Arc<T> {
    /// A value with one owner.
    pub fn new(value: T) -> Self {
        let owners = std::sync::Arc::new(ManuallyDrop::new(AtomicUsize::new(1)));
        Self { owners, value: std::sync::Arc::new(value) }
    }
}

impl<T: ?Sized> Arc<T> {
    /// Whether both own the same value.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(&this.value, &other.value)
    }

    /// The number of owners.
    #[track_caller]
    pub fn strong_count(this: &Self) -> usize {
        this.owners.load(Ordering::Relaxed)
    }
}

impl<T: ?Sized> Clone for Arc<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        // Ordering: Relaxed; a new owner has seen what the old one has.
        self.owners.fetch_add(1, Ordering::Relaxed);
        Self { owners: self.owners.clone(), value: self.value.clone() }
    }
}

impl<T: ?Sized> Drop for Arc<T> {
    #[track_caller]
    fn drop(&mut self) {
        // Ordering: Release pairs with the fence of the last owner. No other thread runs between
        // this and the drop of `value`, which is not a step, so the last owner here is the last one
        // of the real count.
        if self.owners.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
        }
    }
}

impl<T: ?Sized> Deref for Arc<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: ?Sized> AsRef<T> for Arc<T> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T: ?Sized> Borrow<T> for Arc<T> {
    fn borrow(&self) -> &T {
        self
    }
}

impl<T: Default> Default for Arc<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Arc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
