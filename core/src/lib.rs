//! A work-stealing async executor core for many cores, without `std`, without an allocator, over a platform of your own.
//!
//! One scheduler runs in kernels and hypervisors on bare metal, in ordinary programs (crate `filch-std`), under model
//! checkers and under deterministic simulation. A port is one [`Platform`]; an executor is one `static`.
//!
//! # The way of a task
//!
//! `spawn -> header -> Ready -> queue -> worker -> poll -> waker -> Ready -> queue`, and out through its [`JoinHandle`].
//!
//! # Contexts
//!
//! Docs say from where a function may be called: a *worker* (inside [`Scheduler::run`]), a *thread* (anything else that
//! may block), an *interrupt* handler or signal handler, or *any* of them. Wakers work in all of them. Nothing here may be called
//! from a non-maskable interrupt but a waker's `wake_by_ref` of a task whose executor's platform says `None` there.
//!
//! # One step at a time
//!
//! [`Scheduler::worker`] gives a worker whose [`step`](Worker::step) polls one task, for verifiers and simulations: it is the scheduler
//! that programs run.
//!
//! # Features
//!
//! `alloc`: [`Heap`], memory for any number of tasks, and for large closures of a [`Scope`]. `critical-section`, `atomic-polyfill`:
//! backends of the atomics on targets without compare-and-swap; without either, the application chooses `portable-atomic`'s.
//!
//! # Where the ideas come from
//!
//! The order of looking for work, the LIFO slot and its cap, the budget, and the rule that the last searcher notifies: Tokio's
//! scheduler, by way of blitz-io and Volt, from which the packed state, the idle bitmap and the dual-head ring are too. The wake
//! counter in the state word: nexosim. The event counter's shape of idling: Rayon. Task storage in statics: Embassy. The code was
//! written here.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "alloc", all(test, filch_loom)))]
extern crate alloc;

pub mod atomic;
mod bits;
mod fork;
mod instant;
pub mod io;
mod lock;
mod metrics;
mod platform;
mod queue;
mod scheduler;
mod task;
pub mod time;
mod trace;

#[cfg(feature = "alloc")]
pub use task::heap::Heap;
pub use {
    fork::{handle::Fork, scope::Scope},
    instant::Instant,
    metrics::{Totals, WorkerMetrics},
    platform::{Panic, PanicVtable, Platform, StartError, WorkerEntry, WorkerId},
    scheduler::{
        config::Config,
        error::{BuildError, RunError},
        executor::{Executor, Scheduler},
        shutdown::ShutdownError,
        slot::{Slots, WorkerSlot},
        snapshot::Metrics,
        worker::{Step, Worker},
    },
    task::{
        coop::{
            BUDGET, ConsumeBudget, Shield, Unconstrained, YieldNow, budgeted, consume_budget,
            shield, unconstrained, yield_now,
        },
        header::{TaskId, TaskInfo},
        join::{AbortHandle, JoinError, JoinHandle, RefLimit},
        memory::Memory,
        pool::{TaskCell, TaskPool},
        spawn::{Builder, Reservation, SpawnError, SpawnErrorKind, Spawner},
    },
    time::{Elapsed, Interval, MissedTick, Sleep, Tick, Timeout, Timers},
    trace::Event,
};
