//! The queues: chains and stacks linked through task headers, the ring, the injector, the inbox, the queue of urgent tasks, and
//! the deque of fork-join jobs.
//!
//! A queue of tasks carries `Ready`s and nothing else. It needs no memory of its own: chains and stacks link headers,
//! and the ring holds pointers in fixed slots. So queueing a task never fails.

pub(crate) mod affine;
pub(crate) mod chain;
pub(crate) mod deque;
pub(crate) mod inbox;
pub(crate) mod injector;
#[cfg(all(test, filch_loom))]
mod models;
#[cfg(all(test, filch_loom))]
mod models_deque;
#[cfg(all(test, filch_loom))]
mod models_steal;
#[cfg(all(test, filch_loom, feature = "classes"))]
mod models_urgent;
pub(crate) mod ring;
pub(crate) mod urgent;
