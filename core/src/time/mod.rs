//! Time: sleeps, timeouts, intervals, over one timer wheel for each worker.
//!
//! A timer lives inside the future that waits for it, keeps a plain waker, and works under any executor and in any
//! combinator; an executor's workers fire it. It goes to the wheel of the worker that first polls it, so that timers
//! scale with workers.
//!
//! ```
//! # use core::time::Duration;
//! # async fn example(timers: filch::Timers, request: impl core::future::Future<Output = u8>) {
//! timers.sleep(Duration::from_millis(10)).await;
//! match timers.timeout(Duration::from_secs(1), request).await {
//!     Ok(answer) => drop(answer),
//!     Err(elapsed) => drop(elapsed),
//! }
//! # }
//! ```
//!
//! - Never early: a sleep ends when its executor's clock has reached its deadline, to the nanosecond.
//! - Late by scheduling alone: a worker sleeps until the earliest of its deadlines; a busy one looks at its wheel about every
//!   millisecond, and the watchdog ([`Config::watchdog`](crate::Config::watchdog)) fires the timers of one that is stuck in a poll,
//!   at the latest when its longest sleep has ended.
//! - Never from interrupt handlers: polling, resetting and dropping timers takes the wheel's lock for some tens of
//!   instructions. What a timer wakes may be anything.

mod driver;
mod interval;
#[cfg(all(test, filch_loom))]
mod models;
mod node;
mod sleep;
mod slots;
mod timeout;
mod wheel;
#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod wheel_tests;

pub(crate) use {
    driver::Driver,
    wheel::{Batch, Wheel},
};
pub use {
    driver::Timers,
    interval::{Interval, MissedTick, Tick},
    sleep::Sleep,
    timeout::{Elapsed, Timeout},
};
