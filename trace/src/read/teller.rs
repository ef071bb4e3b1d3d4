//! Puts a story together, record by record.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    vec::Vec,
};

use super::{
    Trace, What,
    merge::{self, Step},
    story::{Cause, Doing, Done, Poll, Sleep, Story, Task, Wait},
};

/// What is known in the midst of it. A ring is named by its worker.
#[derive(Default)]
pub(super) struct Teller {
    story: Story,
    /// The task that has this address now.
    at: HashMap<u64, usize>,
    /// The last poll of each task.
    latest: HashMap<usize, usize>,
    /// The waits that have not ended, by task.
    waiting: BTreeMap<usize, usize>,
    rings: BTreeMap<Option<u16>, Ring>,
    /// The tasks that are polled in each ring, by their addresses.
    polled: HashSet<(Option<u16>, u64)>,
}

/// What a worker is doing.
#[derive(Default)]
struct Ring {
    /// The polls under way, the innermost last.
    polls: Vec<Running>,
    /// A sleep, inside of all polls.
    sleep: Option<usize>,
    /// The task of the last poll that has ended, and whether nothing is recorded since.
    last: Option<(usize, bool)>,
}

/// A poll under way.
struct Running {
    /// Its place among the polls.
    poll: usize,
    /// Since when it is the innermost one.
    since: u64,
}

/// The story of a trace.
pub(super) fn story(trace: &Trace) -> Story {
    let steps = merge::steps(trace);
    let mut teller = Teller::default();
    steps.iter().for_each(|step| teller.tell(*step));
    let first = steps.first().map_or(trace.now, |step| step.time);
    let last = steps.last().map_or(trace.now, |step| step.time);
    teller.story.span = (first, last.max(trace.now));
    teller.live(trace);
    teller.forget(trace);
    teller.finish();
    teller.story
}

impl Teller {
    /// The task with this address, a new one if there was none.
    fn task(&mut self, address: u64) -> usize {
        match self.at.get(&address) {
            Some(task) => *task,
            None => self.new_task(address),
        }
    }

    fn new_task(&mut self, address: u64) -> usize {
        let task = self.story.tasks.len();
        self.story.tasks.push(Task { address, ..Task::default() });
        self.at.insert(address, task);
        task
    }

    fn ring(&mut self, worker: Option<u16>) -> &mut Ring {
        self.rings.entry(worker).or_default()
    }

    fn log(&mut self, worker: Option<u16>, time: u64, what: Doing) {
        self.story.log.push(Done { worker, time, what });
    }

    fn tell(&mut self, Step { worker, time, what }: Step) {
        match what {
            What::Spawn { task, name } => self.spawn(worker, time, task, name),
            What::Wake { task } => {
                let task = self.task(task);
                let by = self.cause(worker, task);
                self.story.tasks[task].woken = Some((time, by));
                self.wait(
                    worker,
                    Wait {
                        task,
                        start: time,
                        end: None,
                        by,
                        on: worker,
                        spawn: false,
                        lost: false,
                    },
                );
            }
            What::PollStart { task } => self.begin(worker, time, task),
            What::PollEnd { task } => return self.end(worker, time, task),
            What::End { task } => self.over(worker, time, task),
            What::Park => self.park(worker, time),
            What::Unpark => self.unpark(worker, time),
            What::Class { task, class } => {
                let task = self.task(task);
                self.story.tasks[task].class = class;
            }
            What::Steal { victim, tasks } => self.log(worker, time, Doing::Steal { victim, tasks }),
            What::LongPoll { worker: stuck, nanos } => {
                self.log(worker, time, Doing::LongPoll { worker: stuck, nanos });
            }
            What::Late { task, nanos } => {
                let task = self.task(task);
                self.log(worker, time, Doing::Late { task, nanos });
            }
            What::Panic { task } => {
                let task = self.task(task);
                self.story.tasks[task].panicked = true;
                self.log(worker, time, Doing::Panic(task));
            }
            What::Deadline { .. } => {}
        }
        if let Some((_, just_now)) = &mut self.ring(worker).last {
            *just_now = false;
        }
    }

