//! What the tests of the runtime share.
#![allow(unused_imports, dead_code, reason = "each test binary uses a part of it")]

use core::future::Future;
use std::os::unix::net::UnixStream;

pub(crate) use filch_test_support::{Drops, Flag, Tally, Watchdog, message, rng, until, watchdog};

use filch_linux::{Async, Runtime, runtime::PausableRuntime};

pub(crate) fn runtime(workers: usize) -> Runtime {
    filch_linux::Builder::new().workers(workers).build().expect("a runtime")
}

/// A runtime whose clock can be stopped.
pub(crate) fn pausable(workers: usize) -> PausableRuntime {
    filch_linux::Builder::new().workers(workers).build_pausable().expect("a runtime")
}

/// Two sockets that are connected to each other, in the current runtime.
pub(crate) fn pair() -> (Async<UnixStream>, Async<UnixStream>) {
    let (a, b) = UnixStream::pair().unwrap();
    (Async::new(a).unwrap(), Async::new(b).unwrap())
}

/// Runs a future on a new runtime; a hang ends the whole test program.
pub(crate) fn run<F: Future>(workers: usize, future: F) -> F::Output {
    let _watchdog = watchdog();
    runtime(workers).block_on(future)
}

/// As [`run`], with a clock that can be stopped.
pub(crate) fn run_pausable<F: Future>(workers: usize, future: F) -> F::Output {
    let _watchdog = watchdog();
    pausable(workers).block_on(future)
}
