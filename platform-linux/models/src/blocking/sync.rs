//! loom's locks, and a condition variable whose timeouts come when the model says so: loom's has none.

use core::{
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};
pub(super) use std::sync::PoisonError;

use loom::sync;

pub(super) struct Mutex<T>(sync::Mutex<T>);

pub(super) struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` only in a wait.
    guard: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
    Guard { mutex, guard: Some(mutex.0.lock().unwrap()) }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().unwrap()
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().unwrap()
    }
}

pub(super) struct Condvar {
    news: sync::Condvar,
    /// Whether the time of all waits is over. Changed and read under the lock of the waiters, so that it is none of loom's.
    expired: AtomicBool,
}

pub(super) struct TimedOut(bool);

impl TimedOut {
    pub(super) fn timed_out(&self) -> bool {
        self.0
    }
}

type Waited<'a, T> = Result<(Guard<'a, T>, TimedOut), PoisonError<(Guard<'a, T>, TimedOut)>>;

impl Condvar {
    pub(super) fn new() -> Self {
        Self { news: sync::Condvar::new(), expired: AtomicBool::new(false) }
    }

    /// From now on the time of each wait is over, of those too that have begun. Under the lock of the waiters.
    pub(super) fn expire<T>(&self, _: &Guard<'_, T>) {
        self.expired.store(true, Relaxed);
        self.news.notify_all();
    }

    pub(super) fn notify_one(&self) {
        self.news.notify_one();
    }

    pub(super) fn notify_all(&self) {
        self.news.notify_all();
    }

    /// A waiter that is notified, and whose time is over before it goes on, says that it is over, as it may.
    pub(super) fn wait_timeout<'a, T>(
        &self,
        mut guard: Guard<'a, T>,
        _: Duration,
    ) -> Waited<'a, T> {
        let held = guard.guard.take().unwrap();
        guard.guard = Some(if self.expired.load(Relaxed) {
            drop(held);
            guard.mutex.0.lock().unwrap()
        } else {
            self.news.wait(held).unwrap()
        });
        let expired = TimedOut(self.expired.load(Relaxed));
        Ok((guard, expired))
    }

    /// Its time is over at once.
    pub(super) fn wait_timeout_while<'a, T>(
        &self,
        mut guard: Guard<'a, T>,
        _: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Waited<'a, T> {
        let expired = TimedOut(condition(&mut guard));
        Ok((guard, expired))
    }
}
