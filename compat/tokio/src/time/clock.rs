//! The clock of a runtime, which tests can stop, and the timers of a current-thread runtime.

use core::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::Waker,
    time::Duration,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
    time::Instant as StdInstant,
};

use super::{Instant, instant::later};
use crate::{
    runtime::{Handle, context, local::Queue},
    util::lock,
};

/// Whether a clock of this program was ever stopped.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// A runtime's clock.
pub(crate) struct Clock {
    state: Mutex<State>,
    /// What learns of a new first timer; `None`: filch has the timers.
    queue: Option<Arc<Queue>>,
    /// filch's timers, and both clocks at one time.
    filch: OnceLock<(filch_linux::time::Timers, filch_linux::time::Instant, StdInstant)>,
    /// Closures that hold the clock.
    holds: AtomicUsize,
}

struct State {
    timers: BTreeMap<(StdInstant, u64), Timer>,
    next: u64,
    /// The time of the clock when it began to go, or stands at.
    base: StdInstant,
    /// Since when it goes, by the system's clock; `None`: it stands still.
    since: Option<StdInstant>,
    closed: bool,
}

/// A timer in the map; shared with its `Sleep`.
pub(crate) type Timer = Arc<Mutex<Place>>;

/// What a `Sleep` and the map know of each other.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Its key in the map, while it is there.
    pub(crate) key: Option<(StdInstant, u64)>,
    pub(crate) waker: Option<Waker>,
    pub(crate) fired: bool,
}

impl Clock {
    pub(crate) fn new(queue: Option<Arc<Queue>>) -> Self {
        let now = StdInstant::now();
        let state =
            State { timers: BTreeMap::new(), next: 0, base: now, since: Some(now), closed: false };
        Self { state: Mutex::new(state), queue, filch: OnceLock::new(), holds: AtomicUsize::new(0) }
    }

    /// filch's runtime is there.
    pub(crate) fn begin(&self, timers: filch_linux::time::Timers) {
        let _ = self.filch.set((timers, timers.now(), StdInstant::now()));
    }

    /// Whether filch has the timers.
    pub(crate) fn is_filch(&self) -> bool {
        self.queue.is_none()
    }

    /// A sleep of filch's until then.
    pub(crate) fn sleep(&self, deadline: StdInstant) -> filch_linux::time::Sleep {
        let Some((timers, _, _)) = self.filch.get() else { unreachable!("`begin` comes first") };
        timers.sleep_until(self.filch_time(deadline))
    }

    /// filch's time when the system's clock shows `at`.
    pub(crate) fn filch_time(&self, at: StdInstant) -> filch_linux::time::Instant {
        let Some((_, zero, std_zero)) = self.filch.get() else {
            unreachable!("`begin` comes first")
        };
        match at.checked_duration_since(*std_zero) {
            Some(later) => *zero + later,
            None => {
                let past = *zero - filch_linux::time::Instant::ZERO;
                filch_linux::time::Instant::ZERO + past.saturating_sub(*std_zero - at)
            }
        }
    }

    pub(crate) fn now(&self) -> StdInstant {
        lock(&self.state).now()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        lock(&self.state).since.is_none()
    }

    /// Whether the clock moves by itself when nothing is runnable.
    pub(crate) fn advances(&self) -> bool {
        // Ordering: Acquire pairs with the Release in the drop of a `Hold`.
        self.is_stopped() && self.holds.load(Ordering::Acquire) == 0
    }

    /// The first deadline.
    pub(crate) fn next(&self) -> Option<StdInstant> {
        lock(&self.state).timers.keys().next().map(|(deadline, _)| *deadline)
    }

    /// Moves the stopped clock to that time.
    pub(crate) fn move_to(&self, time: StdInstant) {
        let mut state = lock(&self.state);
        state.base = state.base.max(time);
    }

