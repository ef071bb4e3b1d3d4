//! The current-thread runtime: its tasks are polled inside `block_on`, by the thread that calls it.

use core::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Waker},
    time::Duration,
};
use std::{
    sync::{Arc, Mutex},
    task::Wake,
    time::Instant,
};

use filch_linux::internal::TaskWait;
use slab::Slab;

use super::{
    Handle,
    context::{self, Polling},
    local::{Queue, Tasks, poll_once},
    metrics::Parks,
};
use crate::{park::Signal, util::lock};

type SendTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How many tasks are polled before the clock is read and the root future looked at, unless the builder sets another number.
pub(crate) const INTERVAL: u32 = 61;

/// How long a stopped clock waits for an event that has arrived before it looks again.
const GRACE: Duration = Duration::from_millis(1);

/// The tasks, and which thread drives them.
pub(crate) struct Scheduler {
    tasks: Mutex<Tasks<SendTask>>,
    pub(crate) queue: Arc<Queue>,
    seat: Mutex<Seat>,
    interval: u32,
}

/// At most one thread drives; the others wait for its seat.
#[derive(Default)]
struct Seat {
    taken: bool,
    /// Each thread that waits has one entry until its `block_on` ends.
    waiting: Slab<Arc<Signal>>,
}

/// A thread that may drive, and its entry among those that wait for the seat.
struct Candidate<'a> {
    scheduler: &'a Scheduler,
    place: Option<usize>,
}

impl Drop for Candidate<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            lock(&self.scheduler.seat).waiting.remove(place);
        }
    }
}

impl Scheduler {
    pub(crate) fn new(interval: u32) -> Self {
        Self {
            tasks: Mutex::new(Tasks::new()),
            queue: Arc::default(),
            seat: Mutex::default(),
            interval,
        }
    }

    /// Adds a task. One that is refused is dropped, and so cancelled.
    pub(crate) fn spawn(&self, task: SendTask) {
        let entry = lock(&self.tasks).insert(&self.queue, task);
        match entry {
            Ok(entry) => Waker::from(entry).wake(),
            Err(refused) => drop(refused),
        }
    }

    /// Polls the next woken task; false if there is none.
    fn run_one(&self) -> bool {
        let Some(entry) = self.queue.pop() else { return false };
        let begun = lock(&self.tasks).begin(&entry);
        if let Some((future, waker)) = begun {
            let left = poll_once(future, &waker);
            let over = lock(&self.tasks).end(&entry, left);
            drop(over);
        }
        true
    }

    /// Drops all tasks, and refuses further ones.
    pub(crate) fn shutdown(&self) {
        let tasks = lock(&self.tasks).close();
        drop(tasks);
        self.queue.clear();
    }

    /// Runs the future, and the tasks meanwhile if no other thread does.
    pub(crate) fn block_on<F: Future>(&self, handle: &Handle, future: F) -> F::Output {
        let mut future = pin!(future);
        // Woken by all that concerns this thread; `root` for the future alone.
        let signal = Signal::new();
        let root = Arc::new(Root { signal: Arc::clone(&signal), woken: true.into() });
        let waker = Waker::from(Arc::clone(&root));
        let mut cx = Context::from_waker(&waker);
        let mut candidate = Candidate { scheduler: self, place: None };
        let mut seated = candidate.sit(handle, &signal);
        let mut polled_before = false;
        // In a task of a runtime with workers, whose end this thread must not keep from coming.
        let mut wait = TaskWait::begin(*handle.filch());
        handle.tokio().block_on(poll_fn(|tokio| {
            // Between two polls of the root future the tasks have their turn, however often it is woken.
            while core::mem::take(&mut polled_before) || !root.take() {
                if seated.is_none() {
                    seated = candidate.sit(handle, &signal);
                }
                match &seated {
                    Some(driver) => driver.turn(handle, &signal, &root),
                    None => {
                        signal.wait(None);
                        signal.take();
                    }
                }
            }
            let polled = context::poll_root(Polling::Local, || future.as_mut().poll(&mut cx));
            polled_before = true;
            if polled.is_pending() {
                wait.poll(&mut cx);
                // The thread comes back at once, with a new budget.
                tokio.waker().wake_by_ref();
            }
            polled
        }))
    }
}

/// The waker of the root future.
struct Root {
    signal: Arc<Signal>,
    woken: core::sync::atomic::AtomicBool,
}

