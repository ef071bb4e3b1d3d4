//! The forms to await in tasks, which give the worker back.

use core::{future::Future, ops::Range};

use filch::{JoinError, JoinHandle, SpawnError};

use super::{Fork, ForkOptions, Scope, here, inside};
use crate::{context::expect_current, coop::consume_budget};

/// [`for_each`](super::for_each) for tasks: it takes turns with the other tasks of its worker,
/// however long the loop is.
///
/// Each poll runs a part of the loop on all idle workers, for about
/// [`Builder::job_slice`](crate::Builder::job_slice) if other work waits. Nothing of the loop runs
/// between two polls, so it may borrow.
///
/// # Cancel safety
/// Dropping the future skips the calls that have not been made.
///
/// # Panics
/// As [`for_each`](super::for_each).
pub async fn for_each_async<F>(range: Range<usize>, f: F)
where
    F: Fn(usize) + Sync,
{
    map_reduce_async(range, f, |(), ()| ()).await;
}

/// [`map_reduce`](super::map_reduce) for tasks: as [`for_each_async`].
///
/// # Panics
/// As [`for_each`](super::for_each).
///
/// ```
/// use filch_std::parallel;
/// let runtime = filch_std::Runtime::new().unwrap();
/// let numbers: Vec<u64> = (0..1_000).collect();
/// let sum = parallel::map_reduce_async(0..numbers.len(), |i| numbers[i], |a, b| a + b);
/// assert_eq!(runtime.block_on(sum), Some(499_500));
/// ```
pub async fn map_reduce_async<T, M, R>(mut range: Range<usize>, map: M, reduce: R) -> Option<T>
where
    T: Send,
    M: Fn(usize) -> T + Sync,
    R: Fn(T, T) -> T + Sync,
{
    let mut sum = None;
    // A short range takes no second poll.
    consume_budget().await;
    loop {
        let (part, left) = here(|fork| fork.map_reduce_slice(range, &map, &reduce));
        sum = match (sum, part) {
            (Some(sum), Some(part)) => Some(reduce(sum, part)),
            (sum, part) => sum.or(part),
        };
        if left.is_empty() {
            return sum;
        }
        range = left;
        filch::yield_now().await;
    }
}

/// Runs a fork-join run as a separate task: the caller awaits it, and the caller's worker runs
/// other tasks meanwhile.
///
/// The closures must own what they use: a future that borrows could be leaked during the run, and
/// the borrowed data could be freed. (Blocking forms, like [`join`](super::join), may borrow, since
/// their caller stays until the run has ended.) Dropping the future lets the run go on.
///
/// # Errors
/// [`JoinError`]: the closure has panicked, or the runtime has shut down.
///
/// # Panics
/// If the calling thread is in no runtime.
///
/// ```
/// use filch_std::parallel;
/// let runtime = filch_std::Runtime::new().unwrap();
/// let sum = runtime.block_on(async {
///     let numbers: Vec<u64> = (0..1_000).collect();
///     parallel::offload(move |fork| fork.map_reduce(0..1_000, |i| numbers[i], |a, b| a + b)).await
/// });
/// assert_eq!(sum.unwrap(), Some(499_500));
/// ```
#[track_caller]
pub fn offload<F, R>(f: F) -> impl Future<Output = Result<R, JoinError>> + Send
where
    F: FnOnce(Fork<'_>) -> R + Send + 'static,
    R: Send + 'static,
{
    let handle = expect_current();
    handle.spawn(async move { super::fork(handle, None, f) })
}

/// As [`offload`], with a class, and on some workers only: see [`ForkOptions`].
///
/// # Errors
/// [`SpawnError`]: there is no such worker, or the runtime has shut down.
///
/// # Panics
/// If the calling thread is in no runtime.
///
/// ```
/// use filch_std::{parallel::{self, ForkOptions}, task::Class};
/// let runtime = filch_std::Runtime::new().unwrap();
/// let sorted = runtime.block_on(async {
///     let mut numbers: Vec<u64> = (0..1_000).rev().collect();
///     let bulk = ForkOptions::new().class(Class::Background);
///     let sort = parallel::offload_with(bulk, move |_| {
///         numbers.sort();
///         numbers
///     });
///     sort.unwrap().await.unwrap()
/// });
/// assert_eq!(sorted[0], 0);
/// ```
#[track_caller]
pub fn offload_with<F, R>(
    options: ForkOptions,
    f: F,
) -> Result<JoinHandle<R>, SpawnError<impl Future<Output = R> + Send>>
where
    F: FnOnce(Fork<'_>) -> R + Send + 'static,
    R: Send + 'static,
{
    let handle = expect_current();
    handle.spawn_with(options.task(), async move { super::fork(handle, Some(options), f) })
}

/// [`join`](super::join) for tasks: both closures run as a separate fork-join run, and the caller's
/// worker runs other tasks meanwhile. As with `join`, `a` must not wait for `b`, which may begin
/// only when `a` has ended.
///
/// # Errors
/// As [`offload`].
///
/// # Panics
/// As [`offload`].
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// let both = runtime.block_on(async {
///     filch_std::parallel::join_async(|| 6 * 7, || "b").await
/// });
/// assert_eq!(both.unwrap(), (42, "b"));
/// ```
#[track_caller]
pub fn join_async<A, B, RA, RB>(
    a: A,
    b: B,
) -> impl Future<Output = Result<(RA, RB), JoinError>> + Send
where
    A: FnOnce() -> RA + Send + 'static,
    B: FnOnce() -> RB + Send + 'static,
    RA: Send + 'static,
    RB: Send + 'static,
{
    offload(|fork| fork.join_and_tell(|_| a(), |fork, stolen| inside(fork, stolen, b)))
}

/// [`scope`](super::scope) for tasks: the body and its jobs run as a separate fork-join run, and
/// the caller's worker runs other tasks meanwhile. They must own or share what they use. To borrow,
/// move the data into the closure of [`offload`], and open the scope there.
///
/// # Errors
/// As [`offload`].
///
/// # Panics
/// As [`offload`].
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
/// let runtime = filch_std::Runtime::new().unwrap();
/// let sum = Arc::new(AtomicU32::new(0));
/// let shared = Arc::clone(&sum);
/// let scope = runtime.block_on(async {
///     filch_std::parallel::scope_async(move |scope| {
///         for n in 1..=4 {
///             let sum = Arc::clone(&shared);
///             scope.spawn(move |_| drop(sum.fetch_add(n, Ordering::Relaxed)));
///         }
///     })
///     .await
/// });
/// assert_eq!((scope.is_ok(), sum.load(Ordering::Relaxed)), (true, 10));
/// ```
#[track_caller]
pub fn scope_async<F, R>(body: F) -> impl Future<Output = Result<R, JoinError>> + Send
where
    F: FnOnce(&Scope<'_, 'static>) -> R + Send + 'static,
    R: Send + 'static,
{
    offload(|fork| fork.scope(body))
}
