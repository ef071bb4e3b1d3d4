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
//! - [`spawn`], [`spawn_local`], [`spawn_blocking`] and [`block_on`] use the runtime that the calling thread is in; the methods
//!   of the same names of [`Handle`] use its own. [`spawn_with`] takes [`TaskOptions`]: a name, a worker, a class, a deadline.
//! - [`mod@task`] has the rest of what is done with tasks, [`runtime`] of what is done with runtimes.
//! - [`time`]: sleeps, timeouts, intervals, and a clock that tests can stop, if the runtime is
//!   [`Pausable`](runtime::Pausable).
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
mod handle;
#[cfg(feature = "observe")]
mod histogram;
mod hooks;
mod host;
mod hosted;
mod join_set;
mod knobs;
mod latch;
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
mod scope;
mod seat;
mod shared;
mod sinks;
mod spawn;
mod stable;
#[cfg(all(feature = "observe", target_os = "linux"))]
mod stacks;
#[cfg(feature = "observe")]
mod task_hooks;
mod task_view;
mod task_wait;
mod thread_config;
mod thread_hooks;
mod threaded;
pub mod time;
#[cfg(feature = "tracing")]
mod tracing;
mod tracker;
mod unhandled;
mod wake_hook;

/// Tasks: how they are spawned, joined, named and looked at, and what a task says of itself.
pub mod task {
    pub use filch::{
        AbortHandle, Class, JoinError, JoinHandle, Panic, SpawnError, SpawnErrorKind, SpawnInfo,
        TaskId, TaskInfo, TaskOptions, shield, yield_now,
    };

    pub use crate::{
        blocking::spawn_blocking,
        coop::{
            budgeted, class, consume_budget, give_way, set_class, set_deadline, should_yield,
            unconstrained,
        },
        join_set::JoinSet,
        panics::{payload, resume},
        scope::{ScopedHandle, TaskScope, scope},
        spawn::{spawn, spawn_local, spawn_with},
        task_view::{Activity, LastWake, Task, WokenBy},
        tracker::{TaskTracker, Tracked},
    };
}

/// Runtimes: how they are built and resized, what they run on, and what they count.
pub mod runtime {
    pub use filch::{BuildError as ConfigError, Totals, WorkerId, WorkerMetrics, WorkerSet};

    #[cfg(unix)]
    pub use crate::host::Pollable;
    pub use crate::{
        block_on::block_on,
        builder::{Builder, available_workers},
        context::Handle,
        error::{BuildError, NoRuntime, ResizeError},
        host::{Futex, Host},
        local::{LocalRuntime, LocalRuntimeOn, Turn},
        long_poll::LongPoll,
        metrics::{BlockingMetrics, IoMetrics, Metrics},
        pausable::Pausable,
        thread_config::Affinity,
        thread_hooks::ThreadRole,
        threaded::{Runtime, RuntimeOn, Survivors},
        unhandled::UnhandledPanic,
    };
    #[cfg(feature = "observe")]
    pub use crate::{class_metrics::ClassMetrics, histogram::Histogram, recording::Snapshot};
}

/// For crates with a host or an interface of their own. Outside the stability promise.
#[doc(hidden)]
pub mod internal {
    pub use crate::{
        blocking::BlockingPool,
        builder::{HasBuilder, RuntimeBuilder},
        entry::{Beside, BesideSlot, Entry},
        latch::{CountLatch, Latch},
        panics::contain,
        parallel::{join_open, try_join_open},
        pool::{Threads, Unserved},
        task_wait::TaskWait,
    };
}

#[cfg(feature = "macros")]
pub use filch_macros::{std_main as main, std_test as test};

pub use crate::{
    runtime::{Builder, Handle, LocalRuntime, Runtime, block_on},
    task::{JoinError, JoinHandle, TaskOptions, spawn, spawn_blocking, spawn_local, spawn_with},
};