impl Root {
    fn take(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `wake_by_ref`.
        self.woken.swap(false, core::sync::atomic::Ordering::Acquire)
    }

    fn is_woken(&self) -> bool {
        // Ordering: Relaxed; `take` follows.
        self.woken.load(core::sync::atomic::Ordering::Relaxed)
    }
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Ordering: Release pairs with the Acquire in `take`.
        self.woken.store(true, core::sync::atomic::Ordering::Release);
        self.signal.wake_by_ref();
    }
}

/// The thread that drives, until it is dropped.
struct Driver<'a> {
    scheduler: &'a Scheduler,
    parks: &'a Parks,
    /// Whether it drives another one, in which this one's block is nested.
    drove: bool,
    /// Since when it has been awake.
    awake: Cell<Instant>,
}

impl<'a> Candidate<'a> {
    /// Takes the seat if it is free; otherwise the signal is given when it is.
    fn sit(&mut self, handle: &'a Handle, signal: &Arc<Signal>) -> Option<Driver<'a>> {
        let scheduler = self.scheduler;
        let mut seat = lock(&scheduler.seat);
        if seat.taken {
            self.place.get_or_insert_with(|| seat.waiting.insert(Arc::clone(signal)));
            return None;
        }
        seat.taken = true;
        let parks = &handle.inner.parks;
        let drove = context::set_drives(true);
        Some(Driver { scheduler, parks, drove, awake: Cell::new(Instant::now()) })
    }
}

impl Driver<'_> {
    /// Polls some tasks, and waits if there are none.
    fn turn(&self, handle: &Handle, signal: &Arc<Signal>, root: &Root) {
        let scheduler = self.scheduler;
        signal.take();
        let ran = (0..scheduler.interval).take_while(|_| scheduler.run_one()).count();
        let clock = handle.inner.clock();
        clock.fire();
        if ran == scheduler.interval as usize || root.is_woken() {
            return;
        }
        scheduler.queue.poller.register(&Arc::clone(signal).into());
        if !scheduler.queue.is_empty() {
            return;
        }
        let hooks = &handle.inner.hooks;
        if let Some(hook) = &hooks.park {
            hook();
            if !scheduler.queue.is_empty() || root.is_woken() {
                hooks.unparked();
                return;
            }
        }
        self.parks.park(self.awake.get().elapsed());
        self.sleep(handle, signal);
        self.awake.set(Instant::now());
        hooks.unparked();
    }

    fn sleep(&self, handle: &Handle, signal: &Signal) {
        let inner = &handle.inner;
        let clock = inner.clock();
        let next = clock.next();
        if clock.advances() {
            let Some(deadline) = next else {
                signal.wait(None);
                return;
            };
            if inner.has_io() && Self::hear(handle, signal) {
                return;
            }
            if clock.advances() && self.scheduler.queue.is_empty() {
                clock.move_to(deadline);
            }
        } else if clock.is_stopped() {
            // A closure that blocks holds the clock; its end wakes the thread.
            signal.wait(None);
        } else {
            let now = Instant::now();
            signal.wait(next.map(|deadline| deadline.saturating_duration_since(now)));
        }
        clock.fire();
    }

    /// Waits until all events that have arrived are delivered: they come before a timer of a stopped clock. True if something was
    /// woken meanwhile.
    fn hear(handle: &Handle, signal: &Signal) -> bool {
        loop {
            let linux = handle.filch().host::<filch_linux::runtime::Linux>();
            let has_io = linux.is_some_and(filch_linux::runtime::Host::has_io);
            // The reactor delivers what it has heard before it polls a task.
            let Ok(turn) = handle.filch().offer(async {}) else { return false };
            if signal.wait_for(turn).is_none() {
                return true;
            }
            if has_io {
                signal.wait(Some(GRACE));
            }
            if signal.take() {
                return true;
            }
            if !has_io {
                return false;
            }
        }
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        context::set_drives(self.drove);
        self.parks.busy(self.awake.get().elapsed());
        self.scheduler.queue.poller.take();
        let mut seat = lock(&self.scheduler.seat);
        seat.taken = false;
        // All of them: a thread whose future is ready meanwhile does not pass it on.
        seat.waiting.iter().for_each(|(_, waits)| waits.wake_by_ref());
    }
}
