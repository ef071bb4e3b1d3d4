//! Cooperation: yielding, budgets, shields.

use core::{
    fmt,
    future::Future,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, Waker},
};

use super::{
    header::Header,
    schedule::Anchor,
    state::Snapshot,
    waker::{carry_out, header_of},
};

/// Units of budget that a task has for each of its polls.
pub const BUDGET: u32 = 128;

/// A budget that never ends.
const UNCONSTRAINED: u32 = u32::MAX;

/// Spends one unit of the poll under way in the calling context; false if there was none left.
///
/// # Safety
/// `anchor` is that of a `'static` scheduler.
#[inline]
pub(crate) unsafe fn spend_at(anchor: NonNull<Anchor>) -> bool {
    // SAFETY: the caller's.
    let Some(budget) = (unsafe { (Anchor::ops(anchor).budget)(anchor) }) else { return true };
    match budget.get() {
        0 => false,
        UNCONSTRAINED => true,
        left => {
            budget.set(left - 1);
            true
        }
    }
}

/// Spends one unit of the poll of the task that `waker` wakes; false if there was none left. A waker of another kind has no
/// budget: who polls with it (a foreign `block_on` inside a task, which never ends its poll) must not wait for more.
pub(crate) fn spend_by(waker: &Waker) -> bool {
    // SAFETY: a waker of ours holds a reference, and a home's anchor is that of a `'static` scheduler.
    header_of(waker).is_none_or(|task| unsafe { spend_at(task.as_ref().home().anchor()) })
}

fn anchor_of(cx: &Context<'_>) -> Option<NonNull<Anchor>> {
    // SAFETY: a waker of ours holds a reference.
    header_of(cx.waker()).map(|task| unsafe { task.as_ref().home().anchor() })
}

/// Gives way once: the task goes to the end of its worker's run queue and is polled again.
///
/// Works under any executor. Cost: one queue operation.
///
/// # Cancel safety
/// Dropping it before it completes loses nothing.
///
/// ```
/// # use core::{future::Future, pin::pin, task::{Context, Waker}};
/// let mut yielding = pin!(filch::yield_now());
/// let mut cx = Context::from_waker(Waker::noop());
/// assert!(yielding.as_mut().poll(&mut cx).is_pending());
/// assert!(yielding.as_mut().poll(&mut cx).is_ready());
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if core::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Spends one of the 128 units that a task has for each poll, and gives way if there was none left.
///
/// Every operation of this project that can be ready at once (joins, timers, sockets) spends a unit by itself; call this
/// in loops over things that do not. The budget is found through the task's own waker: inside a combinator that polls
/// with a waker of its own (`FuturesUnordered`) nothing is spent. Cost: a few loads.
///
/// # Cancel safety
/// Dropping it before it completes loses nothing but the unit.
///
/// ```
/// # async fn example(items: &[u8]) -> u64 {
/// let mut sum = 0;
/// for item in items {
///     filch::consume_budget().await;
///     sum += u64::from(*item);
/// }
/// sum
/// # }
/// ```
pub fn consume_budget() -> ConsumeBudget {
    ConsumeBudget(())
}

/// The future of [`consume_budget`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ConsumeBudget(());

