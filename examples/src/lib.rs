//! What the examples have beside the things that they show: command lines, spelling, a walk over folders, the text of metrics; and
//! what the servers share.

pub mod args;
pub mod exposition;
pub mod names;
pub mod options;
#[cfg(target_os = "linux")]
pub mod server;
pub mod walk;
