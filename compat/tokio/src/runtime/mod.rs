//! Runtimes, and how they are built.

use std::io;

mod beside;
mod builder;
pub(crate) mod context;
mod current;
mod handle;
mod id;
pub(crate) mod local;
mod local_runtime;
mod metrics;
mod threads;

pub use self::{
    builder::Builder,
    context::{EnterGuard, TryCurrentError, worker_index},
    handle::Handle,
    id::Id,
    local_runtime::{LocalOptions, LocalRuntime},
    metrics::RuntimeMetrics,
    threads::Runtime,
};

/// The two kinds of runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeFlavor {
    /// Tasks run inside `block_on`.
    CurrentThread,
    /// Tasks run on workers.
    MultiThread,
}

pub(crate) const SHUTTING_DOWN: &str = "A Tokio 1.x context was found, but it is being shutdown.";

/// The error of an operation whose runtime has ended.
#[derive(Debug)]
struct ShuttingDown;

impl core::fmt::Display for ShuttingDown {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(SHUTTING_DOWN)
    }
}

impl core::error::Error for ShuttingDown {}

pub(crate) fn shutting_down() -> io::Error {
    io::Error::other(ShuttingDown)
}

/// Whether an operation failed because its runtime has ended.
pub fn is_rt_shutdown_err(err: &io::Error) -> bool {
    err.get_ref().is_some_and(|inner| inner.is::<ShuttingDown>())
}
