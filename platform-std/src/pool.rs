//! The threads of a runtime for closures that block.
//!
//! A closure goes to an idle thread, or to a new one, up to a limit; beyond the limit it waits in a
//! queue. A thread that has been idle for a while ends. If no thread can be started at all, the
//! caller runs the closure itself: slow, but never a hang.

mod queue;

/// The locks of the queue; those of its models are loom's.
mod sync {
    pub(super) use std::sync::{Condvar, Mutex, PoisonError};

    pub(super) use crate::panics::lock;
}

use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Instant,
};

use filch::Class;

use self::queue::{Counts, JobQueue, Submitted};
use crate::{
    metrics::BlockingMetrics,
    panics::{lock, quietly},
    thread_config::Dress,
    thread_hooks::{Around, ThreadRole},
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
    /// Those for closures that wait for other processes, perhaps for ever. They have a limit of their own, and so keep no thread from the
    /// rest.
    Waiting,
}

/// A runtime's pools, from the build of the runtime to its end.
#[derive(Clone)]
pub(crate) struct Pools {
    closures: Arc<Pool>,
    waiting: Arc<Pool>,
}

impl Pools {
    /// Each thread is in the runtime while it is in `within`.
    pub(crate) fn new(limit: usize, keep_alive: Duration, dress: Dress, within: Around) -> Self {
        let started = Arc::default();
        let pool =
            |dress| Pool::new(limit, keep_alive, dress, Arc::clone(&within), Arc::clone(&started));
        Self { closures: pool(dress.clone()), waiting: pool(dress) }
    }

    /// Pools that take no closure.
    pub(crate) fn none() -> Self {
        let none = Self::new(1, KEEP_ALIVE, Dress::default(), Arc::new(|body| body()));
        for pool in none.all() {
            pool.jobs.close(|_| false);
        }
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

    /// The runtime has ended: refuses closures from now on, and waits for work that was accepted. Those of tasks are gone, as their tasks
    /// are. Others go on to their end; then the threads end.
    pub(crate) fn close(&self) {
        self.all().for_each(|pool| pool.close());
        let begin = Instant::now();
        for pool in self.all() {
            pool.wait_for_accepted(PATIENCE.saturating_sub(begin.elapsed()));
        }
    }

    /// After `close`: waits for the closures of `spawn_blocking` that run, `patience` at most. How many still run.
    pub(crate) fn wait(&self, patience: Duration) -> usize {
        self.closures.wait(patience)
    }
}

/// Some threads, and the jobs that wait for one.
pub(crate) struct Pool {
    jobs: JobQueue<Arc<dyn Job>>,
    /// Accepted jobs that have not come to their end.
    accepted: Mutex<usize>,
    /// There are none.
    settled: Condvar,
    /// Jobs that have run.
    done: AtomicUsize,
    /// How its threads are made; without the hook for long polls.
    dress: Dress,
    /// Calls the body of a thread in the runtime.
    within: Around,
    /// The number of threads that were ever started for the runtime. It gives each its name.
    started: Arc<AtomicUsize>,
}

pub(crate) trait Job: Send + Sync {
    /// Runs the closure and counts it, unless it has been taken back. Never unwinds.
    fn run(&self, done: &AtomicUsize);

    /// There is no thread. Runs the closure here, or drops it. Never unwinds.
    fn do_without_thread(&self, done: &AtomicUsize) {
        self.run(done);
    }

    /// Whether it is run in any case.
    fn is_accepted(&self) -> bool {
        false
    }
}

impl Pool {
    fn new(
        limit: usize,
        keep_alive: Duration,
        dress: Dress,
        within: Around,
        started: Arc<AtomicUsize>,
    ) -> Arc<Self> {
        let jobs = JobQueue::new(limit.max(1), keep_alive.min(LONGEST));
        let (accepted, settled) = (Mutex::new(0), Condvar::new());
        let done = AtomicUsize::new(0);
        Arc::new(Self { jobs, accepted, settled, done, dress, within, started })
    }

