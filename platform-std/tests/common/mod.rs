//! What the tests of the runtime share.
#![allow(unused_imports, dead_code, reason = "each test binary uses a part of it")]

pub(crate) use filch_test_support::{Drops, Flag, Tally, Watchdog, message, until, watchdog};

use filch_std::Runtime;

pub(crate) fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("a runtime")
}
