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

/// What stands for a spin hint: lets others go first, as [`thread::yield_now`].
#[track_caller]
pub fn spin_loop() {
    thread::yield_now();
}
