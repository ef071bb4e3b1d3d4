//! The figures in the format of Prometheus.

mod common;

use std::collections::BTreeMap;

use common::{runtime, until, watchdog};
use filch_std::{Runtime, prometheus::RuntimeCollector};
use prometheus_client::{encoding::text, metrics::counter::Counter, registry::Registry};

/// The series of a text, with their values; fails if the text is none of OpenMetrics.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let (mut series, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    let lines = text.strip_suffix("# EOF\n").expect("it ends").lines();
    let mut current = "";
    for line in lines {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(kinds.insert(name, kind).is_none(), "twice: {line}");
            current = name;
        } else if let Some(about) = line.strip_prefix("# HELP ").or(line.strip_prefix("# UNIT ")) {
            assert!(about.split(' ').count() > 1, "{line}");
        } else {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let name = key.split('{').next().unwrap();
            let suffix = name.strip_prefix(current).unwrap_or_else(|| panic!("apart: {line}"));
            let suffixes: &[_] = match kinds[current] {
                "counter" => &["_total"],
                "gauge" => &[""],
                "histogram" => &["_sum", "_count", "_bucket"],
                other => panic!("{other}"),
            };
            assert!(suffixes.contains(&suffix), "{line}");
            assert!(series.insert(key.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    series
}

fn names(series: &BTreeMap<String, f64>) -> Vec<&str> {
    let mut names: Vec<_> = series.keys().map(|key| key.split('{').next().unwrap()).collect();
    names.dedup();
    names
}

#[test]
fn the_text_has_the_figures_of_the_runtime() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    for _ in 0..10 {
        runtime.block_on(runtime.spawn(async {})).unwrap();
    }
    runtime.block_on(runtime.handle().spawn_blocking(|| ())).unwrap();
    // The threads start and end at their own times.
    until(|| runtime.metrics().workers().filter(|(_, worker)| worker.online).count() == 2);
    until(|| runtime.metrics().totals().live == 0);
    let series = parse(&runtime.handle().prometheus_text());
    // A thread that waits for a task may be a worker too.
    let polls = series.iter().filter(|(key, _)| key.starts_with("filch_worker_polls_total{"));
    let polls: f64 = polls.map(|(_, n)| n).sum();
    assert_eq!(polls, runtime.metrics().all_workers().polls as f64);
    for (name, value) in [
        ("filch_tasks_spawned_total", 11.0),
        ("filch_tasks_live", 0.0),
        ("filch_blocking_done_total", 1.0),
        ("filch_worker_online{worker=\"1\"}", 1.0),
        ("filch_worker_forced_yields_total{worker=\"0\"}", 0.0),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name}");
    }
    assert!(series.contains_key("filch_worker_busy_seconds_total{worker=\"0\"}"));
    assert!(!series.contains_key("filch_worker_online{worker=\"9\"}"), "it never ran");
    assert!(!series.keys().any(|name| name.starts_with("filch_io")), "there is none");
    assert!(names(&series).len() >= 26, "{series:?}");
}

#[test]
fn a_registry_of_the_program_has_them_beside_its_own() {
    let _watchdog = watchdog();
    let (one, other) = (runtime(1), runtime(1));
    one.block_on(one.spawn(async {})).unwrap();
    let mut registry = Registry::default();
    let requests = Counter::<u64>::default();
    registry.register("requests", "Those of the program", requests.clone());
    for (name, runtime) in [("one", &one), ("other", &other)] {
        let labelled = registry.sub_registry_with_label(("runtime".into(), name.into()));
        labelled.register_collector(Box::new(RuntimeCollector::new(*runtime.handle())));
    }
    requests.inc();
    let mut out = String::new();
    text::encode(&mut out, &registry).unwrap();
    for line in [
        "requests_total 1",
        "filch_tasks_spawned_total{runtime=\"one\"} 1",
        "filch_tasks_spawned_total{runtime=\"other\"} 0",
    ] {
        assert!(out.lines().any(|l| l == line), "{line} in\n{out}");
    }
    let workers = out.lines().filter(|line| line.starts_with("filch_worker_polls_total{"));
    assert!(
        workers.into_iter().all(|line| line.contains("runtime=\"o") && line.contains("worker=\""))
    );
}

#[cfg(feature = "observe")]
#[test]
fn times_are_histograms() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).class_metrics(true).build().unwrap();
    for _ in 0..20 {
        runtime.block_on(runtime.spawn(async {})).unwrap();
    }
    let ended =
        || runtime.handle().class_metrics(filch_std::task::Class::Normal).poll_times.count();
    until(|| ended() == 20);
    let series = parse(&runtime.handle().prometheus_text());
    for name in ["filch_class_polls_seconds", "filch_class_waits_seconds"] {
        let get = |suffix: &str| series[&format!("{name}_{suffix}{{class=\"normal\"}}")];
        assert_eq!(get("count"), 20.0);
        assert!(get("sum") > 0.0);
        let bucket = format!("{name}_bucket{{");
        let of_all = series.iter().filter(|(key, _)| key.starts_with(&bucket));
        let of_it: Vec<_> = of_all.filter(|(key, _)| key.contains("normal")).collect();
        assert_eq!(of_it.len(), 14);
        let last = of_it.iter().find(|(key, _)| key.contains("le=\"+Inf\"")).unwrap().1;
        assert_eq!(*last, 20.0, "all of them");
        assert!(of_it.iter().all(|(_, n)| **n <= *last));
        assert_eq!(series[&format!("{name}_count{{class=\"urgent\"}}")], 0.0);
    }
}

#[test]
fn an_old_handle_still_has_a_text() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(6).build().unwrap();
    let handle = *runtime.handle();
    runtime.block_on(runtime.spawn(async {})).unwrap();
    drop(runtime);
    assert_eq!(parse(&handle.prometheus_text())["filch_tasks_completed_total"], 1.0);
}
