//! Counters, and snapshots of them.

use crate::parts::{Counts, Parts, Tally};

/// The counters of one worker. Only the worker writes them.
#[derive(Debug)]
pub(crate) struct Counters<F: Parts> {
    pub(crate) spawned: Tally<Counts<F>>,
    pub(crate) completed: Tally<Counts<F>>,
    pub(crate) polls: Tally<F::Metrics>,
    pub(crate) lifo_hits: Tally<F::Metrics>,
    pub(crate) steals: Tally<F::Metrics>,
    pub(crate) stolen: Tally<F::Metrics>,
    pub(crate) injector_batches: Tally<F::Metrics>,
    pub(crate) overflows: Tally<F::Metrics>,
    pub(crate) parks: Tally<F::Metrics>,
    pub(crate) sweeps: Tally<F::Metrics>,
    pub(crate) rescues: Tally<F::Metrics>,
    pub(crate) timers: Tally<F::Metrics>,
    pub(crate) jobs: Tally<F::Metrics>,
    pub(crate) busy: Tally<F::Metrics>,
}

impl<F: Parts> Counters<F> {
    pub(crate) const fn new() -> Self {
        Self {
            spawned: Tally::new(),
            completed: Tally::new(),
            polls: Tally::new(),
            lifo_hits: Tally::new(),
            steals: Tally::new(),
            stolen: Tally::new(),
            injector_batches: Tally::new(),
            overflows: Tally::new(),
            parks: Tally::new(),
            sweeps: Tally::new(),
            rescues: Tally::new(),
            timers: Tally::new(),
            jobs: Tally::new(),
            busy: Tally::new(),
        }
    }
}

/// What one worker has done since the executor began.
///
/// Counters are as wide as a pointer, and wrap on 32-bit targets. Use differences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Polls of tasks.
    pub polls: usize,
    /// Tasks that came from the LIFO slot.
    pub lifo_hits: usize,
    /// Successful steal operations.
    pub steals: usize,
    /// Tasks taken by steal operations.
    pub stolen: usize,
    /// Batches taken from the injector.
    pub injector_batches: usize,
    /// Chains of tasks that moved from a full ring to the injector.
    pub overflows: usize,
    /// How often the worker went to sleep.
    pub parks: usize,
    /// Scans of all other workers, after a timeout of the watchdog.
    pub sweeps: usize,
    /// Tasks that such a scan took from the LIFO slot of a worker that was stuck in a poll.
    pub rescues: usize,
    /// Timers that the worker has fired.
    pub timers: usize,
    /// Fork-join jobs that the worker has stolen and run.
    pub jobs: usize,
    /// Time spent polling, in microseconds, up to the last tick (at most 135 polls ago) or idle moment.
    pub busy_micros: usize,
    /// Polls of urgent tasks.
    #[cfg(feature = "classes")]
    pub urgent_polls: usize,
    /// Polls of background tasks.
    #[cfg(feature = "classes")]
    pub background_polls: usize,
    /// How many of those in `queue_depth` are background tasks.
    #[cfg(feature = "classes")]
    pub background_depth: usize,
    /// Polls of urgent tasks that began after their deadlines.
    #[cfg(feature = "classes")]
    pub late: usize,
    /// Tasks in the worker's rings and LIFO slot now.
    pub queue_depth: usize,
    /// Whether a context runs the worker now.
    pub online: bool,
}

/// What an executor has done since it began. The figures are read one after the other, so they are consistent enough to
/// add up; no figure is torn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Tasks spawned.
    pub spawned: usize,
    /// Tasks that have completed, were cancelled, or have panicked.
    pub completed: usize,
    /// Tasks that are alive now.
    pub live: usize,
    /// Tasks in the injector now.
    pub injector_depth: usize,
    /// Workers that sleep now.
    pub parked: usize,
    /// Workers that look for work now.
    pub searching: usize,
}
