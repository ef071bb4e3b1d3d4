//! Cooperation: yields, budgets and shields.

use core::{
    cell::Cell,
    fmt,
    future::Future,
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, Waker},
};

use super::{
    executor_ref::ExecutorRef,
    header::Header,
    state::Snapshot,
    waker::{carry_out, header_of},
};

/// Units of budget that a task has for each poll, unless [`Config::budget`](crate::Config::budget) sets another number.
pub const BUDGET: u32 = 128;

/// A budget without a limit.
const UNCONSTRAINED: u32 = u32::MAX;
/// Set in a budget that is used up. The lower half then counts the refusals since one was heard.
const REFUSED: u32 = 1 << 16;
/// Set in a budget with a refusal that counts as a forced yield.
const COUNTED: u32 = 1 << 17;
/// Set in a budget of which a refusal was heard: it woke the task that is being polled.
const HEARD: u32 = 1 << 18;
/// So many refusals in vain, or as many as there are units, show that nothing in the poll is about to give way.
const IN_VAIN: u32 = 16;
/// As `IN_VAIN`, after a refusal that was heard.
const IN_VAIN_NOW: u32 = REFUSED - 1;

/// The budget that an operation spends: that of the poll that the calling context is in. The waker tells which executor
/// polls. A foreign waker (of a combinator that polls with wakers of its own) does not; then the poll is that of the
/// operation's own executor, if the calling context is in one.
struct Budget {
    /// INV-BUDGET: it belongs to the calling context until foreign code runs. That may block in place: another thread then has the
    /// worker with its budget, and the poll one of its own.
    cell: NonNull<Cell<u32>>,
    /// The operation's own executor, if the waker is foreign.
    ///
    /// A refusal wakes the foreign waker. That of a combinator wakes the task in turn: the refusal is *heard*, and stands, as the
    /// combinator gives way soon. That of a foreign `block_on` inside the poll wakes its thread, which polls again at once, for ever.
    /// So a budget of which no refusal is heard is renewed. A combinator may wake its task once for several refusals: after one
    /// that was heard, it takes many in vain.
    foreign: Option<ExecutorRef>,
}

impl Budget {
    #[inline]
    fn of_caller(waker: &Waker, own: Option<ExecutorRef>) -> Option<Self> {
        let executor = executor_of(waker);
        let foreign = if executor.is_none() { own } else { None };
        Some(Self { cell: executor.or(own)?.budget()?, foreign })
    }

    #[inline]
    fn cell(&self) -> &Cell<u32> {
        // SAFETY: INV-BUDGET.
        unsafe { self.cell.as_ref() }
    }

    /// Whether there is a unit left. If not, this counts as a refusal.
    #[inline]
    fn has_unit(&self) -> bool {
        match self.cell().get() {
            1..REFUSED | UNCONSTRAINED => true,
            spent => self.foreign.is_some_and(|own| self.count_refusal(spent, own.units())),
        }
    }

    /// Counts a refusal. True if the budget is renewed instead, to `units`.
    #[cold]
    fn count_refusal(&self, spent: u32, units: u32) -> bool {
        let before = spent % REFUSED;
        let limit = if spent & HEARD != 0 { IN_VAIN_NOW } else { units.max(IN_VAIN) };
        let renewed = before >= limit;
        let refused = spent & (COUNTED | HEARD) | REFUSED | (before + 1);
        self.cell().set(if renewed { units } else { refused });
        renewed
    }

    /// Takes a unit, after `has_unit`.
    #[inline]
    fn take(&self) {
        let left = self.cell().get();
        if (1..REFUSED).contains(&left) {
            self.cell().set(left - 1);
        }
    }

    #[inline]
    fn spend(&self) -> bool {
        let granted = self.has_unit();
        if granted {
            self.take();
        }
        granted
    }
}

/// The executor of the waker's task.
#[inline]
fn executor_of(waker: &Waker) -> Option<ExecutorRef> {
    // SAFETY: INV-WAKER: the waker holds a reference.
    header_of(waker).map(|task| unsafe { ExecutorRef::of(task) })
}

