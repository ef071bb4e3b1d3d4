//! A flight recorder for the executor [`filch`]: what each worker and each task did last.
//!
//! A [`Recorder`] keeps the last events of each worker in a ring, for as long as the program runs, and writes them out when it is asked to: by a
//! command, a signal, a panic, a fault. `no_std`, without an allocator, and lock-free: it runs in kernels and in interrupt handlers.
//!
//! What it writes is a file of frames ([`VERSION`]). With the feature `read`, `Trace` reads it on any machine, says what happened
//! (`Trace::summary`), and exports it for [Perfetto](https://ui.perfetto.dev) and Chrome; so does the program `filch-trace` (feature `cli`).
//!
//! ```
//! use filch_trace::{Lane, NameSlot, Recorder, Slot};
//! static LANES: [Lane; 2] = [const { Lane::new() }; 2];
//! static SLOTS: [Slot; 128] = [const { Slot::new() }; 128];
//! static NAMES: [NameSlot; 8] = [const { NameSlot::new() }; 8];
//! static RECORDER: Recorder = Recorder::new(&LANES, &SLOTS, &NAMES);
//! RECORDER.record(Some(filch::WorkerId::new(0)), filch::Event::Park, || 1_000);
//! let mut file = Vec::new();
//! RECORDER.dump(2_000, |_| {}, "an example", &mut |bytes| file.extend_from_slice(bytes));
//! ```
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(test, feature = "alloc"))]
extern crate alloc;
#[cfg(any(test, feature = "read"))]
extern crate std;

/// `const fn`, except under loom, whose atomics are made at run time.
macro_rules! maybe_const {
    ($(#[$meta:meta])* pub fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty { $($body:tt)* }) => {
        #[cfg(not(filch_loom))]
        $(#[$meta])*
        pub const fn $name($($arg: $ty),*) -> $out { $($body)* }
        #[cfg(filch_loom)]
        $(#[$meta])*
        pub fn $name($($arg: $ty),*) -> $out { $($body)* }
    };
}

mod frame;
mod kind;
mod lane;
#[cfg(all(test, filch_loom))]
mod models;
mod names;
#[cfg(feature = "read")]
pub mod read;
mod recorder;

pub use crate::{
    frame::{LONGEST, VERSION},
    lane::{Lane, Slot},
    names::NameSlot,
    recorder::Recorder,
};
