//! filch for C: the executor behind functions, opaque structs and error codes, for kernels and programs without Rust.
//!
//! This crate is built as a static library by `platform-c/build.sh`, and its C interface is `include/filch.h`, which a test
//! makes of these sources. `docs/embedding.md` is its manual. Functions here are documented for C programmers.
//!
//! # What all functions have in common
//!
//! - A null pointer is an error code, unless the function says that it is allowed.
//! - An object that was not initialised, was dropped, or was moved although it must stay, is an error code: each object begins with
//!   a cookie (see `object.rs`).
//! - No panic leaves a function: an `extern "C"` function that panics aborts. A defect of the library that panics calls the
//!   `panic` function of the platform, with the feature `panic-handler`.
#![cfg_attr(not(test), no_std)]
#![allow(non_camel_case_types, reason = "the names are those of the C interface")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header's first comment says it for all functions"
)]

mod executor;
mod layout;
mod metrics;
mod object;
#[cfg(feature = "panic-handler")]
mod panic;
mod platform;
mod readiness;
mod status;
mod task;
mod time;
mod waker;
mod worker;

pub use {
    executor::*, layout::*, metrics::*, platform::*, readiness::*, status::*, task::*, time::*,
    waker::*, worker::*,
};
