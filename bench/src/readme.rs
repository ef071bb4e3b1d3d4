//! The tables of bench/README.md and README.md, made from the file of figures.

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

/// The rows that README.md shows, and what each measures there.
const CHOSEN: &[(&str, &str)] = &[
    ("spawn_join_inside time", "a task spawns an empty task and awaits it"),
    ("yield_many time", "one `yield_now`, with 1,000 tasks"),
    ("ping_pong time", "two tasks are spawned and send each other a message"),
    ("timer_lateness p99", "how late a timer fires, p99"),
    ("mem_per_task heap", "heap of a pending task whose future has 48 bytes"),
    ("fork_fib added", "a fork and join, beyond a plain call"),
    ("http_hello rate", "hyper, 64 connections: requests"),
    ("tcp_echo_64 p99", "TCP echo, 64 connections: delay, p99"),
];
/// The number of workers of those rows.
const WORKERS: &str = "2";

/// Puts all rows into `bench/README.md` below a folder, and the chosen ones into its `README.md`.
pub(crate) fn update(folder: &Path, lines: &[Line]) -> io::Result<()> {
    let all = table(lines);
    let chosen = chosen(&all).map_err(io::Error::other)?;
    put(&folder.join("bench/README.md"), &all)?;
    put(&folder.join("README.md"), &chosen)
}

/// Puts a table between the two marks of a text file, and leaves the rest as it is.
fn put(path: &Path, table: &str) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let Some((head, _, tail)) = split(&text) else {
        let message = format!("{} has no lines {BEGIN}and {END}", path.display());
        return Err(io::Error::other(message));
    };
    fs::write(path, format!("{head}{BEGIN}{table}{END}{tail}"))
}

/// What stands before, between and behind the two marks.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = text.split_once(BEGIN)?;
    let (table, tail) = rest.split_once(END)?;
    Some((head, table, tail))
}

/// The chosen rows of the table of all rows, with fewer columns.
fn chosen(all: &str) -> Result<String, String> {
    let mut text = String::from("| two workers | filch | tokio | best peer | lead |\n");
    text.push_str("|---|---|---|---|---|\n");
    for (row, what) in CHOSEN {
        let cells = all
            .lines()
            .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
            .find(|cells| cells.get(1) == Some(row) && cells.get(2) == Some(&WORKERS));
        let Some([_, _, _, ours, _, tokio, best, lead, ..]) = cells.as_deref() else {
            return Err(format!("no figures of {row} with {WORKERS} workers"));
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {what} | {ours} | {tokio} | {best} | {lead} |");
    }
    Ok(text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_rows_of_the_table() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let table = |path: &str| {
            let text = fs::read_to_string(root.join(path)).unwrap();
            split(&text).expect("two marks").1.to_owned()
        };
        assert_eq!(table("README.md"), chosen(&table("bench/README.md")).unwrap());
    }

    #[test]
    fn a_chosen_row_without_figures_is_an_error() {
        let error = chosen("| yield_many time | 1 | 16.4 ns |\n").unwrap_err();
        assert_eq!(error, "no figures of spawn_join_inside time with 2 workers");
    }
}
