//! What a runtime has done since it began, in numbers.

use filch::{Totals, WorkerId, WorkerMetrics};

#[cfg(feature = "observe")]
use crate::class_metrics::ClassMetrics;

/// What a runtime has done since it began: [`Handle::metrics`](crate::Handle::metrics).
///
/// All counters of a new runtime are 0, also where it uses the memory of one that has ended, whose executor counts on. They are read one
/// after the other while the runtime works on: each is right, and sums may differ by what happened meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The threads for closures that block.
    pub blocking: BlockingMetrics,
    /// Sources of I/O and the waits for them, if the host counts them: that of `filch-linux` does.
    pub io: Option<IoMetrics>,
    /// How long tasks wait and are polled, by class, urgent ones first: with `Builder::class_metrics`.
    #[cfg(feature = "observe")]
    pub classes: Option<[ClassMetrics; 3]>,
    pub(crate) totals: Totals,
    pub(crate) workers: Vec<WorkerMetrics>,
}

impl Metrics {
    /// The tasks spawned, completed and alive, those that no worker has taken yet, and the workers that sleep or search.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Each worker's figures; compensation workers, most of which never run, come last.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, WorkerMetrics)> + '_ {
        self.workers.iter().enumerate().map(|(i, worker)| (WorkerId::new(i as u16), *worker))
    }

    /// What all workers have done together. Sums of counters wrap as the counters do, on 32-bit targets.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::builder().workers(2).build()?;
    /// runtime.block_on(runtime.spawn(async {}))?;
    /// let metrics = runtime.metrics();
    /// assert_eq!((metrics.all_workers().polls, metrics.totals().spawned), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all_workers(&self) -> WorkerMetrics {
        self.workers.iter().fold(WorkerMetrics::default(), |sum, worker| sum.plus(worker))
    }

    /// What has happened since an earlier snapshot of the same runtime. Figures of the moment, as `live` and `queue_depth`, stay as they
    /// are.
    ///
    /// ```
    /// # let runtime = filch_std::Runtime::builder().workers(1).build()?;
    /// let before = runtime.metrics();
    /// runtime.block_on(runtime.spawn(async {}))?;
    /// assert_eq!(runtime.metrics().since(&before).all_workers().polls, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let none = WorkerMetrics::default();
        let before = |i: usize| earlier.workers.get(i).unwrap_or(&none);
        Self {
            totals: self.totals.since(&earlier.totals),
            workers: self.workers.iter().enumerate().map(|(i, now)| now.since(before(i))).collect(),
            blocking: BlockingMetrics {
                done: self.blocking.done.wrapping_sub(earlier.blocking.done),
                ..self.blocking
            },
            io: self.io.map(|now| now.since(&earlier.io.unwrap_or_default())),
            #[cfg(feature = "observe")]
            classes: match (&self.classes, &earlier.classes) {
                (Some(now), Some(then)) => {
                    Some(core::array::from_fn(|class| now[class].since(&then[class])))
                }
                (now, _) => now.clone(),
            },
        }
    }
}

/// A snapshot of a runtime's blocking pool; see [`Handle::blocking_metrics`](crate::Handle::blocking_metrics).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingMetrics {
    /// All threads, the idle ones included, and those that wait for pipes and devices.
    pub threads: usize,
    /// Threads without work. A thread ends after ten idle seconds, or
    /// [`Builder::blocking_keep_alive`](crate::Builder::blocking_keep_alive).
    pub idle: usize,
    /// Closures that wait for a thread.
    pub queued: usize,
    /// Closures that were called and have returned or panicked, since the runtime began.
    pub done: usize,
}

/// The figures of a host's I/O: [`Metrics::io`]. Those of `filch-linux` are about its epoll.
///
/// Counters are as wide as a pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoMetrics {
    /// Sources (sockets, pipes, other files) that are registered now.
    pub sources: usize,
    /// Sources that were registered.
    pub registered: usize,
    /// Times that a worker has asked the system for events, and slept until there were some or only looked.
    pub waits: usize,
    /// How many of the waits only looked: they had no time to sleep.
    pub looks: usize,
    /// How many of the waits were to end at a time, that of the next timer or another duty. The others were for ever.
    pub timed: usize,
    /// How many of the waits another thread ended, by the alarm alone, as there was other work.
    pub alarms: usize,
    /// Events of sources that workers have taken, one or more for each wait that had any.
    pub events: usize,
}

impl IoMetrics {
    /// What has happened since an earlier snapshot. `sources` stays as it is.
    ///
    /// ```
    /// # use filch_std::runtime::IoMetrics;
    /// let (mut earlier, mut later) = (IoMetrics::default(), IoMetrics::default());
    /// (earlier.waits, later.waits, later.sources) = (3, 5, 7);
    /// let between = later.since(&earlier);
    /// assert_eq!((between.waits, between.sources), (2, 7));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            sources: self.sources,
            registered: self.registered.wrapping_sub(earlier.registered),
            waits: self.waits.wrapping_sub(earlier.waits),
            looks: self.looks.wrapping_sub(earlier.looks),
            timed: self.timed.wrapping_sub(earlier.timed),
            alarms: self.alarms.wrapping_sub(earlier.alarms),
            events: self.events.wrapping_sub(earlier.events),
        }
    }
}

/// The counters that go on when another runtime begins in the same memory, as they were then.
#[derive(Default)]
pub(crate) struct Begin {
    totals: Totals,
    workers: Vec<WorkerMetrics>,
    io: IoMetrics,
}

impl Begin {
    pub(crate) fn of(executor: &filch::Metrics<'_>, io: Option<IoMetrics>) -> Self {
        Self {
            totals: executor.totals(),
            workers: executor.workers().map(|(_, worker)| worker).collect(),
            io: io.unwrap_or_default(),
        }
    }

    /// The totals since then.
    pub(crate) fn totals(&self, executor: &filch::Metrics<'_>) -> Totals {
        executor.totals().since(&self.totals)
    }

    /// What the executor and its host have done since then.
    pub(crate) fn since(&self, executor: &filch::Metrics<'_>, io: Option<IoMetrics>) -> Metrics {
        let begin = Metrics {
            totals: self.totals,
            workers: self.workers.clone(),
            io: Some(self.io),
            ..Metrics::default()
        };
        let now = Metrics {
            totals: executor.totals(),
            workers: executor.workers().map(|(_, worker)| worker).collect(),
            io,
            ..Metrics::default()
        };
        now.since(&begin)
    }
}
