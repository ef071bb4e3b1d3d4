//! The interface of [rayon-core](https://docs.rs/rayon-core) on filch's workers: with this in its place, `rayon` and all that
//! is built on it run on them, unchanged.
//!
//! ```toml
//! [patch.crates-io]
//! rayon-core = { git = "https://github.com/filch-rs/filch" }
//! ```
//!
//! **Which workers.** A thread that is in a filch runtime, as every task is, uses that runtime's workers: a parallel iterator
//! in a task is spread over the threads that run the tasks, and there is no second pool. A thread in a [`ThreadPool`] uses
//! that. All others use a global pool, which is made at first use, as rayon's is.
//!
//! **How.** A [`join`] is filch's own, on the caller's stack; a thread that waits in it runs parts of what it waits for. What is
//! spawned waits in a queue of the worker that made it; a task of the runtime goes out for it. The worker that runs that task takes
//! something from the queue: the newest on the same worker, the oldest elsewhere. So the runtime's own queues, stealing and sleep spread
//! the work, and the order is rayon's. A thread that waits in a scope works on whatever else waits in the pool. What differs from rayon,
//! and across which calls a lock may be held, is in the crate's README.
//!
//! ```
//! let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build()?;
//! let mut numbers = [3, 1, 2];
//! let (sum, ()) = pool.install(|| {
//!     let (left, right) = numbers.split_at_mut(1);
//!     rayon_core::join(|| left[0] * 2, || right.sort())
//! });
//! assert_eq!((sum, numbers), (6, [3, 1, 2]));
//! # Ok::<(), rayon_core::ThreadPoolBuildError>(())
//! ```

mod broadcast;
mod builder;
mod configuration;
mod current;
mod error;
mod job;
mod join;
mod pool;
mod registry;
mod scope;
mod spawn;
mod thread;
mod yields;

#[allow(deprecated, reason = "part of the interface")]
pub use crate::configuration::{Configuration, initialize};
pub use crate::{
    broadcast::{BroadcastContext, broadcast, spawn_broadcast},
    builder::ThreadPoolBuilder,
    error::ThreadPoolBuildError,
    join::{FnContext, join, join_context},
    pool::ThreadPool,
    scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo},
    spawn::{spawn, spawn_fifo},
    thread::ThreadBuilder,
    yields::{Yield, current_thread_has_pending_tasks, yield_local, yield_now},
};

/// The most threads that a pool can have. More are cut down to it.
pub fn max_num_threads() -> usize {
    registry::MOST
}

/// How many threads the current pool has: that which the calling thread is in, else the global one.
pub fn current_num_threads() -> usize {
    current::with(registry::Registry::num_threads)
}

/// The calling thread's index in its pool, if it is in one. None too for a thread that stands in for a blocked worker of a
/// runtime, or helps it for a while.
#[inline]
pub fn current_thread_index() -> Option<usize> {
    current::index()
}
