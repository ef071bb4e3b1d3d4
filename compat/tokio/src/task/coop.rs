//! A task gives way after so many operations that were ready at once.
//!
//! The budget is that of the crate `tokio`, in its own context of the thread, so that its channels and locks, its streams in memory
//! and the timers, sockets, pipes and joins of this crate all spend units of one. A poll of a task begins with 127 of them, where tokio's
//! begins with 128; that of a root future with 128.

use core::{
    cell::Cell,
    future::{Future, poll_fn},
    mem::ManuallyDrop,
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
};
use std::panic::catch_unwind;

pub use ::real::task::coop::*;
use ::real::{runtime::Handle, task::LocalSet};

thread_local! {
    /// A unit that was spent from a full budget, and not yet given back. No destructor: its own would set the budget of a thread that ends.
    static UNIT: Cell<Option<ManuallyDrop<RestoreOnPending>>> = const { Cell::new(None) };
}

thread_local! {
    /// How many parts of units were spent.
    static PARTS: Cell<u32> = const { Cell::new(1) };
}

/// The parts that a unit has.
const PARTS_OF_UNIT: u32 = 64;

/// Calls `f` with a budget of its own, and puts that of the caller back.
///
/// tokio has no call that sets a budget. But a unit that is given back sets the budget to what it was before the unit was spent. So
/// the thread keeps a unit of a full budget, gives it back here, and spends and keeps the next one.
#[inline]
pub(crate) fn budgeted<R>(f: impl FnOnce() -> R) -> R {
    unlimited(|| {
        if let Some(unit) = UNIT.take().or_else(first_unit) {
            drop(ManuallyDrop::into_inner(unit));
            keep_unit();
        }
        f()
    })
}

/// Calls `f` without a budget, and puts that of the caller back.
#[inline]
pub(crate) fn unlimited<R>(f: impl FnOnce() -> R) -> R {
    let mut f = Some(f);
    let call = poll_fn(|_| f.take().map_or(Poll::Pending, |f| Poll::Ready(f())));
    match pin!(unconstrained(call)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("`f` is there for the one poll"),
    }
}

/// Spends a unit, for what is ready at once.
pub(crate) fn poll_spend(cx: &mut Context<'_>) -> Poll<()> {
    poll_proceed(cx).map(|unit| unit.made_progress())
}

/// A poll that spends a unit if it is ready, whatever else it spends.
pub(crate) fn poll_spending<R>(
    cx: &mut Context<'_>,
    poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
) -> Poll<R> {
    let unit = ready!(poll_proceed(cx));
    let output = ready!(poll(cx));
    unit.made_progress();
    Poll::Ready(output)
}

/// Spends a small part of a unit, for a wait that was over at once and made no attempt. tokio's spends nothing, and programs make many of
/// them in one poll; but a loop of them must end.
pub(crate) async fn spend_part() {
    let parts = PARTS.replace(PARTS.get().wrapping_add(1));
    if parts % PARTS_OF_UNIT == 0 {
        consume_budget().await;
    }
}

/// Spends a unit for what has failed at once.
pub(crate) async fn spend_if_failed<T, E>(result: Result<T, E>) -> Result<T, E> {
    if result.is_err() {
        consume_budget().await;
    }
    result
}

/// Polls a future of filch's, without filch's budget: the poll has tokio's.
pub(crate) fn poll_filch<F: Future>(
    mut future: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    let poll = poll_fn(|cx| future.as_mut().poll(cx));
    pin!(filch_linux::task::unconstrained(poll)).poll(cx)
}

/// Spends a unit, and keeps it for the next poll.
fn keep_unit() {
    if let Poll::Ready(unit) = poll_proceed(&mut Context::from_waker(Waker::noop())) {
        UNIT.set(Some(ManuallyDrop::new(unit)));
    }
}

/// Spends the first unit of the thread, in a task of a `LocalSet`: tokio polls it with a full budget, on any thread. `None` if the
/// thread is about to end, and has no budget any more.
#[cold]
fn first_unit() -> Option<ManuallyDrop<RestoreOnPending>> {
    if Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed()) {
        return None;
    }
    // Another of tokio's thread-local values may be gone: then it panics, and has printed why.
    let _ = catch_unwind(|| {
        let set = LocalSet::new();
        set.spawn_local(async { keep_unit() });
        let _ = pin!(set).poll(&mut Context::from_waker(Waker::noop()));
    });
    UNIT.take()
}
