//! Fork-join on the workers of an executor: [`Fork`](handle::Fork), the handle that is passed down, with its operations.
//!
//! A job lives on the stack of the worker that forks it, and belongs to that worker until another one is without work.
//! `queue/deque.rs` keeps waiting jobs; `steal.rs` has workers take them, and says what it asks of the scheduler: `Crew`.

pub(crate) mod each;
mod forked;
pub(crate) mod handle;
pub(crate) mod job;
mod join;
#[cfg_attr(
    not(feature = "classes"),
    allow(unreachable_pub, dead_code, reason = "all runs are alike")
)]
pub(crate) mod options;
pub(crate) mod scope;
pub(crate) mod steal;
pub(crate) mod worker;
