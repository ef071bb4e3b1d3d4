//! Tasks.

use core::{
    future::{Future, poll_fn},
    task::Poll,
};

pub mod coop;
mod error;
mod id;
pub(crate) mod join;
pub mod join_set;
mod local;

mod spawned;
pub mod task_local;

use crate::runtime::{
    Handle,
    context::{self, Polling},
};

#[doc(inline)]
pub use self::join_set::JoinSet;
pub use self::{
    coop::{Unconstrained, consume_budget, unconstrained},
    error::JoinError,
    id::{Id, id, try_id},
    join::{AbortHandle, JoinHandle},
    local::{LocalEnterGuard, LocalSet, spawn_local},
    task_local::LocalKey,
};
pub(crate) use spawned::{Spawned, blocking_job};

/// The futures of this module.
pub mod futures {
    pub use super::task_local::TaskLocalFuture;
}

/// Spawns a task on the runtime that the thread is in.
///
/// # Panics
/// If it is in none.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Handle::current().spawn(future)
}

/// Runs a closure that blocks on a thread of the pool of the runtime that the thread is in.
///
/// # Panics
/// If it is in none; if no thread can be started.
#[track_caller]
pub fn spawn_blocking<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    Handle::current().spawn_blocking(f)
}

/// Calls a closure that blocks, in place. Other workers run the tasks that wait for this one.
///
/// # Panics
/// In a current-thread runtime, and in a `LocalSet`.
#[cfg(feature = "rt-multi-thread")]
#[track_caller]
pub fn block_in_place<F, R>(f: F) -> R
where
    F: FnOnce() -> R,
{
    assert!(
        context::polling() != Polling::Local,
        "can call blocking only when running on the multi-threaded runtime"
    );
    // Of the worker that the thread is, whatever runtime the task has entered.
    context::block(|| match filch_linux::Handle::current() {
        Ok(handle) => handle.block_in_place(f),
        Err(_) => f(),
    })
}

/// Gives way once to other tasks.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if core::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
