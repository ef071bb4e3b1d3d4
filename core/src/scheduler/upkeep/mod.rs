//! What a worker sees to between two polls: I/O, timers, and other workers that are stuck.

pub(crate) mod listening;
pub(crate) mod pace;
pub(crate) mod tick;
pub(crate) mod timing;
pub(crate) mod watch;
