//! Where a task leaves its output, and the handles that lead there.

use core::{
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe},
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Waker, ready},
};
use std::{
    panic::catch_unwind,
    sync::{Arc, Mutex},
};

use super::{Id, JoinError, coop};
use crate::{runtime::context, util::lock};

/// What is known of a task without the type of its output.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) id: Id,
    aborted: AtomicBool,
    finished: AtomicBool,
    /// The task's own.
    waker: Mutex<Option<Waker>>,
}

impl Head {
    /// Whether the task was aborted.
    pub(crate) fn is_aborted(&self) -> bool {
        // Ordering: SeqCst, with the store in `abort`: between that and the lock of the waker.
        self.aborted.load(Ordering::SeqCst)
    }

    /// Keeps the task's waker for an abort. Called before the task looks whether it was aborted.
    pub(crate) fn watch(&self, waker: &Waker) {
        let mut kept = lock(&self.waker);
        match &mut *kept {
            Some(kept) => kept.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// The task is over.
    pub(crate) fn finish(&self) {
        // Ordering: Release pairs with the Acquire in `is_finished`.
        self.finished.store(true, Ordering::Release);
        let waker = lock(&self.waker).take();
        drop(waker);
    }

    fn abort(&self) {
        if self.is_finished() {
            return;
        }
        // Ordering: SeqCst, with the load in `is_aborted`.
        self.aborted.store(true, Ordering::SeqCst);
        let waker = lock(&self.waker).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_finished(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `finish`.
        self.finished.load(Ordering::Acquire)
    }
}

/// A task's output, once there is one.
pub(crate) struct Slot<T> {
    pub(crate) head: Arc<Head>,
    stage: Mutex<Stage<T>>,
}

enum Stage<T> {
    /// The task has not ended; what waits for its end.
    Running(Option<Waker>),
    Done(Result<T, JoinError>),
    /// The output was taken, or is not wanted.
    Gone,
}

impl<T> Slot<T> {
    pub(crate) fn new() -> Arc<Self> {
        let head = Arc::new(Head {
            id: Id::next(),
            aborted: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            waker: Mutex::new(None),
        });
        Arc::new(Self { head, stage: Mutex::new(Stage::Running(None)) })
    }

    /// Leaves the output. The output is dropped here if it is not wanted.
    pub(crate) fn finish(&self, output: Result<T, JoinError>) {
        self.head.finish();
        let mut stage = lock(&self.stage);
        match &mut *stage {
            Stage::Running(waker) => {
                let waker = waker.take();
                *stage = Stage::Done(output);
                drop(stage);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            _ => {
                drop(stage);
                as_task(self.head.id, || quietly(output));
            }
        }
    }
}

/// Drops a value, and contains a panic of its drop, which has been printed.
pub(crate) fn quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        core::mem::forget(payload);
    }
}

/// Calls a closure as if the task did.
fn as_task(id: Id, f: impl FnOnce()) {
    let before = context::set_task(Some(id));
    f();
    context::set_task(before);
}

/// A task that was spawned. As a future it is the task's output; dropped, it leaves the task to itself.
pub struct JoinHandle<T> {
    slot: Arc<Slot<T>>,
}

impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    pub(crate) fn new(slot: Arc<Slot<T>>) -> Self {
        Self { slot }
    }

    /// Cancels the task at its next await, or before it begins. A closure that blocks is cancelled only before it begins.
    pub fn abort(&self) {
        self.slot.head.abort();
    }

    /// Whether the task is over.
    pub fn is_finished(&self) -> bool {
        self.slot.head.is_finished()
    }

    /// A handle that can abort the task.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle { head: Arc::clone(&self.slot.head) }
    }

    /// The task.
    pub fn id(&self) -> Id {
        self.slot.head.id
    }

    /// Has the waker woken when the task is over; true if it is.
    pub(crate) fn watch(&self, waker: &Waker) -> bool {
        match &mut *lock(&self.slot.stage) {
            Stage::Running(place) => {
                match place {
                    Some(kept) => kept.clone_from(waker),
                    none => *none = Some(waker.clone()),
                }
                false
            }
            _ => true,
        }
    }

    /// The output, if the task is over.
    pub(crate) fn take(&self) -> Option<Result<T, JoinError>> {
        let mut stage = lock(&self.slot.stage);
        match core::mem::replace(&mut *stage, Stage::Gone) {
            Stage::Done(output) => Some(output),
            other => {
                *stage = other;
                None
            }
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let progress = ready!(coop::poll_proceed(cx));
        if !self.watch(cx.waker()) {
            return Poll::Pending;
        }
        progress.made_progress();
        match self.take() {
            Some(output) => Poll::Ready(output),
            None => panic!("JoinHandle polled after completion"),
        }
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let stage = core::mem::replace(&mut *lock(&self.slot.stage), Stage::Gone);
        if matches!(stage, Stage::Done(_)) {
            as_task(self.id(), || quietly(stage));
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("id", &self.id()).finish()
    }
}

/// Can abort a task, and does not keep its output.
#[derive(Clone)]
pub struct AbortHandle {
    head: Arc<Head>,
}

impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

impl AbortHandle {
    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.head.abort();
    }

    /// Whether the task is over.
    pub fn is_finished(&self) -> bool {
        self.head.is_finished()
    }

    /// The task.
    pub fn id(&self) -> Id {
        self.head.id
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("id", &self.id()).finish()
    }
}
