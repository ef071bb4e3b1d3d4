//! Helpers of the examples: command lines, file names, a walk over folders, and the common part of the servers.

pub mod args;
pub mod names;
pub mod options;
#[cfg(target_os = "linux")]
pub mod server;
pub mod walk;
