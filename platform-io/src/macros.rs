//! What the code of the attributes `main` and `test` calls.

use core::{future::Future, time::Duration};

pub use filch_std::__macros::{NO_PATIENCE, PATIENCE};
use filch_std::__macros::{paused, run_on};

use crate::Builder;

pub fn builder() -> Builder {
    crate::builder()
}

/// Runs the function's future on a runtime of its own.
///
/// # Panics
/// If the runtime cannot be built, and with the future's own panics.
#[track_caller]
pub fn run<F: Future>(builder: Builder, patience: Duration, future: F) -> F::Output {
    run_on(builder.build(), patience, future)
}

/// As [`run`], on a clock that stands still.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_paused<F: Future>(builder: Builder, patience: Duration, future: F) -> F::Output {
    run_on(builder.build_pausable(), patience, paused(future))
}
