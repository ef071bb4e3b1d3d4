//! Budgets of the current runtime: those of its tasks and of the futures in its `block_on`, with
//! any waker.

use core::{
    future::Future,
    task::{Context, Poll},
};

use filch::{ConsumeBudget, Unconstrained};

use crate::context;

/// As [`filch::consume_budget`], in the current runtime.
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// runtime.block_on(async {
///     for _ in 0..1_000 {
///         // Something that takes a while, and never waits.
///         filch_std::consume_budget().await;
///     }
/// });
/// ```
pub fn consume_budget() -> ConsumeBudget {
    match context::current() {
        Some(handle) => handle.0.spawner.consume_budget(),
        None => filch::consume_budget(),
    }
}

/// As [`filch::budgeted`], in the current runtime.
///
/// ```
/// use core::{future::poll_fn, task::Poll};
/// let runtime = filch_std::Runtime::new()?;
/// runtime.block_on(async {
///     // An operation of one's own that is ready, as most are, spends the budget.
///     let ready = poll_fn(|cx| filch_std::budgeted(cx, |_| Poll::Ready(7)));
///     assert_eq!(ready.await, 7);
///     // It does not, in here:
///     let ready = poll_fn(|cx| filch_std::budgeted(cx, |_| Poll::Ready(7)));
///     assert_eq!(filch_std::unconstrained(ready).await, 7);
/// });
/// # Ok::<(), filch_std::BuildError>(())
/// ```
#[inline]
pub fn budgeted<T>(cx: &mut Context<'_>, op: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    match context::current() {
        Some(handle) => handle.0.spawner.budgeted(cx, op),
        None => filch::budgeted(cx, op),
    }
}

/// As [`filch::unconstrained`], in the current runtime.
pub fn unconstrained<F: Future>(future: F) -> Unconstrained<F> {
    match context::current() {
        Some(handle) => handle.0.spawner.unconstrained(future),
        None => filch::unconstrained(future),
    }
}
