//! What the code of the attributes `main` and `test` calls.

use core::future::Future;

use crate::{Builder, Host, LocalRuntime, Runtime};

pub fn builder() -> Builder {
    Runtime::builder()
}

/// Runs the function's future on a runtime of its own.
///
/// # Panics
/// If the runtime cannot be built, and with the future's own panics.
#[track_caller]
pub fn run<F: Future>(builder: Builder, future: F) -> F::Output {
    run_on(builder.build(), future)
}

/// As [`run`], on a clock that stands still.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_paused<F: Future>(builder: Builder, future: F) -> F::Output {
    run_on(builder.build_pausable(), paused(future))
}

/// Runs the function's future on a runtime of this thread alone.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_local<F: Future>(builder: Builder, future: F) -> F::Output {
    run_local_on(builder.build_local(), future)
}

/// As [`run_local`], on a clock that stands still.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_local_paused<F: Future>(builder: Builder, future: F) -> F::Output {
    run_local_on(builder.build_local_pausable(), paused(future))
}

/// Stops the clock, and goes on with the function's future.
pub async fn paused<F: Future>(future: F) -> F::Output {
    crate::time::pause();
    future.await
}

/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_local_on<H: Host, F: Future>(
    runtime: Result<LocalRuntime<H>, crate::BuildError>,
    future: F,
) -> F::Output {
    match runtime {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => panic!("the runtime could not be built: {error}"),
    }
}

/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_on<H: Host, F: Future>(
    runtime: Result<Runtime<H>, crate::BuildError>,
    future: F,
) -> F::Output {
    match runtime {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => panic!("the runtime could not be built: {error}"),
    }
}
