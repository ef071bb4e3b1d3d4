//! Queues, wheel and state word of the core by themselves, for the fuzz targets and the bench.
//!
//! The files are the core's own, mounted here, so that what is private there stays private. The scheduler is not among them.

#![cfg_attr(not(test), no_std)]
#![allow(dead_code, unreachable_pub, reason = "the harness uses a part of each file")]
#![allow(unexpected_cfgs, reason = "the harness has none of the core's features")]

extern crate alloc;

pub mod bench;
pub mod fuzzing;

#[allow(unused_imports, reason = "as above")]
#[path = "../../src/atomic.rs"]
mod atomic;
#[path = "../../src/bits.rs"]
mod bits;
#[path = "../../src/class.rs"]
mod class;
#[path = "../../src/instant.rs"]
mod instant;
#[path = "../../src/lock.rs"]
mod lock;
#[path = "../../src/memory/mod.rs"]
mod memory;
#[path = "../../src/parts.rs"]
mod parts;
#[allow(unused_imports, reason = "as above")]
#[path = "../../src/platform/mod.rs"]
mod platform;
#[path = "../../src/queue/mod.rs"]
mod queue;
#[path = "../../src/task/mod.rs"]
mod task;
/// The wheel without its futures.
#[path = "../../src/time"]
mod time {
    pub(crate) mod node;
    mod slots;
    pub(crate) mod wheel;
}
#[path = "../../src/trace.rs"]
mod trace;
