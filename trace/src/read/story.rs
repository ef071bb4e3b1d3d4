//! What happened, put together from the records of all workers: each task's life, each poll, each wait.

use std::{
    collections::{BTreeMap, HashMap},
    vec::Vec,
};

use super::{Class, Entry, Trace, What};

/// What happened, by tasks, polls and waits. Times are in nanoseconds of the trace's clock.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// All tasks of which there is a record, in the order of their first ones.
    pub tasks: Vec<Task>,
    /// All polls, in the order of their beginnings.
    pub polls: Vec<Poll>,
    /// All waits for a worker, in the order of their beginnings.
    pub waits: Vec<Wait>,
    /// All times in which workers slept.
    pub sleeps: Vec<Sleep>,
    /// The time of the first record, and that of the last.
    pub span: (u64, u64),
}

/// A task.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// Its address.
    pub address: u64,
    /// The number of its name, or 0.
    pub name: u16,
    /// Its class, as last seen.
    pub class: Class,
    /// When it was spawned, and by what, if that is recorded.
    pub spawned: Option<(u64, Cause)>,
    /// When it ended.
    pub ended: Option<u64>,
    /// Polls that are recorded.
    pub polls: usize,
    /// The time in them, in nanoseconds, without polls on top of them.
    pub busy: u64,
    /// Its last wake, and by what.
    pub woken: Option<(u64, Cause)>,
    /// Whether it lived when the trace was written, if the trace says so.
    pub alive: bool,
    /// Whether it waited for a worker at the end, or was being polled.
    pub scheduled: bool,
}

/// What woke or spawned a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A task, by its place in [`Story::tasks`].
    Task(usize),
    /// A worker outside of polls: a timer, I/O.
    Worker(u16),
    /// A context that is no worker's.
    Outside,
}

/// A poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The worker; none if the record is that of another context.
    pub worker: Option<u16>,
    /// The task's place in [`Story::tasks`].
    pub task: usize,
    /// When it began.
    pub start: u64,
    /// When it ended; none if it had not.
    pub end: Option<u64>,
    /// On top of so many other polls.
    pub depth: usize,
}

/// A wait for a worker: from a spawn or a wake to a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The task's place in [`Story::tasks`].
    pub task: usize,
    /// When it became ready.
    pub start: u64,
    /// When its poll began; none if it had not.
    pub end: Option<u64>,
    /// What woke it.
    pub by: Cause,
}

/// A worker's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// The worker.
    pub worker: u16,
    /// When it began.
    pub start: u64,
    /// When it ended; none if it had not.
    pub end: Option<u64>,
}

/// What is known in the midst of it.
#[derive(Default)]
struct Teller {
    story: Story,
    /// The task that has this address now.
    at: HashMap<u64, usize>,
    /// The waits that have not ended, by task.
    waiting: BTreeMap<usize, usize>,
    /// Of each ring: the polls under way, the innermost last, and a sleep.
    polling: HashMap<Option<u16>, Vec<Running>>,
    sleeping: HashMap<Option<u16>, usize>,
    /// The task of the last spawn of each ring.
    spawned: HashMap<Option<u16>, usize>,
}

/// A poll under way.
struct Running {
    /// Its place among the polls.
    poll: usize,
    /// Since when it is the innermost one.
    since: u64,
}

impl Story {
    pub(super) fn of(trace: &Trace) -> Self {
        let mut teller = Teller::default();
        let mut all: Vec<(Option<u16>, Entry)> = Vec::new();
        for lane in &trace.lanes {
            all.extend(lane.entries.iter().map(|entry| (lane.worker, *entry)));
        }
        // Stable: what one worker did at one time stays in order.
        all.sort_by_key(|(_, entry)| entry.time);
        for (worker, entry) in &all {
            teller.tell(*worker, *entry);
        }
        for live in &trace.tasks {
            let task = teller.task(live.task);
            let task = &mut teller.story.tasks[task];
            // A record may be younger than the list.
            if task.ended.is_none() {
                task.alive = true;
                task.scheduled = live.scheduled;
                task.class = live.class;
                task.name = if task.name == 0 { live.name } else { task.name };
            }
        }
        let time = |entry: Option<&(_, Entry)>| entry.map_or(trace.now, |(_, entry)| entry.time);
        teller.story.span = (time(all.first()), time(all.last()).max(trace.now));
        teller.story
    }

