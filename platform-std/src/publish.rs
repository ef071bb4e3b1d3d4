//! A runtime's figures for the facade `metrics`.

use core::time::Duration;

use filch::{AbortHandle, Class, SpawnErrorKind, TaskOptions};
use metrics::{Key, Label, Level, Metadata, Unit};

use crate::{
    context::Handle,
    figures::{Family, Kind, Value},
    metrics::Metrics,
    panics::lock,
};

const METADATA: Metadata<'static> = Metadata::new("filch", Level::INFO, Some(module_path!()));

/// See [`Handle::publish_metrics_every`].
pub(crate) fn publish_every(here: Handle, period: Duration) -> Result<AbortHandle, SpawnErrorKind> {
    assert!(period > Duration::ZERO, "a period of zero");
    here.check()?;
    let publishes = async move {
        let mut ticks = here.0.timers.interval(period);
        let mut before = Metrics::default();
        let first = here.0.metrics();
        first.families(&first).iter().for_each(describe);
        loop {
            ticks.tick().await;
            let now = here.0.metrics();
            now.since(&before).families(&now).iter().for_each(publish);
            before = now;
        }
    };
    let options = TaskOptions::new().name("filch metrics").class(Class::Background);
    // A shutdown comes before this, or finds the task.
    let mut publishers = lock(here.0.core.publishers());
    let publishers = publishers.as_mut().ok_or(SpawnErrorKind::Shutdown)?;
    let task = here.spawn_with(options, publishes).map_err(|refused| refused.kind)?;
    let (Ok(theirs), Ok(ours)) = (task.abort_handle(), task.abort_handle()) else {
        unreachable!("a new task has few references");
    };
    publishers.push(ours);
    task.detach();
    Ok(theirs)
}

/// The name of a family as exporters to Prometheus want it.
fn name(family: &Family) -> String {
    let unit = if family.is_seconds { "_seconds" } else { "" };
    let total = if family.kind == Kind::Counter { "_total" } else { "" };
    format!("{}{unit}{total}", family.name)
}

fn describe(family: &Family) {
    let unit = family.is_seconds.then_some(Unit::Seconds);
    let (name, help) = (name(family).into(), family.help.into());
    metrics::with_recorder(|recorder| match family.kind {
        Kind::Counter if !family.is_seconds => recorder.describe_counter(name, unit, help),
        Kind::Counter | Kind::Gauge => recorder.describe_gauge(name, unit, help),
        Kind::Histogram => recorder.describe_histogram(name, unit, help),
    });
}

/// What has come of a family since the last time, and how it is now.
fn publish(family: &Family) {
    let name = name(family);
    metrics::with_recorder(|recorder| {
        for (label, value) in &family.figures {
            let labels: Vec<_> =
                label.iter().map(|(key, of)| Label::new(*key, of.clone())).collect();
            let key = Key::from_parts(name.clone(), labels);
            match (family.kind, value) {
                (Kind::Counter, Value::Number(n)) => {
                    recorder.register_counter(&key, &METADATA).increment(*n);
                }
                (Kind::Counter, Value::Seconds(s)) => {
                    recorder.register_gauge(&key, &METADATA).increment(*s);
                }
                (_, Value::Number(n)) => recorder.register_gauge(&key, &METADATA).set(*n as f64),
                (_, Value::Seconds(s)) => recorder.register_gauge(&key, &METADATA).set(*s),
                (_, Value::Times(_, times)) => {
                    let histogram = recorder.register_histogram(&key, &METADATA);
                    for (end, n) in times {
                        histogram.record_many(end.as_secs_f64(), *n as usize);
                    }
                }
            }
        }
    });
}
