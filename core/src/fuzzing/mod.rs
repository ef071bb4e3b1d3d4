//! The queues, the wheel and the state word by themselves, for the fuzz targets. No part of the interface: it may change or go
//! at any time.
//!
//! What the parts ask of their callers is seen to here, so that the targets are safe code: each thing has one owner, and a
//! task is in one queue at a time.
#![allow(missing_debug_implementations, reason = "nobody prints them")]

mod queues;
mod state;
mod wheel;

pub use {
    queues::{Inbox, Injector, Jobs, Ring, Tasks},
    state::{Answer, Look, Move, State},
    wheel::Wheel,
};
