//! Waits for a worker: the longest, and what ended the rests before them.

use core::cmp::Reverse;
use std::{collections::HashMap, format, string::String, vec::Vec};

use super::{
    super::story::{Cause, Wait},
    Nanos, Section, TOP, View,
};

pub(super) fn sections(view: &View<'_>) -> Vec<Section> {
    [longest(view), wakers(view)].into()
}

fn longest(view: &View<'_>) -> Section {
    let length = |wait: &Wait| wait.end.unwrap_or(view.story.span.1).saturating_sub(wait.start);
    let mut waits: Vec<_> = view.story.waits.iter().filter(|wait| !wait.lost).collect();
    waits.sort_by_key(|wait| Reverse(length(wait)));
    let line = |wait: &&Wait| {
        let (nanos, start) = (Nanos(length(wait)), view.since_begin(wait.start));
        let how = if wait.spawn { "spawned" } else { "woken" };
        let by = view.trace.by(view.story, wait.by);
        let mark = if wait.end.is_none() { "; still waits" } else { "" };
        format!("{nanos:>8}  {start:>9}  {}, {how} by {by}{mark}", view.task(wait.task))
    };
    Section::first("Longest waits for a worker", waits.len(), waits.iter().take(TOP).map(line))
}

/// What wakes, by kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Waker {
    Kind(usize),
    Again,
    Worker,
    Outside,
}

/// Which kind of tasks woke which, how often.
fn wakers(view: &View<'_>) -> Section {
    let mut pairs: HashMap<(Waker, usize), u64> = HashMap::new();
    for wait in view.story.waits.iter().filter(|wait| !wait.spawn) {
        let waker = match wait.by {
            Cause::Task(task) => Waker::Kind(view.kind(task)),
            Cause::Again => Waker::Again,
            Cause::Worker(_) => Waker::Worker,
            Cause::Outside => Waker::Outside,
        };
        *pairs.entry((waker, view.kind(wait.task))).or_default() += 1;
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(pair, count)| (Reverse(*count), *pair));
    let line = |((waker, kind), count): &((Waker, usize), u64)| {
        format!("{count:>8}  {} -> {}", name(view, *waker), view.kinds[*kind])
    };
    Section::first("Wakes, by waker and woken", pairs.len(), pairs.iter().take(TOP).map(line))
}

fn name(view: &View<'_>, waker: Waker) -> String {
    match waker {
        Waker::Kind(kind) => view.kinds[kind].clone(),
        Waker::Again => "its own poll".into(),
        Waker::Worker => "a worker, outside of polls".into(),
        Waker::Outside => "a context that is no worker".into(),
    }
}
