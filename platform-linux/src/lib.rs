//! filch on Linux: the runtime of `filch-std` over one epoll, and I/O types that use it.
//!
//! ```
//! use std::{io::{Read, Write}, os::unix::net::UnixStream};
//! use filch_linux::Async;
//!
//! let runtime = filch_linux::Builder::new().workers(2).build()?;
//! runtime.block_on(async {
//!     let (a, b) = UnixStream::pair()?;
//!     let (a, b) = (Async::new(a)?, Async::new(b)?);
//!     let echo = filch_linux::spawn(async move {
//!         let mut byte = [0];
//!         b.read_with(|mut b| b.read(&mut byte)).await?;
//!         b.write_with(|mut b| b.write(&byte)).await
//!     });
//!     a.write_with(|mut a| a.write(b"!")).await?;
//!     let mut byte = [0];
//!     a.read_with(|mut a| a.read(&mut byte)).await?;
//!     assert_eq!(byte, *b"!");
//!     echo.await.expect("it does not panic")?;
//!     Ok::<_, std::io::Error>(())
//! })?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! - [`Async`] registers any file descriptor that epoll supports; the types for sockets, pipes and
//!   so on are built on it.
//! - Everything else comes from `filch-std`, under the same names.
//! - An idle runtime makes no system call, however many sockets it holds.

#![cfg(target_os = "linux")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "macros.rs"]
pub mod __macros;
mod alarm;
mod builder;
pub mod fs;
#[cfg(feature = "observe")]
pub mod inspector;
mod linux;
pub mod pipe;
mod poller;
pub mod process;
#[cfg(feature = "observe")]
pub mod recorder;
pub mod runtime;
pub mod signal;
pub mod stdio;
#[cfg(feature = "tokio")]
pub mod tokio;
mod write_behind;

#[cfg(feature = "hyper")]
pub use filch_io::hyper;
pub use filch_io::{Async, io, net};
#[cfg(feature = "macros")]
pub use filch_macros::{linux_main as main, linux_test as test};
#[doc(hidden)]
pub use filch_std::internal;
#[cfg(feature = "metrics")]
pub use filch_std::prometheus;
pub use filch_std::{
    Handle, JoinError, JoinHandle, TaskOptions, block_on, parallel, spawn, spawn_blocking,
    spawn_local, spawn_with, task, time,
};

pub use crate::runtime::{Builder, LocalRuntime, Runtime};

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
