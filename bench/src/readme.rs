//! The table in the README, made from the file of figures.

use core::fmt::Write;
use std::{fs, io, path::Path};

use crate::{
    catalogue,
    goals::{self, Bound, Goal},
    peers::FILCH,
    report::Line,
    table::number,
};

const BEGIN: &str = "<!-- bench: made by filch-bench -->\n";
const END: &str = "<!-- /bench -->";
/// The suffix of a peer's name that was measured with another allocator.
const MIMALLOC: &str = "+mimalloc";

/// Replaces the table between the two marks of a text file; the rest stays as it is.
pub(crate) fn update(path: &Path, lines: &[Line]) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let marks = text.split_once(BEGIN).and_then(|(head, rest)| {
        let (_, tail) = rest.split_once(END)?;
        Some((head, tail))
    });
    let Some((head, tail)) = marks else {
        let message = format!("{} has no lines {BEGIN}and {END}", path.display());
        return Err(io::Error::other(message));
    };
    fs::write(path, format!("{head}{BEGIN}{}{END}{tail}", table(lines)))
}

/// A line for each goal that has a figure.
fn table(lines: &[Line]) -> String {
    let mut rows: Vec<(&str, usize)> = Vec::new();
    for line in lines {
        let row = (line.workload.as_str(), line.workers);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    // Writing to a string cannot fail.
    let mut text =
        String::from("| workload | workers | filch | allocations | tokio | best peer | lead |");
    let mimalloc = lines.iter().any(|line| line.peer.ends_with(MIMALLOC));
    let _ = writeln!(text, "{}", if mimalloc { " with mimalloc |" } else { "" });
    let _ = writeln!(text, "|---|---|---|---|---|---|---|{}", if mimalloc { "---|" } else { "" });
    for (workload, workers) in rows {
        for goal in goals::of(workload, workers) {
            let Some(row) = row(lines, goal, workers, mimalloc) else { continue };
            let _ = writeln!(text, "{row}");
        }
    }
    text
}

fn row(lines: &[Line], goal: &Goal, workers: usize, mimalloc: bool) -> Option<String> {
    let group = Group { lines, goal, workers, suffix: "" };
    let ours = group.find(FILCH)?;
    let with_unit = |line: &Line| format!("{} {}", number(line.median), line.unit);
    let tokio = group.find("tokio").map_or_else(String::new, with_unit);
    let best = group.best();
    let best =
        best.map_or_else(String::new, |(_, line)| format!("{} {}", line.peer, with_unit(line)));
    let mimalloc = if mimalloc {
        format!(" {} |", Group { suffix: MIMALLOC, ..group }.lead())
    } else {
        String::new()
    };
    Some(format!(
        "| {} {} | {workers} | {} | {} | {tokio} | {best} | {} |{mimalloc}",
        goal.workload,
        goal.metric,
        with_unit(ours),
        ours.allocs_per_op.map_or_else(String::new, number),
        group.lead(),
    ))
}

/// The figures of a goal's metric with one allocator.
#[derive(Clone, Copy)]
struct Group<'a> {
    lines: &'a [Line],
    goal: &'a Goal,
    workers: usize,
    suffix: &'a str,
}

impl<'a> Group<'a> {
    /// The figures, and the peer of each.
    fn all(self) -> impl Iterator<Item = (&'a str, &'a Line)> {
        self.lines.iter().filter_map(move |line| {
            let is_it = line.workload == self.goal.workload
                && line.metric == self.goal.metric
                && line.workers == self.workers;
            let peer = line.peer.strip_suffix(self.suffix)?;
            (is_it && !peer.contains('+')).then_some((peer, line))
        })
    }

    fn find(self, peer: &str) -> Option<&'a Line> {
        self.all().find(|(name, _)| *name == peer).map(|(_, line)| line)
    }

    /// The peer over which filch has the smallest lead, and that lead.
    fn best(self) -> Option<(f64, &'a Line)> {
        let ours = self.find(FILCH)?.median;
        let lower_wins = matches!(self.goal.bound, Bound::AtMost(_) | Bound::OfPeer(..));
        let lead = |theirs: f64| if lower_wins { theirs / ours } else { ours / theirs };
        self.all()
            .filter(|(name, _)| catalogue::is_rival(name))
            .map(|(_, line)| (lead(line.median), line))
            .min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn lead(self) -> String {
        match self.best() {
            Some((lead, _)) if lead.is_nan() => "level".into(),
            Some((lead, _)) => format!("x {lead:.2}"),
            None => String::new(),
        }
    }
}
