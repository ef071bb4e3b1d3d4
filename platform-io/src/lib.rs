//! I/O.

#[doc(hidden)]
#[path = "macros.rs"]
pub mod __macros;
mod async_fd;
mod async_io;
mod builder;
mod counts;
pub mod driver;
#[cfg(feature = "hyper")]
pub mod hyper;
pub mod net;
mod shown;
mod slab;
mod source;

pub use crate::{async_fd::Async, builder::Builder};
