//! The figures that go to the recorder of the facade `metrics`.

mod common;

use core::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
};

use common::{runtime, until, watchdog};
use filch_std::{Runtime, task::SpawnErrorKind};
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// What is kept of each figure: a count, the bits of a gauge, or how many times a histogram has.
type Kept = BTreeMap<String, Arc<AtomicU64>>;

#[derive(Default)]
struct Keeps(Mutex<Kept>);

impl Keeps {
    fn place(&self, key: &Key) -> Arc<AtomicU64> {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        let name = key.name().to_owned() + &labels.collect::<String>();
        Arc::clone(self.0.lock().unwrap().entry(name).or_default())
    }

    fn get(&self, name: &str) -> Option<u64> {
        self.0.lock().unwrap().get(name).map(|place| place.load(Relaxed))
    }

    fn sum(&self, begin: &str) -> u64 {
        let all = self.0.lock().unwrap();
        all.iter().filter(|(name, _)| name.starts_with(begin)).map(|(_, n)| n.load(Relaxed)).sum()
    }

    fn gauge(&self, name: &str) -> Option<f64> {
        self.get(name).map(f64::from_bits)
    }
}

struct Times(Arc<AtomicU64>);

impl HistogramFn for Times {
    fn record(&self, seconds: f64) {
        assert!((0.0..60.0).contains(&seconds), "{seconds}");
        self.0.fetch_add(1, Relaxed);
    }
}

struct Installed(&'static Keeps);

impl Recorder for Installed {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.0.place(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.0.place(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Times(self.0.place(key))))
    }
}

/// The recorder of this process. The tests take turns at it.
fn recorder() -> std::sync::MutexGuard<'static, &'static Keeps> {
    static KEEPS: OnceLock<Mutex<&'static Keeps>> = OnceLock::new();
    let keeps = KEEPS.get_or_init(|| {
        let keeps: &Keeps = Box::leak(Box::default());
        metrics::set_global_recorder(Installed(keeps)).expect("the first");
        Mutex::new(keeps)
    });
    let keeps = keeps.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    keeps.0.lock().unwrap().clear();
    keeps
}

const OFTEN: Duration = Duration::from_millis(1);

fn spawn_ten(runtime: &Runtime) {
    for _ in 0..10 {
        runtime.block_on(runtime.spawn(async {})).unwrap();
    }
}

#[test]
fn counters_count_on_through_a_second_runtime() {
    let _watchdog = watchdog();
    let keeps = recorder();
    let first = runtime(2);
    first.handle().publish_metrics_every(OFTEN).unwrap();
    spawn_ten(&first);
    // The publisher is a task too, and writes one number after the other.
    until(|| keeps.get("filch_tasks_completed_total") == Some(10));
    until(|| keeps.get("filch_tasks_spawned_total") == Some(11));
    until(|| keeps.gauge("filch_tasks_live") == Some(1.0));
    until(|| keeps.gauge("filch_worker_online worker=0") == Some(1.0));
    until(|| keeps.sum("filch_worker_polls_total worker=") >= 21);
    until(|| keeps.gauge("filch_worker_busy_seconds_total worker=0").is_some());
    drop(first);
    let second = runtime(2);
    second.handle().publish_metrics_every(OFTEN).unwrap();
    spawn_ten(&second);
    until(|| keeps.get("filch_tasks_spawned_total") == Some(22));
}

#[test]
fn a_shutdown_does_not_wait_for_it_nor_does_it_survive() {
    let _watchdog = watchdog();
    let _keeps = recorder();
    let runtime = runtime(1);
    let handle = *runtime.handle();
    let publisher = handle.publish_metrics_every(Duration::from_secs(3_600)).unwrap();
    assert_eq!(handle.tasks().iter().filter(|task| task.name == Some("filch metrics")).count(), 1);
    publisher.abort();
    until(|| handle.tasks().is_empty());
    handle.publish_metrics_every(Duration::from_secs(3_600)).unwrap();
    assert_eq!(runtime.shutdown(Duration::MAX).len(), 0);
    assert_eq!(handle.publish_metrics_every(OFTEN).unwrap_err(), SpawnErrorKind::Shutdown);
}

#[cfg(feature = "observe")]
#[test]
fn histograms_get_each_time_once() {
    let _watchdog = watchdog();
    let keeps = recorder();
    let runtime = Runtime::builder().workers(1).class_metrics(true).build().unwrap();
    runtime.handle().publish_metrics_every(OFTEN).unwrap();
    spawn_ten(&runtime);
    until(|| keeps.get("filch_class_polls_seconds class=normal") == Some(10));
    let published = || keeps.get("filch_class_polls_seconds class=background");
    // The publisher's own.
    until(|| published().is_some_and(|n| n > 5));
    assert_eq!(keeps.get("filch_class_polls_seconds class=normal"), Some(10));
    assert_eq!(keeps.get("filch_class_waits_seconds class=urgent"), Some(0));
}
