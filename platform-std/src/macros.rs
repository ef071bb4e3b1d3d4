//! What the code of the attributes `main` and `test` calls.

use core::{future::Future, time::Duration};

use crate::{
    builder::{Builder, RuntimeBuilder},
    context::Handle,
    error::BuildError,
    fork,
    host::Host,
    local::LocalRuntimeOn,
    pausable::Pausable,
    pool::Pools,
    threaded::RuntimeOn,
    time,
};

/// How long the end of a `main` waits for closures of `spawn_blocking` that have begun, unless its option `shutdown` says another time:
/// longer than a file takes, shorter than what stops programs waits before it kills them (Docker: ten seconds).
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The end of a test does not wait: the process goes on, and with it the closures.
pub const NO_PATIENCE: Duration = Duration::ZERO;

pub fn builder() -> Builder {
    Builder::default()
}

/// Runs the function's future on a runtime of its own.
///
/// # Panics
/// If the runtime cannot be built, and with the future's own panics.
#[track_caller]
pub fn run<B: RuntimeBuilder, F: Future>(builder: B, patience: Duration, future: F) -> F::Output {
    run_on(builder.build_on::<B::Host>(), patience, future)
}

/// As [`run`], on a clock that stands still.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_paused<B, F>(builder: B, patience: Duration, future: F) -> F::Output
where
    B: RuntimeBuilder,
    F: Future,
{
    run_on(builder.build_on::<Pausable<B::Host>>(), patience, paused(future))
}

/// Runs the function's future on a runtime of this thread alone.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_local<B, F>(builder: B, patience: Duration, future: F) -> F::Output
where
    B: RuntimeBuilder,
    F: Future,
{
    run_local_on(builder.build_local_on::<B::Host>(), patience, future)
}

/// As [`run_local`], on a clock that stands still.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub fn run_local_paused<B, F>(builder: B, patience: Duration, future: F) -> F::Output
where
    B: RuntimeBuilder,
    F: Future,
{
    run_local_on(builder.build_local_on::<Pausable<B::Host>>(), patience, paused(future))
}

/// Stops the clock, and goes on with the function's future.
async fn paused<F: Future>(future: F) -> F::Output {
    time::pause();
    future.await
}

/// Waits as it is dropped, after the runtime, for closures of `spawn_blocking` that have begun.
struct End {
    pools: Pools,
    patience: Duration,
    /// A forked child has no threads of the pool.
    process: u32,
}

impl End {
    fn of(handle: &Handle, patience: Duration) -> Self {
        Self { pools: handle.0.core.pools(), patience, process: fork::generation() }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if self.patience.is_zero() || self.process != fork::generation() {
            return;
        }
        let left = self.pools.wait(self.patience);
        if left > 0 {
            eprintln!(
                "filch: {left} closure(s) of `spawn_blocking` still run {:?} after the end of `main`: the end of the process cuts them",
                self.patience
            );
        }
    }
}

/// A runtime and its end, which comes in this order, in a panic too.
struct Ending<R> {
    runtime: R,
    _end: End,
}

impl<R> Ending<R> {
    #[track_caller]
    fn of(runtime: Result<R, BuildError>, patience: Duration, handle: fn(&R) -> &Handle) -> Self {
        match runtime {
            Ok(runtime) => Self { _end: End::of(handle(&runtime), patience), runtime },
            Err(error) => panic!("the runtime could not be built: {error}"),
        }
    }
}

/// # Panics
/// As [`run`].
#[track_caller]
fn run_local_on<H: Host, F: Future>(
    runtime: Result<LocalRuntimeOn<H>, BuildError>,
    patience: Duration,
    future: F,
) -> F::Output {
    Ending::of(runtime, patience, LocalRuntimeOn::handle).runtime.block_on(future)
}

/// # Panics
/// As [`run`].
#[track_caller]
fn run_on<H: Host, F: Future>(
    runtime: Result<RuntimeOn<H>, BuildError>,
    patience: Duration,
    future: F,
) -> F::Output {
    Ending::of(runtime, patience, RuntimeOn::handle).runtime.block_on(future)
}
