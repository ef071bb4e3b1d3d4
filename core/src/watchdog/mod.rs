//! The watchdog: it finds workers that are stuck in a poll.
//!
//! A worker that is in one poll for a while may have a task in its LIFO slot, tasks in its ring, timers that are due, and a poll
//! to be reported. Two kinds of workers look at it:
//!
//! - One that is busy looks at one other worker at the end of each tick ([`Watchdog::look_at`]).
//! - One that sleeps while another is awake sleeps with a timeout: it *watches*. At its timeout it scans all others
//!   ([`Watchdog::is_due`]). At most [`WATCHERS`](role) watch at a time. Two, so that one can turn to work without a wake-up of another.
//!
//! The timeout is long until a long poll was seen, and short for some scans after one: a program whose polls are short pays for a
//! scan in each long timeout. Two looks see the same poll, so a task waits about two timeouts behind the first long poll, and two
//! short ones behind the next.
//!
//! This room judges; what is done for a worker that is stuck, the scheduler knows (`scheduler/upkeep/watch.rs`).

pub(crate) mod role;
pub(crate) mod scan;

use crate::instant::Instant;

/// The short timeout and the long one, in nanoseconds.
pub(crate) type Timeouts = (u64, u64);

/// Time as a word that wraps: in microseconds of 1,024 nanoseconds, the lowest 32 bits.
fn micros(now: Instant) -> u32 {
    (now.as_nanos() >> 10) as u32
}
