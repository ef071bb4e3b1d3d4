//! The threads of `spawn_blocking`.

use core::time::Duration;
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Instant,
};

use super::{Handle, builder::Hooks, context};
use crate::util::lock;

/// A closure that blocks. Dropped, it is cancelled.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// How the threads are made, and how many.
pub(crate) struct Pool {
    state: Mutex<State>,
    /// There is a job, or the end.
    news: Condvar,
    /// A thread has ended.
    ended: Condvar,
    most: usize,
    keep_alive: Duration,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// Threads that have been notified and are idle still.
    called: usize,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(most: usize, keep_alive: Duration) -> Self {
        Self {
            state: Mutex::default(),
            news: Condvar::new(),
            ended: Condvar::new(),
            most,
            keep_alive,
        }
    }

    /// Has a thread run the job. After the end of the runtime the job is returned.
    ///
    /// # Errors
    /// If there is no thread, and none can be started; the job is cancelled.
    pub(crate) fn submit(&self, handle: &Handle, job: Job) -> Result<Option<Job>, io::Error> {
        let mut state = lock(&self.state);
        if state.closed {
            return Ok(Some(job));
        }
        state.jobs.push_back(job);
        if state.idle > state.called {
            state.called += 1;
            drop(state);
            self.news.notify_one();
            return Ok(None);
        }
        if state.threads >= self.most {
            return Ok(None);
        }
        state.threads += 1;
        drop(state);
        let Err(error) = start(handle) else { return Ok(None) };
        let mut state = lock(&self.state);
        state.threads -= 1;
        if state.threads > 0 {
            return Ok(None);
        }
        let jobs = core::mem::take(&mut state.jobs);
        drop(state);
        drop(jobs);
        Err(error)
    }

    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = lock(&self.state);
                continue;
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let slept = self.news.wait_timeout(state, self.keep_alive);
            let timed_out;
            (state, timed_out) = slept.unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            let called = state.called > 0;
            if called {
                state.called -= 1;
            }
            if timed_out.timed_out() && !called && state.jobs.is_empty() {
                break;
            }
        }
    }

    /// From now on jobs are refused. Those that wait are run still.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.news.notify_all();
    }

    /// Waits until all threads have ended, at most until `end`.
    pub(crate) fn join(&self, end: Option<Instant>) {
        let mut state = lock(&self.state);
        while state.threads > 0 {
            match end {
                None => state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    let waited = self.ended.wait_timeout(state, left);
                    (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

fn start(handle: &Handle) -> io::Result<()> {
    let hooks: &Hooks = &handle.inner.hooks;
    let builder = hooks.thread();
    let handle = handle.clone();
    let started = builder.spawn(move || {
        let inner = Arc::clone(&handle.inner);
        let _ended = Ended(&inner);
        let _entered = context::enter(handle);
        inner.hooks.around(|| inner.pool.work());
    });
    started.map(drop)
}

/// A thread of the pool ends with this, also by a hook's panic.
struct Ended<'a>(&'a super::handle::Inner);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(&self.0.pool.state).threads -= 1;
        self.0.pool.ended.notify_all();
    }
}

/// A name, as the operating system shows it.
pub(crate) fn thread(name: String, stack: Option<usize>) -> thread::Builder {
    let builder = thread::Builder::new().name(name);
    match stack {
        Some(bytes) => builder.stack_size(bytes),
        None => builder,
    }
}
