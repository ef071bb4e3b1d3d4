//! The threads of a runtime for closures that block.
//!
//! A closure goes to an idle thread, or to a new one, up to a limit; beyond the limit it waits in a
//! queue. A thread that has been idle for a while ends. If no thread can be started at all, the
//! caller runs the closure itself: slow, but never a hang.

use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Instant,
};

use filch::Class;

use crate::{
    blocking::BlockingMetrics,
    clock::Hold,
    context::Handle,
    entry::Within,
    error::SpawnErrorKind,
    panics::{lock, quietly},
    thread_config::{Dress, ThreadRole},
};

/// How long a thread waits for work before it ends, unless the builder says another time.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The longest such time: a year. Some systems cannot wait for ever by a time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);
/// The largest number of threads, unless the builder sets another.
pub(crate) const LIMIT: usize = 512;
/// How long the end of a runtime waits for work that was accepted.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which threads a closure is for.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// Those of `spawn_blocking`.
    Pool,
    /// Those for closures that wait for other processes, perhaps for ever. They have a limit of their own, and so keep no thread from the rest.
    Waiting,
}

/// A runtime's pools, from the build of the runtime to its end.
#[derive(Clone)]
pub(crate) struct Pools {
    closures: Arc<Pool>,
    waiting: Arc<Pool>,
}

impl Pools {
    pub(crate) fn new(limit: usize, keep_alive: Duration, dress: Dress) -> Self {
        let started = Arc::default();
        let pool = |dress| Pool::new(limit, keep_alive, dress, Arc::clone(&started));
        Self { closures: pool(dress.clone()), waiting: pool(dress) }
    }

    /// Pools that take no closure.
    pub(crate) fn none() -> Self {
        let none = Self::new(1, KEEP_ALIVE, Dress::default());
        none.all().for_each(|pool| lock(&pool.state).closed = true);
        none
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Pool>> {
        [&self.closures, &self.waiting].into_iter()
    }

    pub(crate) fn of(&self, threads: Threads) -> &Arc<Pool> {
        match threads {
            Threads::Pool => &self.closures,
            Threads::Waiting => &self.waiting,
        }
    }

    pub(crate) fn metrics(&self) -> BlockingMetrics {
        self.all().fold(BlockingMetrics::default(), |sum, pool| {
            let pool = pool.metrics();
            BlockingMetrics {
                threads: sum.threads + pool.threads,
                idle: sum.idle + pool.idle,
                queued: sum.queued + pool.queued,
                done: sum.done + pool.done,
            }
        })
    }

    /// The runtime has ended: drops the closures that wait, but for work that was accepted, which is done first. Other closures that run go
    /// on to their end; then the threads end.
    pub(crate) fn close(&self, handle: Handle) {
        self.all().for_each(|pool| pool.close(handle));
        let begin = Instant::now();
        for pool in self.all() {
            let patience = PATIENCE.saturating_sub(begin.elapsed());
            pool.wait_while(patience, |state| state.accepted > 0);
        }
    }

    /// After `close`: waits for the closures of `spawn_blocking` that run, `patience` at most. How many still run.
    pub(crate) fn wait(&self, patience: Duration) -> usize {
        self.closures.wait_while(patience, |state| state.threads > 0);
        lock(&self.closures.state).threads
    }
}

/// Some threads, and the jobs that wait for one.
pub(crate) struct Pool {
    state: Mutex<State>,
    news: Condvar,
    /// A thread has ended, or no accepted job is left.
    ended: Condvar,
    /// Jobs that have run.
    done: AtomicUsize,
    limit: usize,
    keep_alive: Duration,
    /// How its threads are made; without the hook for long polls.
    dress: Dress,
    /// The number of threads that were ever started for the runtime. It gives each its name.
    started: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    queue: Queue,
    threads: usize,
    idle: usize,
    closed: bool,
    /// Accepted jobs that have not come to their end.
    accepted: usize,
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

    /// Takes the jobs that may be dropped out.
    fn take_optional(&mut self) -> Self {
        let mut optional = Self::default();
        for (mine, taken) in self.jobs.iter_mut().zip(&mut optional.jobs) {
            let all = core::mem::take(mine).into_iter();
            (*mine, *taken) = all.partition(|job| job.is_accepted());
        }
        optional
    }
}

pub(crate) trait Job: Send + Sync {
    /// Runs the closure and counts it, unless it has been taken back. Never unwinds.
    fn run(&self, done: &AtomicUsize);

