//! Tasks: by their names, and those that rest for long.

use core::cmp::Reverse;
use std::{collections::HashSet, format, string::String, vec, vec::Vec};

use super::{super::story::Task, Nanos, Section, Share, TOP, View};

pub(super) fn sections(view: &View<'_>) -> Vec<Section> {
    [kinds(view), resting(view)].into()
}

/// Of all tasks with one name.
#[derive(Clone, Default)]
struct Row {
    tasks: usize,
    polls: usize,
    busy: u64,
    longest: u64,
}

fn kinds(view: &View<'_>) -> Section {
    let mut rows = vec![Row::default(); view.kinds.len()];
    for (i, task) in view.story.tasks.iter().enumerate() {
        let row = &mut rows[view.kind(i)];
        row.tasks += 1;
        row.polls += task.polls;
        row.busy = row.busy.saturating_add(task.busy);
    }
    for poll in view.story.polls.iter().filter(|poll| !poll.cut) {
        let row = &mut rows[view.kind(poll.task)];
        let nanos = poll.end.unwrap_or(view.story.span.1).saturating_sub(poll.start);
        row.longest = row.longest.max(nanos);
    }
    let mut rows: Vec<_> = rows.into_iter().enumerate().filter(|(_, row)| row.tasks > 0).collect();
    rows.sort_by_key(|(kind, row)| (Reverse(row.busy), *kind));
    let all = rows.iter().fold(0_u64, |all, (_, row)| all.saturating_add(row.busy));
    let line = |(kind, row): (usize, Row)| {
        let (busy, share, longest) = (Nanos(row.busy), Share(row.busy, all), Nanos(row.longest));
        let (tasks, polls, name) = (row.tasks, row.polls, &view.kinds[kind]);
        format!(
            "{busy:>8} {share:>7}  {polls:>7} polls, longest {longest:>8}  {tasks:>6} tasks  {name}"
        )
    };
    Section::new("Tasks by name, by the time in their polls", rows.into_iter().map(line))
}

/// When something was last seen to wake the task, if that is recorded.
fn last_wake(task: &Task) -> Option<u64> {
    let times = [task.woken, task.spawned].map(|seen| seen.map(|(time, _)| time));
    times.into_iter().flatten().max()
}

/// Tasks that live and wait for a wake. One of which the waker is lost is among those that wait longest.
fn resting(view: &View<'_>) -> Section {
    let mut tasks: Vec<_> = view.story.tasks.iter().enumerate().collect();
    if view.trace.tasks.is_empty() {
        // The trace does not say which live: those that have begun to, and not ended, by its records.
        let busy = busy(view);
        tasks.retain(|(i, task)| {
            task.spawned.is_some() && task.ended.is_none() && !busy.contains(i)
        });
    } else {
        tasks.retain(|(_, task)| task.alive && !task.scheduled);
    }
    // None comes first.
    tasks.sort_by_key(|(_, task)| last_wake(task));
    let line = |(i, task): &(usize, &Task)| {
        let text = match last_wake(task) {
            Some(time) => format!("for {}", Nanos(view.story.span.1.saturating_sub(time))),
            None => "in no record".into(),
        };
        format!("{text:>14}  {}{}", view.task(*i), last_waker(view, task))
    };
    let title = "Tasks that live and rest, by their last wakes: is a waker lost?";
    Section::first(title, tasks.len(), tasks.iter().take(TOP).map(line))
}

/// The tasks that wait for a worker, or are being polled, at the end.
fn busy(view: &View<'_>) -> HashSet<usize> {
    let waits = view.story.waits.iter().filter(|wait| wait.end.is_none() && !wait.lost);
    let polls = view.story.polls.iter().filter(|poll| poll.end.is_none());
    waits.map(|wait| wait.task).chain(polls.map(|poll| poll.task)).collect()
}

fn last_waker(view: &View<'_>, task: &Task) -> String {
    match (task.woken, task.spawned) {
        (Some((_, by)), _) => format!(", last woken by {}", view.trace.by(view.story, by)),
        (None, Some((_, by))) => format!(", spawned by {}", view.trace.by(view.story, by)),
        (None, None) => String::new(),
    }
}