    /// What wakes or spawns a task in this ring.
    fn cause(&mut self, worker: Option<u16>, task: usize) -> Cause {
        let ring = self.ring(worker);
        let running = ring.polls.last().map(|running| running.poll);
        match (running, worker) {
            _ if ring.last == Some((task, true)) => Cause::Again,
            (Some(poll), _) => Cause::Task(self.story.polls[poll].task),
            (None, Some(worker)) => Cause::Worker(worker),
            (None, None) => Cause::Outside,
        }
    }

    fn spawn(&mut self, worker: Option<u16>, time: u64, address: u64, name: u16) {
        let task = self.new_task(address);
        let by = self.cause(worker, task);
        let row = &mut self.story.tasks[task];
        (row.name, row.spawned) = (name, Some((time, by)));
        self.wait(
            worker,
            Wait { task, start: time, end: None, by, on: worker, spawn: true, lost: false },
        );
    }

    fn wait(&mut self, worker: Option<u16>, wait: Wait) {
        let number = self.story.waits.len();
        if let Some(before) = self.waiting.insert(wait.task, number) {
            self.story.waits[before].lost = true;
        }
        self.story.waits.push(wait);
        self.log(worker, wait.start, Doing::Wait(number));
    }

    fn begin(&mut self, worker: Option<u16>, time: u64, address: u64) {
        self.unpark(worker, time);
        let task = self.task(address);
        // A poll of which the end is lost.
        if self.polled.contains(&(worker, address)) {
            self.cut_to(worker, time, address);
            self.pop(worker, time, true);
        }
        self.cut_stale(worker, time);
        let wait = self.waiting.remove(&task);
        if let Some(wait) = wait {
            self.story.waits[wait].end = Some(time);
        }
        self.story.tasks[task].polls += 1;
        let poll = self.story.polls.len();
        let ring = self.ring(worker);
        let (depth, below) = (ring.polls.len(), ring.polls.last().map(|r| (r.poll, r.since)));
        ring.polls.push(Running { poll, since: time });
        if let Some((below, since)) = below {
            self.count(below, since, time);
        }
        let (start, end) = (time, None);
        self.story.polls.push(Poll { worker, task, start, end, depth, wait, cut: false });
        self.polled.insert((worker, address));
        self.latest.insert(task, poll);
        self.log(worker, time, Doing::Poll(poll));
    }

    /// Adds what an innermost poll took to its task.
    fn count(&mut self, poll: usize, since: u64, time: u64) {
        let task = self.story.polls[poll].task;
        self.story.tasks[task].busy += time.saturating_sub(since);
    }

    fn end(&mut self, worker: Option<u16>, time: u64, address: u64) {
        // Without its beginning, which was overwritten, the end says little.
        if !self.polled.contains(&(worker, address)) {
            return;
        }
        self.unpark(worker, time);
        self.cut_to(worker, time, address);
        let task = self.pop(worker, time, false);
        self.ring(worker).last = task.map(|task| (task, true));
    }

    /// Ends the polls on top of that of this task: their ends are lost.
    fn cut_to(&mut self, worker: Option<u16>, time: u64, address: u64) {
        while let Some(top) = self.top(worker) {
            if self.story.tasks[self.story.polls[top].task].address == address {
                break;
            }
            self.pop(worker, time, true);
        }
    }

    /// Ends the innermost polls of tasks that are over, or were polled elsewhere since.
    fn cut_stale(&mut self, worker: Option<u16>, time: u64) {
        while self.top(worker).is_some_and(|top| self.is_stale(top)) {
            self.pop(worker, time, true);
        }
    }

    fn is_stale(&self, poll: usize) -> bool {
        let task = self.story.polls[poll].task;
        self.story.tasks[task].ended.is_some() || self.latest.get(&task) != Some(&poll)
    }

    /// The innermost poll.
    fn top(&self, worker: Option<u16>) -> Option<usize> {
        Some(self.rings.get(&worker)?.polls.last()?.poll)
    }

