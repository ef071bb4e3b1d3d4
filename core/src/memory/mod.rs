//! The memory of tasks: slots of one size in a slab, and the pools and heaps that consist of slabs.
//!
//! A spawn takes a slot through [`Memory`](crate::Memory), and the scheduler gives it back ([`slab::Slab::give`]). A free slot is in
//! a list without locks: in a stack of names (`free_list.rs`), or, where a word has no room for a tag, under a mark of
//! its own (`flags.rs`). A heap has a stack for each few workers (`shards.rs`), and slots in chunks that it allocates.

#[cfg(feature = "alloc")]
mod chunks;
#[cfg(feature = "macros")]
pub(crate) mod exact;
#[cfg(any(not(target_has_atomic = "64"), filch_narrow))]
mod flags;
#[cfg(all(target_has_atomic = "64", not(filch_narrow)))]
mod free_list;
#[cfg(feature = "alloc")]
pub(crate) mod heap;
#[cfg(all(test, filch_loom))]
mod models;
#[cfg(all(test, filch_loom, not(filch_narrow)))]
mod models_shards;
#[cfg(all(feature = "alloc", target_has_atomic = "64", not(filch_narrow)))]
mod names;
pub(crate) mod pool;
#[cfg(all(
    any(feature = "alloc", all(test, filch_loom)),
    target_has_atomic = "64",
    not(filch_narrow)
))]
mod shards;
pub(crate) mod slab;
