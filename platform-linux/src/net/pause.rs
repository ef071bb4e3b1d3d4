//! Time for the sockets: the one place that knows where it comes from.

use core::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

/// Waits so long at least.
pub(super) async fn sleep(time: Duration) {
    let _ = filch_std::spawn_blocking(move || std::thread::sleep(time)).await;
}

/// The future's output, or `None` if it takes longer than this.
pub(super) async fn within<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    let (mut future, mut over) = (pin!(future), pin!(sleep(time)));
    poll_fn(|cx| {
        if let Poll::Ready(output) = Pin::as_mut(&mut future).poll(cx) {
            return Poll::Ready(Some(output));
        }
        over.as_mut().poll(cx).map(|()| None)
    })
    .await
}
