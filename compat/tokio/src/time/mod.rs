//! Time: sleeps, timeouts, intervals, and a clock that tests can stop.

mod clock;
pub mod error;
mod instant;
mod interval;
mod sleep;
mod timeout;

pub(crate) use self::clock::Clock;
#[cfg(feature = "test-util")]
pub use self::clock::{advance, pause, resume};
pub use self::{
    instant::Instant,
    interval::{Interval, MissedTickBehavior, interval, interval_at},
    sleep::{Sleep, sleep, sleep_until},
    timeout::{Timeout, timeout, timeout_at},
};
#[doc(no_inline)]
pub use core::time::Duration;
