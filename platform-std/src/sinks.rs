//! Where a platform's events go: what a runtime counts, times, records and tells its user of them.

use filch::{Event, WorkerId};

#[cfg(feature = "log")]
use crate::hooks;
use crate::host::Host;
#[cfg(feature = "observe")]
use {
    crate::{
        activity::Activities, class_metrics::Times, recording::Recording, task_hooks::Hooked,
        task_view::Activity,
    },
    core::{
        cell::Cell,
        sync::atomic::{AtomicBool, Ordering},
    },
    filch::TaskId,
    std::sync::OnceLock,
};

/// Each is made for the first runtime here that wants it, and stays.
#[cfg(feature = "observe")]
#[derive(Default)]
pub(crate) struct Sinks {
    /// Whether any of these is used: what an event asks first, and a runtime without them asks nothing else.
    on: AtomicBool,
    /// How long tasks wait and are polled, by class.
    pub(crate) times: OnceLock<Times>,
    /// What each task has done.
    pub(crate) activities: OnceLock<Activities>,
    /// The flight recorder.
    pub(crate) recording: OnceLock<Recording>,
    /// What the user wants to hear of.
    pub(crate) hooked: Hooked,
}

/// At most the log.
#[cfg(not(feature = "observe"))]
#[derive(Default)]
pub(crate) struct Sinks {}

/// The level at which [`Event::log`] writes it.
#[cfg(feature = "log")]
fn log_level(event: Event<'_>) -> log::Level {
    match event {
        Event::LongPoll { .. } => log::Level::Warn,
        _ => log::Level::Trace,
    }
}

impl Sinks {
    /// An event, at the time of the host.
    #[inline(always)]
    pub(crate) fn event(&self, worker: Option<WorkerId>, event: Event<'_>, host: &impl Host) {
        #[cfg(feature = "log")]
        if log_level(event) <= log::max_level() {
            hooks::call(|| event.log(worker));
        }
        #[cfg(feature = "observe")]
        self.observe(worker, event, host);
        let _ = (worker, event, host);
    }
}

#[cfg(feature = "observe")]
impl Sinks {
    #[inline(always)]
    fn observe(&self, worker: Option<WorkerId>, event: Event<'_>, host: &impl Host) {
        // Ordering: Relaxed; each of them has its own.
        if !self.on.load(Ordering::Relaxed) {
            return;
        }
        // The clock is read once at most for the first two; the recorder has times of its own.
        let (read, at) = (|| host.now(), Cell::new(None));
        let now = || {
            let now = at.get().unwrap_or_else(read);
            at.set(Some(now));
            now
        };
        if let Some(times) = self.times.get().filter(|times| times.is_on()) {
            times.event(worker, event, now);
        }
        if let Some(activities) = self.activities.get().filter(|activities| activities.is_on()) {
            activities.event(worker, event, now);
        }
        if let Some(recording) = self.recording.get() {
            recording.event(worker, event, host);
        }
        self.hooked.event(event);
    }

    /// A runtime begins; no worker of it runs yet. Whether it uses any of these.
    pub(crate) fn turn(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// As above, how long tasks wait and are polled.
    pub(crate) fn time(&self, workers: usize, on: bool) {
        if on {
            self.times.get_or_init(|| Times::new(workers));
        }
        if let Some(times) = self.times.get() {
            times.turn(on);
        }
    }

    /// As above, with room for so many tasks; 0: without.
    pub(crate) fn follow(&self, workers: usize, tasks: usize) {
        if tasks > 0 {
            self.activities.get_or_init(|| Activities::new(workers, tasks));
        }
        if let Some(activities) = self.activities.get() {
            activities.turn(tasks > 0);
        }
    }

    pub(crate) fn activity(&self, task: TaskId, host: &impl Host) -> Option<Activity> {
        self.activities.get()?.of(task, host.now())
    }
}
