//! Time for hyper.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::time;

use filch_std::{
    Handle,
    time::{Instant, Timers},
};

use pin_project_lite::pin_project;

use super::executor::current;

/// hyper's clock and sleeps, on the timers of a runtime.
///
/// It follows the runtime's clock, also one that a test has stopped ([`filch_std::time::pause`]):
/// hyper asks it for the time, not the system.
///
/// Cost: a sleep is one allocation besides the timer itself; a reset costs that of
/// [`filch_std::time::Sleep`], without allocation.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    timers: Timers,
    /// The same moment on both clocks.
    origin: (time::Instant, Instant),
}

impl Timer {
    /// A timer on the current runtime.
    ///
    /// # Panics
    /// If the calling thread is in no runtime: [`Handle::current`] returns an error instead, and
    /// `Timer::from` takes its handle.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "a default should not depend on the thread")]
    pub fn new() -> Self {
        Self::from(current())
    }

    fn deadline(&self, deadline: time::Instant) -> Instant {
        self.origin.1 + deadline.saturating_duration_since(self.origin.0)
    }
}

impl From<Handle> for Timer {
    fn from(handle: Handle) -> Self {
        let timers = handle.timers();
        // In this order: a deadline is never early on either clock, and may be late on the
        // runtime's by the time between the two calls.
        let origin = (time::Instant::now(), timers.now());
        Self { timers, origin }
    }
}

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Sleep { sleep: self.timers.sleep(duration) })
    }

    fn sleep_until(&self, deadline: time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Sleep { sleep: self.timers.sleep_until(self.deadline(deadline)) })
    }

    fn now(&self) -> time::Instant {
        self.origin.0 + (self.timers.now() - self.origin.1)
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: time::Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(ours) => ours.project().sleep.reset(self.deadline(deadline)),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

pin_project! {
    /// The sleep that [`Timer`] gives to hyper: [`filch_std::time::Sleep`].
    #[derive(Debug)]
    pub struct Sleep {
        #[pin]
        sleep: filch_std::time::Sleep,
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().sleep.poll(cx)
    }
}

impl hyper::rt::Sleep for Sleep {}
