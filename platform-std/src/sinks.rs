//! Where a platform's events go: what a runtime counts, times, records and tells its user of them.

#[cfg(any(feature = "class-metrics", feature = "task-metrics"))]
use core::cell::Cell;
use filch::{Event, WorkerId};
#[cfg(any(feature = "class-metrics", feature = "task-metrics", feature = "recorder"))]
use std::sync::OnceLock;

#[cfg(feature = "task-metrics")]
use crate::activity::Activities;
#[cfg(feature = "class-metrics")]
use crate::class_metrics::Times;
#[cfg(feature = "log")]
use crate::hooks;
use crate::host::Host;
#[cfg(feature = "recorder")]
use crate::recording::Recording;
#[cfg(feature = "task-hooks")]
use crate::task_hooks::Hooked;
#[cfg(feature = "task-metrics")]
use {crate::task::Activity, filch::TaskId};

/// Each is made for the first runtime here that wants it, and stays.
#[derive(Default)]
pub(crate) struct Sinks {
    /// How long tasks wait and are polled, by class.
    #[cfg(feature = "class-metrics")]
    pub(crate) times: OnceLock<Times>,
    /// What each task has done.
    #[cfg(feature = "task-metrics")]
    pub(crate) activities: OnceLock<Activities>,
    /// The flight recorder.
    #[cfg(feature = "recorder")]
    pub(crate) recording: OnceLock<Recording>,
    /// What the user wants to hear of.
    #[cfg(feature = "task-hooks")]
    pub(crate) hooked: Hooked,
}

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
        // The clock is read once at most for the first two; the recorder has times of its own.
        #[cfg(any(feature = "class-metrics", feature = "task-metrics"))]
        let (read, at) = (|| host.now(), Cell::new(None));
        #[cfg(any(feature = "class-metrics", feature = "task-metrics"))]
        let now = || {
            let now = at.get().unwrap_or_else(read);
            at.set(Some(now));
            now
        };
        #[cfg(feature = "class-metrics")]
        if let Some(times) = self.times.get().filter(|times| times.is_on()) {
            times.event(worker, event, now);
        }
        #[cfg(feature = "task-metrics")]
        if let Some(activities) = self.activities.get().filter(|activities| activities.is_on()) {
            activities.event(worker, event, now);
        }
        #[cfg(feature = "recorder")]
        if let Some(recording) = self.recording.get() {
            recording.event(worker, event, host);
        }
        #[cfg(feature = "task-hooks")]
        self.hooked.event(event);
        let _ = (worker, event, host);
    }

    /// A runtime begins; no worker of it runs yet.
    #[cfg(feature = "class-metrics")]
    pub(crate) fn time(&self, workers: usize, on: bool) {
        if on {
            self.times.get_or_init(|| Times::new(workers));
        }
        if let Some(times) = self.times.get() {
            times.turn(on);
        }
    }

    /// As above, with room for so many tasks; 0: without.
    #[cfg(feature = "task-metrics")]
    pub(crate) fn follow(&self, workers: usize, tasks: usize) {
        if tasks > 0 {
            self.activities.get_or_init(|| Activities::new(workers, tasks));
        }
        if let Some(activities) = self.activities.get() {
            activities.turn(tasks > 0);
        }
    }

    #[cfg(feature = "task-metrics")]
    pub(crate) fn activity(&self, task: TaskId, host: &impl Host) -> Option<Activity> {
        self.activities.get()?.of(task, host.now())
    }
}