    /// Whether it is run in any case.
    fn is_accepted(&self) -> bool {
        false
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

impl Pool {
    fn new(
        limit: usize,
        keep_alive: Duration,
        dress: Dress,
        started: Arc<AtomicUsize>,
    ) -> Arc<Self> {
        let (limit, keep_alive) = (limit.max(1), keep_alive.min(LONGEST));
        let (news, ended) = (Condvar::new(), Condvar::new());
        let (state, done) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self { state, news, ended, done, limit, keep_alive, dress, started })
    }

    fn metrics(&self) -> BlockingMetrics {
        let state = lock(&self.state);
        BlockingMetrics {
            threads: state.threads,
            idle: state.idle,
            queued: state.queue.len(),
            // Ordering: Relaxed; a count. The stage's lock shows it to the task that has seen its output.
            done: self.done.load(Ordering::Relaxed),
        }
    }

    /// Has a thread run the job. The caller runs the jobs itself if there is no thread, and none can be started.
    ///
    /// # Errors
    /// The job, if the runtime has ended.
    pub(crate) fn submit(
        self: &Arc<Self>,
        handle: Handle,
        class: Class,
        job: Arc<dyn Job>,
    ) -> Result<(), Arc<dyn Job>> {
        let mut state = lock(&self.state);
        if state.closed {
            return Err(job);
        }
        state.accepted += usize::from(job.is_accepted());
        state.queue.push(class, job);
        if state.idle >= state.queue.len() || state.threads >= self.limit {
            drop(state);
            self.news.notify_one();
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        if self.start(handle).is_err() {
            self.run_without_thread();
        }
        Ok(())
    }

    /// A thread that was counted could not be started: runs the jobs that may have relied on it.
    #[cold]
    fn run_without_thread(&self) {
        let mut state = lock(&self.state);
        state.threads -= 1;
        self.ended.notify_all();
        let mut mine = match state.threads {
            0 => core::mem::take(&mut state.queue),
            _ => Queue::default(),
        };
        drop(state);
        while let Some(job) = mine.pop() {
            self.run(job);
        }
    }

    fn start(self: &Arc<Self>, handle: Handle) -> std::io::Result<()> {
        // Ordering: Relaxed; a count.
        let role = ThreadRole::Blocking(self.started.fetch_add(1, Ordering::Relaxed));
        let builder = self.dress.builder(role)?;
        let pool = Arc::clone(self);
        let body = move || {
            pool.dress.bind(role);
            pool.dress.hooks.around(|| pool.work(handle));
        };
        builder.spawn(body).map(drop)
    }

    /// Runs a job in the calling thread, and drops it.
    pub(crate) fn run(&self, job: Arc<dyn Job>) {
        let is_accepted = job.is_accepted();
        job.run(&self.done);
        quietly(|| drop(job));
        if is_accepted {
            lock(&self.state).accepted -= 1;
            self.ended.notify_all();
        }
    }

    /// The loop of a thread of the pool.
    fn work(&self, handle: Handle) {
        let _within = Within::new(handle);
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.queue.pop() {
                drop(state);
                self.run(job);
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

    /// See [`Pools::close`].
    fn close(self: &Arc<Self>, handle: Handle) {
        let mut state = lock(&self.state);
        state.closed = true;
        let optional = state.queue.take_optional();
        // The threads may be at work for as long as they like.
        let needs_thread = state.queue.len() > 0;
        state.threads += usize::from(needs_thread);
        drop(state);
        self.news.notify_all();
        quietly(|| drop(optional));
        if needs_thread && self.start(handle).is_err() {
            self.run_without_thread();
        }
    }

    fn wait_while(&self, patience: Duration, condition: impl Fn(&State) -> bool) {
        let waited =
            self.ended.wait_timeout_while(lock(&self.state), patience.min(LONGEST), |state| {
                condition(state)
            });
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

#[doc(hidden)]
impl Handle {
    /// Has a thread call a closure that nothing cancels: the end of the runtime waits until it has been called, five seconds at most. For
    /// work that a caller has been told is done.
    ///
    /// # Errors
    /// The runtime has ended, or is the parent process's; the closure is dropped.
    pub fn accept(
        &self,
        threads: Threads,
        f: impl FnOnce() + Send + 'static,
    ) -> Result<(), SpawnErrorKind> {
        self.check()?;
        let job = Arc::new(Accepted { f: Mutex::new(Some(f)), _hold: Hold::new(*self) });
        let pools = self.0.core.pools();
        let submitted = pools.of(threads).submit(*self, Class::Normal, job);
        submitted.map_err(|_| SpawnErrorKind::Shutdown)
    }
}
