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
/// Wakes of one task that are looked at for one of another ring.
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
    /// The next entry has waited for its wake.
    waited: bool,
}

/// A spawn or a wake to come: ring, entry, time.
type Wakes = HashMap<u64, VecDeque<(usize, usize, u64)>>;

/// What all rings have, in the order of the times, with one exception: a poll comes after the wake that leads to it. Where it is recorded as
/// somewhat earlier, its time is that of the wake.
pub(super) fn steps(trace: &Trace) -> Vec<Step> {
    let mut rings: Vec<Ring> = trace.lanes.iter().map(Ring::new).collect();
    let mut wakes = wakes(&rings);
    let complete_since = trace.lanes.iter().zip(&rings).filter_map(since).max().unwrap_or(0);
    let first = |(i, ring): (usize, &Ring)| Some(Reverse((ring.entries.first()?.time, false, i)));
    let mut heap: BinaryHeap<_> = rings.iter().enumerate().filter_map(first).collect();
    let mut ready = HashSet::new();
    let mut steps = Vec::new();
    while let Some(Reverse((_, _, i))) = heap.pop() {
        let Entry { time, what } = rings[i].entries[rings[i].next];
        match what {
            What::Spawn { task, .. } | What::Wake { task } => drop(ready.insert(task)),
            What::PollStart { task } if !ready.remove(&task) && !rings[i].waited => {
                let wake = coming(&mut wakes, &rings, i, task);
                let latest = || rings[i].latest().min(time.saturating_add(SLACK));
                if let Some(wake) = wake.filter(|wake| time >= complete_since && *wake <= latest())
                {
                    (rings[i].waited, rings[i].floor) = (true, rings[i].floor.max(wake));
                    heap.push(Reverse((rings[i].floor, true, i)));
                    continue;
                }
            }
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

    /// When the next entry happened at the latest: then the clock was read for a later one.
    fn latest(&self) -> u64 {
        let rest = self.entries.get(self.next..).unwrap_or_default();
        let Some(own) = rest.first() else { return u64::MAX };
        let mut later = rest.iter().take(ONE_TIME).map(|entry| entry.time);
        later.find(|time| *time != own.time).unwrap_or(u64::MAX)
    }
}

/// Since when a ring has all records, if some were overwritten.
fn since((lane, ring): (&Lane, &Ring)) -> Option<u64> {
    let first = ring.entries.first().filter(|_| lane.written > lane.records)?;
    Some(first.time)
}

fn wakes(rings: &[Ring]) -> Wakes {
    let mut all = Vec::new();
    for (i, ring) in rings.iter().enumerate() {
        for (j, entry) in ring.entries.iter().enumerate() {
            if let What::Spawn { task, .. } | What::Wake { task } = entry.what {
                all.push((entry.time, task, i, j));
            }
        }
    }
    all.sort_unstable();
    let mut wakes = Wakes::new();
    for (time, task, i, j) in all {
        wakes.entry(task).or_default().push_back((i, j, time));
    }
    wakes
}

/// The time of the task's first wake to come that is in another ring than this.
fn coming(wakes: &mut Wakes, rings: &[Ring], ring: usize, task: u64) -> Option<u64> {
    let wakes = wakes.get_mut(&task)?;
    let is_taken = |(i, j, _): &(usize, usize, u64)| *j < rings[*i].next;
    while wakes.front().is_some_and(is_taken) {
        wakes.pop_front();
    }
    let own = rings[ring].entries[rings[ring].next].time;
    let mut others = wakes.iter().take(LOOKED_AT).filter(|wake| wake.0 != ring && !is_taken(wake));
    others.find(|wake| wake.2 >= own).map(|wake| wake.2)
}
