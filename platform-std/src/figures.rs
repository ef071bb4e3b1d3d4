//! The figures of a runtime by name, as dashboards want them.

use core::time::Duration;

use filch::{Totals, WorkerMetrics};

use crate::metrics::{BlockingMetrics, IoMetrics, Metrics};
#[cfg(feature = "observe")]
use crate::{class_metrics::ClassMetrics, histogram::Histogram};

/// A name with its figures: one, or one for each worker or class.
pub(crate) struct Family {
    /// Without the unit, and without `_total`.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_seconds: bool,
    pub(crate) figures: Vec<(Option<Label>, Value)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    #[cfg_attr(not(feature = "observe"), allow(dead_code, reason = "there is none"))]
    Histogram,
}

pub(crate) type Label = (&'static str, String);

pub(crate) enum Value {
    Number(u64),
    Seconds(f64),
    /// The sum, and the buckets that are not empty, with their ends.
    #[allow(dead_code, reason = "as above; and the facade takes no sums")]
    Times(Duration, Vec<(Duration, u64)>),
}

/// The name, the kind, the help text and the value of a figure of a `T`.
type Figure<T> = (&'static str, Kind, &'static str, fn(&T) -> Value);

use Kind::{Counter, Gauge};
use Value::Seconds;

fn number(n: usize) -> Value {
    Value::Number(n as u64)
}

#[cfg(feature = "observe")]
fn times(times: &Histogram) -> Value {
    Value::Times(times.sum(), times.buckets().collect())
}

const TOTALS: [Figure<Totals>; 6] = [
    ("filch_tasks_spawned", Counter, "Tasks spawned.", |t| number(t.spawned)),
    ("filch_tasks_completed", Counter, "Tasks that ended in any way.", |t| number(t.completed)),
    ("filch_tasks_live", Gauge, "Tasks that live now.", |t| number(t.live)),
    ("filch_injector_depth", Gauge, "Tasks in the injector now.", |t| number(t.injector_depth)),
    ("filch_workers_parked", Gauge, "Workers that sleep now.", |t| number(t.parked)),
    ("filch_workers_searching", Gauge, "Workers that look for work now.", |t| number(t.searching)),
];

const WORKERS: [Figure<WorkerMetrics>; 16] = [
    ("filch_worker_polls", Counter, "Polls of tasks.", |w| number(w.polls)),
    ("filch_worker_forced_yields", Counter, "Polls whose budget refused an operation.", |w| {
        number(w.forced_yields)
    }),
    ("filch_worker_lifo_hits", Counter, "Tasks from the LIFO slot.", |w| number(w.lifo_hits)),
    ("filch_worker_steals", Counter, "Successful steal operations.", |w| number(w.steals)),
    ("filch_worker_stolen_tasks", Counter, "Tasks taken by steals.", |w| number(w.stolen)),
    ("filch_worker_injector_batches", Counter, "Batches from the injector.", |w| {
        number(w.injector_batches)
    }),
    ("filch_worker_overflows", Counter, "Chains that left a full ring.", |w| number(w.overflows)),
    ("filch_worker_parks", Counter, "Times it went to sleep.", |w| number(w.parks)),
    ("filch_worker_sweeps", Counter, "Scans of all workers by the watchdog.", |w| number(w.sweeps)),
    ("filch_worker_rescues", Counter, "Tasks taken by such scans.", |w| number(w.rescues)),
    ("filch_worker_timers", Counter, "Timers fired.", |w| number(w.timers)),
    ("filch_worker_jobs", Counter, "Fork-join jobs stolen and run.", |w| number(w.jobs)),
    ("filch_worker_late_polls", Counter, "Polls after their deadlines.", |w| number(w.late)),
    ("filch_worker_busy", Counter, "Time spent polling.", |w| Seconds(w.busy_micros as f64 / 1e6)),
    ("filch_worker_queue_depth", Gauge, "Tasks in its queues now.", |w| number(w.queue_depth)),
    ("filch_worker_online", Gauge, "Whether a thread runs it now.", |w| {
        number(usize::from(w.online))
    }),
];

const BLOCKING: [Figure<BlockingMetrics>; 4] = [
    ("filch_blocking_threads", Gauge, "Threads of the blocking pool.", |b| number(b.threads)),
    ("filch_blocking_idle_threads", Gauge, "Those without work.", |b| number(b.idle)),
    ("filch_blocking_queued", Gauge, "Closures that wait for a thread.", |b| number(b.queued)),
    ("filch_blocking_done", Counter, "Closures that have run.", |b| number(b.done)),
];

const IO: [Figure<IoMetrics>; 7] = [
    ("filch_io_sources", Gauge, "Sources registered now.", |io| number(io.sources)),
    ("filch_io_registered", Counter, "Sources that were registered.", |io| number(io.registered)),
    ("filch_io_waits", Counter, "Waits for events.", |io| number(io.waits)),
    ("filch_io_looks", Counter, "Waits that only looked.", |io| number(io.looks)),
    ("filch_io_timed_waits", Counter, "Waits up to a timer.", |io| number(io.timed)),
    ("filch_io_alarms", Counter, "Waits that the alarm ended.", |io| number(io.alarms)),
    ("filch_io_events", Counter, "Events of sources.", |io| number(io.events)),
];

#[cfg(feature = "observe")]
const CLASSES: [Figure<ClassMetrics>; 4] = [
    ("filch_class_queued", Gauge, "Tasks that wait for a worker now.", |c| number(c.queued)),
    ("filch_class_busy", Counter, "Time spent polling.", |c| Seconds(c.busy.as_secs_f64())),
    ("filch_class_waits", Kind::Histogram, "From wake to poll.", |c| times(&c.waits)),
    ("filch_class_polls", Kind::Histogram, "The time of a poll.", |c| times(&c.poll_times)),
];

/// The class as the value of a label.
#[cfg(feature = "observe")]
const NAMES: [&str; 3] = ["urgent", "normal", "background"];

fn family<T>(figure: &Figure<T>, of: &[(Option<Label>, &T)]) -> Family {
    let (name, kind, help, value) = *figure;
    let figures: Vec<_> = of.iter().map(|(label, of)| (label.clone(), value(of))).collect();
    let is_seconds =
        matches!(figures.first(), Some((_, value)) if !matches!(value, Value::Number(_)));
    Family { name, help, kind, is_seconds, figures }
}

impl Metrics {
    /// All figures, by name; of those workers that run or have run. Whether they have, `all` tells, which is the same or
    /// what there was before too.
    pub(crate) fn families(&self, all: &Self) -> Vec<Family> {
        let runs = self.workers.iter().zip(&all.workers).enumerate();
        let workers: Vec<_> = runs
            .filter(|(_, (_, all))| all.online || all.polls > 0)
            .map(|(i, (worker, _))| (Some(("worker", i.to_string())), worker))
            .collect();
        let io: Vec<_> = self.io.iter().map(|io| (None, io)).collect();
        let own = TOTALS.iter().map(|figure| family(figure, &[(None, &self.totals)]));
        let blocking = BLOCKING.iter().map(|figure| family(figure, &[(None, &self.blocking)]));
        let families = own
            .chain(WORKERS.iter().map(|figure| family(figure, &workers)))
            .chain(blocking)
            .chain(IO.iter().map(|figure| family(figure, &io)));
        #[cfg(feature = "observe")]
        let classes: Vec<_> = {
            let named = self.classes.iter().flatten().zip(NAMES);
            named.map(|(class, name)| (Some(("class", name.to_owned())), class)).collect()
        };
        #[cfg(feature = "observe")]
        let families = families.chain(CLASSES.iter().map(|figure| family(figure, &classes)));
        families.filter(|family| !family.figures.is_empty()).collect()
    }
}
