//! The blocking pool: a runtime's threads for closures that block.
//!
//! A closure goes to an idle thread, or to a new one, up to a limit; beyond the limit it waits in a
//! queue. A thread that has been idle for a while ends. If no thread can be started at all, the
//! worker runs the closure itself: slow, but never a hang.

use core::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
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
    context::Handle,
    entry::Within,
    error::SpawnError,
    panics::{lock, quietly},
    thread_config::{Dress, ThreadRole},
};

/// How long a thread waits for work before it ends, unless the builder says another time.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The longest such time: a year. Some systems cannot wait for ever by a time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);
/// The largest number of threads, unless the builder sets another.
pub(crate) const LIMIT: usize = 512;

/// A snapshot of a runtime's blocking pool; see [`Handle::blocking_metrics`].
///
/// Example: [`Runtime`](crate::Runtime).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingMetrics {
    /// All threads, the idle ones included.
    pub threads: usize,
    /// Threads without work. A thread ends after ten idle seconds, or [`Builder::blocking_keep_alive`](crate::Builder::blocking_keep_alive).
    pub idle: usize,
    /// Closures that wait for a thread.
    pub queued: usize,
    /// Closures that were called and have returned or panicked, since the runtime began.
    pub done: usize,
}

/// A runtime's pool, from the build of the runtime to its end.
pub(crate) struct Pool {
    state: Mutex<State>,
    news: Condvar,
    /// A thread has ended.
    ended: Condvar,
    /// Closures that have run.
    done: AtomicUsize,
    limit: usize,
    keep_alive: Duration,
    /// How its threads are made; without the hook for long polls.
    dress: Dress,
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

/// One in so many jobs is of the last class that waits: the others must not starve it.
const SHARE: u32 = 16;

/// The jobs that wait, the first class first but for the share of the others.
#[derive(Default)]
struct Queue {
    jobs: [VecDeque<Arc<dyn Job>>; 3],
    taken: u32,
}

impl Queue {
    fn push(&mut self, class: Class, job: Arc<dyn Job>) {
        self.jobs[class as usize].push_back(job);
    }

    fn pop(&mut self) -> Option<Arc<dyn Job>> {
        self.taken = self.taken.wrapping_add(1);
        let mut jobs = self.jobs.iter_mut();
        if self.taken % SHARE == 0 {
            jobs.rev().find_map(VecDeque::pop_front)
        } else {
            jobs.find_map(VecDeque::pop_front)
        }
    }

    fn len(&self) -> usize {
        self.jobs.iter().map(VecDeque::len).sum()
    }
}

trait Job: Send + Sync {
    /// Runs the closure and counts it, unless it has been taken back. Never unwinds.
    fn run(&self, done: &AtomicUsize);
}

impl Pool {
    pub(crate) fn new(limit: usize, keep_alive: Duration, dress: Dress) -> Arc<Self> {
        let (limit, keep_alive) = (limit.max(1), keep_alive.min(LONGEST));
        let (news, ended) = (Condvar::new(), Condvar::new());
        let (state, done) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self { state, news, ended, done, limit, keep_alive, dress })
    }

    pub(crate) fn metrics(&self) -> BlockingMetrics {
        let state = lock(&self.state);
        BlockingMetrics {
            threads: state.threads,
            idle: state.idle,
            queued: state.queue.len(),
            // Ordering: Relaxed; a count. The stage's lock shows it to the task that has seen its output.
            done: self.done.load(Ordering::Relaxed),
        }
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
        let role = ThreadRole::Blocking(state.started - 1);
        drop(state);
        if self.start(handle, role).is_ok() {
            return Queue::default();
        }
        let mut state = lock(&self.state);
        state.threads -= 1;
        self.ended.notify_all();
        // Queued jobs may have relied on this thread.
        if state.threads == 0 { core::mem::take(&mut state.queue) } else { Queue::default() }
    }

    fn start(self: &Arc<Self>, handle: Handle, role: ThreadRole) -> std::io::Result<()> {
        let builder = self.dress.builder(role)?;
        let pool = Arc::clone(self);
        let body = move || {
            pool.dress.bind(role);
            pool.dress.hooks.around(|| pool.work(handle));
        };
        builder.spawn(body).map(drop)
    }

    /// The loop of a thread of the pool.
    fn work(&self, handle: Handle) {
        let _within = Within::new(handle);
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.queue.pop() {
                drop(state);
                job.run(&self.done);
                quietly(|| drop(job));
                state = lock(&self.state);
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let (woken, slept) = self
                .news
                .wait_timeout(state, self.keep_alive)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if slept.timed_out() && state.queue.len() == 0 {
                break;
            }
        }
        state.threads -= 1;
        self.ended.notify_all();
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

    /// After `close`: waits for the closures that run, `patience` at most. How many still run.
    pub(crate) fn wait(&self, patience: Duration) -> usize {
        let (state, patience) = (lock(&self.state), patience.min(LONGEST));
        let waited = self.ended.wait_timeout_while(state, patience, |state| state.threads > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.threads
    }
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
    /// Example: [`Runtime`](crate::Runtime).
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
        let task = self.unblock(&TaskOptions::new(), f);
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

    /// Runs the closure on a thread of the pool.
    fn unblock<F, T>(&self, options: &TaskOptions, f: F) -> Unblock<F, T>
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
        Unblock { handle: *self, job, class: Class::Background, _hold: Hold::new(*self) }
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
        if let Err(kind) = self.check() {
            return Err(SpawnError { kind, future: f });
        }
        let task = self.unblock(&options, f);
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
    ///
    /// Example: [`Runtime`](crate::Runtime).
    pub fn blocking_metrics(&self) -> BlockingMetrics {
        if self.check().is_err() {
            return BlockingMetrics::default();
        }
        self.0.core.pool().metrics()
    }
}

/// The future of `unblock`. If it is dropped before the closure has begun, the closure never
/// runs.
struct Unblock<F, T> {
    handle: Handle,
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
            let pool = this.handle.0.core.pool();
            let job = Arc::clone(&this.job) as Arc<dyn Job>;
            let mut mine = pool.submit(this.handle, class, job);
            // Runs them on this worker, since no thread could be started. Each wakes its task.
            while let Some(job) = mine.pop() {
                job.run(&pool.done);
            }
        }
        #[cfg(feature = "task-dump")]
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