/// Spends one unit of the poll that the calling context is in, on this executor. False if there was none left.
#[inline]
pub(crate) fn spend_at(executor: ExecutorRef) -> bool {
    let granted = executor.budget().is_none_or(|cell| Budget { cell, foreign: None }.spend());
    if !granted {
        executor.count_forced_yield();
    }
    granted
}

/// Spends one unit for an operation of this executor. False if there was none left: then `force_yield`.
pub(crate) fn spend(waker: &Waker, executor: ExecutorRef) -> bool {
    Budget::of_caller(waker, Some(executor)).is_none_or(|budget| budget.spend())
}

/// An operation was refused, of this executor if the waker is foreign: its task gives way.
///
/// Apart from the refusal, or each operation that is granted would keep for it what it needs.
#[cold]
pub(crate) fn force_yield(waker: &Waker, own: Option<ExecutorRef>) {
    let executor = executor_of(waker);
    if let Some(executor) = executor.or(own) {
        executor.count_forced_yield();
    }
    let foreign = if executor.is_none() { own } else { None };
    let before = foreign.and_then(ExecutorRef::wakes);
    waker.wake_by_ref();
    let Some(own) = foreign.filter(|own| own.wakes() != before) else { return };
    if let Some(cell) = own.budget() {
        // SAFETY: INV-BUDGET.
        hear_refusal(unsafe { cell.as_ref() });
    }
}

/// The waker of the poll under way was woken in that poll, by its own context. If the poll's budget has refused an operation,
/// that was heard. For platforms, of their [`Platform::budget`](crate::Platform::budget).
#[doc(hidden)]
pub fn hear_refusal(budget: &Cell<u32>) {
    let spent = budget.get();
    if spent != UNCONSTRAINED && spent & REFUSED != 0 {
        budget.set(spent & COUNTED | REFUSED | HEARD);
    }
}

/// Whether the refusal under way is the first of this budget to be counted.
pub(crate) fn is_first_refusal(budget: &Cell<u32>) -> bool {
    budget.replace(budget.get() | COUNTED) & COUNTED == 0
}

/// Takes what is left of the budget of a poll that gives way, unless it has no limit. One of the `units` that it began with must have been
/// spent, or a task that is pressed in each of its polls would never come further.
pub(crate) fn exhaust(budget: &Cell<u32>, units: u32) {
    if (1..units).contains(&budget.get()) {
        budget.set(0);
    }
}

/// The budget with which a poll continues after other tasks have run on top of it: all `units`, unless it has no limit.
pub(crate) fn renewed(budget: u32, units: u32) -> u32 {
    if budget == UNCONSTRAINED { budget } else { units }
}

/// Gives way once: the task goes to the end of its worker's run queue, and is polled again.
///
/// Works under any executor. Cost: one queue operation.
///
/// # Cancel safety
/// Dropping it before it completes loses nothing.
///
/// ```
/// # use core::{future::Future, pin::{Pin, pin}, task::{Context, Waker}};
/// let mut yielding: Pin<&mut filch::YieldNow> = pin!(filch::yield_now());
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

/// Spends one of the units that a task has for each poll: 128, or as [`Config::budget`](crate::Config::budget) says. If there is none left,
/// the task gives way and is polled again with a new budget.
///
/// Every operation of this project that can be ready at once (joins, timers, sockets) spends a unit by itself. Call
/// this in loops over operations that do not. The budget is found through the task's own waker, so it is not found
/// inside a combinator that polls with wakers of its own (`FuturesUnordered`). There use
/// [`Spawner::consume_budget`](crate::Spawner::consume_budget), or a runtime's function of this name: both know the
/// executor. Cost: a few loads.
///
/// # Cancel safety
/// Dropping it before it completes loses nothing but the unit.
///
/// ```
/// # async fn example(items: &[u8]) -> u64 {
/// let mut sum = 0;
/// for item in items {
///     let unit: filch::ConsumeBudget = filch::consume_budget();
///     unit.await;
///     sum += u64::from(*item);
/// }
/// sum
/// # }
/// ```
pub fn consume_budget() -> ConsumeBudget {
    ConsumeBudget(None)
}

/// The future of [`consume_budget`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ConsumeBudget(pub(super) Option<ExecutorRef>);

