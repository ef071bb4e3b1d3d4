//! Time: sleeps, timeouts, intervals, over one timer wheel for each worker.
//!
//! A timer lives inside the future that waits for it and keeps a plain waker, so that it works under any executor and
//! in any combinator. An executor's workers fire it. It goes to the wheel of the worker that first polls it, so that
//! timers scale with workers.
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
//! - Never early: a sleep ends once its executor's clock has reached its deadline, to the nanosecond.
//! - Late only by scheduling. A worker sleeps until the earliest of its deadlines. A busy worker checks its wheel about
//!   once a millisecond. The watchdog ([`Config::watchdog`](crate::Config::watchdog)) fires the timers of a worker that
//!   is stuck in a poll, at the latest when the watchdog's longest sleep has ended.
//! - Never from interrupt handlers: polling, resetting and dropping a timer takes the wheel's lock for some tens of
//!   instructions. The waker of a timer may do anything.

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

pub use {
    driver::Timers,
    interval::{Interval, MissedTick, Tick},
    sleep::Sleep,
    timeout::{Elapsed, Timeout},
};
pub(crate) use {
    driver::Wheels,
    wheel::{Batch, Wheel},
};
