//! A pool behind its faces: a runtime's workers, and the queues of what was spawned.

use core::{any::Any, ops::Deref, panic::AssertUnwindSafe, ptr::NonNull};
use std::{
    collections::VecDeque,
    panic::{catch_unwind, resume_unwind},
    process::abort,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use filch_std::{Handle, WorkerId, parallel};

use crate::{builder::Handlers, latch::Latch, thread::Primed};

/// Worker ids, and some kept by the runtime for threads that help.
pub(crate) const MOST: usize = WorkerId::MAX as usize + 1 - 8;

pub(crate) type Payload = Box<dyn Any + Send>;

/// Something to run once, that never unwinds.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A pool's shared part.
///
/// A job is put into the queue of the worker that spawns it, or into the outsiders', and a ticket, a task of the runtime, follows
/// it. Whoever runs the ticket takes a job from that queue.
///
/// INV-TICKET: in each queue there are at most as many jobs as there are tickets to it that have not run. A job may be taken
/// without a ticket; that one finds less then.
pub(crate) struct Registry {
    pub(crate) handle: Handle,
    /// One for each worker, and the last for outsiders.
    queues: Box<[Queue]>,
    pub(crate) handlers: Handlers,
    pub(crate) primed: Primed,
    /// The pool's owner, and what was spawned and has not ended. The workers end when it comes to zero.
    live: AtomicUsize,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    /// Those whose order is first in, first out; each has a job above that takes the oldest of them.
    fifo: Fifo,
}

/// Jobs of one worker in the order of their spawns.
#[derive(Default)]
pub(crate) struct Fifo(Mutex<VecDeque<Job>>);

impl Fifo {
    pub(crate) fn push(&self, job: Job) {
        lock(&self.0).push_back(job);
    }

    /// Runs the oldest.
    pub(crate) fn run_one(&self) {
        let job = lock(&self.0).pop_front();
        if let Some(job) = job {
            job();
        }
    }
}

/// A reference to a registry without its lifetime.
///
/// INV-REGISTRY: who makes one sees to it that the registry stays for as long as it is used. Registries of runtimes and the
/// global one stay for ever; a pool's stays until its runtime has no task left, and no worker.
#[derive(Clone, Copy)]
pub(crate) struct RegistryRef(NonNull<Registry>);

// SAFETY: a registry is `Sync`, as `assert_sync` shows.
unsafe impl Send for RegistryRef {}
// SAFETY: as above.
unsafe impl Sync for RegistryRef {}

impl Deref for RegistryRef {
    type Target = Registry;

    fn deref(&self) -> &Registry {
        // SAFETY: INV-REGISTRY.
        unsafe { self.0.as_ref() }
    }
}

const fn assert_sync<T: Sync>() {}
const _: () = assert_sync::<Registry>();

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No user code runs under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    pub(crate) fn new(handle: Handle, handlers: Handlers) -> Self {
        let workers = handle.workers();
        Self {
            handle,
            queues: (0..=workers).map(|_| Queue::default()).collect(),
            handlers,
            primed: Primed::new(workers),
            live: AtomicUsize::new(1),
        }
    }

    /// See INV-REGISTRY.
    pub(crate) fn refer(&self) -> RegistryRef {
        RegistryRef(NonNull::from(self))
    }

    pub(crate) fn num_threads(&self) -> usize {
        self.queues.len() - 1
    }

    /// Which worker the calling thread is, if it is one and has a queue.
    pub(crate) fn worker(&self) -> Option<usize> {
        self.handle.worker().map(WorkerId::index).filter(|worker| *worker < self.num_threads())
    }

    /// Queues a job where the calling thread's are.
    pub(crate) fn push(&self, job: Job) {
        self.push_to(self.worker().unwrap_or(self.num_threads()), job);
    }

    fn push_to(&self, at: usize, job: Job) {
        lock(&self.queues[at].jobs).push_back(job);
        let ticket = Ticket { registry: self.refer(), at };
        // Refused, the ticket is dropped here, and so the job run here.
        drop(self.handle.try_spawn(async move { drop(ticket) }));
    }

    /// Queues a job to run after those that the calling worker has queued so before.
    pub(crate) fn push_fifo(&self, job: Job) {
        let Some(at) = self.worker() else { return self.push(job) };
        let this = self.refer();
        self.queues[at].fifo.push(job);
        self.push_to(at, Box::new(move || this.queues[at].fifo.run_one()));
    }

    /// Has each worker run its job, after what waits in its queue.
    pub(crate) fn push_to_all(&self, mut job: impl FnMut(usize) -> Job) {
        for at in 0..self.num_threads() {
            let mail = Mail { registry: self.refer(), at, job: Some(job(at)) };
            // As in `push_to`.
            drop(self.handle.spawn_pinned(WorkerId::new(at as u16), async move { drop(mail) }));
        }
    }

    /// A job of a queue: the newest for its owner, unless it goes breadth first.
    pub(crate) fn take(&self, at: usize) -> Option<Job> {
        let newest = self.worker() == Some(at) && !self.handlers.breadth_first;
        let mut jobs = lock(&self.queues[at].jobs);
        if newest { jobs.pop_back() } else { jobs.pop_front() }
    }

    pub(crate) fn has_jobs(&self, at: usize) -> bool {
        !lock(&self.queues[at].jobs).is_empty()
    }

    /// Runs a job, in a fork-join run, so that the joins in it need not look for one.
    pub(crate) fn run(&self, job: Job) {
        if parallel::with_here(|fork| fork.is_some()) {
            return job();
        }
        self.handle.fork(|_| job());
    }

    /// Runs `op` on a worker, at once on the calling thread if it is one. `op` is told whether it had to move.
    pub(crate) fn in_worker<R: Send>(&self, op: impl FnOnce(bool) -> R + Send) -> R {
        if self.handle.worker().is_some() {
            return op(false);
        }
        let latch = Latch::new();
        let mut outcome = None;
        let job = || {
            outcome = Some(catch_unwind(AssertUnwindSafe(|| op(true))));
            latch.set();
        };
        // SAFETY: the job is run, and so sets the latch, before this function returns.
        let job = unsafe { erase(Box::new(job)) };
        self.push(job);
        latch.wait();
        match outcome {
            Some(Ok(outcome)) => outcome,
            Some(Err(payload)) => resume_unwind(payload),
            None => unreachable!("the latch was set"),
        }
    }

    /// Runs `f` where nobody waits for it: a panic goes to the handler, and ends the program if there is none.
    pub(crate) fn contain(&self, f: impl FnOnce()) {
        let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { return };
        if let Some(handler) = &self.handlers.panic {
            if catch_unwind(AssertUnwindSafe(|| handler(payload))).is_ok() {
                return;
            }
        }
        eprintln!("rayon-core on filch: a panic that nobody takes; aborting");
        abort();
    }

    /// The workers stay until `release`.
    pub(crate) fn hold(&self, n: usize) {
        // Ordering: by who holds it already.
        self.live.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        // Ordering: AcqRel: the end comes after all that was held for.
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.handle.begin_shutdown();
        }
    }
}

/// A task that runs a job of a queue when it is dropped: by its poll, or when the runtime ends before.
struct Ticket {
    registry: RegistryRef,
    at: usize,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(job) = self.registry.take(self.at) {
            crate::yields::count_job();
            self.registry.run(job);
        }
    }
}

/// A job for one worker, as above.
struct Mail {
    registry: RegistryRef,
    at: usize,
    job: Option<Job>,
}

impl Drop for Mail {
    fn drop(&mut self) {
        crate::yields::count_job();
        while let Some(before) = self.registry.take(self.at) {
            self.registry.run(before);
        }
        if let Some(job) = self.job.take() {
            self.registry.run(job);
        }
    }
}

/// A job without the lifetime of what it borrows.
///
/// # Safety
/// It is run, and so gone, before that ends.
pub(crate) unsafe fn erase<'a>(job: Box<dyn FnOnce() + Send + 'a>) -> Job {
    // SAFETY: only the lifetime changes; the caller's.
    unsafe { core::mem::transmute(job) }
}
