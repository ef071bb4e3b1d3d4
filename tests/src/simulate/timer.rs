//! Checked timers: never early, and never forgotten.

use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    task::Wake,
};

use filch::{Instant, Sleep, Timers};

use super::{
    fiber::in_fiber,
    waker::poll_slowly,
    world::{fail, world},
};

/// A deadline that the world knows, and a unique number.
type Entry = Option<(u64, u64)>;

/// From now on a task waits for this deadline.
fn remember(deadline: Instant) -> Entry {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    in_fiber().then(|| {
        let entry = (deadline.as_nanos(), NEXT.fetch_add(1, Relaxed));
        world(|w| w.check.timers.insert(entry));
        entry
    })
}

fn forget(entry: Entry) {
    if let Some(entry) = entry {
        world(|w| w.check.timers.remove(&entry) && w.check.delays.alarms.remove(&entry));
    }
}

/// A [`Sleep`] of a task, whose deadline the world knows while the task waits for it.
pub(super) struct Nap {
    sleep: Pin<Box<Sleep>>,
    timers: Timers,
    /// Its entry in the world.
    entry: Entry,
}

impl Nap {
    pub(super) fn new(timers: Timers, duration: Duration) -> Self {
        Self { sleep: Box::pin(timers.sleep(duration)), timers, entry: None }
    }

    /// Sets another deadline.
    pub(super) fn reset(&mut self, deadline: Instant) {
        self.forget();
        self.sleep.as_mut().reset(deadline);
        if !self.sleep.is_elapsed() {
            self.remember();
        }
    }

    fn remember(&mut self) {
        if self.entry.is_none() {
            self.entry = remember(self.sleep.deadline());
        }
    }

    fn forget(&mut self) {
        forget(self.entry.take());
    }
}

impl Future for Nap {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = poll_slowly(cx, |cx| self.sleep.as_mut().poll(cx));
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

/// A [`Sleep`] of a thread that is no worker, which polls it now and then.
pub(super) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    rings: Arc<Rings>,
}

/// Its waker: called when the timer has fired.
#[derive(Default)]
struct Rings(Mutex<Entry>);

impl Rings {
    fn set(&self, entry: Entry) {
        let before =
            core::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), entry);
        forget(before);
    }
}

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.set(None);
    }
}

impl Alarm {
    pub(super) fn new(timers: Timers, duration: Duration) -> Self {
        let mut alarm = Self { sleep: Box::pin(timers.sleep(duration)), rings: Arc::default() };
        alarm.look();
        alarm
    }

    /// Sets another deadline.
    pub(super) fn reset(&mut self, deadline: Instant) {
        self.rings.set(None);
        self.sleep.as_mut().reset(deadline);
        self.look();
    }

    /// The world knows the deadline from here on, unless it has fired meanwhile.
    fn look(&mut self) {
        let waker = Waker::from(Arc::clone(&self.rings));
        let polled = self.sleep.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() && !self.sleep.is_elapsed() {
            let entry = remember(self.sleep.deadline());
            self.rings.set(entry);
            world(|w| w.check.delays.alarms.extend(entry));
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.rings.set(None);
    }
}
