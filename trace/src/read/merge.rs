//! The records of all rings, in one order.

use core::cmp::Reverse;
use std::{
    collections::{BinaryHeap, HashMap, HashSet, VecDeque},
    vec::Vec,
};

use super::{Entry, Lane, Trace, What};

/// A record's time is too early by less than this: workers may read the clock for one of several events, and anew after a tick.
const SLACK: u64 = 5_000_000;
/// Entries with one time, at most, among which the one is looked for that has another.
const ONE_TIME: usize = 256;
/// Records of one task that are looked at for one of another ring.
const LOOKED_AT: usize = 4;

/// A record, and the ring that it was in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) worker: Option<u16>,
    pub(super) time: u64,
    pub(super) what: What,
}

/// A ring under way.
struct Ring {
    worker: Option<u16>,
    /// In the order of their times.
    entries: Vec<Entry>,
    /// The first that has not been taken.
    next: usize,
    /// What is taken later happened no earlier.
    floor: u64,
    /// The next entry has waited for what comes before it.
    waited: bool,
}

/// A record to come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    time: u64,
    task: u64,
    ring: usize,
    entry: usize,
}

/// Records to come, by task, in the order of their times.
struct Coming(HashMap<u64, VecDeque<Record>>);

/// What all rings have, in the order of the times, with two exceptions: a poll comes after the wake that leads to it, and a wake after the
/// poll that the one before it has led to. What is recorded as somewhat earlier has the time of that.
pub(super) fn steps(trace: &Trace) -> Vec<Step> {
    let mut rings: Vec<Ring> = trace.lanes.iter().map(Ring::new).collect();
    let mut wakes = Coming::new(&rings, readied);
    let mut polls = Coming::new(&rings, polled);
    let complete_since = trace.lanes.iter().zip(&rings).filter_map(since).max().unwrap_or(0);
    let first = |(i, ring): (usize, &Ring)| Some(Reverse((ring.entries.first()?.time, false, i)));
    let mut heap: BinaryHeap<_> = rings.iter().enumerate().filter_map(first).collect();
    let mut ready = HashSet::new();
    let mut steps = Vec::new();
    while let Some(Reverse((_, _, i))) = heap.pop() {
        let Entry { time, what } = rings[i].entries[rings[i].next];
        let elsewhere = |it: &Record| it.ring != i && it.time >= time;
        let before = match what {
            What::PollStart { task } if !ready.contains(&task) => {
                wakes.first(&rings, task, elsewhere)
            }
            What::Wake { task } if ready.contains(&task) => polls.first(&rings, task, elsewhere),
            What::Wake { task } => overtaken(&mut wakes, &mut polls, &rings, i, task),
            _ => None,
        };
        let waits_for = |before: &Record| {
            !rings[i].waited
                && time >= complete_since
                && before.time <= rings[i].latest(rings[i].next)
        };
        if let Some(before) = before.filter(waits_for) {
            (rings[i].waited, rings[i].floor) = (true, rings[i].floor.max(before.time));
            heap.push(Reverse((rings[i].floor, true, i)));
            continue;
        }
        match what {
            What::Spawn { task, .. } | What::Wake { task } => drop(ready.insert(task)),
            What::PollStart { task } => drop(ready.remove(&task)),
            _ => {}
        }
        let ring = &mut rings[i];
        steps.push(Step { worker: ring.worker, time: time.max(ring.floor), what });
        (ring.next, ring.waited) = (ring.next + 1, false);
        if let Some(next) = ring.entries.get(ring.next) {
            heap.push(Reverse((next.time.max(ring.floor), false, i)));
        }
    }
    steps
}

impl Ring {
    fn new(lane: &Lane) -> Self {
        let mut entries = lane.entries.clone();
        // Stable: what happened at one time stays in order. A worker's are in order already, those of other contexts nearly so.
        entries.sort_by_key(|entry| entry.time);
        Self { worker: lane.worker, entries, next: 0, floor: 0, waited: false }
    }

    /// When an entry happened at the latest: then the clock was read for a later one.
    fn latest(&self, entry: usize) -> u64 {
        let rest = self.entries.get(entry..).unwrap_or_default();
        let Some(own) = rest.first() else { return u64::MAX };
        let mut later = rest.iter().take(ONE_TIME).map(|entry| entry.time);
        let latest = later.find(|time| *time != own.time).unwrap_or(u64::MAX);
        latest.min(own.time.saturating_add(SLACK))
    }
}

/// Since when a ring has all records, if some were overwritten.
fn since((lane, ring): (&Lane, &Ring)) -> Option<u64> {
    let first = ring.entries.first().filter(|_| lane.written > lane.records)?;
    Some(first.time)
}

/// The task that becomes ready.
fn readied(what: What) -> Option<u64> {
    match what {
        What::Spawn { task, .. } | What::Wake { task } => Some(task),
        _ => None,
    }
}

/// The task of which a poll begins.
fn polled(what: What) -> Option<u64> {
    match what {
        What::PollStart { task } => Some(task),
        _ => None,
    }
}

impl Coming {
    /// The records of which `task_of` names a task.
    fn new(rings: &[Ring], task_of: fn(What) -> Option<u64>) -> Self {
        let mut all = Vec::new();
        for (ring, Ring { entries, .. }) in rings.iter().enumerate() {
            for (entry, Entry { time, what }) in entries.iter().enumerate() {
                if let Some(task) = task_of(*what) {
                    all.push(Record { time: *time, task, ring, entry });
                }
            }
        }
        all.sort_unstable();
        let mut coming = HashMap::<_, VecDeque<_>>::new();
        for record in all {
            coming.entry(record.task).or_default().push_back(record);
        }
        Self(coming)
    }

    /// The task's first record that has not been taken, and is such a one.
    fn first(
        &mut self,
        rings: &[Ring],
        task: u64,
        is_such: impl Fn(&Record) -> bool,
    ) -> Option<Record> {
        let records = self.0.get_mut(&task)?;
        let is_taken = |it: &Record| it.entry < rings[it.ring].next;
        while records.front().is_some_and(is_taken) {
            records.pop_front();
        }
        records.iter().take(LOOKED_AT).find(|it| !is_taken(it) && is_such(it)).copied()
    }
}

/// Of a wake, which is the next of ring `i`, the poll in another ring that comes before it all the same: another wake led to that, which can be
/// no later than any poll that this one may lead to.
fn overtaken(
    wakes: &mut Coming,
    polls: &mut Coming,
    rings: &[Ring],
    i: usize,
    task: u64,
) -> Option<Record> {
    let other = wakes.first(rings, task, |it| it.ring != i)?;
    if other.time > rings[i].latest(rings[i].next) {
        return None;
    }
    let is_after = |it: &Record| it.ring == other.ring && it.entry > other.entry;
    let between = polls.first(rings, task, |it| !is_after(it));
    if between.is_some_and(|it| it.time <= rings[other.ring].latest(other.entry)) {
        return None;
    }
    polls.first(rings, task, is_after)
}