    /// Ends the innermost poll; its task. `cut`: the record of that is lost.
    fn pop(&mut self, worker: Option<u16>, time: u64, cut: bool) -> Option<usize> {
        let ring = self.ring(worker);
        let Running { poll, since } = ring.polls.pop()?;
        if let Some(below) = ring.polls.last_mut() {
            below.since = time;
        }
        let row = &mut self.story.polls[poll];
        (row.end, row.cut) = (Some(time), cut);
        let task = row.task;
        self.polled.remove(&(worker, self.story.tasks[task].address));
        if !cut {
            self.count(poll, since, time);
        }
        self.log(worker, time, Doing::End);
        Some(task)
    }

    fn over(&mut self, worker: Option<u16>, time: u64, address: u64) {
        // A new task may have the address already: the one that this worker has polled last is meant.
        let last = self.ring(worker).last.map(|(task, _)| task);
        let is_it = |task: &usize| {
            let task = &self.story.tasks[*task];
            task.address == address && task.ended.is_none()
        };
        let task = match last.filter(is_it) {
            Some(task) => task,
            None => self.task(address),
        };
        self.story.tasks[task].ended = Some(time);
        if let Some(wait) = self.waiting.remove(&task) {
            self.story.waits[wait].lost = true;
        }
        if self.at.get(&address) == Some(&task) {
            self.at.remove(&address);
        }
    }

    fn park(&mut self, worker: Option<u16>, time: u64) {
        let Some(number) = worker else { return };
        self.unpark(worker, time);
        self.cut_stale(worker, time);
        let sleep = self.story.sleeps.len();
        self.story.sleeps.push(Sleep { worker: number, start: time, end: None });
        self.ring(worker).sleep = Some(sleep);
        self.log(worker, time, Doing::Sleep(sleep));
    }

    /// Ends the worker's sleep, if there is one: it wakes up, or it does something else.
    fn unpark(&mut self, worker: Option<u16>, time: u64) {
        if let Some(sleep) = self.ring(worker).sleep.take() {
            self.story.sleeps[sleep].end = Some(time);
            self.log(worker, time, Doing::End);
        }
    }

    /// The list of the tasks that lived at the end.
    fn live(&mut self, trace: &Trace) {
        for live in &trace.tasks {
            let number = self.task(live.task);
            let task = &mut self.story.tasks[number];
            // A record may be younger than the list.
            if task.ended.is_some() {
                continue;
            }
            (task.alive, task.scheduled, task.class) = (true, live.scheduled, live.class);
            if task.name == 0 {
                task.name = live.name;
            }
            // The list says that it waits for nothing: the record of a poll is lost.
            if let Some(wait) = self.waiting.get(&number).filter(|_| !live.scheduled) {
                self.story.waits[*wait].lost = true;
            }
        }
    }

    /// A wait that began when a ring had records that are overwritten may have ended in one of these: then the poll that seems to end it is
    /// a later one.
    fn forget(&mut self, trace: &Trace) {
        let overwritten = trace.lanes.iter().filter(|lane| lane.written > lane.records);
        let hole =
            overwritten.filter_map(|lane| lane.entries.first()).map(|entry| entry.time).max();
        let Some(hole) = hole else { return };
        for wait in &mut self.story.waits {
            let task = &self.story.tasks[wait.task];
            let still_waits = wait.end.is_none() && task.alive && task.scheduled;
            wait.lost |= wait.start < hole && !still_waits;
        }
    }

    /// What is under way at the end.
    fn finish(&mut self) {
        let time = self.story.span.1;
        for (worker, ring) in core::mem::take(&mut self.rings) {
            if let Some(top) = ring.polls.last() {
                self.count(top.poll, top.since, time);
            }
            for Running { poll, .. } in &ring.polls {
                if self.is_stale(*poll) {
                    let row = &mut self.story.polls[*poll];
                    (row.end, row.cut) = (Some(time), true);
                }
            }
            for _ in 0..ring.polls.len() + usize::from(ring.sleep.is_some()) {
                self.log(worker, time, Doing::End);
            }
        }
    }
}
