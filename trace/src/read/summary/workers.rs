//! What the workers did with their time.

use std::{collections::BTreeMap, format, string::String, vec, vec::Vec};

use super::{super::story::Doing, Section, Share, View};

/// Of one worker.
#[derive(Default)]
struct Row {
    /// Since when its ring has all records.
    since: u64,
    busy: u64,
    asleep: u64,
    polls: usize,
    steals: usize,
    stolen: u64,
}

pub(super) fn sections(view: &View<'_>) -> Vec<Section> {
    // Spare workers have done nothing.
    let used =
        rows(view).into_iter().filter(|(_, row)| row.polls + row.steals > 0 || row.asleep > 0);
    let lines = used.map(|(worker, row)| line(view, worker, &row));
    vec![Section::new("Workers, since their rings begin", lines)]
}

fn rows(view: &View<'_>) -> BTreeMap<u16, Row> {
    let (begin, end) = view.story.span;
    let mut rows: BTreeMap<u16, Row> = BTreeMap::new();
    for lane in &view.trace.lanes {
        let Some(worker) = lane.worker else { continue };
        let first = lane.entries.iter().map(|entry| entry.time).min();
        let is_whole = lane.written <= lane.records;
        let since = first.filter(|_| !is_whole).unwrap_or(begin);
        rows.insert(worker, Row { since, ..Row::default() });
    }
    for poll in &view.story.polls {
        let Some(row) = poll.worker.and_then(|worker| rows.get_mut(&worker)) else { continue };
        row.polls += 1;
        // Polls on top of it are a part of it.
        if poll.depth == 0 {
            row.busy = row.busy.saturating_add(poll.end.unwrap_or(end).saturating_sub(poll.start));
        }
    }
    for sleep in &view.story.sleeps {
        let Some(row) = rows.get_mut(&sleep.worker) else { continue };
        let nanos = sleep.end.unwrap_or(end).saturating_sub(sleep.start);
        row.asleep = row.asleep.saturating_add(nanos);
    }
    for done in &view.story.log {
        let Doing::Steal { tasks, .. } = done.what else { continue };
        let Some(row) = done.worker.and_then(|worker| rows.get_mut(&worker)) else { continue };
        row.steals += 1;
        row.stolen = row.stolen.saturating_add(tasks);
    }
    rows
}

fn line(view: &View<'_>, worker: u16, row: &Row) -> String {
    let whole = view.story.span.1.saturating_sub(row.since);
    let Row { busy, asleep, polls, steals, stolen, .. } = *row;
    let (busy, asleep) = (Share(busy, whole), Share(asleep, whole));
    format!(
        "worker {worker:<5} busy {busy:>7}  asleep {asleep:>7}  {polls:>7} polls  {steals} steals of {stolen} tasks"
    )
}
