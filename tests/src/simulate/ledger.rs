//! The accounts of an episode: how each task ended.

use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    task::{Context, Poll},
};
use std::{sync::Arc, thread};

use super::world::fail;

/// Sums over the tasks.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    spawned: AtomicU64,
    dropped: AtomicU64,
    /// All live tasks may end: a shutdown cancels them.
    closing: AtomicBool,
}

impl Ledger {
    pub(super) fn spawned(&self) -> u64 {
        self.spawned.load(Relaxed)
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// From here on tasks may be cancelled without an abort.
    pub(super) fn close(&self) {
        self.closing.store(true, Relaxed);
    }
}

/// The state of one task.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The task was asked to end, or may end early.
    pub(super) may_end: AtomicBool,
}

/// A task's future, counted in the ledger.
pub(super) struct Entry<F> {
    future: F,
    ledger: &'static Ledger,
    record: Arc<Record>,
    finished: bool,
    /// False until it is known to be spawned: a refused one is no task.
    counted: bool,
}

impl<F> Entry<F> {
    pub(super) fn new(future: F, ledger: &'static Ledger, record: Arc<Record>) -> Self {
        // Counted first: the task may end before the spawn returns.
        ledger.spawned.fetch_add(1, Relaxed);
        Self { future, ledger, record, finished: false, counted: true }
    }

    /// It was not spawned.
    pub(super) fn refused(mut self) {
        self.ledger.spawned.fetch_sub(1, Relaxed);
        self.counted = false;
    }
}

impl<F: Future> Future for Entry<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with its `Entry`, which moves nothing out of it and has no `Unpin` of its own.
        let (future, finished) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &mut this.finished)
        };
        if *finished {
            fail("a task is polled after its end");
        }
        let polled = future.poll(cx);
        *finished = polled.is_ready();
        polled
    }
}

impl<F> Drop for Entry<F> {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        self.ledger.dropped.fetch_add(1, Relaxed);
        let excused = self.finished
            || thread::panicking()
            || self.record.may_end.load(Relaxed)
            || self.ledger.closing.load(Relaxed);
        if !excused {
            fail("a task was cancelled, and nobody has asked for it");
        }
    }
}
