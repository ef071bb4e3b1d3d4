//! The printed table.

use crate::{
    catalogue::Row,
    limits::Limits,
    rounds::{Metric, Summary},
};

pub(crate) fn print(row: &Row, summaries: &[Summary], limits: &Limits) {
    let limit = limits.of(row).map_or_else(String::new, |limit| {
        format!("; {}: {} ns", limit.name.replace('_', " "), number(limit.median))
    });
    println!("\n{}, W = {}{limit}", row.workload, row.workers);
    for line in aligned(&cells(summaries)) {
        println!("  {line}");
    }
}

/// Whether the spread of a metric is shown: that of a metric that accompanies another is only in
/// the file.
fn has_spread(metric: &Metric) -> bool {
    !["cpu", "switches", "futex"].contains(&metric.name.as_str())
}

/// A heading, then a line for each peer.
fn cells(summaries: &[Summary]) -> Vec<Vec<String>> {
    let mut heading = vec!["peer".to_owned()];
    for metric in summaries.iter().take(1).flat_map(|summary| &summary.metrics) {
        heading.push(format!("{} {}", metric.name, metric.unit));
        if has_spread(metric) {
            heading.push("(min to max)".into());
        }
        if metric.allocs_per_op.is_some() {
            heading.extend(["allocs/op".into(), "B/op".into()]);
        }
    }
    let line = |summary: &Summary| {
        let mut line = vec![summary.name()];
        for metric in &summary.metrics {
            line.push(number(metric.median));
            if has_spread(metric) {
                line.push(format!("({} to {})", number(metric.min), number(metric.max)));
            }
            line.extend(metric.allocs_per_op.map(number));
            line.extend(metric.bytes_per_op.map(number));
        }
        line
    };
    core::iter::once(heading).chain(summaries.iter().map(line)).collect()
}

/// The first column to the left, the others to the right.
fn aligned(cells: &[Vec<String>]) -> Vec<String> {
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        cells.iter().filter_map(|line| line.get(at)).map(|cell| cell.len()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| {
            if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    cells.iter().map(line).collect()
}

/// A number with three significant digits.
pub(crate) fn number(n: f64) -> String {
    match n.abs() {
        n if n < 0.0005 => "0".into(),
        n if n < 1.0 => format!("{n:.3}"),
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 100.0 => format!("{n:.1}"),
        _ => format!("{n:.0}"),
    }
}
