//! A task gives way after so many operations that were ready at once.
//!
//! Timers, sockets, pipes and joins of this crate spend units of the budget. Channels and locks of [`sync`](crate::sync) do not:
//! they are tokio's own, whose budget only tokio's runtime sets.

use core::{
    cell::Cell,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;

/// The units of one poll.
const UNITS: u8 = 128;

/// What is left of a poll's budget; `None`: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget(Option<u8>);

impl Budget {
    pub(crate) const UNLIMITED: Self = Self(None);
    pub(crate) const FULL: Self = Self(Some(UNITS));
}

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(Budget::UNLIMITED) };
}

pub(crate) fn replace(budget: Budget) -> Budget {
    BUDGET.replace(budget)
}

/// Whether the poll has units left.
pub fn has_budget_remaining() -> bool {
    BUDGET.get().0 != Some(0)
}

/// A unit that was spent; given back if it is dropped before progress was made.
#[derive(Debug)]
#[must_use]
pub struct RestoreOnPending {
    before: Cell<Budget>,
    /// The budget is the thread's.
    _local: PhantomData<*mut ()>,
}

impl RestoreOnPending {
    fn to(budget: Budget) -> Self {
        Self { before: Cell::new(budget), _local: PhantomData }
    }

    /// The operation was ready: the unit is spent.
    pub fn made_progress(&self) {
        self.before.set(Budget::UNLIMITED);
    }
}

impl Drop for RestoreOnPending {
    fn drop(&mut self) {
        if self.before.get() != Budget::UNLIMITED {
            BUDGET.set(self.before.get());
        }
    }
}

/// Spends a unit. Pending if there is none left: the task has been woken, and is to give way.
#[inline]
pub fn poll_proceed(cx: &mut Context<'_>) -> Poll<RestoreOnPending> {
    match BUDGET.get() {
        Budget(None) => Poll::Ready(RestoreOnPending::to(Budget::UNLIMITED)),
        Budget(Some(0)) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        budget @ Budget(Some(left)) => {
            BUDGET.set(Budget(Some(left - 1)));
            Poll::Ready(RestoreOnPending::to(budget))
        }
    }
}

/// Spends a unit, and gives way if there is none left.
pub async fn consume_budget() {
    poll_fn(|cx| {
        ready!(poll_proceed(cx)).made_progress();
        Poll::Ready(())
    })
    .await;
}

pin_project! {
    /// The future of [`unconstrained`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Unconstrained<F> {
        #[pin]
        inner: F,
    }
}

/// Polls a future without a budget.
pub fn unconstrained<F>(inner: F) -> Unconstrained<F> {
    Unconstrained { inner }
}

/// Puts the budget back.
struct Restore(Budget);

impl Drop for Restore {
    fn drop(&mut self) {
        BUDGET.set(self.0);
    }
}

impl<F: Future> Future for Unconstrained<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _restore = Restore(replace(Budget::UNLIMITED));
        self.project().inner.poll(cx)
    }
}

pin_project! {
    /// The future of [`cooperative`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Coop<F: Future> {
        #[pin]
        inner: F,
    }
}

/// A future whose end spends a unit.
pub fn cooperative<F: Future>(fut: F) -> Coop<F> {
    Coop { inner: fut }
}

impl<F: Future> Future for Coop<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let progress = ready!(poll_proceed(cx));
        let polled = self.project().inner.poll(cx);
        if polled.is_ready() {
            progress.made_progress();
        }
        polled
    }
}
