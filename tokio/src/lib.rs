//! tokio's interface over filch: a program that is written for tokio runs on filch, and its code does not change.
#![cfg(target_os = "linux")]

pub mod fs;
pub mod io;
#[doc(hidden)]
pub mod macros;
pub mod net;
mod park;
pub mod process;
pub mod runtime;
pub mod signal;
pub mod task;
pub mod time;
mod util;

pub use ::tokio::{join, pin, select, sync, try_join};
pub use task::spawn;
pub use tokio_macros::{main, test};