    pub(crate) fn metrics(&self) -> BlockingMetrics {
        let Counts { threads, idle, queued } = self.jobs.counts();
        // Ordering: Relaxed; a count. The stage's lock shows it to the task that has seen its output.
        let done = self.done.load(Ordering::Relaxed);
        BlockingMetrics { threads, idle, queued, done }
    }

    /// Has a thread run the job.
    ///
    /// # Errors
    /// The runtime has ended; or there is no thread, and none can be started: the caller runs an accepted job itself.
    pub(crate) fn submit(
        self: &Arc<Self>,
        class: Class,
        job: &Arc<dyn Job>,
    ) -> Result<(), Unserved> {
        *lock(&self.accepted) += usize::from(job.is_accepted());
        match self.jobs.submit(class as usize, Arc::clone(job)) {
            Submitted::Queued => Ok(()),
            Submitted::Refused(job) => {
                self.settle(&*job);
                Err(Unserved::Closed)
            }
            Submitted::Starts => self.start().or_else(|error| {
                let own = self.do_without_thread(Some(job));
                if own { Err(Unserved::NoThread(error)) } else { Ok(()) }
            }),
        }
    }

    /// A thread that the queue expects could not be started: does its jobs here, but for one of the caller. Whether that was among them.
    #[cold]
    fn do_without_thread(&self, own: Option<&Arc<dyn Job>>) -> bool {
        let mut has_own = false;
        self.jobs.not_started(|job| {
            if own.is_some_and(|own| Arc::ptr_eq(own, &job)) {
                has_own = true;
            } else {
                job.do_without_thread(&self.done);
                self.drop(job);
            }
        });
        has_own
    }

    fn start(self: &Arc<Self>) -> io::Result<()> {
        // Ordering: Relaxed; a count.
        let role = ThreadRole::Blocking(self.started.fetch_add(1, Ordering::Relaxed));
        let builder = self.dress.builder(role)?;
        let pool = Arc::clone(self);
        let body = move || {
            let _alive = Alive(&pool.jobs);
            pool.dress.bind(role);
            pool.dress.hooks.around(Some(role), || (pool.within)(&mut || pool.work()));
        };
        builder.spawn(body).map(drop)
    }

    /// The loop of a thread of the pool.
    fn work(&self) {
        while let Some(job) = self.jobs.next() {
            job.run(&self.done);
            self.drop(job);
        }
    }

    /// Runs a job in the calling thread that was not served.
    pub(crate) fn run(&self, job: &dyn Job) {
        job.run(&self.done);
        self.settle(job);
    }

    fn drop(&self, job: Arc<dyn Job>) {
        let is_accepted = job.is_accepted();
        quietly(|| drop(job));
        if is_accepted {
            self.settle_one();
        }
    }

    /// The job has come to its end.
    fn settle(&self, job: &dyn Job) {
        if job.is_accepted() {
            self.settle_one();
        }
    }

    fn settle_one(&self) {
        *lock(&self.accepted) -= 1;
        self.settled.notify_all();
    }

    /// See [`Pools::close`].
    pub(crate) fn close(self: &Arc<Self>) {
        // The threads may be at work for as long as they like.
        let starts = self.jobs.close(|job| job.is_accepted());
        if starts && self.start().is_err() {
            self.do_without_thread(None);
        }
    }

    /// After `close`: waits for the threads, `patience` at most. How many are left.
    pub(crate) fn wait(&self, patience: Duration) -> usize {
        self.jobs.wait(patience.min(LONGEST))
    }

    /// Waits for accepted jobs.
    fn wait_for_accepted(&self, patience: Duration) {
        let accepted = lock(&self.accepted);
        let waited = self.settled.wait_timeout_while(accepted, patience, |left| *left > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// A thread of the pool, until its end.
struct Alive<'a>(&'a JobQueue<Arc<dyn Job>>);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// Why no thread runs a closure.
#[doc(hidden)]
#[derive(Debug)]
pub enum Unserved {
    /// The runtime has ended.
    Closed,
    /// There is no thread, and none can be started.
    NoThread(io::Error),
}
