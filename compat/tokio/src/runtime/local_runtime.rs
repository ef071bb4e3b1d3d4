//! A current-thread runtime whose tasks need not be `Send`.

use core::{future::Future, marker::PhantomData, time::Duration};
use std::io;

use super::{Builder, EnterGuard, Handle, Runtime, RuntimeMetrics};
use crate::task::{JoinHandle, LocalSet};

/// The options of a [`LocalRuntime`]: none at present.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LocalOptions {
    _local: PhantomData<*mut ()>,
}

/// A current-thread runtime on one thread, with tasks that need not be `Send`.
#[derive(Debug)]
pub struct LocalRuntime {
    set: LocalSet,
    /// Only the end takes it.
    runtime: Option<Runtime>,
}

impl LocalRuntime {
    pub(super) fn over(runtime: Runtime) -> Self {
        let set = LocalSet::new();
        set.belong_to(runtime.handle().id());
        // Ordering: Relaxed: other threads get the handle by other means.
        runtime.handle().inner.local.store(true, core::sync::atomic::Ordering::Relaxed);
        Self { set, runtime: Some(runtime) }
    }

    /// A runtime with timers and I/O.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new() -> io::Result<Self> {
        Builder::new_current_thread().enable_all().build_local(LocalOptions::default())
    }

    /// A handle to the runtime.
    pub fn handle(&self) -> &Handle {
        self.runtime().handle()
    }

    /// Spawns a task, which runs inside [`block_on`](Self::block_on).
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let _entered = self.runtime().enter();
        self.set.spawn_local(future)
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
        self.runtime().spawn_blocking(func)
    }

    /// Runs a future, and the tasks meanwhile.
    ///
    /// # Panics
    /// As [`Runtime::block_on`].
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.set.block_on(self.runtime(), future)
    }

    /// Puts the thread into the runtime until the guard is dropped.
    #[track_caller]
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime().enter()
    }

    /// The runtime's figures.
    pub fn metrics(&self) -> RuntimeMetrics {
        self.runtime().metrics()
    }

    /// As [`Runtime::shutdown_timeout`].
    pub fn shutdown_timeout(mut self, duration: Duration) {
        if let Some(runtime) = self.end() {
            runtime.shutdown_timeout(duration);
        }
    }

    /// As [`Runtime::shutdown_background`].
    pub fn shutdown_background(mut self) {
        if let Some(runtime) = self.end() {
            runtime.shutdown_background();
        }
    }

    fn runtime(&self) -> &Runtime {
        match &self.runtime {
            Some(runtime) => runtime,
            None => unreachable!("only the end takes it"),
        }
    }

    /// Drops the tasks inside the runtime, and leaves the runtime.
    fn end(&mut self) -> Option<Runtime> {
        let runtime = self.runtime.take()?;
        let entered = super::context::try_enter(runtime.handle().clone());
        self.set = LocalSet::new();
        drop(entered);
        Some(runtime)
    }
}

impl Drop for LocalRuntime {
    fn drop(&mut self) {
        drop(self.end());
    }
}
