//! filch on any operating system with `std`: a [`Runtime`] of threads over the work-stealing core.
//!
//! ```
//! let runtime = filch_std::Runtime::new()?;
//! let sum = runtime.block_on(async {
//!     let handles: Vec<_> = (0..10).map(|i| filch_std::spawn(async move { i * i })).collect();
//!     let mut sum = 0;
//!     for handle in handles {
//!         sum += handle.await?;
//!     }
//!     Ok::<_, filch_std::JoinError>(sum)
//! })?;
//! assert_eq!(sum, 285);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! - [`spawn`], [`spawn_pinned`], [`spawn_local`], [`spawn_blocking`] and [`block_on`] use the
//!   runtime that the calling thread is in. The methods of the same names of [`Runtime`] and
//!   [`Handle`] use that runtime.
//! - [`time`]: sleeps, timeouts, intervals, and a clock that tests can stop, if the runtime is
//!   [`Pausable`].
//! - [`parallel`]: fork-join on the same workers.
//! - Workers sleep on a futex on Linux, on a condition variable elsewhere; an idle runtime causes
//!   no wake-ups.
//! - A panic in a task ends that task, and its [`JoinHandle`] returns the panic.
//! - Channels and locks come from other crates; any that is runtime-agnostic works: `async-channel`, `async-lock`,
//!   `futures`.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "macros.rs"]
pub mod __macros;
#[cfg(feature = "observe")]
mod activity;
mod bare;
mod block_on;
mod blocking;
mod builder;
#[cfg(feature = "observe")]
mod class_metrics;
mod clock;
mod context;
mod coop;
#[cfg(feature = "observe")]
pub mod dump;
mod entry;
mod erased;
mod error;
#[cfg(feature = "metrics")]
mod figures;
pub mod fork;
#[cfg(feature = "observe")]
mod histogram;
mod hooks;
mod host;
mod hosted;
mod join_set;
mod knobs;
#[doc(hidden)]
pub mod latch;
mod local;
mod long_poll;
mod metrics;
mod panics;
pub mod parallel;
mod pausable;
mod pool;
#[cfg(feature = "metrics")]
pub mod prometheus;
#[cfg(feature = "metrics")]
mod publish;
#[cfg(feature = "observe")]
mod recording;
mod resize;
mod runtime;
mod scope;
mod seat;
mod shared;
mod sinks;
mod stable;
#[cfg(all(feature = "observe", target_os = "linux"))]
mod stacks;
mod task;
#[cfg(feature = "observe")]
mod task_hooks;
mod task_wait;
mod thread_config;
mod thread_hooks;
pub mod time;
#[cfg(feature = "tracing")]
mod tracing;
mod tracker;
mod unhandled;
mod wake_hook;

pub use filch::{
    AbortHandle, Class, ForkOptions, Instant, JoinError, JoinHandle, Panic, SpawnInfo, TaskId,
    TaskInfo, TaskOptions, Timers, Totals, WorkerId, WorkerMetrics, WorkerSet, shield, yield_now,
};
#[cfg(feature = "macros")]
pub use filch_macros::{std_main as main, std_test as test};

#[cfg(unix)]
pub use crate::host::Pollable;
pub use crate::{
    block_on::block_on,
    blocking::BlockingMetrics,
    builder::{Builder, available_workers},
    context::{
        Handle, class, give_way, set_class, set_deadline, should_yield, spawn, spawn_blocking,
        spawn_blocking_with, spawn_local, spawn_pinned, spawn_with, try_spawn,
    },
    coop::{budgeted, consume_budget, unconstrained},
    error::{BuildError, NoRuntime, SpawnError, SpawnErrorKind},
    host::{Futex, Host},
    join_set::JoinSet,
    local::{LocalRuntime, LocalRuntimeOn, Turn},
    long_poll::LongPoll,
    metrics::{IoMetrics, Metrics},
    panics::{contain, payload, resume},
    pausable::Pausable,
    resize::ResizeError,
    runtime::{Runtime, RuntimeOn, Survivors},
    scope::{ScopedHandle, TaskScope, scope},
    task::{Activity, LastWake, Task, WokenBy},
    thread_config::{Affinity, ThreadRole},
    time::{interval, sleep, sleep_until, timeout},
    tracker::{TaskTracker, Tracked},
    unhandled::UnhandledPanic,
};
#[doc(hidden)]
pub use crate::{
    builder::{HasBuilder, RuntimeBuilder},
    entry::{Beside, BesideSlot, Entry},
    pool::{BlockingPool, Threads, Unserved},
    task_wait::TaskWait,
};
#[cfg(feature = "observe")]
pub use crate::{class_metrics::ClassMetrics, histogram::Histogram, recording::Snapshot};