impl Future for ConsumeBudget {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let budget = Budget::of_caller(cx.waker(), self.0);
        if budget.is_none_or(|budget| budget.spend()) {
            return Poll::Ready(());
        }
        force_yield(cx.waker(), self.0);
        Poll::Pending
    }
}

/// Runs an operation that can be ready at once (a socket's, a channel's) on the budget of the task that is being
/// polled. Spends one unit if `op` is ready. If there is no unit left, `op` does not run, and the task gives way and is
/// polled again.
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
    budgeted_by(None, cx, op)
}

pub(super) fn budgeted_by<T>(
    own: Option<ExecutorRef>,
    cx: &mut Context<'_>,
    op: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    if Budget::of_caller(cx.waker(), own).is_some_and(|budget| !budget.has_unit()) {
        force_yield(cx.waker(), own);
        return Poll::Pending;
    }
    let polled = op(cx);
    if polled.is_ready() {
        // Again: INV-BUDGET.
        if let Some(budget) = Budget::of_caller(cx.waker(), own) {
            budget.take();
        }
    }
    polled
}

/// Runs a future without a budget: its operations are always granted. The budget of the task around it is kept.
///
/// Use it for a future that is known to be short. A loop over ready operations inside it holds its worker for as long
/// as it runs.
///
/// # Cancel safety
/// That of the future.
///
/// ```
/// # async fn example(handle: filch::JoinHandle<u8>) {
/// let short: filch::Unconstrained<filch::JoinHandle<u8>> = filch::unconstrained(handle);
/// let _ = short.await;
/// # }
/// ```
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    Unconstrained { own: None, future }
}

/// The future of [`unconstrained`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Unconstrained<F> {
    pub(super) own: Option<ExecutorRef>,
    pub(super) future: F,
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let own = self.own;
        // SAFETY: `future` is pinned with its wrapper, and never moved out.
        let future = unsafe { self.map_unchecked_mut(|this| &mut this.future) };
        let executor = executor_of(cx.waker()).or(own);
        let restore = executor.and_then(Restore::begin);
        let polled = future.poll(cx);
        drop(restore);
        polled
    }
}

/// Puts the budget back, even if the poll unwinds.
struct Restore {
    executor: ExecutorRef,
    left: u32,
}

impl Restore {
    fn begin(executor: ExecutorRef) -> Option<Self> {
        let cell = executor.budget()?;
        // SAFETY: INV-BUDGET.
        let left = unsafe { cell.as_ref() }.replace(UNCONSTRAINED);
        Some(Self { executor, left })
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        // Again: INV-BUDGET.
        if let Some(cell) = self.executor.budget() {
            // SAFETY: INV-BUDGET.
            unsafe { cell.as_ref() }.set(self.left);
        }
    }
}

/// Defers cancellation while `future` runs: an abort takes effect once it is complete or dropped.
///
/// Use it for a part that must not be interrupted, such as an update in two steps. Shields nest, up to 127 deep (15
/// where 64-bit atomics are not native); a task that holds more can never be cancelled again. The task is found through
/// its own waker, so inside a combinator that polls with wakers of its own there is no shield. Cost: two
/// read-modify-writes.
///
/// # Cancel safety
/// Dropping it lowers the shield and drops the future.
///
/// ```
/// # async fn example<F: core::future::Future<Output = ()>>(commit: F) {
/// let whole: filch::Shield<F> = filch::shield(commit);
/// whole.await;
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

/// INV-SHIELD: a reference to the task, whose shield depth counts this shield.
struct Raised(Option<NonNull<Header>>);

// SAFETY: it only makes transitions of the task's state.
unsafe impl Send for Raised {}
// SAFETY: as above.
unsafe impl Sync for Raised {}

impl Drop for Raised {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            // SAFETY: INV-SHIELD: the transition consumes the reference.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::shield_exit), task) };
        }
    }
}

impl<F: Future> Future for Shield<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with the shield and never moved out; `raised` is never pinned.
        let (raised, future) = unsafe {
            let this = self.get_unchecked_mut();
            (&mut this.raised, Pin::new_unchecked(&mut this.future))
        };
        if raised.0.is_none() {
            if let Some(task) = header_of(cx.waker()) {
                // SAFETY: a waker of this crate holds a reference; the transition takes another one for the shield.
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
