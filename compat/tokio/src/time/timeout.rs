//! A future with a deadline.

use core::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;

use super::{Instant, Sleep, error::Elapsed, sleep::timers};

pin_project! {
    /// A future with a deadline. From [`timeout`] and [`timeout_at`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Timeout<T> {
        #[pin]
        value: T,
        #[pin]
        sleep: Sleep,
    }
}

/// Gives a future so much time.
///
/// # Panics
/// Outside of a runtime with timers.
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    let handle = timers();
    let sleep = Sleep::new(handle, Instant::after(duration));
    Timeout { value: future.into_future(), sleep }
}

/// Gives a future time until `deadline`.
///
/// # Panics
/// Outside of a runtime with timers.
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout { value: future.into_future(), sleep: Sleep::new(timers(), deadline) }
}

impl<T> Timeout<T> {
    /// The future.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// The future.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The future, without its deadline.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: Future> Future for Timeout<T> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.value.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        this.sleep.poll(cx).map(|()| Err(Elapsed::new()))
    }
}
