//! filch with I/O on any system that std has sockets for: the runtime of `filch-std` over the crate
//! [`polling`](https://docs.rs/polling), and sockets that use it.
//!
//! ```
//! use filch_io::{net::TcpListener, net::TcpStream};
//!
//! let runtime = filch_io::builder().workers(2).build()?;
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
mod shown;
mod slab;
mod source;
#[cfg(feature = "tokio")]
#[doc(hidden)]
pub mod tokio;
mod whole;

pub use filch::io::{Direction, Event, Ready};
#[cfg(all(feature = "macros", feature = "polling"))]
pub use filch_macros::{io_main as main, io_test as test};
#[cfg(feature = "metrics")]
pub use filch_std::prometheus;
pub use filch_std::{
    AbortHandle, Activity, Affinity, BlockingMetrics, BuildError, Class, ForkOptions, Handle, Host,
    Instant, IoMetrics, JoinError, JoinHandle, JoinSet, LastWake, LongPoll, Metrics, NoRuntime,
    Panic, Pausable, ResizeError, ScopedHandle, SpawnError, SpawnErrorKind, SpawnInfo, Survivors,
    Task, TaskId, TaskInfo, TaskOptions, TaskScope, TaskTracker, ThreadRole, Timers, Totals,
    Tracked, Turn, UnhandledPanic, WokenBy, WorkerId, WorkerMetrics, WorkerSet, available_workers,
    block_on, budgeted, class, consume_budget, give_way, interval, parallel, payload, resume,
    scope, set_class, set_deadline, shield, should_yield, sleep, sleep_until, spawn,
    spawn_blocking, spawn_blocking_with, spawn_local, spawn_pinned, spawn_with, time, timeout,
    try_spawn, unconstrained, yield_now,
};
#[cfg(feature = "observe")]
pub use filch_std::{ClassMetrics, Histogram, Snapshot};

pub use crate::async_fd::Async;
#[cfg(feature = "polling")]
pub use crate::{
    builder::{Builder, builder},
    polling::Polling,
};

/// A runtime whose workers sleep in a poller. From its `new` for one with the defaults, or from a [`Builder`].
///
/// ```
/// let runtime = filch_io::Runtime::new()?;
/// assert_eq!(runtime.block_on(async { filch_io::spawn(async { 3 + 4 }).await })?, 7);
/// let small = filch_io::Runtime::builder().workers(1).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "polling")]
pub type Runtime = filch_std::RuntimeOn<Polling>;

/// A runtime with a clock that tests can stop. Made by [`Builder::build_pausable`].
#[cfg(feature = "polling")]
pub type PausableRuntime = filch_std::RuntimeOn<Pausable<Polling>>;

/// A runtime of one thread, which sleeps in a poller. Made by [`Builder::build_local`].
///
/// A loop that is not its own gives it turns ([`turn`](filch_std::LocalRuntime::turn)), and sleeps meanwhile on its descriptor where there is
/// one.
#[cfg(feature = "polling")]
pub type LocalRuntime = filch_std::LocalRuntimeOn<Polling>;

/// A runtime of one thread with a clock that tests can stop. Made by [`Builder::build_local_pausable`].
#[cfg(feature = "polling")]
pub type PausableLocalRuntime = filch_std::LocalRuntimeOn<Pausable<Polling>>;
