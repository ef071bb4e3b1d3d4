//! The blocking pool: a runtime's threads for closures that block.
//!
//! A closure goes to an idle thread, or to a new one, up to a limit; beyond the limit it waits in a
//! queue. A thread that has been idle for a while ends. If no thread can be started at all, the
//! worker runs the closure itself: slow, but never a hang.

use core::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    collections::VecDeque,
    panic::{catch_unwind, resume_unwind},
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use filch::{Class, JoinHandle, TaskOptions};

use crate::{
    clock::Hold,
    context::{self, Handle},
    panics::{lock, quietly},
};

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);
/// The largest number of threads, unless the builder sets another.
pub(crate) const LIMIT: usize = 512;

/// A snapshot of a runtime's blocking pool; see [`Handle::blocking_metrics`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingMetrics {
    /// All threads, the idle ones included.
    pub threads: usize,
    /// Threads without work. A thread ends after ten idle seconds.
    pub idle: usize,
    /// Closures that wait for a thread.
    pub queued: usize,
}

/// A runtime's pool, from the build of the runtime to its end.
pub(crate) struct Pool {
    state: Mutex<State>,
    news: Condvar,
    limit: usize,
    name: String,
    stack: Option<usize>,
}

#[derive(Default)]
struct State {
    queue: Queue,
    threads: usize,
    idle: usize,
    closed: bool,
    /// The number of threads that were ever started. It gives each its name.
    started: usize,
}

/// The jobs that wait, the first class first.
#[derive(Default)]
struct Queue([VecDeque<Arc<dyn Job>>; 3]);

impl Queue {
    fn push(&mut self, class: Class, job: Arc<dyn Job>) {
        self.0[class as usize].push_back(job);
    }

    fn pop(&mut self) -> Option<Arc<dyn Job>> {
        self.0.iter_mut().find_map(VecDeque::pop_front)
    }

    fn len(&self) -> usize {
        self.0.iter().map(VecDeque::len).sum()
    }
}

impl IntoIterator for Queue {
    type Item = Arc<dyn Job>;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<VecDeque<Arc<dyn Job>>, 3>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

trait Job: Send + Sync {
    /// Runs the closure, unless it has been taken back. Never unwinds.
    fn run(&self);
}

impl Pool {
    pub(crate) fn new(limit: usize, name: String, stack: Option<usize>) -> Arc<Self> {
        let limit = limit.max(1);
        Arc::new(Self { state: Mutex::default(), news: Condvar::new(), limit, name, stack })
    }

    pub(crate) fn metrics(&self) -> BlockingMetrics {
        let state = lock(&self.state);
        BlockingMetrics { threads: state.threads, idle: state.idle, queued: state.queue.len() }
    }

    /// Has a thread run the job. Returns the jobs that the caller must run itself: there is no
    /// thread, and none can be started.
    fn submit(self: &Arc<Self>, handle: Handle, class: Class, job: Arc<dyn Job>) -> Queue {
        let mut state = lock(&self.state);
        if state.closed {
            let mut mine = Queue::default();
            mine.push(class, job);
            return mine;
        }
        state.queue.push(class, job);
        if state.idle >= state.queue.len() || state.threads >= self.limit {
            drop(state);
            self.news.notify_one();
            return Queue::default();
        }
        state.threads += 1;
        state.started += 1;
        let number = state.started;
        drop(state);
        if self.start(handle, number).is_ok() {
            return Queue::default();
        }
        let mut state = lock(&self.state);
        state.threads -= 1;
        // Queued jobs may have relied on this thread.
        if state.threads == 0 { core::mem::take(&mut state.queue) } else { Queue::default() }
    }

    fn start(self: &Arc<Self>, handle: Handle, number: usize) -> std::io::Result<()> {
        let mut builder = thread::Builder::new().name(format!("{}-blocking-{number}", self.name));
        if let Some(bytes) = self.stack {
            builder = builder.stack_size(bytes);
        }
        let pool = Arc::clone(self);
        builder.spawn(move || pool.work(handle)).map(drop)
    }

