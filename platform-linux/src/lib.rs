//! filch on Linux: the runtime of `filch-std` over one epoll, and I/O types that use it.
//!
//! ```
//! use std::{io::{Read, Write}, os::unix::net::UnixStream};
//! use filch_linux::Async;
//!
//! let runtime = filch_linux::builder().workers(2).build()?;
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
pub mod signal;
pub mod stdio;
#[cfg(feature = "tokio")]
pub mod tokio;
mod write_behind;

pub use filch::io::{Direction, Event, Ready};
#[cfg(feature = "hyper")]
pub use filch_io::hyper;
pub use filch_io::{Async, net};
#[cfg(feature = "macros")]
pub use filch_macros::{linux_main as main, linux_test as test};
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
#[doc(hidden)]
pub use filch_std::{BlockingPool, TaskWait, Unserved};
#[cfg(feature = "observe")]
pub use filch_std::{ClassMetrics, Histogram, Snapshot};

pub use crate::{
    builder::{Builder, builder},
    linux::Linux,
};

/// A runtime whose workers sleep in epoll. From its `new` for one with the defaults, or from a [`Builder`].
///
/// ```
/// let runtime = filch_linux::Runtime::new()?;
/// assert_eq!(runtime.block_on(async { filch_linux::spawn(async { 3 + 4 }).await })?, 7);
/// let small = filch_linux::Runtime::builder().workers(1).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Runtime = filch_std::RuntimeOn<Linux>;

/// A runtime with a clock that tests can stop. Made by [`Builder::build_pausable`].
pub type PausableRuntime = filch_std::RuntimeOn<Pausable<Linux>>;

/// A runtime of one thread, the one that makes it, which sleeps in epoll. Made by [`Builder::build_local`].
///
/// A loop that is not its own gives it turns ([`turn`](filch_std::LocalRuntime::turn)), and sleeps meanwhile on its descriptor: the epoll,
/// which is readable when there is I/O or a wake.
///
/// ```
/// use filch_linux::Turn;
/// use rustix::event::{PollFd, PollFlags, Timespec, poll};
///
/// let runtime = filch_linux::builder().build_local()?;
/// let handle = *runtime.handle();
/// let task = runtime.spawn_local(async { filch_linux::spawn_blocking(|| 7).await })?;
/// loop {
///     let turn = runtime.turn(64);
///     if task.is_finished() {
///         break;
///     }
///     let time = turn.timeout().map(|time| Timespec::try_from(time).expect("it is short"));
///     poll(&mut [PollFd::new(&runtime, PollFlags::IN)], time.as_ref())?;
/// }
/// assert_eq!(runtime.block_on(task)??, 7);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type LocalRuntime = filch_std::LocalRuntimeOn<Linux>;

/// A runtime of one thread with a clock that tests can stop. Made by [`Builder::build_local_pausable`].
pub type PausableLocalRuntime = filch_std::LocalRuntimeOn<Pausable<Linux>>;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
