#![doc = include_str!("../README.md")]

mod arc;
pub mod atomic;
mod cell;
mod check;
pub mod futex;
mod memory;
mod quarantine;
mod races;
mod rng;
mod run;
mod schedule;
mod stats;
pub mod sync;
mod tag;
pub mod thread;
mod trace;
mod view;

pub use cell::UnsafeCell;
pub use check::{Checker, Failure, Seed, SeedError, check_pct, check_random, replay};
pub use quarantine::Quarantine;
pub use schedule::Strategy;
pub use stats::Stats;

/// Replaces a spin hint: lets other threads run first, as [`thread::yield_now`].
#[track_caller]
pub fn spin_loop() {
    thread::yield_now();
}

/// Ends the run as failed, without unwinding: for places where destructors must not run during a
/// panic, for example where a platform contains the panics of tasks.
///
/// # Panics
/// Outside of a check.
pub fn fail(message: impl Into<String>) -> ! {
    let message = message.into();
    if thread::id().is_none() {
        panic!("{message}");
    }
    run::end(message)
}
