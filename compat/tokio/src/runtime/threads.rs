//! The runtime itself: the one owner of its threads.

use core::{fmt, future::Future, time::Duration};
use std::{
    io,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Instant,
};

use super::{
    Builder, EnterGuard, Handle, RuntimeMetrics,
    context::{self, Polling},
};
use crate::task::JoinHandle;

/// A runtime.
///
/// Dropped, it cancels its tasks, and waits for the closures of `spawn_blocking` that have begun.
pub struct Runtime {
    handle: Handle,
    /// Taken out by the shutdown.
    filch: Option<filch_linux::Runtime>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl core::panic::UnwindSafe for Runtime {}
impl core::panic::RefUnwindSafe for Runtime {}

impl Runtime {
    pub(super) fn over(handle: Handle, filch: filch_linux::Runtime) -> Self {
        Self { handle, filch: Some(filch) }
    }

    /// A runtime with workers, with timers and I/O.
    ///
    /// # Errors
    /// As [`Builder::build`].
    #[cfg(feature = "rt-multi-thread")]
    pub fn new() -> io::Result<Self> {
        Builder::new_multi_thread().enable_all().build()
    }

    /// A handle to the runtime.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// As [`Handle::spawn_blocking`].
    ///
    /// # Panics
    /// As that.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, func: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.handle.spawn_blocking(func)
    }

    /// Runs a future on the calling thread. A current-thread runtime runs its tasks meanwhile, on the same thread.
    ///
    /// # Panics
    /// If the thread polls tasks of a runtime; with the future's panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        context::may_block_on();
        let _entered = self.enter();
        match &self.handle.inner.scheduler {
            Some(scheduler) => scheduler.block_on(&self.handle, future),
            None => self.handle.block_on_here(future),
        }
    }

    /// Puts the thread into the runtime until the guard is dropped.
    #[track_caller]
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }

    /// The runtime's figures.
    pub fn metrics(&self) -> RuntimeMetrics {
        self.handle.metrics()
    }

    /// Ends the runtime, and waits at most so long for its threads.
    pub fn shutdown_timeout(mut self, duration: Duration) {
        self.finish(Instant::now().checked_add(duration));
    }

    /// Ends the runtime, and waits for nothing. Also in a task.
    pub fn shutdown_background(mut self) {
        self.finish(Some(Instant::now()));
    }

    /// Cancels the tasks, and waits for the threads until then, or for ever.
    fn finish(&mut self, end: Option<Instant>) {
        let Some(filch) = self.filch.take() else { return };
        let inner = &self.handle.inner;
        // Ordering: Release pairs with the Acquire in `is_closed`.
        inner.closed.store(true, core::sync::atomic::Ordering::Release);
        let pool = inner.pool.get();
        if let Some(pool) = pool {
            pool.close();
        }
        if let Some(scheduler) = &inner.scheduler {
            // The thread may be about to end: then without.
            let _entered = context::try_enter(self.handle.clone());
            scheduler.shutdown();
        }
        if end.is_none() {
            drop(filch);
        } else {
            drop_until(filch, end);
        }
        inner.close();
        if let Some(pool) = pool {
            pool.wait(left(end));
        }
    }
}

/// How long until then.
fn left(end: Option<Instant>) -> Duration {
    end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
}

/// Drops the runtime, whose polls may go on for ever, on another thread; waits for that until `end`.
fn drop_until(filch: filch_linux::Runtime, end: Option<Instant>) {
    let (done, wait) = mpsc::channel::<()>();
    // If no thread can be started, the runtime is dropped here.
    let started = thread::Builder::new().spawn(move || {
        drop(filch);
        drop(done);
    });
    let left = left(end);
    if started.is_ok() && !left.is_zero() {
        let Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) =
            wait.recv_timeout(left)
        else {
            return;
        };
    }
}

impl Drop for Runtime {
    #[track_caller]
    fn drop(&mut self) {
        if self.filch.is_none() {
            return;
        }
        let may_block = context::polling() == Polling::No;
        self.finish(if may_block { None } else { Some(Instant::now()) });
        if !may_block && !thread::panicking() {
            panic!(
                "Cannot drop a runtime in a context where blocking is not allowed. This happens when a runtime is dropped from within an \
                 asynchronous context."
            );
        }
    }
}
