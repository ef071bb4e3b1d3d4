//! What a runtime does when a task panics.

use core::{
    sync::atomic::{AtomicBool, Ordering},
    task::Waker,
    time::Duration,
};
use std::{
    sync::Mutex,
    thread::{self, Thread},
    time::Instant,
};

use crate::panics::lock;

/// What a panic of a task does beyond its [`JoinHandle`](crate::JoinHandle): [`Builder::unhandled_panic`](crate::Builder::unhandled_panic).
///
/// Idea: tokio's policy of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnhandledPanic {
    /// Nothing: the other tasks go on.
    #[default]
    Continue,
    /// It ends the runtime: all tasks are cancelled, spawns are refused, and each [`block_on`](crate::block_on) of the runtime panics. One
    /// in a destructor, of a thread that unwinds from there, then aborts the program, as any second panic does.
    ShutDown,
}

/// How long tasks may wait in sync code once their runtime ends: destructors have something to save.
const PATIENCE: Duration = Duration::from_secs(5);

/// How near the end of a runtime is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Far,
    /// Its tasks have been cancelled, or are about to be.
    Begun,
    /// No task may wait in sync code any more.
    Over,
}

/// Whether the runtime is at its end, by a panic or otherwise, and the threads that must learn of it.
#[derive(Default)]
pub(crate) struct Fall {
    /// A panic ends it.
    ends: AtomicBool,
    fallen: AtomicBool,
    ending: AtomicBool,
    over: AtomicBool,
    /// The thread that says when the time is over: it is started for the first task that waits.
    limiter: Mutex<Option<Thread>>,
    /// Of the threads in `block_on` that must learn of a panic, and of those that must learn of the end and do not sleep as workers.
    roots: Mutex<Vec<Waker>>,
}

impl Fall {
    /// A runtime begins. No task of it runs yet.
    pub(crate) fn begin(&self, policy: UnhandledPanic) {
        // Ordering: Relaxed: the start of the threads orders both.
        self.ends.store(policy == UnhandledPanic::ShutDown, Ordering::Relaxed);
        self.fallen.store(false, Ordering::Relaxed);
        self.ending.store(false, Ordering::Relaxed);
        self.over.store(false, Ordering::Relaxed);
    }

    /// The tasks are cancelled next, which has all workers look.
    pub(crate) fn end(&self) {
        // Ordering: Release pairs with the Acquire in `how_far`; a worker that sleeps sees it by the wake that follows. Of another thread,
        // the lock orders it: one that is not woken here looks after it has come into the list.
        if !self.ending.swap(true, Ordering::Release) {
            self.wake_roots();
        }
    }

    pub(crate) fn how_far(&self) -> End {
        // Ordering: Acquire pairs with the Release in `end`, and in `limit`.
        if self.over.load(Ordering::Acquire) {
            End::Over
        } else if self.ending.load(Ordering::Acquire) {
            End::Begun
        } else {
            End::Far
        }
    }

    /// A task of this runtime, which ends, waits in sync code, and has its waker in the list: its time is limited. If no thread can be
    /// started, it is not.
    pub(crate) fn limit(&'static self) {
        let mut limiter = lock(&self.limiter);
        if limiter.is_some() {
            return;
        }
        let wait = move || {
            let begin = Instant::now();
            while let Some(left) = PATIENCE.checked_sub(begin.elapsed()).filter(|d| !d.is_zero()) {
                thread::park_timeout(left);
                if !self.is_limited_by(&thread::current()) {
                    return;
                }
            }
            let own = thread::current().id();
            let limiter = lock(&self.limiter);
            let is_mine = limiter.as_ref().is_some_and(|limiter| limiter.id() == own);
            if is_mine {
                // Ordering: Release pairs with the Acquire in `how_far`. Under the lock: the runtime has not ended.
                self.over.store(true, Ordering::Release);
            }
            drop(limiter);
            if is_mine {
                self.wake_roots();
            }
        };
        let started = thread::Builder::new().name("filch-end".into()).spawn(wait);
        *limiter = started.ok().map(|thread| thread.thread().clone());
    }

    fn is_limited_by(&self, thread: &Thread) -> bool {
        lock(&self.limiter).as_ref().is_some_and(|limiter| limiter.id() == thread.id())
    }

    /// No task is left.
    pub(crate) fn has_ended(&self) {
        let limiter = lock(&self.limiter).take();
        if let Some(thread) = limiter {
            thread.unpark();
        }
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