    /// The time from a spawn or a wake to the poll, of each wait that has ended, in ascending order, in nanoseconds.
    pub fn delays(&self) -> Vec<u64> {
        let mut delays: Vec<_> = self
            .waits
            .iter()
            .filter_map(|wait| Some(wait.end?.saturating_sub(wait.start)))
            .collect();
        delays.sort_unstable();
        delays
    }
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

    /// What the context of this ring is doing.
    fn cause(&self, worker: Option<u16>) -> Cause {
        let running = self.polling.get(&worker).and_then(|polls| polls.last());
        match (running, worker) {
            (Some(running), _) => Cause::Task(self.story.polls[running.poll].task),
            (None, Some(worker)) => Cause::Worker(worker),
            (None, None) => Cause::Outside,
        }
    }

    fn tell(&mut self, worker: Option<u16>, Entry { time, what }: Entry) {
        match what {
            What::Spawn { task, name } => {
                let by = self.cause(worker);
                let task = self.new_task(task);
                self.spawned.insert(worker, task);
                let row = &mut self.story.tasks[task];
                (row.name, row.spawned) = (name, Some((time, by)));
                self.wait(task, time, by);
            }
            What::Wake { task } => {
                let (task, by) = (self.task(task), self.cause(worker));
                self.story.tasks[task].woken = Some((time, by));
                self.wait(task, time, by);
            }
            What::PollStart { task } => self.begin(worker, task, time),
            What::PollEnd { task } => self.end(worker, task, time),
            What::End { task: address } => {
                let task = self.task(address);
                self.story.tasks[task].ended = Some(time);
                self.waiting.remove(&task);
                self.at.remove(&address);
            }
            What::Park => {
                if let Some(number) = worker {
                    self.sleeping.insert(worker, self.story.sleeps.len());
                    self.story.sleeps.push(Sleep { worker: number, start: time, end: None });
                }
            }
            What::Unpark => {
                if let Some(sleep) = self.sleeping.remove(&worker) {
                    self.story.sleeps[sleep].end = Some(time);
                }
            }
            What::Class { task, class } => {
                let task = self.task(task);
                self.story.tasks[task].class = class;
            }
            What::Steal { .. }
            | What::LongPoll { .. }
            | What::Deadline { .. }
            | What::Late { .. } => {}
        }
    }

    fn wait(&mut self, task: usize, start: u64, by: Cause) {
        self.waiting.insert(task, self.story.waits.len());
        self.story.waits.push(Wait { task, start, end: None, by });
    }

    fn begin(&mut self, worker: Option<u16>, task: u64, time: u64) {
        let task = self.task(task);
        if let Some(wait) = self.waiting.remove(&task) {
            self.story.waits[wait].end = Some(time);
        }
        self.story.tasks[task].polls += 1;
        let polls = self.polling.entry(worker).or_default();
        if let Some(Running { poll, since }) = polls.last() {
            let below = self.story.polls[*poll].task;
            self.story.tasks[below].busy += time.saturating_sub(*since);
        }
        polls.push(Running { poll: self.story.polls.len(), since: time });
        let depth = polls.len() - 1;
        self.story.polls.push(Poll { worker, task, start: time, end: None, depth });
    }

    fn end(&mut self, worker: Option<u16>, address: u64, time: u64) {
        let polls = self.polling.entry(worker).or_default();
        let is_it = |running: &Running| {
            self.story.tasks[self.story.polls[running.poll].task].address == address
        };
        // Without its beginning, which was overwritten, the end says little.
        let Some(place) = polls.iter().rposition(is_it) else { return };
        // Polls above it have lost their ends.
        polls.truncate(place + 1);
        let Some(Running { poll, since }) = polls.pop() else { return };
        self.story.polls[poll].end = Some(time);
        let task = self.story.polls[poll].task;
        self.story.tasks[task].busy += time.saturating_sub(since);
        if let Some(below) = polls.last_mut() {
            below.since = time;
        }
    }
}
