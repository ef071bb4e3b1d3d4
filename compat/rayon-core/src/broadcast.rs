//! `broadcast`: something that every thread of a pool runs once.

use core::{fmt, marker::PhantomData, panic::AssertUnwindSafe, ptr::NonNull};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::{Arc, Mutex},
    thread,
};

use filch_std::internal::CountLatch;

use crate::{
    current,
    job::Job,
    registry::{Registry, lock},
};

/// Runs a closure on every thread of the current pool, once each, and returns the outcomes by the threads' indices.
///
/// A thread does so when it has done what it has spawned.
///
/// # Panics
/// With one of the closure's panics, when all threads are through.
///
/// ```
/// let squares = rayon_core::broadcast(|context| context.index() * context.index());
/// assert_eq!(squares.len(), rayon_core::current_num_threads());
/// assert_eq!(squares[0], 0);
/// ```
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    current::with(|registry| broadcast_in(registry, op))
}

/// Runs a closure on every thread of the current pool, once each, some time.
///
/// Panics go to the pool's panic handler, and end the program if there is none.
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    current::with(|registry| spawn_broadcast_in(registry, op));
}

/// Which of the threads that run a broadcast this is.
pub struct BroadcastContext<'a> {
    index: usize,
    num_threads: usize,
    /// It is the calling thread's, and the call's.
    not_send: PhantomData<&'a mut dyn Fn()>,
}

impl BroadcastContext<'_> {
    pub(crate) fn new(index: usize, num_threads: usize) -> Self {
        Self { index, num_threads, not_send: PhantomData }
    }

    /// The thread's index in the pool.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many threads the pool has.
    #[inline]
    pub fn num_threads(&self) -> usize {
        self.num_threads
    }
}

impl fmt::Debug for BroadcastContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext")
            .field("index", &self.index)
            .field("num_threads", &self.num_threads)
            .finish()
    }
}

pub(crate) fn broadcast_in<OP, R>(registry: &Registry, op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    let n = registry.num_threads();
    let outcomes: Vec<Mutex<Option<thread::Result<R>>>> =
        (0..n).map(|_| Mutex::default()).collect();
    let latch = CountLatch::on(registry.handle, n);
    registry.push_to_all(|index| {
        let (op, outcome, latch) = (&op, &outcomes[index], &latch);
        let job = move || {
            let context = BroadcastContext::new(index, n);
            let done = catch_unwind(AssertUnwindSafe(|| op(context)));
            *lock(outcome) = Some(done);
            // SAFETY: INV-LATCH: each is counted from the beginning; the last touch.
            unsafe { CountLatch::down(NonNull::from(latch)) };
        };
        // SAFETY: it runs, and counts the latch down, before this function returns.
        unsafe { Job::borrowing(job) }
    });
    latch.wait();
    let done = outcomes.into_iter().filter_map(|outcome| lock(&outcome).take());
    done.collect::<thread::Result<_>>().unwrap_or_else(|payload| resume_unwind(payload))
}

pub(crate) fn spawn_broadcast_in<OP>(registry: &Registry, op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    let n = registry.num_threads();
    registry.hold(n);
    let op = Arc::new(op);
    // INV-REGISTRY: as in `spawn`.
    let home = registry.refer();
    registry.push_to_all(|index| {
        let op = Arc::clone(&op);
        Job::new(move || {
            home.contain(move || op(BroadcastContext::new(index, n)));
            home.release();
        })
    });
}
