//! Fork-join on the workers of an executor: [`Fork`](handle::Fork), the handle that is passed down, with its
//! operations.
//!
//! A job lives on the stack of the worker that forks it, and belongs to that worker until another one is without work.
//! `queue/deque.rs` keeps waiting jobs; `scheduler/jobs.rs` has workers take them.

pub(crate) mod each;
pub(crate) mod handle;
mod job;
pub(crate) mod scope;
