//! Which thread of a pool takes which job, when a thread is missing, and when one leaves.
//!
//! It knows neither how a thread is started nor what a job is: see `Pool`. Its models are in `platform-linux/models`.

use core::time::Duration;
use std::collections::VecDeque;

use super::sync::{Condvar, Mutex, PoisonError, lock};

/// One in so many jobs is of the last class that waits: the others must not starve it.
const SHARE: u32 = 16;

/// The jobs that wait, the first class first but for the share of the others.
struct Jobs<J> {
    jobs: [VecDeque<J>; 3],
    taken: u32,
}

impl<J> Jobs<J> {
    fn new() -> Self {
        Self { jobs: [const { VecDeque::new() }; 3], taken: 0 }
    }

    fn push(&mut self, class: usize, job: J) {
        self.jobs[class].push_back(job);
    }

    fn pop(&mut self) -> Option<J> {
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

/// The threads of a pool and the jobs for them.
///
/// INV-SERVED: while a job is in the queue, a thread is counted in `serving`; and a thread that is counted there takes the lock again and
/// finds the queue empty before it is not. So each job is taken, also after the end.
pub(super) struct JobQueue<J> {
    state: Mutex<State<J>>,
    /// There is a job, or the end.
    news: Condvar,
    /// A thread has ended.
    ended: Condvar,
    limit: usize,
    keep_alive: Duration,
}

struct State<J> {
    queue: Jobs<J>,
    /// Threads that will look at the queue again: INV-SERVED. Those are in it that have not begun yet.
    serving: usize,
    /// Threads among these that sleep.
    idle: usize,
    /// Threads that have not ended: they serve, or are on their way out.
    alive: usize,
    closed: bool,
}

impl<J> State<J> {
    /// A thread is about to be started.
    fn expect_one(&mut self) {
        self.serving += 1;
        self.alive += 1;
    }
}

/// What becomes of a job: [`JobQueue::submit`].
pub(super) enum Submitted<J> {
    /// A thread takes it.
    Queued,
    /// It is queued, and the caller starts a thread for it. If it cannot, it calls [`JobQueue::not_started`].
    Starts,
    /// The pool is closed.
    Refused(J),
}

/// See [`JobQueue::counts`].
pub(super) struct Counts {
    pub(super) threads: usize,
    pub(super) idle: usize,
    pub(super) queued: usize,
}

impl<J> JobQueue<J> {
    pub(super) fn new(limit: usize, keep_alive: Duration) -> Self {
        let state = State { queue: Jobs::new(), serving: 0, idle: 0, alive: 0, closed: false };
        let (news, ended) = (Condvar::new(), Condvar::new());
        Self { state: Mutex::new(state), news, ended, limit, keep_alive }
    }

    pub(super) fn counts(&self) -> Counts {
        let state = lock(&self.state);
        Counts { threads: state.serving, idle: state.idle, queued: state.queue.len() }
    }

    /// Queues a job.
    pub(super) fn submit(&self, class: usize, job: J) -> Submitted<J> {
        let mut state = lock(&self.state);
        if state.closed {
            return Submitted::Refused(job);
        }
        state.queue.push(class, job);
        // A sleeper for each job that waits; or one that works takes it later.
        if state.idle >= state.queue.len() || state.serving >= self.limit {
            drop(state);
            self.news.notify_one();
            return Submitted::Queued;
        }
        state.expect_one();
        Submitted::Starts
    }

    /// The thread that was asked for could not be started. Calls `take` with the jobs that relied on it, as there is no other; that of the
    /// caller need not be one of them.
    pub(super) fn not_started(&self, take: impl FnMut(J)) {
        let mut jobs = Jobs::new();
        let mut state = lock(&self.state);
        state.serving -= 1;
        state.alive -= 1;
        if state.serving == 0 {
            core::mem::swap(&mut state.queue, &mut jobs);
        }
        drop(state);
        self.ended.notify_all();
        core::iter::from_fn(|| jobs.pop()).for_each(take);
    }

    /// The next job for a thread that serves. `None`: it serves no more, as there was none for a while, or the pool is closed.
    pub(super) fn next(&self) -> Option<J> {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.queue.pop() {
                return Some(job);
            }
            if state.closed {
                break;
            }
            state.idle += 1;
            let slept = self.news.wait_timeout(state, self.keep_alive);
            let (woken, slept) = slept.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if slept.timed_out() && state.queue.len() == 0 {
                break;
            }
        }
        // The queue was seen empty under this lock: INV-SERVED.
        state.serving -= 1;
        None
    }

    /// A thread has ended, whose last [`next`](Self::next) was `None`.
    pub(super) fn leave(&self) {
        lock(&self.state).alive -= 1;
        self.ended.notify_all();
    }

    /// Refuses jobs from now on. Those that wait are taken still; then the threads end. If one waits that `cannot_wait` until a thread has
    /// time for it, returns true: the caller starts a thread, or calls [`not_started`](Self::not_started).
    pub(super) fn close(&self, cannot_wait: impl Fn(&J) -> bool) -> bool {
        let mut state = lock(&self.state);
        state.closed = true;
        let starts = state.queue.jobs.iter().flatten().any(cannot_wait);
        if starts {
            state.expect_one();
        }
        drop(state);
        self.news.notify_all();
        starts
    }

    /// In a model, the time of all sleepers is over.
    #[cfg(all(test, filch_loom))]
    pub(super) fn expire(&self) {
        self.news.expire(&lock(&self.state));
    }

    /// After [`close`](Self::close): waits until all threads have ended, `patience` at most. How many are left.
    pub(super) fn wait(&self, patience: Duration) -> usize {
        let state = lock(&self.state);
        let waited = self.ended.wait_timeout_while(state, patience, |state| state.alive > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.alive
    }
}