    /// The loop of a thread of the pool.
    fn work(&self, handle: Handle) {
        context::enter(Some(handle));
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.queue.pop() {
                drop(state);
                job.run();
                quietly(|| drop(job));
                state = lock(&self.state);
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let (woken, slept) =
                self.news.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if slept.timed_out() && state.queue.len() == 0 {
                break;
            }
        }
        state.threads -= 1;
    }

    /// The runtime has ended: drops the closures that wait. Those that run go on to their end; then
    /// the threads end.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let waiting = core::mem::take(&mut state.queue);
        drop(state);
        self.news.notify_all();
        drop(waiting);
    }
}

impl Handle {
    /// Runs a closure that blocks, as a task, on a thread of the runtime's blocking pool; the
    /// thread is in the runtime meanwhile. Aborting the task keeps the closure from starting. A
    /// closure that has started runs to its end, even after the end of the runtime, which does not
    /// wait for it: its output is then dropped.
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
        self.spawn(unblock(*self, f))
    }

    /// As [`spawn_blocking`](Self::spawn_blocking), as the options say. Closures that wait for a
    /// thread begin in the order of their tasks' classes.
    ///
    /// # Panics
    /// As [`spawn`](Self::spawn); also if there is no such worker.
    ///
    /// ```
    /// use filch_std::{Class, TaskOptions};
    /// let runtime = filch_std::Runtime::builder().workers(1).build()?;
    /// let bulk = TaskOptions::new().name("read").class(Class::Background);
    /// let read = runtime.handle().spawn_blocking_with(bulk, || 7);
    /// assert_eq!(runtime.block_on(read)?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn_blocking_with<T: Send + 'static>(
        &self,
        options: TaskOptions,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        if let Err(kind) = self.check() {
            panic!("{kind}");
        }
        match self.spawn_with(options, unblock(*self, f)) {
            Ok(task) => task,
            Err(error) => panic!("{error}"),
        }
    }

    /// A snapshot of the runtime's blocking pool; all zeros in a forked child.
    pub fn blocking_metrics(&self) -> BlockingMetrics {
        if self.check().is_err() {
            return BlockingMetrics::default();
        }
        self.0.core.pool().metrics()
    }
}

/// Runs the closure on a thread of the pool.
fn unblock<F, T>(handle: Handle, f: F) -> Unblock<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let job = Arc::new(Closure(Mutex::new(Stage::New(f))));
    Unblock { handle, job, _hold: Hold::new(handle) }
}

/// The future of [`unblock`]. If it is dropped before the closure has begun, the closure never
/// runs.
struct Unblock<F, T> {
    handle: Handle,
    job: Arc<Closure<F, T>>,
    /// Until the task has seen the result: otherwise a stopped clock could move in between.
    _hold: Hold,
}

struct Closure<F, T>(Mutex<Stage<F, T>>);

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
    fn run(&self) {
        let mut stage = lock(&self.0);
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
        let result = catch_unwind(AssertUnwindSafe(f));
        let mut stage = lock(&self.0);
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
        let mut stage = lock(&self.job.0);
        let (next, submit) = match core::mem::replace(&mut *stage, Stage::Gone) {
            Stage::New(f) => (Stage::Queued(f, cx.waker().clone()), true),
            Stage::Queued(f, _) => (Stage::Queued(f, cx.waker().clone()), false),
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
            let pool = self.handle.0.core.pool();
            let class = self.handle.0.spawner.class().unwrap_or_default();
            let job = Arc::clone(&self.job) as Arc<dyn Job>;
            let mine = pool.submit(self.handle, class, job);
            // Runs them on this worker, since no thread could be started. Each wakes its task.
            mine.into_iter().for_each(|job| job.run());
        }
        Poll::Pending
    }
}

impl<F, T> Drop for Unblock<F, T> {
    fn drop(&mut self) {
        // What the stage holds is dropped outside of the lock.
        let stage = core::mem::replace(&mut *lock(&self.job.0), Stage::Gone);
        drop(stage);
    }
}
