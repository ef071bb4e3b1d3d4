//! The keeper: the one task that waits for time.

use core::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use filch::{Instant, Sleep, Timers};
use pin_project_lite::pin_project;

use crate::{driver::Shared, table::Slot};

pin_project! {
    /// The future that wakes what is due: to be spawned once, on the executor whose timers were
    /// [registered](crate::Driver::register). It never ends.
    ///
    /// It is to be polled by one task for its whole life. If its waker changes, it can no longer be told of new wakes, and polls
    /// itself all the time instead.
    ///
    /// If it is dropped, because its executor shuts down, the driver wakes everything at once, then and from then on: a task
    /// elsewhere that waits for a time polls in a loop until that time. No wake is lost.
    #[must_use = "without a keeper that is spawned no timer ends"]
    pub struct Keeper {
        shared: &'static Shared,
        slots: &'static [Slot],
        #[pin]
        sleep: Sleep,
    }

    impl PinnedDrop for Keeper {
        fn drop(this: Pin<&mut Self>) {
            this.shared.close(this.slots);
        }
    }
}

impl Keeper {
    pub(crate) fn new(shared: &'static Shared, slots: &'static [Slot], timers: Timers) -> Self {
        Self { shared, slots, sleep: timers.sleep_until(Instant::MAX) }
    }
}

impl Future for Keeper {
    type Output = Infallible;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Infallible> {
        let this = self.project();
        let (shared, slots, mut sleep) = (*this.shared, *this.slots, this.sleep);
        if !shared.hear(cx.waker()) {
            cx.waker().wake_by_ref();
        }
        loop {
            let Some(next) = shared.look(slots, || shared.now()) else {
                sleep.as_mut().reset(Instant::MAX);
                return Poll::Pending;
            };
            sleep.as_mut().reset(shared.instant(next));
            // If the time has come meanwhile, it looks again.
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("sleep", &self.sleep).finish_non_exhaustive()
    }
}
