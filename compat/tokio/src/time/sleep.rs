//! Waits for a time.

use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;

use super::{Instant, clock::Timer};
use crate::{
    runtime::{Handle, SHUTTING_DOWN, context},
    task::coop,
    util::lock,
};

const NO_TIME: &str = "A Tokio 1.x context was found, but timers are disabled. Call `enable_time` on the runtime builder to enable timers.";

pin_project! {
    /// A future that is ready once its deadline has passed. It belongs to the runtime in which it was made.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    #[must_use = "futures do nothing unless polled"]
    pub struct Sleep {
        handle: Handle,
        deadline: Instant,
        #[pin]
        wait: Wait,
        // Its place among what waits outside of tasks.
        outside: Option<usize>,
        // Whether a poll has seen the end.
        over: bool,
        // Whether a budget has refused the end.
        refused: bool,
        #[pin]
        _pinned: core::marker::PhantomPinned,
    }

    impl PinnedDrop for Sleep {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let WaitPinned::Own { timer, .. } = this.wait.project() {
                this.handle.inner.clock.remove(timer);
            }
            leave(this.handle, this.outside);
        }
    }
}

pin_project! {
    #[project = WaitPinned]
    enum Wait {
        // On a worker's timer wheel.
        Filch { #[pin] sleep: filch_linux::time::Sleep },
        // In the map of a current-thread runtime.
        Own { timer: Timer, begun: bool },
    }
}

fn leave(handle: &Handle, place: &mut Option<usize>) {
    if let Some(key) = place.take() {
        let waker = lock(&handle.inner.outside).try_remove(key);
        drop(waker);
    }
}

/// The current runtime.
///
/// # Panics
/// If there is none, or it has no timers.
#[track_caller]
pub(crate) fn timers() -> Handle {
    let handle = context::expect();
    assert!(handle.inner.time, "{NO_TIME}");
    handle
}

/// Waits until `deadline`.
///
/// # Panics
/// Outside of a runtime with timers.
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(timers(), deadline)
}

/// Waits for `duration`.
///
/// # Panics
/// Outside of a runtime with timers.
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    let handle = timers();
    Sleep::new(handle, Instant::after(duration))
}

impl Sleep {
    pub(crate) fn new(handle: Handle, deadline: Instant) -> Self {
        let clock = &handle.inner.clock;
        let wait = if clock.is_filch() {
            Wait::Filch { sleep: clock.sleep(deadline.into_std()) }
        } else {
            Wait::Own { timer: Timer::default(), begun: false }
        };
        Self {
            handle,
            deadline,
            wait,
            outside: None,
            over: false,
            refused: false,
            _pinned: core::marker::PhantomPinned,
        }
    }

    /// The deadline.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether it has ended.
    pub fn is_elapsed(&self) -> bool {
        self.over
            || match &self.wait {
                Wait::Filch { sleep } => sleep.is_elapsed(),
                Wait::Own { timer, .. } => lock(timer).fired,
            }
    }

    /// Sets another deadline.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        let this = self.project();
        *this.deadline = deadline;
        (*this.over, *this.refused) = (false, false);
        let clock = &this.handle.inner.clock;
        match this.wait.project() {
            WaitPinned::Filch { sleep } => sleep.reset(clock.filch_time(deadline.into_std())),
            WaitPinned::Own { timer, begun } => {
                clock.remove(timer);
                lock(timer).fired = false;
                if *begun {
                    clock.insert(deadline.into_std(), timer);
                }
            }
        }
    }

    /// As a poll, without a budget.
    fn poll_over(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let inner = &this.handle.inner;
        assert!(!inner.is_closed(), "{SHUTTING_DOWN}");
        let deadline = this.deadline.into_std();
        let over = match this.wait.project() {
            WaitPinned::Filch { sleep } => coop::poll_filch(sleep, cx).is_ready(),
            WaitPinned::Own { timer, begun } => {
                let mut place = lock(timer);
                let fired = place.fired;
                if !fired {
                    match &mut place.waker {
                        Some(waker) => waker.clone_from(cx.waker()),
                        none => *none = Some(cx.waker().clone()),
                    }
                }
                let waits = place.key.is_some();
                drop(place);
                let over = fired || deadline <= inner.clock.now();
                if over {
                    inner.clock.remove(timer);
                    lock(timer).fired = true;
                } else if !waits {
                    *begun = true;
                    inner.clock.insert(deadline, timer);
                }
                over
            }
        };
        if over {
            *this.over = true;
            leave(this.handle, this.outside);
            return Poll::Ready(());
        }
        if context::task().is_none() {
            let mut outside = lock(&inner.outside);
            match this.outside.and_then(|key| outside.get_mut(key)) {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *this.outside = Some(outside.insert(cx.waker().clone())),
            }
            drop(outside);
            assert!(!inner.is_closed(), "{SHUTTING_DOWN}");
        }
        Poll::Pending
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let progress = coop::poll_proceed(cx);
        ready!(self.as_mut().poll_over(cx));
        // A budget refuses it once at most: otherwise a future beside it that uses up each budget would keep it from its end.
        match progress {
            Poll::Ready(progress) => progress.made_progress(),
            Poll::Pending if core::mem::replace(self.project().refused, true) => {}
            Poll::Pending => return Poll::Pending,
        }
        Poll::Ready(())
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
