//! What the task that calls says of itself: its class and deadline, whether it gives way, and what of its budget it spends. Budgets are
//! those of tasks and of the futures in `block_on`, with any waker.

use core::{
    future::Future,
    task::{Context, Poll},
};

use filch::{Class, ConsumeBudget, Instant, Unconstrained};

use crate::context;

/// As [`filch::consume_budget`], in the current runtime.
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// runtime.block_on(async {
///     for _ in 0..1_000 {
///         // Something that takes a while, and never waits.
///         filch_std::task::consume_budget().await;
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
///     let ready = poll_fn(|cx| filch_std::task::budgeted(cx, |_| Poll::Ready(7)));
///     assert_eq!(ready.await, 7);
///     // It does not, in here:
///     let ready = poll_fn(|cx| filch_std::task::budgeted(cx, |_| Poll::Ready(7)));
///     assert_eq!(filch_std::task::unconstrained(ready).await, 7);
/// });
/// # Ok::<(), filch_std::runtime::BuildError>(())
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

/// The class of the task that calls: [`filch::Spawner::class`]. `None` outside of tasks.
pub fn class() -> Option<Class> {
    context::current()?.0.spawner.class()
}

/// Gives the task that calls another class: [`filch::Spawner::set_class`]. False outside of tasks.
pub fn set_class(class: Class) -> bool {
    context::current().is_some_and(|handle| handle.0.spawner.set_class(class))
}

/// Sets when the task that calls should be polled next, at the latest: [`filch::Spawner::set_deadline`]. False outside of tasks that were
/// spawned by [`spawn_with`](crate::task::spawn_with).
pub fn set_deadline(at: Option<Instant>) -> bool {
    context::current().is_some_and(|handle| handle.0.spawner.set_deadline(at))
}

/// Polls the urgent tasks that wait, on top of the caller, which is not urgent itself; whether there were any. For sync loops in tasks, as
/// pieces of parallel iterators are: [`filch::Scheduler::give_way`].
///
/// ```
/// use filch_std::{TaskOptions, task::Class};
/// let runtime = filch_std::Runtime::builder().workers(1).build()?;
/// let (send, receive) = std::sync::mpsc::channel();
/// let computes = runtime.handle().spawn_with(TaskOptions::new(), async move {
///     assert!(filch_std::task::set_class(Class::Background) && filch_std::task::class() == Some(Class::Background));
///     assert!(filch_std::task::set_deadline(Some(filch_std::time::now())) && !filch_std::task::should_yield());
///     let urgent = TaskOptions::new().class(Class::Urgent);
///     filch_std::spawn_with(urgent, async move { send.send(7).unwrap() }).unwrap().detach();
///     assert!(filch_std::task::should_yield() && filch_std::task::give_way());
///     receive.try_recv()
/// })?;
/// assert_eq!(runtime.block_on(computes)?, Ok(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn give_way() -> bool {
    context::current().is_some_and(|handle| handle.0.core.give_way())
}

/// Whether an urgent task waits, and the task that calls is not urgent: [`filch::Spawner::should_yield`]. For loops that spend no budget.
/// Cost: a few loads.
pub fn should_yield() -> bool {
    context::current().is_some_and(|handle| handle.0.spawner.should_yield())
}
