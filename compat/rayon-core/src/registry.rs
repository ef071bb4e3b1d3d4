//! A pool behind its faces: a runtime's workers, and the queues of what was spawned.

use core::{
    any::Any,
    ops::Deref,
    panic::AssertUnwindSafe,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{
    collections::VecDeque,
    panic::{catch_unwind, resume_unwind},
    process::abort,
    sync::{Mutex, MutexGuard, PoisonError},
};

use filch_std::{Handle, TaskOptions, internal::Latch, runtime::WorkerId};

use crate::{builder::Handlers, current, job::Job, thread::Primed, yields::count_job};

/// Worker ids, and some kept by the runtime for threads that help.
pub(crate) const MOST: usize = WorkerId::MAX as usize + 1 - 8;

pub(crate) type Payload = Box<dyn Any + Send>;

/// A pool's shared part.
///
/// A job is put into the queue of the worker that makes it, or into the outsiders', and a ticket, a task of the runtime,
/// goes out for it. The worker that runs a ticket takes a job from its queue: the newest on the queue's own worker, the oldest
/// elsewhere.
pub(crate) struct Registry {
    pub(crate) handle: Handle,
    /// One for each worker, stand-ins and threads that help included, and the last for outsiders.
    queues: Box<[Queue]>,
    pub(crate) handlers: Handlers,
    pub(crate) primed: Primed,
    /// The pool's owner, and what was spawned and has not ended. The workers end when it comes to zero.
    live: AtomicUsize,
}

/// On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Those whose order is first in, first out; each has a job above that takes the oldest of them.
    fifo: Fifo,
    /// Parts of broadcasts, for the queue's own worker. Each has a ticket that is pinned there.
    mail: Letters,
}

/// INV-TICKET: there are at least as many tickets that have not run as there are jobs. Some find nothing: a worker that takes
/// its own job, in a yield or before its part of a broadcast, leaves the ticket to the next.
#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    tickets: usize,
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
            job.run();
        }
    }
}

/// Jobs in the order in which they came, with their numbers, and how many have come.
#[derive(Default)]
struct Letters(Mutex<(VecDeque<(u64, Job)>, u64)>);

impl Letters {
    /// Returns the job's number.
    fn push(&self, job: Job) -> u64 {
        let (jobs, number) = &mut *lock(&self.0);
        *number += 1;
        jobs.push_back((*number, job));
        *number
    }

    fn is_empty(&self) -> bool {
        lock(&self.0).0.is_empty()
    }

    /// Runs the oldest.
    fn run_one(&self) {
        let oldest = lock(&self.0).0.pop_front();
        if let Some((_, job)) = oldest {
            job.run();
        }
    }

