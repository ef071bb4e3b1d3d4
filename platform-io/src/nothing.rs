//! Operations that have nothing to do, such as a read into no buffer, or a flush where nothing is kept back: ready at once, on the
//! budget of the task, so that a loop over them gives way. For the crates of this workspace.

use core::{
    future::poll_fn,
    task::{Context, Poll},
};
use std::io;

use filch_std::task::budgeted;

/// Nothing was done, and that has succeeded.
#[inline]
pub fn poll_moved<T: Default>(cx: &mut Context<'_>) -> Poll<io::Result<T>> {
    poll_done(cx, || Ok(T::default()))
}

/// As [`poll_moved`], in async code.
pub async fn moved<T: Default>() -> io::Result<T> {
    poll_fn(poll_moved).await
}

/// What does not wait, with success or failure.
#[inline]
pub fn poll_done<T>(
    cx: &mut Context<'_>,
    done: impl FnOnce() -> io::Result<T>,
) -> Poll<io::Result<T>> {
    budgeted(cx, |_| Poll::Ready(done()))
}
