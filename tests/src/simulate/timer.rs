//! Timers that are watched: never early, and never forgotten.

use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll},
    time::Duration,
};

use filch::{Instant, Sleep, Timers};

use super::{
    fiber::in_fiber,
    world::{fail, world},
};

/// A [`Sleep`] of a task, whose deadline the world knows while the task waits for it.
pub(super) struct Nap {
    sleep: Pin<Box<Sleep>>,
    timers: Timers,
    /// As the world knows it.
    entry: Option<(u64, u64)>,
}

impl Nap {
    pub(super) fn new(timers: Timers, duration: Duration) -> Self {
        Self { sleep: Box::pin(timers.sleep(duration)), timers, entry: None }
    }

    /// Another deadline.
    pub(super) fn reset(&mut self, deadline: Instant) {
        self.forget();
        self.sleep.as_mut().reset(deadline);
        if !self.sleep.is_elapsed() {
            self.remember();
        }
    }

    fn remember(&mut self) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if self.entry.is_none() && in_fiber() {
            let entry = (self.sleep.deadline().as_nanos(), NEXT.fetch_add(1, Relaxed));
            world(|w| w.check.timers.insert(entry));
            self.entry = Some(entry);
        }
    }

    fn forget(&mut self) {
        if let Some(entry) = self.entry.take() {
            world(|w| w.check.timers.remove(&entry));
        }
    }
}

impl Future for Nap {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.sleep.as_mut().poll(cx);
        if polled.is_pending() {
            self.remember();
            return Poll::Pending;
        }
        self.forget();
        if self.timers.now() < self.sleep.deadline() {
            fail("a timer has fired early");
        }
        Poll::Ready(())
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        self.forget();
    }
}