    /// Wakes what waits for a time that has come.
    pub(crate) fn fire(&self) {
        if self.is_filch() {
            return;
        }
        loop {
            let mut state = lock(&self.state);
            let Some(entry) = state.timers.first_entry() else { return };
            let deadline = entry.key().0;
            if deadline > state.now() {
                return;
            }
            let Some((_, timer)) = state.timers.pop_first() else { return };
            drop(state);
            let waker = {
                let mut place = lock(&timer);
                place.fired = true;
                place.key = None;
                place.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// The runtime has ended: what waits learns of it.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let timers = core::mem::take(&mut state.timers);
        drop(state);
        for timer in timers.into_values() {
            let waker = {
                let mut place = lock(&timer);
                place.key = None;
                place.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Puts a timer into the map.
    pub(crate) fn insert(&self, deadline: StdInstant, timer: &Timer) {
        let mut state = lock(&self.state);
        if state.closed {
            return;
        }
        let key = (deadline, state.next);
        state.next += 1;
        let first = state.timers.keys().next().is_none_or(|first| key < *first);
        lock(timer).key = Some(key);
        state.timers.insert(key, Arc::clone(timer));
        drop(state);
        if let (true, Some(queue)) = (first, &self.queue) {
            queue.poller.wake();
        }
    }

    /// Takes a timer out of the map.
    pub(crate) fn remove(&self, timer: &Timer) {
        let Some(key) = lock(timer).key.take() else { return };
        let removed = lock(&self.state).timers.remove(&key);
        drop(removed);
    }

    /// # Panics
    /// If it stands still already.
    #[track_caller]
    pub(crate) fn pause(&self) {
        // Ordering: Relaxed; the thread that stops a clock sees it, others read the state by its lock.
        STOPPED.store(true, Ordering::Relaxed);
        let stopped = {
            let mut state = lock(&self.state);
            let goes = state.since.is_some();
            if goes {
                state.base = state.now();
                state.since = None;
            }
            goes
        };
        assert!(stopped, "time is already frozen");
    }

    #[track_caller]
    fn resume(&self) {
        let stood = {
            let mut state = lock(&self.state);
            let stands = state.since.is_none();
            if stands {
                state.since = Some(StdInstant::now());
            }
            stands
        };
        assert!(stood, "time is not frozen");
    }

    #[track_caller]
    fn advance(&self, duration: Duration) {
        let stands = {
            let mut state = lock(&self.state);
            let stands = state.since.is_none();
            if stands {
                state.base = later(state.base, duration);
            }
            stands
        };
        assert!(stands, "time is not frozen");
    }

    /// Keeps a stopped clock from moving by itself until the result is dropped.
    pub(crate) fn hold(&self, handle: &Handle) -> Option<Hold> {
        self.queue.as_ref()?;
        // Ordering: Relaxed; only the end is waited for.
        self.holds.fetch_add(1, Ordering::Relaxed);
        Some(Hold(handle.clone()))
    }
}

impl State {
    fn now(&self) -> StdInstant {
        match self.since {
            Some(since) => later(self.base, since.elapsed()),
            None => self.base,
        }
    }
}

/// A closure that blocks, on a clock that does not move by itself meanwhile.
pub(crate) struct Hold(Handle);

impl Drop for Hold {
    fn drop(&mut self) {
        let clock = &self.0.inner.clock;
        // Ordering: Release pairs with the Acquire in `advances`.
        clock.holds.fetch_sub(1, Ordering::Release);
        if let Some(queue) = &clock.queue {
            queue.poller.wake();
        }
    }
}

/// The time on the clock of the runtime that the thread is in.
pub(crate) fn now() -> StdInstant {
    // Ordering: Relaxed: see `pause`.
    if !STOPPED.load(Ordering::Relaxed) {
        return StdInstant::now();
    }
    context::with(|handle| handle.map(|handle| handle.inner.clock.now()))
        .unwrap_or_else(StdInstant::now)
}

const NO_PAUSE: &str = "`time::pause()` requires the `current_thread` Tokio runtime. This is the default Runtime used by `#[tokio::test].";

#[track_caller]
fn expect(action: &str) -> Handle {
    match context::current() {
        Ok(handle) => handle,
        Err(_) => panic!("time cannot be {action} from outside the Tokio runtime"),
    }
}

/// Stops the clock of the current-thread runtime that the thread is in, for tests.
///
/// From then on it moves by [`advance`], and when nothing is runnable: then to the next deadline at once. It does not move by itself
/// while a closure of `spawn_blocking` runs. What files have become ready for comes before it moves.
///
/// # Panics
/// If it stands still; if the thread is in no runtime, or in one with workers.
#[track_caller]
pub fn pause() {
    let handle = expect("frozen");
    assert!(!handle.inner.clock.is_filch(), "{NO_PAUSE}");
    handle.inner.clock.pause();
}

/// Lets the clock go on.
///
/// # Panics
/// If it does not stand still; if the thread is in no runtime.
#[track_caller]
pub fn resume() {
    expect("resumed").inner.clock.resume();
}

/// Moves the clock, which stands still, by so much, and gives way to what is due then.
///
/// # Panics
/// If the clock does not stand still; if the thread is in no runtime.
pub async fn advance(duration: Duration) {
    let handle = expect("advanced");
    handle.inner.clock.advance(duration);
    handle.inner.clock.fire();
    crate::task::yield_now().await;
}

impl Instant {
    /// The time on the clock of the runtime that the thread is in.
    pub fn now() -> Self {
        Self::from_std(now())
    }
}
