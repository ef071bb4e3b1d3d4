//! The queues: chains and stacks through the headers' own links, the ring, the injector, the inbox.
//!
//! A queue carries `Ready`s and nothing else, and takes no memory of its own for them: a chain and a stack link headers,
//! the ring holds pointers in fixed slots. So queueing a task can never fail.

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
pub(crate) mod ring;
