//! A runtime's counters in the text format of Prometheus, version 0.0.4.

use core::fmt::Write;

use filch::{Metrics, Totals, WorkerId, WorkerMetrics};

/// The media type of [`text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All figures of a runtime: its own, then those of each worker that runs or has run.
pub fn text(metrics: &Metrics<'_>) -> String {
    let has_run = |(_, w): &(WorkerId, WorkerMetrics)| w.online || w.polls > 0;
    format(&metrics.totals(), &metrics.workers().filter(has_run).collect::<Vec<_>>())
}

/// A figure: its name without the prefix, its type, its help text, and its value.
type Figure<T> = (&'static str, &'static str, &'static str, fn(&T) -> f64);

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

const TOTALS: [Figure<Totals>; 6] = [
    ("tasks_spawned_total", COUNTER, "Tasks spawned.", |t| t.spawned as f64),
    ("tasks_completed_total", COUNTER, "Tasks that ended in any way.", |t| t.completed as f64),
    ("tasks_live", GAUGE, "Tasks that live now.", |t| t.live as f64),
    ("injector_depth", GAUGE, "Tasks in the injector now.", |t| t.injector_depth as f64),
    ("workers_parked", GAUGE, "Workers that sleep now.", |t| t.parked as f64),
    ("workers_searching", GAUGE, "Workers that look for work now.", |t| t.searching as f64),
];

const WORKERS: [Figure<WorkerMetrics>; 13] = [
    ("worker_polls_total", COUNTER, "Polls of tasks.", |w| w.polls as f64),
    ("worker_lifo_hits_total", COUNTER, "Tasks from the LIFO slot.", |w| w.lifo_hits as f64),
    ("worker_steals_total", COUNTER, "Successful steal operations.", |w| w.steals as f64),
    ("worker_stolen_tasks_total", COUNTER, "Tasks taken by steals.", |w| w.stolen as f64),
    ("worker_injector_batches_total", COUNTER, "Batches from the injector.", |w| {
        w.injector_batches as f64
    }),
    ("worker_overflows_total", COUNTER, "Chains that left a full ring.", |w| w.overflows as f64),
    ("worker_parks_total", COUNTER, "Times it went to sleep.", |w| w.parks as f64),
    ("worker_sweeps_total", COUNTER, "Looks at all workers by the watchdog.", |w| w.sweeps as f64),
    ("worker_rescues_total", COUNTER, "Tasks taken by sweeps.", |w| w.rescues as f64),
    ("worker_timers_total", COUNTER, "Timers fired.", |w| w.timers as f64),
    ("worker_busy_seconds_total", COUNTER, "Time spent polling.", |w| w.busy_micros as f64 / 1e6),
    ("worker_queue_depth", GAUGE, "Tasks in its ring now.", |w| w.queue_depth as f64),
    ("worker_online", GAUGE, "Whether a thread runs it now.", |w| f64::from(u8::from(w.online))),
];

fn format(totals: &Totals, workers: &[(WorkerId, WorkerMetrics)]) -> String {
    let mut out = String::with_capacity(4_096);
    for (name, kind, help, figure) in TOTALS {
        head(&mut out, name, kind, help);
        line(&mut out, format_args!("filch_{name} {}", figure(totals)));
    }
    for (name, kind, help, figure) in WORKERS {
        head(&mut out, name, kind, help);
        for (id, worker) in workers {
            let (id, value) = (id.index(), figure(worker));
            line(&mut out, format_args!("filch_{name}{{worker=\"{id}\"}} {value}"));
        }
    }
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    line(out, format_args!("# HELP filch_{name} {help}"));
    line(out, format_args!("# TYPE filch_{name} {kind}"));
}

fn line(out: &mut String, text: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_figure_has_its_lines() {
        let mut totals = Totals::default();
        totals.spawned = 12_345_678_901;
        let mut worker = WorkerMetrics::default();
        (worker.busy_micros, worker.online) = (1_500_000, true);
        let workers = [(WorkerId::new(0), worker), (WorkerId::new(1), WorkerMetrics::default())];
        let text = format(&totals, &workers);
        for line in [
            "# HELP filch_tasks_spawned_total Tasks spawned.",
            "# TYPE filch_tasks_spawned_total counter",
            "filch_tasks_spawned_total 12345678901",
            "# TYPE filch_worker_online gauge",
            "filch_worker_online{worker=\"0\"} 1",
            "filch_worker_online{worker=\"1\"} 0",
            "filch_worker_busy_seconds_total{worker=\"0\"} 1.5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
        }
        assert_eq!(text.lines().count(), 3 * TOTALS.len() + 4 * WORKERS.len());
    }

    /// Each metric is in one block, counters end in `_total`, and no series comes twice.
    #[test]
    fn the_format_is_kept() {
        let workers = [0, 7].map(|id| (WorkerId::new(id), WorkerMetrics::default()));
        let text = format(&Totals::default(), &workers);
        assert!(text.ends_with('\n'));
        let (mut series, mut metrics, mut current) = (BTreeSet::new(), BTreeSet::new(), "");
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                current = help.split(' ').next().unwrap();
                assert!(metrics.insert(current), "{line}");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert_eq!(name, current);
                assert_eq!(kind == COUNTER, name.ends_with("_total"), "{line}");
            } else {
                let (name, value) = line.split_once(' ').unwrap();
                assert_eq!(name.split('{').next(), Some(current));
                assert!(series.insert(name), "{line}");
                value.parse::<f64>().unwrap();
            }
        }
    }
}
