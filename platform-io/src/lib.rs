//! filch with I/O on any system that std has sockets for: the runtime of `filch-std` over the crate
//! [`polling`](https://docs.rs/polling), and sockets that use it.
//!
//! ```
//! use filch_io::net::{TcpListener, TcpStream};
//!
//! let runtime = filch_io::Builder::new().workers(2).build()?;
//! runtime.block_on(async {
//!     let listener = TcpListener::bind("127.0.0.1:0").await?;
//!     let addr = listener.local_addr()?;
//!     let client = filch_io::spawn(async move { TcpStream::connect(addr).await?.write(b"hello").await });
//!     let (stream, _from) = listener.accept().await?;
//!     let mut greeting = [0; 5];
//!     stream.read_exact(&mut greeting).await?;
//!     assert_eq!(&greeting, b"hello");
//!     assert_eq!(client.await.expect("it does not panic")?, 5);
//!     Ok::<_, std::io::Error>(())
//! })?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! - [`Async`] registers any file that the system watches; the types for sockets are built on it.
//! - Everything else comes from `filch-std`, under the same names.
//! - On Linux use `filch-linux`: it has these very types, on a host that makes fewer system calls, and pipes, signals, child
//!   processes and the terminal besides. Its types and those of this crate are the same, so that a library may take either.
//!
//! # What works where
//!
//! | | Linux | macOS | FreeBSD | Windows |
//! |---|---|---|---|---|
//! | tests | run | **compiled, not run** | **compiled, not run** | **compiled, not run** |
//! | waits in | epoll | kqueue | kqueue | IOCP (`polling`'s way to its sockets) |
//! | TCP, UDP, names, timers, tasks, fork-join, blocking pool | yes | yes | yes | yes |
//! | Unix sockets | yes | yes | yes | no |
//! | abstract names of those; `UCred::pid` | yes | no | no | |
//! | `UnixDatagram::send` waits while the peer's queue is full | yes | no: an error | no: an error | |
//! | `SO_REUSEPORT`: `TcpSocket::set_reuseport` | yes | yes | yes | no |
//! | `Async` of other files: pipes, terminals | yes | yes | yes | no: sockets alone |
//! | wakes from signal handlers | no | no | no | |
//! | a stopped clock waits for I/O that is ready: `time::pause` | yes | yes | yes | if a worker has taken it |
//!
//! NetBSD, OpenBSD and DragonFly BSD have the same code as FreeBSD, and were not even compiled.
//!
//! **Signal handlers.** A wake takes locks here: a read lock around the poller, and where the system has no futex a lock around
//! a condition variable. So wake, spawn and unpark from threads alone; a handler writes to a socket that a task reads. (`filch-linux`
//! can do it.)
//!
//! **A forked child** may use the sockets of its parent as files, and nothing else of this crate.
//!
//! # How it waits
//!
//! A source is watched for one event at a time, and is watched again whenever an operation would have blocked: the only way that
//! `polling` has on all systems (Windows has no edges). The system looks at the source at that moment, so no readiness between the
//! attempt and the wait is lost. An event is told to both directions, as some systems then watch neither; the task that waits for
//! the other one tries once in vain. The cost is a system call for each wait, and two or three of `polling`'s own for each time that
//! a worker goes to sleep.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "polling")]
#[doc(hidden)]
#[path = "macros.rs"]
pub mod __macros;
mod async_fd;
mod async_io;
#[cfg(feature = "polling")]
mod builder;
mod counts;
pub mod driver;
mod host;
#[cfg(feature = "hyper")]
pub mod hyper;
pub mod net;
#[doc(hidden)]
pub mod nothing;
#[cfg(feature = "polling")]
mod polling;
pub mod runtime;
mod shown;
mod slab;
mod source;
#[cfg(feature = "tokio")]
#[doc(hidden)]
pub mod tokio;
mod whole;

#[cfg(all(feature = "macros", feature = "polling"))]
pub use filch_macros::{io_main as main, io_test as test};
#[cfg(feature = "metrics")]
pub use filch_std::prometheus;
pub use filch_std::{
    Handle, JoinError, JoinHandle, TaskOptions, block_on, parallel, spawn, spawn_blocking,
    spawn_local, spawn_with, task, time,
};

/// What an [`Async`] says of its file.
pub mod io {
    pub use filch::io::{Direction, Event, Ready};
}

pub use crate::async_fd::Async;
#[cfg(feature = "polling")]
pub use crate::runtime::{Builder, LocalRuntime, Runtime};
