//! Tasks: the header, its state word, the waker, the spawn, and the handle that joins them.
//!
//! Access to the parts of a task:
//!
//! | part | before `publish` | live | complete |
//! |---|---|---|---|
//! | `state` | spawner | any context, by transitions | any context, by transitions |
//! | `link` | spawner | holder of the `Ready`, or the queue it is in | list of free slots |
//! | `vtable`, `meta` | spawner | read by holders of a reference | read by holders of a reference |
//! | `owner` | written by the context that takes the slot first, once | read by holders of a reference | the same, and the slot's holder |
//! | stage (future, output) | spawner | holder of the `Ready` | join handle; without one, the completing worker |
//! | join slot | spawner | join handle while the join-waker bit is clear, else both read | completing worker if the bit was set |
//!
//! A `Ready` is the right to poll. A transition that returns `Schedule` or `Again` makes it; there is at most one.
//!
//! A reference keeps the slot. The last one frees it, unless a future is still in it. A task that nothing can wake any more is
//! kept with its future until a shutdown finds it in its memory; or, if its spawn said so, it is scheduled as cancelled, and a
//! worker drops its future. So the run queues themselves are the reclaim list.

pub(crate) mod action;
pub(crate) mod cell;
pub(crate) mod class;
pub(crate) mod coop;
#[cfg(feature = "classes")]
pub(crate) mod due;
#[cfg(feature = "task-dump")]
pub mod dump;
pub(crate) mod error;
pub(crate) mod executor_ref;
pub(crate) mod header;
pub(crate) mod info;
pub(crate) mod join;
pub(crate) mod join_slot;
#[cfg(all(test, filch_loom))]
mod models;
#[cfg(all(test, filch_loom))]
mod models_bare;
#[cfg(all(test, filch_loom))]
mod models_end;
pub(crate) mod options;
pub(crate) mod owner;
#[cfg(feature = "classes")]
mod polled;
pub(crate) mod reserve;
pub(crate) mod run;
pub(crate) mod spawn;
pub(crate) mod state;
pub(crate) mod waker;
#[cfg(feature = "waker-events")]
pub mod waker_events;
