//! Tasks: the header, its state word, the waker, the memory of tasks, and the handle that joins them.
//!
//! Access to the parts of a task:
//!
//! | part | before `publish` | live | complete |
//! |---|---|---|---|
//! | `state` | spawner | any context, by transitions | any context, by transitions |
//! | `link` | spawner | holder of the `Ready`, or the queue it is in | list of free slots |
//! | `vtable`, `meta` | spawner | read by holders of a reference | read by holders of a reference |
//! | `slab` | written by the slot's first owner, once | read by holders of a reference | the same, and the slot's owner |
//! | stage (future, output) | spawner | holder of the `Ready` | join handle; without one, the completing worker |
//! | join slot | spawner | join handle while the join-waker bit is clear, else both read | completing worker if the bit was set |
//!
//! A `Ready` is the right to poll. A transition that returns `Schedule` or `Again` makes it; there is at most one.
//!
//! A reference keeps the slot. The last one frees it, unless a future is still in it: a task that nothing can wake any
//! more is scheduled as cancelled, and a worker drops its future. So the run queues themselves are the reclaim list.

#[cfg(feature = "alloc")]
pub(crate) mod chunks;
pub(crate) mod coop;
pub(crate) mod executor_ref;
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
pub(crate) mod spawn;
#[cfg(all(
    any(feature = "alloc", all(test, filch_loom)),
    target_has_atomic = "64",
    not(filch_narrow)
))]
pub(crate) mod stacks;
pub(crate) mod state;
pub(crate) mod waker;
