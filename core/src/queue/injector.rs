//! The injector: tasks from anywhere, for any worker.

use crate::{
    atomic::{AtomicBool, AtomicUsize, Ordering, UnsafeCell, maybe_const},
    queue::chain::{Chain, Stack},
    task::header::Ready,
};

/// The smallest and the largest batch that a worker takes at a time.
const BATCH: core::ops::RangeInclusive<usize> = 4..=64;

/// An unbounded FIFO without memory of its own: a stack that anybody pushes to, and the part of it that a consumer has
/// already turned around.
///
/// INV-INJECTOR: `ordered` is touched by the holder of `locked` only. Nobody waits for the lock: a worker that finds it
/// taken goes on, and its holder notifies when it leaves tasks behind (`scheduler::worker`).
pub(crate) struct Injector {
    stack: Stack,
    locked: AtomicBool,
    ordered: UnsafeCell<Chain>,
    /// How many are in `ordered`.
    waiting: AtomicUsize,
    /// How many were pushed and not yet popped; a hint.
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

    /// Adds a task. Lock-free, from any context; two read-modify-writes of one cache line.
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

    /// How many tasks wait, about.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether no task waits. Tasks in the hands of a consumer under way do not count: it will notify for them.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Ordering: the stack's Acquire comes first; `waiting` is for the consumer's unlock below.
        self.stack.is_empty() && self.waiting.load(Ordering::Acquire) == 0
    }

    /// Takes this worker's fair share, oldest first: the first task, and the rest of the batch into `rest`, at most
    /// `room`. Nothing if there is none, or if another consumer is at work.
    pub(crate) fn pop_batch(
        &self,
        workers: usize,
        room: usize,
        mut rest: impl FnMut(Ready),
    ) -> Option<Ready> {
        // Ordering: Acquire pairs with the Release of the unlock below.
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
