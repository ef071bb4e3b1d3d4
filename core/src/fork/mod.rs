//! Fork-join on the workers of an executor: [`Fork`](handle::Fork), the handle that is passed down, and what can be done with it.
//!
//! Jobs live on the stack of the worker that forks them, and are its own until another worker is without work; see
//! `queue/deque.rs` for where they wait, `scheduler/jobs.rs` for who takes them.

pub(crate) mod each;
pub(crate) mod handle;
mod job;
pub(crate) mod scope;
