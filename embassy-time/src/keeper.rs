//! The keeper: the one task that waits for time.

use core::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use filch::{Instant, Sleep, Timers};

use crate::{driver::Shared, table::Slot};

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
    sleep: Sleep,
}

impl Keeper {
    pub(crate) fn new(shared: &'static Shared, slots: &'static [Slot], timers: Timers) -> Self {
        Self { shared, slots, sleep: timers.sleep_until(Instant::MAX) }
    }
}

impl Future for Keeper {
    type Output = Infallible;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Infallible> {
        let (shared, slots) = (self.shared, self.slots);
        if !shared.hear(cx.waker()) {
            cx.waker().wake_by_ref();
        }
        loop {
            // SAFETY: `sleep` is pinned with the keeper, and never moved out.
            let mut sleep = unsafe { self.as_mut().map_unchecked_mut(|this| &mut this.sleep) };
            let Some(next) = shared.look(slots, || shared.now()) else {
                sleep.reset(Instant::MAX);
                return Poll::Pending;
            };
            sleep.as_mut().reset(shared.instant(next));
            // If the time has come meanwhile, it looks again.
            if sleep.poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.close(self.slots);
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("sleep", &self.sleep).finish_non_exhaustive()
    }
}
