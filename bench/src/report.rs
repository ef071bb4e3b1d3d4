//! The file of all figures.

use serde::{Deserialize, Serialize};

use crate::{catalogue::Row, limits::Limits, rounds::Summary};

/// One figure of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) workload: String,
    pub(crate) peer: String,
    pub(crate) workers: usize,
    pub(crate) metric: String,
    pub(crate) unit: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) allocs_per_op: Option<f64>,
    pub(crate) bytes_per_op: Option<f64>,
    /// What the machine itself takes for the most expensive operation that the workload cannot
    /// avoid, in nanoseconds.
    pub(crate) limit: Option<f64>,
}

/// The lines of a row.
pub(crate) fn lines(row: &Row, summaries: &[Summary], limits: &Limits) -> Vec<Line> {
    let limit = limits.of(row).map(|limit| limit.median);
    let lines = summaries.iter().flat_map(|summary| {
        summary.metrics.iter().map(move |metric| Line {
            workload: row.workload.into(),
            peer: summary.name(),
            workers: row.workers,
            metric: metric.name.clone(),
            unit: metric.unit.clone(),
            median: metric.median,
            min: metric.min,
            max: metric.max,
            allocs_per_op: metric.allocs_per_op,
            bytes_per_op: metric.bytes_per_op,
            limit,
        })
    });
    lines.collect()
}

/// A list, one figure on each line.
pub(crate) fn to_json(lines: &[Line]) -> serde_json::Result<String> {
    let lines: Vec<String> = lines.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(format!("[\n{}\n]\n", lines.join(",\n")))
}

/// The figures of a file.
pub(crate) fn from_json(text: &str) -> serde_json::Result<Vec<Line>> {
    serde_json::from_str(text)
}
