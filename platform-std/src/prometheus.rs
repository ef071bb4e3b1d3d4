//! A runtime's figures for Prometheus, by the crate `prometheus-client`.
//!
//! ```
//! let runtime = filch_std::Runtime::builder().workers(1).build()?;
//! runtime.block_on(runtime.spawn(async {}))?;
//! let text = runtime.handle().prometheus_text();
//! assert!(text.contains("filch_tasks_spawned_total 1\n"));
//! // An HTTP server answers with this text, and with `filch_std::prometheus::CONTENT_TYPE`.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use core::{fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{Registry, Unit},
};

use crate::{
    context::Handle,
    figures::{Kind, Value},
};

/// The media type of [`Handle::prometheus_text`]: OpenMetrics 1.0, which Prometheus reads.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The figures of a runtime, for a registry of the program's own. Cost: each time the registry is encoded, [`Handle::metrics`].
///
/// ```
/// use filch_std::prometheus::RuntimeCollector;
/// use prometheus_client::{encoding::text::encode, registry::Registry};
/// let runtime = filch_std::Runtime::builder().workers(1).build()?;
/// let mut registry = Registry::default();
/// registry.register_collector(Box::new(RuntimeCollector::new(*runtime.handle())));
/// // The program's own metrics, and then:
/// let mut text = String::new();
/// encode(&mut text, &registry)?;
/// assert!(text.contains("filch_tasks_live 0\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Two runtimes in one registry are told apart by a label each: see the registry's own documentation on registries below it.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeCollector(Handle);

impl RuntimeCollector {
    /// That of the runtime of this handle.
    pub fn new(runtime: Handle) -> Self {
        Self(runtime)
    }
}

impl Collector for RuntimeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = self.0.0.metrics();
        for family in metrics.families(&metrics) {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let unit = family.is_seconds.then_some(Unit::Seconds);
            let (name, help) = (family.name, family.help);
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for (label, value) in &family.figures {
                match label {
                    Some((key, of)) => {
                        let labels = [(*key, of.as_str())];
                        put(&mut metric.encode_family(&labels)?, family.kind, value)?;
                    }
                    None => put(&mut metric, family.kind, value)?,
                }
            }
        }
        Ok(())
    }
}

fn put(metric: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    match (kind, value) {
        (Kind::Counter, Value::Number(n)) => metric.encode_counter::<NoLabelSet, _, u64>(n, None),
        (Kind::Counter, Value::Seconds(s)) => metric.encode_counter::<NoLabelSet, _, u64>(s, None),
        (_, Value::Number(n)) => metric.encode_gauge(n),
        (_, Value::Seconds(s)) => metric.encode_gauge(s),
        (_, Value::Times(sum, times)) => {
            let count = times.iter().map(|(_, n)| n).sum();
            let (sum, buckets) = (sum.as_secs_f64(), coarse(times));
            metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        }
    }
}

/// Buckets up to 1 us, 4 us and so on to 17 s, in binary: the ends of the histogram's own are among them. Prometheus wants the same ones
/// each time, and few.
fn coarse(times: &[(Duration, u64)]) -> Vec<(f64, u64)> {
    let ends = (10..=34).step_by(2).map(|log| Duration::from_nanos(1 << log));
    let mut buckets: Vec<_> = ends.map(|end| (end, 0)).collect();
    let mut longer = 0;
    for (end, n) in times {
        match buckets.iter_mut().find(|(most, _)| end <= most) {
            Some((_, count)) => *count += n,
            None => longer += n,
        }
    }
    let buckets = buckets.into_iter().map(|(end, n)| (end.as_secs_f64(), n));
    buckets.chain([(f64::INFINITY, longer)]).collect()
}

/// See [`Handle::prometheus_text`].
pub(crate) fn text_of(here: Handle) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(RuntimeCollector::new(here)));
    let mut out = String::with_capacity(8_192);
    // Writing to a string cannot fail.
    let _ = text::encode(&mut out, &registry);
    out
}
