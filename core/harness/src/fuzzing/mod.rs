//! The queues, the wheel and the state word by themselves, for the fuzz targets.
//!
//! This module keeps the contracts of the parts, so that the targets are safe code: each thing has one owner, and a task is in
//! one queue at a time.
#![allow(missing_debug_implementations, reason = "no target prints them")]

mod queues;
mod state;
mod wheel;

pub use {
    queues::{Inbox, Injector, Jobs, Ring, Tasks},
    state::{Answer, Look, Move, State},
    wheel::Wheel,
};
