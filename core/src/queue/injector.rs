//! The injector: tasks from any context, for any worker.

use crate::{
    atomic::{AtomicBool, AtomicUsize, Ordering, UnsafeCell, maybe_const},
    queue::chain::{Chain, Stack},
    task::header::Ready,
};

/// The smallest and the largest batch that a worker takes at once.
const BATCH: core::ops::RangeInclusive<usize> = 4..=64;

/// An unbounded FIFO without memory of its own: a stack that any context pushes to, and the part of it that a consumer
/// has already put in order.
///
/// INV-INJECTOR: only the holder of `locked` touches `ordered`. No worker waits for the lock: a worker that finds it
/// taken goes on, and the holder notifies another worker if it leaves tasks behind (`scheduler::find`).
pub(crate) struct Injector {
    stack: Stack,
    locked: AtomicBool,
    ordered: UnsafeCell<Chain>,
    /// How many tasks are in `ordered`.
    waiting: AtomicUsize,
    /// How many tasks were pushed and not yet popped. A hint.
    len: AtomicUsize,
}

// SAFETY: INV-INJECTOR.
unsafe impl Sync for Injector {}

impl Injector {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self {
                stack: Stack::new(),
                locked: AtomicBool::new(false),
                ordered: UnsafeCell::new(Chain::new()),
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

    /// Takes this worker's fair share, oldest first. Returns the first task and passes the others to `rest`, at most
    /// `room`. `None` if there is no task, or if another consumer holds the lock.
    pub(crate) fn pop_batch(
        &self,
        workers: usize,
        room: usize,
        mut rest: impl FnMut(Ready),
    ) -> Option<Ready> {
        // Ordering: the Acquire of the exchange pairs with the Release of the unlock below.
        if self.is_empty() {
            return None;
        }
        self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let first = self.ordered.with_mut(|ordered| {
            // SAFETY: INV-INJECTOR: we hold the lock.
            let ordered = unsafe { &mut *ordered };
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
            // Ordering: Release pairs with the Acquire in `is_empty`.
            self.waiting.store(ordered.len(), Ordering::Release);
            self.len.fetch_sub(taken, Ordering::Relaxed);
            first
        });
        // Ordering: Release pairs with the Acquire of the next lock.
        self.locked.store(false, Ordering::Release);
        first
    }
}
