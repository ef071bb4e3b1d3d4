//! The blocking pool: closures that block, as tasks that end on a runtime's threads for them.

use core::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Waker},
};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::{Arc, Mutex},
    thread,
};

use filch::{Class, JoinHandle, TaskOptions};

use crate::{
    clock::Hold,
    context::Handle,
    error::SpawnError,
    panics::{lock, quietly},
    pool::{Job, Threads},
};

/// A snapshot of a runtime's blocking pool; see [`Handle::blocking_metrics`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingMetrics {
    /// All threads, the idle ones included, and those that wait for pipes and devices.
    pub threads: usize,
    /// Threads without work. A thread ends after ten idle seconds, or [`Builder::blocking_keep_alive`](crate::Builder::blocking_keep_alive).
    pub idle: usize,
    /// Closures that wait for a thread.
    pub queued: usize,
    /// Closures that were called and have returned or panicked, since the runtime began.
    pub done: usize,
}

impl Handle {
    /// Runs a closure that blocks, as a task, on a thread of the runtime's blocking pool; the
    /// thread is in the runtime meanwhile. Aborting the task keeps the closure from starting. A
    /// closure that has started runs to its end, even after the end of the runtime, which does not
    /// wait for it: its output is then dropped. The end of the process cuts it; the end of a `main` with the attribute waits for it,
    /// five seconds unless its option `shutdown` sets another time.
    ///
    /// The pool has at most [`Builder::blocking_threads`](crate::Builder::blocking_threads)
    /// threads; further closures wait for one. If no thread can be started at all, the closure runs
    /// on a worker.
    ///
    /// # Panics
    /// As [`spawn`](Self::spawn).
    #[track_caller]
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        if let Err(kind) = self.check() {
            panic!("{kind}");
        }
        let task = self.unblock(Threads::Pool, &TaskOptions::new(), f);
        self.spawn_carrier(task).unwrap_or_else(|error| self.cancelled(error))
    }

    /// Spawns the task of a closure. A subscriber of `tracing` sees the closure in its place.
    #[track_caller]
    fn spawn_carrier<F, T>(
        &self,
        task: Unblock<F, T>,
    ) -> Result<JoinHandle<T>, filch::SpawnError<Unblock<F, T>>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        #[cfg(feature = "tracing")]
        return self.0.spawner.plain().spawn_with(TaskOptions::new(), self.0.heap, task);
        #[cfg(not(feature = "tracing"))]
        self.spawn_here(task)
    }

    /// Runs the closure on one of these threads.
    fn unblock<F, T>(&self, threads: Threads, options: &TaskOptions, f: F) -> Unblock<F, T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        #[cfg(not(feature = "tracing"))]
        let _ = options;
        let job = Arc::new(Closure {
            stage: Mutex::new(Stage::New(f)),
            #[cfg(feature = "tracing")]
            span: Mutex::new(crate::tracing::blocking::<F>(options)),
        });
        let (class, _hold) = (Class::Background, Hold::new(*self));
        Unblock { handle: *self, threads, job, class, _hold }
    }

    /// As [`spawn_blocking`](Self::spawn_blocking), as the options say. Closures that wait for a
    /// thread begin in the order of their tasks' classes, but for one in 16, which is of the last
    /// class that waits. One that an urgent task waits for is urgent.
    ///
    /// # Errors
    /// [`SpawnError`], with the closure: the runtime has shut down, or there is no such worker.
    ///
    /// ```
    /// use filch_std::{Class, TaskOptions};
    /// let runtime = filch_std::Runtime::builder().workers(1).build()?;
    /// let bulk = TaskOptions::new().name("read").class(Class::Background);
    /// let read = runtime.handle().spawn_blocking_with(bulk, || 7)?;
    /// assert_eq!(runtime.block_on(read)?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking_with<F, T>(
        &self,
        options: TaskOptions,
        f: F,
    ) -> Result<JoinHandle<T>, SpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_on(Threads::Pool, options, f)
    }

    /// As [`spawn_blocking_with`](Self::spawn_blocking_with), on these threads.
    ///
    /// # Errors
    /// As there.
    #[doc(hidden)]
    #[track_caller]
    pub fn spawn_on<F, T>(
        &self,
        threads: Threads,
        options: TaskOptions,
        f: F,
    ) -> Result<JoinHandle<T>, SpawnError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if let Err(kind) = self.check() {
            return Err(SpawnError { kind, future: f });
        }
        let task = self.unblock(threads, &options, f);
        #[cfg(feature = "tracing")]
        let spawner = self.0.spawner.plain();
        #[cfg(not(feature = "tracing"))]
        let spawner = self.0.spawner;
        spawner.spawn_with(options, self.0.heap, task).map_err(|error| {
            let SpawnError { kind, future } = self.refused(error);
            SpawnError { kind, future: future.give_back() }
        })
    }

    /// A snapshot of the runtime's blocking pool; all zeros in a forked child.
    pub fn blocking_metrics(&self) -> BlockingMetrics {
        if self.check().is_err() {
            return BlockingMetrics::default();
        }
        self.0.core.pools().metrics()
    }
}

