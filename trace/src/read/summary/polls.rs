//! Polls: those under way, the longest, those that were reported.

use core::cmp::Reverse;
use std::{collections::HashMap, format, string::String, vec::Vec};

use super::{
    super::{
        label::{Nanos, context},
        story::{Doing, Poll},
    },
    Section, TOP, View, percentiles,
};

pub(super) fn sections(view: &View<'_>) -> Vec<Section> {
    [running(view), longest(view), lengths(view), reports(view)].into()
}

/// How long a poll took, up to the end of the trace.
fn length(view: &View<'_>, poll: &Poll) -> u64 {
    poll.end.unwrap_or(view.story.span.1).saturating_sub(poll.start)
}

fn line(view: &View<'_>, poll: &Poll) -> String {
    let length = Nanos(length(view, poll));
    let start = view.since_begin(poll.start);
    let inner = if poll.depth > 0 { ", in another poll" } else { "" };
    let worker = context(poll.worker);
    format!("{length:>8}  {worker:<9}  {start:>9}  {}{inner}", view.task(poll.task))
}

/// Polls that have not ended: a worker that is stuck is in one of them.
fn running(view: &View<'_>) -> Section {
    let mut polls: Vec<_> = view.story.polls.iter().filter(|poll| poll.end.is_none()).collect();
    polls.sort_by_key(|poll| Reverse(length(view, poll)));
    Section::new("Still under way at the end", polls.into_iter().map(|poll| line(view, poll)))
}

fn longest(view: &View<'_>) -> Section {
    let mut polls: Vec<_> = view.story.polls.iter().filter(|poll| !poll.cut).collect();
    polls.sort_by_key(|poll| Reverse(length(view, poll)));
    let mark = |poll: &Poll| if poll.end.is_none() { ", still under way" } else { "" };
    let lines = polls.iter().map(|poll| format!("{}{}", line(view, poll), mark(poll)));
    Section::first("Longest polls", polls.len(), lines)
}

/// How long polls, and waits for them, took.
fn lengths(view: &View<'_>) -> Section {
    let whole = view.story.polls.iter().filter(|poll| !poll.cut && poll.end.is_some());
    let mut lengths: Vec<_> = whole.map(|poll| length(view, poll)).collect();
    lengths.sort_unstable();
    let polls = percentiles("polls", &lengths);
    let delays = percentiles("from wake to poll", &view.story.delays());
    Section::new("Times", polls.into_iter().chain(delays))
}

/// What the scheduler said of long polls, deadlines and panics.
fn reports(view: &View<'_>) -> Section {
    let mut polling: HashMap<_, Vec<_>> = HashMap::new();
    let mut lines = Vec::new();
    let mut all = 0;
    for done in &view.story.log {
        let begun = polling.entry(done.worker).or_default();
        let report = match done.what {
            Doing::Poll(poll) => {
                begun.push(Some(poll));
                continue;
            }
            Doing::Sleep(_) => {
                begun.push(None);
                continue;
            }
            Doing::End => {
                begun.pop();
                continue;
            }
            Doing::LongPoll { worker, nanos } => {
                let poll = polling.get(&Some(worker)).and_then(|begun| begun.last()).copied();
                long_poll(view, worker, nanos, poll.flatten())
            }
            Doing::Late { task, nanos } => {
                format!("{} later than its deadline: {}", Nanos(nanos), view.task(task))
            }
            Doing::Panic(task) => format!("panic: {}", view.task(task)),
            Doing::Wait(_) | Doing::Steal { .. } => continue,
        };
        all += 1;
        if lines.len() < TOP {
            lines.push(format!("{:>9}  {report}", view.since_begin(done.time)));
        }
    }
    Section::first("Reports of long polls, missed deadlines and panics", all, lines)
}

fn long_poll(view: &View<'_>, worker: u16, nanos: u64, poll: Option<usize>) -> String {
    let task = poll.map_or("an unknown task".into(), |poll| view.task(view.story.polls[poll].task));
    format!("worker {worker} is in one poll for {} at least: {task}", Nanos(nanos))
}
