//! A work-stealing async executor core for many cores. It needs neither `std` nor an allocator, and runs on a platform
//! that you supply.
//!
//! One scheduler runs in kernels and hypervisors on bare metal, in ordinary programs (crate `filch-std`), under model
//! checkers and under deterministic simulation. A port is one [`Platform`]; an executor is one `static`.
//!
//! # The path of a task
//!
//! `spawn -> header -> Ready -> queue -> worker -> poll -> waker -> Ready -> queue`, and out through its [`JoinHandle`].
//!
//! # Contexts
//!
//! The docs say from which contexts a function may be called: a *worker* (inside [`Scheduler::run`]), a *thread* (any
//! other context that may block), an *interrupt* handler or signal handler, or *any* of them. Wakers work in all of
//! them. From a non-maskable interrupt, only one function may be called: a waker's `wake_by_ref`, for a task whose
//! executor's platform returns `None` as the current worker there.
//!
//! # One step at a time
//!
//! [`Scheduler::worker`] returns a worker whose [`step`](Worker::step) polls one task. It is for verifiers and
//! simulations, which so test the scheduler that programs run.
//!
//! # Features
//!
//! `alloc`: `Heap`, memory for any number of tasks, and boxes for large closures of a [`Scope`]. `critical-section`,
//! `atomic-polyfill`: backends of the atomics for targets without compare-and-swap. Without either, the application
//! chooses `portable-atomic`'s backend. `macros`: `task`, which gives an `async fn` exactly sized static slots. `log`, `defmt`:
//! `Event::log`, which writes what the scheduler does to the program's log; with `defmt`, errors have its `Format`.
//!
//! # Where the ideas come from
//!
//! From Tokio's scheduler, by way of blitz-io and Volt: the order in which a worker looks for work, the LIFO slot and
//! its cap, the budget, and the rule that the last searcher notifies. From blitz-io and Volt: the packed state, the
//! idle bitmap and the dual-head ring. From nexosim: the wake counter in the state word. From Rayon: idling by an event
//! counter. From Embassy: task storage in statics. The code was written here.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "alloc", all(test, filch_loom)))]
extern crate alloc;

#[cfg(feature = "std")]
extern crate std;

pub mod atomic;
mod bits;
#[cfg_attr(
    not(feature = "classes"),
    allow(unreachable_pub, dead_code, reason = "all tasks are alike")
)]
mod class;
mod fork;
mod instant;
pub mod io;
mod lock;
mod memory;
mod metrics;
pub mod parts;
mod platform;
mod queue;
mod scheduler;
mod sleep;
mod task;
#[cfg(feature = "task-dump")]
pub use task::dump;
#[cfg(feature = "waker-events")]
pub use task::waker_events;
pub mod time;
mod trace;
mod watchdog;

#[cfg(feature = "macros")]
pub use filch_macros::task;
#[cfg(feature = "macros")]
pub use memory::exact::SpawnToken;
#[cfg(feature = "alloc")]
pub use memory::heap::Heap;
/// What the code that `filch_macros::task` writes uses. Not for other code.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __macros {
    pub use crate::memory::exact::{
        Align, Alignment, Never, Returns, Slots, StaticTasks, any, slot_align, slot_size,
    };
    pub use core::{future::Future, marker::Send, primitive::usize};
}
#[cfg(feature = "classes")]
pub use {class::Class, fork::options::ForkOptions, platform::WorkerSet};
pub use {
    fork::{handle::Fork, scope::Scope},
    instant::Instant,
    memory::pool::{TaskCell, TaskPool, TaskSlot, TaskSlots},
    metrics::{Totals, WorkerMetrics},
    platform::{Context, Panic, PanicVtable, Platform, Reactor, StartError, WorkerEntry, WorkerId},
    scheduler::{
        config::Config,
        core::{
            context::Worker,
            executor::{Executor, Scheduler},
            slot::{Slots, WorkerSlot},
            worker::Step,
        },
        error::{BuildError, ResizeError, RunError},
        lifecycle::shutdown::ShutdownError,
        snapshot::Metrics,
        turn::Turn,
    },
    task::{
        coop::{
            BUDGET, ConsumeBudget, Shield, Unconstrained, YieldNow, budgeted, consume_budget,
            hear_refusal, shield, unconstrained, yield_now,
        },
        error::{JoinError, SpawnError, SpawnErrorKind},
        info::{TaskId, TaskInfo},
        join::{AbortHandle, JoinHandle, RefLimit},
        options::TaskOptions,
        reserve::Reservation,
        spawn::{Memory, Spawner},
    },
    time::{Elapsed, Interval, MissedTick, Sleep, Tick, Timeout, Timers},
    trace::{Event, SpawnInfo, Spawned},
};