/// The future of `unblock`. If it is dropped before the closure has begun, the closure never
/// runs.
struct Unblock<F, T> {
    handle: Handle,
    threads: Threads,
    job: Arc<Closure<F, T>>,
    /// Of the queue that the closure was put into.
    class: Class,
    /// Until the task has seen the result: otherwise a stopped clock could move in between.
    _hold: Hold,
}

impl<F, T> Unblock<F, T> {
    /// The closure, of a future that was never polled.
    fn give_back(self) -> F {
        match core::mem::replace(&mut *lock(&self.job.stage), Stage::Gone) {
            Stage::New(f) | Stage::Queued(f, _) => f,
            _ => unreachable!("it has not run"),
        }
    }
}

struct Closure<F, T> {
    stage: Mutex<Stage<F, T>>,
    /// Until it has run.
    #[cfg(feature = "tracing")]
    span: Mutex<::tracing::Span>,
}

enum Stage<F, T> {
    New(F),
    Queued(F, Waker),
    Running(Waker),
    Done(thread::Result<T>),
    /// The future was dropped: the output is not wanted.
    Gone,
}

impl<F, T> Job for Closure<F, T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    fn run(&self, done: &AtomicUsize) {
        let mut stage = lock(&self.stage);
        let f = match core::mem::replace(&mut *stage, Stage::Gone) {
            Stage::Queued(f, waker) => {
                *stage = Stage::Running(waker);
                f
            }
            other => {
                *stage = other;
                return;
            }
        };
        drop(stage);
        #[cfg(feature = "tracing")]
        let span = core::mem::replace(&mut *lock(&self.span), ::tracing::Span::none());
        #[cfg(feature = "tracing")]
        let f = move || span.in_scope(f);
        let result = catch_unwind(AssertUnwindSafe(f));
        // Ordering: as in `Pool::metrics`.
        done.fetch_add(1, Ordering::Relaxed);
        let mut stage = lock(&self.stage);
        let waker = match core::mem::replace(&mut *stage, Stage::Gone) {
            Stage::Running(waker) => waker,
            gone => {
                *stage = gone;
                drop(stage);
                quietly(|| drop(result));
                return;
            }
        };
        *stage = Stage::Done(result);
        drop(stage);
        quietly(|| waker.wake());
    }
}

impl<F, T> Future for Unblock<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let class = this.handle.0.spawner.class().unwrap_or_default();
        let mut stage = lock(&this.job.stage);
        let (next, submit) = match core::mem::replace(&mut *stage, Stage::Gone) {
            Stage::New(f) => (Stage::Queued(f, cx.waker().clone()), true),
            // The task was lent a class: the closure waits in the queue for that one too. Its first
            // thread takes it.
            Stage::Queued(f, _) => {
                (Stage::Queued(f, cx.waker().clone()), class.is_before(this.class))
            }
            Stage::Running(_) => (Stage::Running(cx.waker().clone()), false),
            Stage::Done(result) => {
                drop(stage);
                return Poll::Ready(result.unwrap_or_else(|panic| resume_unwind(panic)));
            }
            Stage::Gone => (Stage::Gone, false),
        };
        *stage = next;
        drop(stage);
        if submit {
            this.class = class;
            let pools = this.handle.0.core.pools();
            let pool = pools.of(this.threads);
            let job = Arc::clone(&this.job) as Arc<dyn Job>;
            if pool.submit(this.handle, class, &job).is_err() {
                // Slow, but never a hang. It wakes the task.
                pool.run(&*job);
            }
        }
        #[cfg(feature = "observe")]
        filch::dump::waits(cx.waker(), || filch::dump::Wait::Other("in `spawn_blocking`"));
        Poll::Pending
    }
}

impl<F, T> Drop for Unblock<F, T> {
    fn drop(&mut self) {
        // What the stage holds is dropped outside of the lock.
        let stage = core::mem::replace(&mut *lock(&self.job.stage), Stage::Gone);
        drop(stage);
    }
}
