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
    queue: VecDeque<Arc<dyn Job>>,
    threads: usize,
    idle: usize,
    closed: bool,
    /// The number of threads that were ever started. It gives each its name.
    started: usize,
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
    fn submit(self: &Arc<Self>, handle: Handle, job: Arc<dyn Job>) -> VecDeque<Arc<dyn Job>> {
        let mut state = lock(&self.state);
        if state.closed {
            return VecDeque::from([job]);
        }
        state.queue.push_back(job);
        if state.idle >= state.queue.len() || state.threads >= self.limit {
            drop(state);
            self.news.notify_one();
            return VecDeque::new();
        }
        state.threads += 1;
        state.started += 1;
        let number = state.started;
        drop(state);
        if self.start(handle, number).is_ok() {
            return VecDeque::new();
        }
        let mut state = lock(&self.state);
        state.threads -= 1;
        // Queued jobs may have relied on this thread.
        if state.threads == 0 { core::mem::take(&mut state.queue) } else { VecDeque::new() }
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
            if let Some(job) = state.queue.pop_front() {
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
            if slept.timed_out() && state.queue.is_empty() {
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

/// Runs the closure on a thread of the pool.
pub(crate) fn unblock<F, T>(handle: Handle, f: F) -> Unblock<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let job = Arc::new(Closure(Mutex::new(Stage::New(f))));
    Unblock { handle, job, _hold: Hold::new(handle) }
}

/// The future of [`unblock`]. If it is dropped before the closure has begun, the closure never
/// runs.
pub(crate) struct Unblock<F, T> {
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
            let mine = pool.submit(self.handle, Arc::clone(&self.job) as Arc<dyn Job>);
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
