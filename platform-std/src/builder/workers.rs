//! How many workers a runtime has.

use std::{env, thread};

use crate::error::BuildError;

/// The environment variable of the number of workers.
const FILCH_WORKERS: &str = "FILCH_WORKERS";

/// The processors that this process may use, by its affinity and its cgroup's quota, as the standard library finds them. One if that is
/// unknown.
pub fn available_workers() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The number of workers if the program does not say one: the variable, or as many as there are processors; `most` at most.
pub(super) fn default_workers(most: usize) -> Result<usize, BuildError> {
    match env::var_os(FILCH_WORKERS) {
        None => Ok(available_workers().min(most)),
        Some(value) => match value.to_str().and_then(|n| n.parse().ok()) {
            Some(n) => Ok(n),
            None => Err(BuildError::Variable(value)),
        },
    }
}
