//! The blocking pool: closures that block, as tasks that end on a runtime's threads for them.

use core::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::{Arc, Mutex},
    thread,
};

use filch::{Class, JoinHandle, SpawnError, SpawnErrorKind, TaskOptions};

use crate::{
    context::{Handle, Hold, expect_current},
    panics::{lock, quietly},
    pool::{Job, Pool, Threads, Unserved},
};

/// See [`Handle::spawn_blocking`].
#[track_caller]
pub(crate) fn spawn<T: Send + 'static>(
    here: Handle,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    if let Err(kind) = here.check() {
        panic!("{kind}");
    }
    let task = unblock(here, Threads::Pool, &TaskOptions::new(), f);
    // A subscriber of `tracing` sees the closure in the place of its task.
    #[cfg(feature = "tracing")]
    let spawned = here.0.spawner.plain().spawn_with(TaskOptions::new(), here.0.heap, task);
    #[cfg(not(feature = "tracing"))]
    let spawned = here.spawn_here(task);
    spawned.unwrap_or_else(|error| here.cancelled(error))
}

/// Runs a closure that blocks, in the current runtime: [`Handle::spawn_blocking`].
///
/// # Panics
/// As [`spawn`](crate::spawn).
#[track_caller]
pub fn spawn_blocking<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    spawn(expect_current(), f)
}

/// Runs the closure on one of these threads.
#[track_caller]
fn unblock<F, T>(here: Handle, threads: Threads, options: &TaskOptions, f: F) -> Unblock<F, T>
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
    let (class, _hold) = (Class::Background, Hold::new(here));
    Unblock { handle: here, threads, job, class, _hold }
}

/// As [`spawn`], on these threads, and as the options say.
#[track_caller]
pub(crate) fn spawn_with<F, T>(
    here: Handle,
    threads: Threads,
    options: TaskOptions,
    f: F,
) -> Result<JoinHandle<T>, SpawnError<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    if let Err(kind) = here.check() {
        return Err(SpawnError { kind, future: f });
    }
    let task = unblock(here, threads, &options, f);
    #[cfg(feature = "tracing")]
    let spawner = here.0.spawner.plain();
    #[cfg(not(feature = "tracing"))]
    let spawner = here.0.spawner;
    spawner.spawn_with(options, here.0.heap, task).map_err(|error| {
        let SpawnError { kind, future } = here.refused(error);
        SpawnError { kind, future: future.give_back() }
    })
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
            if pool.submit(class, &job).is_err() {
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

/// A closure that is called in any case.
struct Accepted<F> {
    f: Mutex<Option<F>>,
    /// A stopped clock stands until it has been called.
    _hold: Hold,
}

impl<F: FnOnce() + Send> Job for Accepted<F> {
    fn run(&self, done: &AtomicUsize) {
        let f = lock(&self.f).take();
        quietly(|| f.into_iter().for_each(|f| f()));
        // Ordering: as in `Pool::metrics`.
        done.fetch_add(1, Ordering::Relaxed);
    }

    fn is_accepted(&self) -> bool {
        true
    }
}

/// See [`Handle::accept`].
pub(crate) fn accept(
    here: Handle,
    threads: Threads,
    f: impl FnOnce() + Send + 'static,
) -> Result<(), SpawnErrorKind> {
    here.check()?;
    let job: Arc<dyn Job> = Arc::new(Accepted { f: Mutex::new(Some(f)), _hold: Hold::new(here) });
    let pools = here.0.core.pools();
    let pool = pools.of(threads);
    match pool.submit(Class::Normal, &job) {
        Ok(()) => Ok(()),
        Err(Unserved::Closed) => Err(SpawnErrorKind::Shutdown),
        Err(Unserved::NoThread(_)) => {
            pool.run(&*job);
            Ok(())
        }
    }
}

/// A runtime's threads for closures that block, for crates that present them under another API. Of this runtime alone, also after its end.
#[doc(hidden)]
#[derive(Clone)]
pub struct BlockingPool(Arc<Pool>);

impl BlockingPool {
    /// Has a thread call the closure, in the runtime; it contains its own panics. A closure that is taken is called, even after the end of
    /// the runtime, or dropped if the system refuses a thread that it relies on.
    ///
    /// # Errors
    /// [`Unserved`]; the closure is dropped.
    pub fn call(&self, f: impl FnOnce() + Send + 'static) -> Result<(), Unserved> {
        let job: Arc<dyn Job> = Arc::new(Call(Mutex::new(Some(f))));
        self.0.submit(Class::Normal, &job)
    }

    /// Refuses closures from now on.
    pub fn close(&self) {
        self.0.close();
    }

    /// Waits for the threads, after [`close`](Self::close), so long at most. How many are left.
    pub fn wait(&self, longest: Duration) -> usize {
        self.0.wait(longest)
    }
}

impl core::fmt::Debug for BlockingPool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("BlockingPool").field(&self.0.metrics()).finish()
    }
}

/// A closure of [`BlockingPool::call`].
struct Call<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send> Job for Call<F> {
    fn run(&self, done: &AtomicUsize) {
        let f = lock(&self.0).take();
        if let Some(f) = f {
            quietly(f);
            // Ordering: as in `Pool::metrics`.
            done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn do_without_thread(&self, _: &AtomicUsize) {
        let f = lock(&self.0).take();
        quietly(|| drop(f));
    }
}

impl BlockingPool {
    /// See [`Handle::blocking_pool`].
    pub(crate) fn of(here: Handle) -> Self {
        Self(Arc::clone(here.0.core.pools().of(Threads::Pool)))
    }
}
