//! Counters, and snapshots of them.

use crate::parts::{Counts, Parts, Tally};

/// The counters of one worker. Only the worker writes them.
#[derive(Debug)]
pub(crate) struct Counters<F: Parts> {
    pub(crate) spawned: Tally<Counts<F>>,
    pub(crate) completed: Tally<Counts<F>>,
    pub(crate) polls: Tally<F::Metrics>,
    pub(crate) forced_yields: Tally<F::Metrics>,
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
            forced_yields: Tally::new(),
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

/// What one worker has done since the executor began; an executor that is [opened again](crate::Scheduler::reopen) counts on.
///
/// Counters are as wide as a pointer, and wrap on 32-bit targets. Use differences: [`since`](Self::since).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Polls of tasks.
    pub polls: usize,
    /// Polls whose cooperative budget refused an operation: it had no unit left, or an urgent task waited (feature `classes`). However many
    /// operations it refused, such a poll counts once; but a budget that was renewed counts anew, which is that of a poll on top of which
    /// others ran in sync code, and that of a foreign `block_on` that was refused 128 times. A poll that spends its last unit and ends is
    /// none.
    pub forced_yields: usize,
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
    /// Tasks in the worker's rings and LIFO slot now. 0 without the part [`Cores`](crate::parts::Cores), whose one queue is not counted.
    pub queue_depth: usize,
    /// Whether a context runs the worker now.
    pub online: bool,
}

impl WorkerMetrics {
    /// What the worker has done since an earlier look: the differences of the counters, also of those that have wrapped once.
    /// `queue_depth`, `background_depth` and `online` stay as they are.
    ///
    /// ```
    /// # use filch::WorkerMetrics;
    /// let (mut earlier, mut later) = (WorkerMetrics::default(), WorkerMetrics::default());
    /// (earlier.polls, later.polls, later.queue_depth) = (usize::MAX, 4, 2);
    /// let between = later.since(&earlier);
    /// assert_eq!((between.polls, between.queue_depth), (5, 2));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with_counters(earlier, usize::wrapping_sub)
    }

    /// What two workers have done together; online if one of them is.
    ///
    /// ```
    /// # use filch::WorkerMetrics;
    /// let workers = [3, 4].map(|polls| {
    ///     let mut worker = WorkerMetrics::default();
    ///     worker.polls = polls;
    ///     worker
    /// });
    /// let all = workers.iter().fold(WorkerMetrics::default(), |sum, worker| sum.plus(worker));
    /// assert_eq!(all.polls, 7);
    /// ```
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            #[cfg(feature = "classes")]
            background_depth: self.background_depth.wrapping_add(other.background_depth),
            queue_depth: self.queue_depth.wrapping_add(other.queue_depth),
            online: self.online | other.online,
            ..self.with_counters(other, usize::wrapping_add)
        }
    }

    /// Its counters, each taken together with the other's.
    fn with_counters(&self, other: &Self, f: fn(usize, usize) -> usize) -> Self {
        Self {
            polls: f(self.polls, other.polls),
            forced_yields: f(self.forced_yields, other.forced_yields),
            lifo_hits: f(self.lifo_hits, other.lifo_hits),
            steals: f(self.steals, other.steals),
            stolen: f(self.stolen, other.stolen),
            injector_batches: f(self.injector_batches, other.injector_batches),
            overflows: f(self.overflows, other.overflows),
            parks: f(self.parks, other.parks),
            sweeps: f(self.sweeps, other.sweeps),
            rescues: f(self.rescues, other.rescues),
            timers: f(self.timers, other.timers),
            jobs: f(self.jobs, other.jobs),
            busy_micros: f(self.busy_micros, other.busy_micros),
            #[cfg(feature = "classes")]
            urgent_polls: f(self.urgent_polls, other.urgent_polls),
            #[cfg(feature = "classes")]
            background_polls: f(self.background_polls, other.background_polls),
            #[cfg(feature = "classes")]
            background_depth: self.background_depth,
            #[cfg(feature = "classes")]
            late: f(self.late, other.late),
            queue_depth: self.queue_depth,
            online: self.online,
        }
    }
}

/// What an executor has done since it began; opened again, it counts on. The figures are read one after the other, so they are consistent
/// enough to add up; no figure is torn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Tasks spawned.
    pub spawned: usize,
    /// Tasks that have completed, were cancelled, or have panicked.
    pub completed: usize,
    /// Tasks that are alive now.
    pub live: usize,
    /// Tasks in the injector now; 0 without the part [`Cores`](crate::parts::Cores).
    pub injector_depth: usize,
    /// Workers that sleep now.
    pub parked: usize,
    /// Workers that look for work now.
    pub searching: usize,
}

impl Totals {
    /// What has happened since an earlier look: the tasks spawned and completed. The others stay as they are.
    ///
    /// ```
    /// # use filch::Totals;
    /// let (mut earlier, mut later) = (Totals::default(), Totals::default());
    /// (earlier.spawned, later.spawned, later.live) = (5, 9, 2);
    /// let between = later.since(&earlier);
    /// assert_eq!((between.spawned, between.live), (4, 2));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            spawned: self.spawned.wrapping_sub(earlier.spawned),
            completed: self.completed.wrapping_sub(earlier.completed),
            ..*self
        }
    }
}
