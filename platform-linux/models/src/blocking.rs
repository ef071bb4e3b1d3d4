//! The queue of the blocking pool of `filch-std`, whose threads take jobs, sleep, and leave.

#[path = "../../../platform-std/src/pool/queue.rs"]
mod queue;
mod sync;

use core::time::Duration;
use std::sync::Arc;

use loom::{
    sync::{Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle},
};

use self::queue::{JobQueue, Submitted};

const NORMAL: usize = 1;

/// A pool whose jobs are numbers.
struct Pool {
    jobs: JobQueue<usize>,
    /// Whether a thread has begun with a job.
    begun: Mutex<[bool; 3]>,
    begins: Condvar,
    /// Job 1 goes on once that one has begun.
    awaits: Option<usize>,
}

type Threads = Vec<JoinHandle<()>>;

/// Models `f` with three preemptions: with four threads, all interleavings are too many.
fn model(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(f);
}

impl Pool {
    fn new(limit: usize) -> Self {
        let (begun, begins) = (Mutex::new([false; 3]), Condvar::new());
        Self { jobs: JobQueue::new(limit, Duration::ZERO), begun, begins, awaits: None }
    }

    fn begun(&self) -> MutexGuard<'_, [bool; 3]> {
        self.begun.lock().unwrap()
    }

    /// Waits until a thread has begun with the job.
    fn until_begun(&self, job: usize) {
        let mut begun = self.begun();
        while !begun[job] {
            begun = self.begins.wait(begun).unwrap();
        }
    }

    fn run(&self, job: usize) {
        assert!(!core::mem::replace(&mut self.begun()[job], true), "a job is taken once");
        self.begins.notify_all();
        if let (1, Some(other)) = (job, self.awaits) {
            self.until_begun(other);
        }
    }

    /// Queues a job, and starts a thread if it needs one. False if it was refused.
    fn submit(self: &Arc<Self>, job: usize, threads: &mut Threads) -> bool {
        match self.jobs.submit(NORMAL, job) {
            Submitted::Queued => true,
            Submitted::Refused(refused) => {
                assert_eq!(refused, job);
                false
            }
            Submitted::Starts => {
                self.start(threads);
                true
            }
        }
    }

    fn start(self: &Arc<Self>, threads: &mut Threads) {
        let pool = Arc::clone(self);
        threads.push(thread::spawn(move || {
            while let Some(job) = pool.jobs.next() {
                pool.run(job);
            }
            pool.jobs.leave();
        }));
    }

    /// The end, which waits for all threads.
    fn end(&self, threads: Threads) {
        assert!(!self.jobs.close(|_| false));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(self.jobs.wait(Duration::ZERO), 0);
        let counts = self.jobs.counts();
        assert_eq!((counts.threads, counts.idle, counts.queued), (0, 0, 0));
    }
}

/// The one thread's time is over as a job comes, at the limit.
#[test]
fn models_a_job_that_comes_as_the_last_thread_leaves() {
    loom::model(|| {
        let (pool, mut threads) = (Arc::new(Pool::new(1)), Threads::new());
        assert!(pool.submit(0, &mut threads));
        threads.push(thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.jobs.expire()
        }));
        assert!(pool.submit(1, &mut threads));
        // Without the end, which has each thread look again.
        pool.until_begun(1);
        pool.end(threads);
        assert_eq!(*pool.begun(), [true, true, false]);
    });
}

/// One thread sleeps, or is about to, and two jobs come of which one waits for the other.
#[test]
fn models_a_thread_for_each_job() {
    model(|| {
        let pool = Arc::new(Pool { awaits: Some(2), ..Pool::new(2) });
        let mut threads = Threads::new();
        assert!(pool.submit(0, &mut threads));
        pool.until_begun(0);
        assert!(pool.submit(1, &mut threads));
        assert!(pool.submit(2, &mut threads));
        pool.until_begun(1);
        pool.until_begun(2);
        pool.end(threads);
    });
}

/// A thread cannot be started on which the job of another relies.
#[test]
fn models_a_job_that_relies_on_a_thread_that_is_not_started() {
    loom::model(|| {
        let pool = Arc::new(Pool::new(1));
        assert!(matches!(pool.jobs.submit(NORMAL, 0), Submitted::Starts));
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                let mut threads = Threads::new();
                assert!(pool.submit(1, &mut threads));
                threads
            }
        });
        pool.jobs.not_started(|job| pool.run(job));
        let threads = other.join().unwrap();
        pool.until_begun(0);
        pool.until_begun(1);
        pool.end(threads);
    });
}

/// A job that is not refused is taken, whenever the end comes.
#[test]
fn models_a_job_against_the_end() {
    loom::model(|| {
        let (pool, mut threads) = (Arc::new(Pool::new(1)), Threads::new());
        assert!(pool.submit(0, &mut threads));
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || {
                let mut threads = Threads::new();
                (pool.submit(1, &mut threads), threads)
            }
        });
        pool.jobs.close(|_| false);
        assert!(!pool.submit(2, &mut threads));
        let (is_taken, others) = other.join().unwrap();
        threads.extend(others);
        pool.end(threads);
        assert_eq!(*pool.begun(), [true, is_taken, false]);
    });
}

/// A job that cannot wait is behind one that waits for it, on the only thread.
#[test]
fn models_the_end_starts_a_thread_for_a_job_that_cannot_wait() {
    model(|| {
        let pool = Arc::new(Pool { awaits: Some(2), ..Pool::new(1) });
        let mut threads = Threads::new();
        assert!(pool.submit(1, &mut threads));
        assert!(pool.submit(2, &mut threads));
        if pool.jobs.close(|job| *job == 2) {
            pool.start(&mut threads);
        }
        pool.until_begun(2);
        pool.end(threads);
    });
}
