//! The handle of a runtime, and what it leads to.

use core::{
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Context, Waker},
};
use std::sync::{Arc, Mutex, OnceLock};

use filch_linux::{
    internal::{BlockingPool, TaskWait, Unserved},
    runtime::Linux,
};
use slab::Slab;

use super::{
    EnterGuard, RuntimeFlavor, RuntimeMetrics, TryCurrentError,
    builder::Hooks,
    context::{self, Polling},
    current::Scheduler,
    id::Id,
    metrics::Parks,
};
use crate::{
    task::{self, JoinHandle, blocking_job},
    time::Clock,
    util::lock,
};

/// A handle to a runtime.
///
/// It keeps the runtime's memory, not the runtime: when that has ended, what is spawned is cancelled.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

/// What a runtime is, but for its threads.
pub(crate) struct Inner {
    pub(crate) id: Id,
    pub(crate) name: Option<String>,
    pub(crate) workers: usize,
    /// filch's runtime: the workers, or the reactor of a current-thread runtime.
    pub(crate) filch: OnceLock<filch_linux::Handle>,
    /// The runtime of the crate tokio beside it.
    pub(crate) tokio: OnceLock<::real::runtime::Handle>,
    /// Of a current-thread runtime.
    pub(crate) scheduler: Option<Scheduler>,
    pub(crate) clock: Clock,
    pub(crate) io: bool,
    /// Whether it is part of a local runtime.
    pub(crate) local: AtomicBool,
    pub(crate) time: bool,
    /// The threads of `spawn_blocking`: those of filch's runtime.
    pub(crate) pool: OnceLock<BlockingPool>,
    pub(crate) hooks: Hooks,
    pub(crate) parks: Parks,
    pub(crate) closed: AtomicBool,
    /// Tasks that have not ended.
    pub(crate) alive: AtomicUsize,
    /// Files that are registered.
    pub(crate) sources: AtomicUsize,
    /// What waits outside of tasks, and is to learn of the runtime's end.
    pub(crate) outside: Mutex<Slab<Waker>>,
}

impl Inner {
    /// What the threads of filch's runtime share; `None` while that is built.
    pub(crate) fn host(&self) -> Option<&'static Linux> {
        self.filch.get().and_then(|filch| filch.host())
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn has_io(&self) -> bool {
        // Ordering: Relaxed; a hint.
        self.sources.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `close`.
        self.closed.load(Ordering::Acquire)
    }

    /// The runtime ends: what waits outside of its tasks learns of it.
    pub(crate) fn close(&self) {
        // Ordering: Release pairs with the Acquire in `is_closed`.
        self.closed.store(true, Ordering::Release);
        let wakers = core::mem::take(&mut *lock(&self.outside));
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
        self.clock.close();
    }
}

impl Handle {
    /// The runtime that the thread is in.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn current() -> Self {
        context::expect()
    }

    /// The runtime that the thread is in.
    ///
    /// # Errors
    /// If there is none.
    pub fn try_current() -> Result<Self, TryCurrentError> {
        context::current()
    }

    /// Puts the thread into the runtime until the guard is dropped.
    #[track_caller]
    pub fn enter(&self) -> EnterGuard<'_> {
        context::enter(self.clone())
    }

    /// Spawns a task.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (task, join) = task::Spawned::new(self.clone(), future);
        match &self.inner.scheduler {
            Some(scheduler) => scheduler.spawn(Box::pin(task)),
            None if self.inner.is_closed() => drop(task),
            None => match self.filch().offer(task) {
                Ok(spawned) => spawned.detach(),
                // The runtime has ended meanwhile: the task is dropped, and so cancelled.
                Err(refused) => drop(refused),
            },
        }
        join
    }

    /// Runs a closure that blocks on a thread of the pool.
    ///
    /// # Panics
    /// If no thread can be started.
    #[track_caller]
    pub fn spawn_blocking<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let (run, join) = blocking_job(self.clone(), f);
        match self.pool().call(run) {
            // If the runtime has ended, the closure was dropped, and so cancelled.
            Ok(()) | Err(Unserved::Closed) => join,
            Err(Unserved::NoThread(error)) => panic!("OS can't spawn worker thread: {error}"),
        }
    }

    /// As `spawn_blocking`, but `None` if the runtime has ended, or no thread can be started.
    pub(crate) fn try_spawn_blocking<R: Send + 'static>(
        &self,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Option<JoinHandle<R>> {
        let (run, join) = blocking_job(self.clone(), f);
        self.pool().call(run).ok().map(|()| join)
    }

    /// Runs a future on the calling thread. On a current-thread runtime, another thread drives timers and tasks.
    ///
    /// # Panics
    /// If the thread polls tasks of a runtime; with the future's panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        context::may_block_on();
        let _entered = self.enter();
        self.block_on_here(future)
    }

    /// Has tokio poll a future on the calling thread, which sleeps in between.
    pub(crate) fn block_on_here<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut wait = TaskWait::begin(*self.filch());
        let poll = |cx: &mut Context<'_>| {
            let polled = context::poll_root(Polling::Threaded, || future.as_mut().poll(cx));
            if polled.is_pending() {
                wait.poll(cx);
            }
            polled
        };
        self.tokio().block_on(poll_fn(poll))
    }

    /// Which kind the runtime is.
    pub fn runtime_flavor(&self) -> RuntimeFlavor {
        match self.inner.scheduler {
            Some(_) => RuntimeFlavor::CurrentThread,
            None => RuntimeFlavor::MultiThread,
        }
    }

    /// What no other runtime of the program has.
    pub fn id(&self) -> Id {
        self.inner.id
    }

    /// The name that the builder has given.
    pub fn name(&self) -> Option<&str> {
        self.inner.name.as_deref()
    }

    /// The runtime's figures.
    pub fn metrics(&self) -> RuntimeMetrics {
        RuntimeMetrics { handle: self.clone() }
    }

    /// The runtime of the crate tokio. Its `block_on` polls root futures, so that what asks whether it is in a runtime of tokio's is.
    pub(crate) fn tokio(&self) -> &::real::runtime::Handle {
        match self.inner.tokio.get() {
            Some(tokio) => tokio,
            None => unreachable!("it is set before the runtime is used"),
        }
    }

    fn pool(&self) -> &BlockingPool {
        match self.inner.pool.get() {
            Some(pool) => pool,
            None => unreachable!("it is set before the first thread starts"),
        }
    }

    pub(crate) fn filch(&self) -> &filch_linux::Handle {
        match self.inner.filch.get() {
            Some(filch) => filch,
            None => unreachable!("it is set before the first thread starts"),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

impl core::panic::UnwindSafe for Handle {}
impl core::panic::RefUnwindSafe for Handle {}
