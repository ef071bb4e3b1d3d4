//! Tasks: the header, its state word, the waker, the memory they live in, and the handle that joins them.
//!
//! Who may touch which part of a task:
//!
//! | part | before `publish` | live | complete |
//! |---|---|---|---|
//! | `state` | spawner | anybody, by transitions | anybody, by transitions |
//! | `link` | spawner | holder of the `Ready`, or the queue it is in | stack of free slots |
//! | `vtable`, `meta` | spawner | read by holders of a reference | read by holders of a reference |
//! | `home` | written by the slot's first owner, once | read by holders of a reference | the same, and the slot's owner |
//! | stage (future, output) | spawner | holder of the `Ready` | join handle; without one, the completing worker |
//! | join slot | spawner | join handle while the join-waker bit is clear, else read by both | the completing worker if the bit was set |
//!
//! A `Ready` is the right to poll; a transition that answers `Schedule` or `Again` makes it, at most one at a time.
//! References keep the slot; the last one frees it, or, if a future is still in it, has a worker drop that future: a task
//! that nobody can wake any more is scheduled as cancelled, so that the queues themselves are the reclaim list.

#[cfg(feature = "alloc")]
pub(crate) mod chunks;
pub(crate) mod coop;
#[cfg(any(not(target_has_atomic = "64"), filch_narrow))]
pub(crate) mod flags;
#[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
pub(crate) mod free;
pub(crate) mod header;
#[cfg(feature = "alloc")]
pub(crate) mod heap;
pub(crate) mod join;
pub(crate) mod memory;
#[cfg(all(test, filch_loom))]
mod models;
#[cfg(all(test, filch_loom))]
mod models_bare;
#[cfg(all(test, filch_loom))]
mod models_end;
#[cfg(all(test, filch_loom, not(filch_narrow)))]
mod models_stacks;
#[cfg(all(feature = "alloc", target_has_atomic = "64", not(filch_narrow)))]
pub(crate) mod names;
pub(crate) mod pool;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod spawn;
#[cfg(all(
    any(feature = "alloc", all(test, filch_loom)),
    target_has_atomic = "64",
    not(filch_narrow)
))]
pub(crate) mod stacks;
pub(crate) mod state;
pub(crate) mod waker;
