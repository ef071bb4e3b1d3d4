//! What a runtime does when a task panics.

use core::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::Waker,
};
use std::sync::Mutex;

use crate::panics::lock;

/// What a panic of a task does beyond its [`JoinHandle`](crate::JoinHandle): [`Builder::unhandled_panic`](crate::Builder::unhandled_panic).
///
/// Idea: tokio's policy of the same name.
///
/// Example: [`Builder::unhandled_panic`](crate::Builder::unhandled_panic).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// Nothing: the other tasks go on.
    #[default]
    Continue,
    /// It ends the runtime: all tasks are cancelled, spawns are refused, and each [`block_on`](crate::block_on) of the runtime panics. One in a
    /// destructor, of a thread that unwinds from there, then aborts the program, as any second panic does.
    ShutDown,
}

/// Whether the runtime is at its end, by a panic or otherwise, and the threads that must learn of a panic.
#[derive(Default)]
pub(crate) struct Fall {
    /// A panic ends it.
    ends: AtomicBool,
    fallen: AtomicBool,
    /// Its tasks have been cancelled, or are about to be.
    ending: AtomicBool,
    /// Which run of a runtime this is, of all.
    number: AtomicU64,
    /// Of the threads in `block_on` that must learn of a panic, and of those that must learn of the end and do not sleep as workers.
    roots: Mutex<Vec<Waker>>,
}

static RUNS: AtomicU64 = AtomicU64::new(0);

impl Fall {
    /// A runtime begins. No task of it runs yet.
    pub(crate) fn begin(&self, policy: UnhandledPanic) {
        // Ordering: Relaxed: the start of the threads orders both.
        self.ends.store(policy == UnhandledPanic::ShutDown, Ordering::Relaxed);
        self.fallen.store(false, Ordering::Relaxed);
        self.ending.store(false, Ordering::Relaxed);
        self.number.store(RUNS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// The tasks are cancelled next, which has all workers look.
    pub(crate) fn end(&self) {
        // Ordering: Release pairs with the Acquire in `is_ending`; a worker that sleeps sees it by the wake that follows. Of another thread, the lock
        // orders it: one that is not woken here looks after it has come into the list.
        self.ending.store(true, Ordering::Release);
        self.wake_roots();
    }

    /// Whether the tasks have been cancelled, or are about to be.
    pub(crate) fn is_ending(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `end`.
        self.ending.load(Ordering::Acquire)
    }

    /// A task has panicked. `end` ends the runtime.
    #[cold]
    pub(crate) fn by_panic(&self, end: impl FnOnce()) {
        if !self.ends.load(Ordering::Relaxed) {
            return;
        }
        // Before the tasks are cancelled, by which a future in `block_on` may complete.
        // Ordering: Relaxed: the lock orders it before the look of a thread that is not woken here.
        self.fallen.store(true, Ordering::Relaxed);
        end();
        self.wake_roots();
    }

    fn wake_roots(&self) {
        // A waker is foreign code.
        let roots = lock(&self.roots).clone();
        roots.into_iter().for_each(Waker::wake);
    }

    /// Has a fall, and the end, call this waker.
    pub(crate) fn list(&self, waker: Waker) {
        lock(&self.roots).push(waker);
    }

    /// Takes one `list` of a waker like this back.
    pub(crate) fn unlist(&self, waker: &Waker) {
        let mut roots = lock(&self.roots);
        let at = roots.iter().position(|root| root.will_wake(waker));
        let gone = at.map(|at| roots.swap_remove(at));
        drop(roots);
        drop(gone);
    }

    /// A thread that waits by this waker learns of a fall, until this is dropped.
    pub(crate) fn watch<'a>(&'a self, waker: &'a Waker) -> Watch<'a> {
        let ends = self.ends.load(Ordering::Relaxed);
        if ends {
            self.list(waker.clone());
        }
        Watch { fall: ends.then_some(self), waker }
    }
}

pub(crate) struct Watch<'a> {
    /// None: no panic ends the runtime.
    fall: Option<&'a Fall>,
    waker: &'a Waker,
}

impl Watch<'_> {
    /// Before a poll and a sleep.
    ///
    /// # Panics
    /// If the runtime has fallen.
    #[inline]
    #[track_caller]
    pub(crate) fn check(&self) {
        // Ordering: Relaxed: see `by_panic`; a signal that is woken orders it, too.
        if self.fall.is_some_and(|fall| fall.fallen.load(Ordering::Relaxed)) {
            panic!("a task panicked, which ends this runtime (`Builder::unhandled_panic`)");
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(fall) = self.fall {
            fall.unlist(self.waker);
        }
    }
}