impl Future for ConsumeBudget {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if spend_by(cx.waker()) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Runs an operation that can be ready at once, on the budget of the task that is being polled: for sockets, channels and
/// the like. Spends one unit if `op` is ready; if there is none left, `op` is not run, and the task is polled again soon.
///
/// An operation that is pending spends nothing, so that a task may wait for any number of them. The budget is found
/// through the task's own waker, see [`consume_budget`]. Cost: a few loads and a store.
///
/// ```
/// # use core::{task::{Context, Poll, Waker}};
/// # let mut cx = Context::from_waker(Waker::noop());
/// # let try_read = || Some(7);
/// let polled = filch::budgeted(&mut cx, |_| match try_read() {
///     Some(byte) => Poll::Ready(byte),
///     None => Poll::Pending, // after it has kept the waker
/// });
/// assert_eq!(polled, Poll::Ready(7));
/// ```
#[inline]
pub fn budgeted<T>(cx: &mut Context<'_>, op: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    // SAFETY: a home's anchor is that of a `'static` scheduler.
    let budget = anchor_of(cx).and_then(|at| unsafe { (Anchor::ops(at).budget)(at) });
    if budget.is_some_and(|budget| budget.get() == 0) {
        cx.waker().wake_by_ref();
        return Poll::Pending;
    }
    let polled = op(cx);
    if polled.is_ready() {
        if let Some(budget) = budget.filter(|budget| budget.get() != UNCONSTRAINED) {
            budget.set(budget.get().saturating_sub(1));
        }
    }
    polled
}

/// Runs a future without a budget: its ready operations never make it give way. The budget of the task around it stays.
///
/// For a future that is known to be short. A loop over ready operations in here holds its worker for as long as it runs.
///
/// # Cancel safety
/// That of the future.
///
/// ```
/// # async fn example(handle: filch::JoinHandle<u8>) {
/// let _ = filch::unconstrained(handle).await;
/// # }
/// ```
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    Unconstrained { future }
}

/// The future of [`unconstrained`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Unconstrained<F> {
    future: F,
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with its wrapper, and never moved out.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        // SAFETY: a home's anchor is that of a `'static` scheduler.
        let budget = anchor_of(cx).and_then(|at| unsafe { (Anchor::ops(at).budget)(at) });
        let Some(budget) = budget else { return future.poll(cx) };
        let _restore = Restore { budget, left: budget.replace(UNCONSTRAINED) };
        future.poll(cx)
    }
}

/// Puts the budget back, also when the poll unwinds.
struct Restore<'a> {
    budget: &'a core::cell::Cell<u32>,
    left: u32,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.budget.set(self.left);
    }
}

/// Keeps cancellation away while `future` runs: an abort takes effect when it is done, or dropped.
///
/// For a stretch that must not be cut, such as a two-step update. Shields nest, up to 255 deep (15 where 64-bit atomics
/// are not native); a task that holds more can no longer be cancelled. The task is found through its own
/// waker: inside a combinator that polls with a waker of its own there is no shield. Cost: two read-modify-writes.
///
/// # Cancel safety
/// Dropping it lowers the shield and drops the future.
///
/// ```
/// # async fn example(commit: impl core::future::Future<Output = ()>) {
/// filch::shield(commit).await;
/// # }
/// ```
pub fn shield<F: Future>(future: F) -> Shield<F> {
    Shield { raised: Raised(None), future }
}

/// The future of [`shield`].
pub struct Shield<F> {
    raised: Raised,
    future: F,
}

/// INV-SHIELD: a reference to the task whose shield depth counts this one.
struct Raised(Option<NonNull<Header>>);

// SAFETY: it touches the task's state only.
unsafe impl Send for Raised {}
// SAFETY: as above.
unsafe impl Sync for Raised {}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            // SAFETY: INV-SHIELD: the reference goes with the shield.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::shield_exit), task) };
        }
    }
}

impl<F: Future> Future for Shield<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with the shield: it is never moved out; `raised` is never pinned.
        let (raised, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.raised, Pin::new_unchecked(&mut this.future))
        };
        if raised.0.is_none() {
            if let Some(task) = header_of(cx.waker()) {
                // SAFETY: a waker of ours holds a reference; the transition takes one for the shield.
                unsafe { task.as_ref() }.state.apply(Snapshot::shield_enter);
                raised.0 = Some(task);
            }
        }
        let polled = future.poll(cx);
        if polled.is_ready() {
            drop(core::mem::replace(raised, Raised(None)));
        }
        polled
    }
}

impl<F> fmt::Debug for Shield<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shield").field("raised", &self.raised.0.is_some()).finish_non_exhaustive()
    }
}
