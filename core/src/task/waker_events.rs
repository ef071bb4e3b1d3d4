//! What is done with the wakers of marked tasks: for tools that count them.
//!
//! A task is marked in a poll, with a number of the caller's. From then on each clone, wake and drop of its wakers is told to a sink, with
//! that number. The wakers are the usual ones: what knows them, as shields, budgets and joins do, is as without a sink. Wakes that need no
//! waker, by an abort or at the end of a join handle, are not told.
//!
//! Idea: tokio's waker events, which tokio-console counts.

use core::{num::NonZeroUsize, ptr::NonNull, task::Waker};

use super::{executor_ref::ExecutorRef, header::Header, waker::header_of};
use crate::atomic::Global;

/// What is done with a waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakerEvent {
    /// There is one more.
    Clone,
    /// It wakes its task, and there is one less.
    Wake,
    /// It wakes its task.
    WakeByRef,
    /// There is one less.
    Drop,
}

/// What takes the events. See [`watch`].
#[derive(Clone, Copy, Debug)]
pub struct Sink(fn(NonZeroUsize, WakerEvent));

impl Sink {
    /// The function is called with the mark of the task, in any context that uses a waker: from then on a wake is fit for interrupt
    /// handlers and signal handlers only if the function is. Its panics are discarded. It must not wake a marked task: that would be told
    /// to it again, without end.
    pub const fn new(take: fn(NonZeroUsize, WakerEvent)) -> Self {
        Self(take)
    }
}

static SINK: Global<Sink> = Global::new();

/// From now on what is done with the wakers of marked tasks, of any executor in this program, is told to `sink`, or to none.
///
/// From any context. Cost: a store. Without a sink each operation of a waker reads the mark, and if the task has one, whether there is a
/// sink.
///
/// ```
/// # filch_test_support::board!();
/// # use core::{future::poll_fn, num::NonZeroUsize, task::Poll};
/// # use std::sync::Mutex;
/// # use filch::{Executor, TaskPool, WorkerId};
/// use filch::waker_events::{Sink, WakerEvent, mark, watch};
/// static EVENTS: Mutex<Vec<WakerEvent>> = Mutex::new(Vec::new());
/// static SINK: Sink = Sink::new(|_, event| EVENTS.lock().unwrap().push(event));
/// watch(Some(&SINK));
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<512, 8> = TaskPool::new();
/// let task = EXECUTOR.spawn(&TASKS, poll_fn(|cx| {
///     mark(cx.waker(), Some(NonZeroUsize::MIN));
///     drop(cx.waker().clone());
///     Poll::Ready(())
/// })).unwrap();
/// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
/// watch(None);
/// assert_eq!(*EVENTS.lock().unwrap(), [WakerEvent::Clone, WakerEvent::Drop]);
/// # drop(task);
/// # Ok::<(), filch::RunError>(())
/// ```
pub fn watch(sink: Option<&'static Sink>) {
    SINK.set(sink);
}

/// Hints the task of the poll under way, whose context has this waker; `None` takes the mark away. False if the waker is no task's.
///
/// ```
/// use core::{future::Future, num::NonZeroUsize, pin::pin, task::{Context, Poll, Waker}};
/// use filch::waker_events::mark;
/// async fn marked(number: NonZeroUsize) -> bool {
///     core::future::poll_fn(|cx| Poll::Ready(mark(cx.waker(), Some(number)))).await
/// }
/// # let future = pin!(marked(NonZeroUsize::MIN));
/// # assert_eq!(future.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(false));
/// ```
pub fn mark(waker: &Waker, mark: Option<NonZeroUsize>) -> bool {
    let Some(task) = header_of(waker) else { return false };
    // SAFETY: INV-WAKER: the waker holds a reference.
    unsafe { task.as_ref() }.mark.set(mark);
    true
}

/// # Safety
/// The caller holds a reference to the task.
#[inline]
pub(super) unsafe fn tell(task: NonNull<Header>, event: WakerEvent) {
    // SAFETY: as the caller promises.
    if let Some(mark) = unsafe { task.as_ref() }.mark.get() {
        if let Some(Sink(take)) = SINK.get() {
            // A waker is used in the midst of much else, which no panic is to leave undone.
            // SAFETY: as the caller promises.
            unsafe { ExecutorRef::of(task) }.guard(&mut || take(mark, event));
        }
    }
}