    /// Runs the job of this number, if it has not run. No other: the ticket of another may wait below on the stack, and what is between
    /// may wait for this one.
    fn run(&self, number: u64) {
        let take = |(jobs, _): &mut (VecDeque<(u64, Job)>, u64)| {
            let at = jobs.iter().position(|(of, _)| *of == number)?;
            jobs.remove(at)
        };
        let found = take(&mut lock(&self.0));
        if let Some((_, job)) = found {
            job.run();
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
            queues: (0..=handle.slots()).map(|_| Queue::default()).collect(),
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
        self.handle.workers()
    }

    /// How many queues of workers there are.
    pub(crate) fn num_queues(&self) -> usize {
        self.queues.len() - 1
    }

    /// Which worker the calling thread is, if it is one; at or above `num_threads` a stand-in, or a thread that helps.
    pub(crate) fn worker(&self) -> Option<usize> {
        self.handle.current_worker().map(WorkerId::index)
    }

    /// Queues a job where the calling thread's are.
    pub(crate) fn push(&self, job: Job) {
        self.push_to(self.worker().unwrap_or(self.num_queues()), job);
    }

    pub(crate) fn push_to(&self, at: usize, job: Job) {
        let mut waiting = lock(&self.queues[at].waiting);
        waiting.jobs.push_back(job);
        let enough = waiting.tickets >= waiting.jobs.len();
        if !enough {
            waiting.tickets += 1;
        }
        drop(waiting);
        if !enough {
            let ticket = Ticket { registry: self.refer(), at };
            // Refused, the ticket is dropped here, and so a job run here.
            drop(self.handle.offer(async move { drop(ticket) }));
        }
    }

    /// Queues a job to run after those that the calling worker has queued so before.
    pub(crate) fn push_fifo(&self, job: Job) {
        let Some(at) = self.worker() else { return self.push(job) };
        let this = self.refer();
        self.queues[at].fifo.push(job);
        self.push_to(at, Job::new(move || this.queues[at].fifo.run_one()));
    }

    /// Has each worker run its job: after what waits in its queue, or while it waits in a join.
    pub(crate) fn push_to_all(&self, mut job: impl FnMut(usize) -> Job) {
        Handle::set_foreign_broadcasts(|| current::known(Registry::find_mail).flatten());
        for at in 0..self.num_threads() {
            let number = self.queues[at].mail.push(job(at));
            let mail = Mail { registry: self.refer(), at, number };
            let worker = WorkerId::new(at as u16);
            // As in `push_to`.
            drop(
                self.handle
                    .spawn_with(TaskOptions::new().pinned(worker), async move { drop(mail) }),
            );
            self.handle.unpark(worker);
        }
    }

    /// What runs a part of a broadcast, if there is one for the calling worker.
    fn find_mail(&self) -> Option<fn()> {
        let waits = self.worker().is_some_and(|at| !self.queues[at].mail.is_empty());
        waits.then_some(|| current::known(Registry::run_mail).unwrap_or_default())
    }

    fn run_mail(&self) {
        if let Some(at) = self.worker() {
            count_job();
            self.queues[at].mail.run_one();
        }
    }

    /// A job of a queue: the newest for its owner, unless it goes breadth first.
    pub(crate) fn take(&self, at: usize) -> Option<Job> {
        self.take_from(at, &mut lock(&self.queues[at].waiting))
    }

    fn take_by_ticket(&self, at: usize) -> Option<Job> {
        let mut waiting = lock(&self.queues[at].waiting);
        waiting.tickets -= 1;
        self.take_from(at, &mut waiting)
    }

    fn take_from(&self, at: usize, waiting: &mut Waiting) -> Option<Job> {
        let newest = self.worker() == Some(at) && !self.handlers.breadth_first;
        if newest { waiting.jobs.pop_back() } else { waiting.jobs.pop_front() }
    }

    pub(crate) fn has_jobs(&self, at: usize) -> bool {
        !lock(&self.queues[at].waiting).jobs.is_empty()
    }

    /// Runs `op` on a worker, at once on the calling thread if it is one. `op` is told whether it had to move.
    pub(crate) fn in_worker<R: Send>(&self, op: impl FnOnce(bool) -> R + Send) -> R {
        if self.worker().is_some() {
            return self.handle.within(|| op(false));
        }
        let latch = Latch::new();
        let mut outcome = None;
        let job = || {
            outcome = Some(catch_unwind(AssertUnwindSafe(|| op(true))));
            // SAFETY: INV-LATCH: once; the last touch.
            unsafe { Latch::set(NonNull::from(&latch)) };
        };
        // SAFETY: the job is run, and so sets the latch, before this function returns.
        self.push(unsafe { Job::borrowing(job) });
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
        if let Some(job) = self.registry.take_by_ticket(self.at) {
            count_job();
            job.run();
        }
    }
}

/// A ticket for a job of a worker's mail, as above.
struct Mail {
    registry: RegistryRef,
    at: usize,
    number: u64,
}

impl Drop for Mail {
    fn drop(&mut self) {
        count_job();
        while let Some(before) = self.registry.take(self.at) {
            before.run();
        }
        self.registry.queues[self.at].mail.run(self.number);
    }
}
