//! The injector: tasks from any context, for any worker.

use crate::{
    atomic::{AtomicUsize, Ordering, maybe_const},
    lock::Spin,
    queue::chain::{Chain, Stack},
    task::header::Ready,
};

/// The smallest and the largest batch that a worker takes at once.
const BATCH: core::ops::RangeInclusive<usize> = 4..=64;

/// An unbounded FIFO without memory of its own: a stack that any context pushes to, and the part of it that a consumer
/// has already put in order.
///
/// No worker waits for the lock: a worker that finds it taken goes on, and the holder notifies another worker if it leaves
/// tasks behind (`scheduler::find`).
pub(crate) struct Injector {
    stack: Stack,
    ordered: Spin<Chain>,
    /// How many tasks are in `ordered`.
    waiting: AtomicUsize,
    /// How many tasks were pushed and not yet popped. A hint.
    len: AtomicUsize,
}

impl Injector {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                stack: Stack::new(),
                ordered: Spin::new(Chain::new()),
                waiting: AtomicUsize::new(0),
                len: AtomicUsize::new(0),
            }
        }
    }

    /// Adds a task. Lock-free, callable from any context. Cost: two read-modify-writes of one cache line.
    pub(crate) fn push(&self, ready: Ready) {
        // Ordering: a hint; pairs with nothing.
        self.len.fetch_add(1, Ordering::Relaxed);
        self.stack.push(ready);
    }

    /// Adds a chain of tasks with one publication.
    pub(crate) fn push_chain(&self, chain: Chain) {
        self.len.fetch_add(chain.len(), Ordering::Relaxed);
        self.stack.push_chain(chain);
    }

    /// How many tasks wait, roughly.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether no task waits. Tasks that a consumer is just taking do not count: it will notify for them.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: the stack's Acquire comes first. Acquire of `waiting` pairs with its Release in `pop_batch`.
        self.stack.is_empty() && self.waiting.load(Ordering::Acquire) == 0
    }

    /// A consumer, which still has the lock, has taken so many tasks.
    fn took(&self, tasks: usize, left: &Chain) {
        // Ordering: Release pairs with the Acquire in `is_empty`.
        self.waiting.store(left.len(), Ordering::Release);
        // Ordering: a hint.
        self.len.fetch_sub(tasks, Ordering::Relaxed);
    }

    /// Takes this worker's fair share, oldest first. Returns the first task and passes the others to `rest`, at most
    /// `room`. `None` if there is no task, or if another consumer holds the lock.
    pub(crate) fn pop_batch(
        &self,
        workers: usize,
        room: usize,
        mut rest: impl FnMut(Ready),
    ) -> Option<Ready> {
        if self.is_empty() {
            return None;
        }
        self.ordered.try_with(|ordered| {
            let share = |n: usize| (n / workers.max(1)).clamp(*BATCH.start(), *BATCH.end());
            if ordered.len() < *BATCH.end() {
                ordered.append(self.stack.take_all());
            }
            let batch = share(ordered.len()).min(room.saturating_add(1));
            let first = ordered.pop_front();
            let mut taken = usize::from(first.is_some());
            while taken < batch {
                let Some(ready) = ordered.pop_front() else { break };
                rest(ready);
                taken += 1;
            }
            self.took(taken, ordered);
            first
        })?
    }
}
