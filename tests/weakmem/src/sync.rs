//! A mutex and a condition variable, as in [`std::sync`]: the real ones would block all simulated
//! threads at once.

use core::{
    fmt,
    ops::{Deref, DerefMut},
    panic::Location,
};

pub use std::sync::LockResult;

pub use crate::arc::Arc;

use crate::{
    atomic::{AtomicU32, Ordering},
    cell::UnsafeCell,
    futex,
    races::Site,
};

/// A lock. It is never poisoned: the results only have the standard library's form.
pub struct Mutex<T: ?Sized> {
    /// 1 while a thread holds it.
    taken: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: INV-LOCK: only the thread that has set `taken` accesses the value, until it resets it.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: as for the value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

/// The lock is held until this is dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self { taken: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock; waits until it is free.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        Ok(self.lock_at(Location::caller()))
    }

    fn lock_at(&self, site: Site) -> MutexGuard<'_, T> {
        // Ordering: Acquire pairs with the Release in the guard's drop.
        while self.taken.swap(1, Ordering::Acquire) != 0 {
            futex::wait_at(&self.taken, 1, site);
        }
        MutexGuard { lock: self }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[track_caller]
    fn drop(&mut self) {
        // Ordering: Release pairs with the Acquire in `lock`.
        self.lock.taken.store(0, Ordering::Release);
        futex::wake_one(&self.lock.taken);
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: INV-LOCK: this thread has the lock.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: INV-LOCK: this thread has the lock.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A condition variable with spurious wakes.
#[derive(Debug, Default)]
pub struct Condvar {
    /// The number of notifications.
    news: AtomicU32,
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self { news: AtomicU32::new(0) }
    }

    /// Releases the lock, waits for a notification, and takes the lock again.
    ///
    /// # Errors
    /// None.
    #[track_caller]
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (lock, site) = (guard.lock, Location::caller());
        // Ordering: Relaxed; the lock orders the condition. A read-modify-write, which never reads
        // an old value.
        let news = self.news.fetch_or(0, Ordering::Relaxed);
        drop(guard);
        futex::wait_at(&self.news, news, site);
        Ok(lock.lock_at(site))
    }

    /// Ends the wait of one thread, any of them.
    #[track_caller]
    pub fn notify_one(&self) {
        // Ordering: Relaxed; see `wait`.
        self.news.fetch_add(1, Ordering::Relaxed);
        futex::wake_one(&self.news);
    }

    /// Ends the waits of all threads.
    #[track_caller]
    pub fn notify_all(&self) {
        // Ordering: Relaxed; see `wait`.
        self.news.fetch_add(1, Ordering::Relaxed);
        futex::wake_all(&self.news);
    }
}
