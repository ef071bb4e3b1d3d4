//! Timers for the sockets, without a panic outside of a runtime.

use core::{future::Future, time::Duration};
use std::io;

use filch_std::{Handle, time::Timers};

/// Waits at least this long.
pub(super) async fn sleep(time: Duration) -> io::Result<()> {
    timers()?.sleep(time).await;
    Ok(())
}

/// The future's output, or `None` if it takes longer than `time`.
pub(super) async fn within<F: Future>(time: Duration, future: F) -> io::Result<Option<F::Output>> {
    Ok(timers()?.timeout(time, future).await.ok())
}

fn timers() -> io::Result<Timers> {
    Ok(Handle::current().map_err(io::Error::other)?.timers())
}
