//! What happened, put together from the records of all workers: each task's life, each poll, each wait.

use std::vec::Vec;

use super::Class;

/// What happened, by tasks, polls and waits. Times are in nanoseconds of the trace's clock.
///
/// ```
/// # #[cfg(feature = "alloc")]
/// # {
/// # use filch::{Event, WorkerId};
/// # let recorder = filch_trace::Recorder::leaked(1, 16, 4);
/// # let worker = Some(WorkerId::new(0));
/// # recorder.record(None, Event::Wake(0x1000), || 1_000);
/// # recorder.record(worker, Event::PollStart(0x1000), || 4_000);
/// # recorder.record(worker, Event::PollEnd(0x1000), || 6_000);
/// # recorder.record(worker, Event::End(0x1000), || 6_000);
/// # recorder.record(worker, Event::Park, || 7_000);
/// # let mut file = Vec::new();
/// # recorder.dump(9_000, |_| {}, "an example", &mut |bytes| file.extend_from_slice(bytes));
/// use filch_trace::read::{Cause, Poll, Sleep, Story, Task, Trace, Wait};
/// // `file`: a worker has polled a task that a handler had woken, and sleeps.
/// let trace = Trace::read(&file)?;
/// let story: Story = trace.story();
/// let task: &Task = &story.tasks[0];
/// assert_eq!((task.address, task.polls, task.busy), (0x1000, 1, 2_000));
/// let (wait, poll, sleep): (Wait, Poll, Sleep) = (story.waits[0], story.polls[0], story.sleeps[0]);
/// assert_eq!((wait.by, wait.end), (Cause::Outside, Some(poll.start)));
/// assert_eq!((sleep.worker, sleep.start), (0, 7_000));
/// assert_eq!(story.delays(), [3_000]);
/// // As text, for a report; the task has no name.
/// assert_eq!(trace.label(task), "task 0x1000");
/// assert_eq!(trace.title(task), "task 0x1000");
/// assert_eq!(trace.place(task), "");
/// assert_eq!(trace.by(&story, wait.by), "a context that is no worker");
/// # }
/// # Ok::<(), filch_trace::read::ReadError>(())
/// ```
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
    /// The time of the first record, and that of the end: of the last record, or when the trace was written.
    pub span: (u64, u64),
    /// All of that in one order. On each worker, beginnings and ends are as those of brackets.
    pub(super) log: Vec<Done>,
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
    /// Whether it has panicked.
    pub panicked: bool,
    /// Polls that are recorded.
    pub polls: usize,
    /// The time in them up to the end, in nanoseconds, without polls on top of them.
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
    /// Its own poll, which has just ended: it, or anything else, woke it in that.
    Again,
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
    /// The wait before it, by its place in [`Story::waits`]; none if that is not recorded.
    pub wait: Option<usize>,
    /// Whether the record of its end is lost. It ended at `end` or before.
    pub cut: bool,
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
    /// What woke or spawned it.
    pub by: Cause,
    /// The worker that did so; none if that was another context.
    pub on: Option<u16>,
    /// Whether it was spawned, not woken.
    pub spawn: bool,
    /// Whether its end is not known: the record of the poll that ended it may be overwritten.
    pub lost: bool,
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

/// What a context did, as the exporters need it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// The worker; none for all other contexts.
    pub(super) worker: Option<u16>,
    pub(super) time: u64,
    pub(super) what: Doing,
}

/// What a context did. Places are those in the story.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    /// A poll begins.
    Poll(usize),
    /// A sleep begins.
    Sleep(usize),
    /// What has begun last, and not ended, ends. At the end of the trace all does.
    End,
    /// It wakes or spawns a task, which waits from then on.
    Wait(usize),
    Steal {
        victim: u16,
        tasks: u64,
    },
    LongPoll {
        worker: u16,
        nanos: u64,
    },
    Late {
        task: usize,
        nanos: u64,
    },
    /// The task panics, in its last poll.
    Panic(usize),
}

impl Story {
    /// The time from a spawn or a wake to the poll, of each wait that has ended, in ascending order, in nanoseconds.
    pub fn delays(&self) -> Vec<u64> {
        let mut delays: Vec<_> = self
            .waits
            .iter()
            .filter(|wait| !wait.lost)
            .filter_map(|wait| Some(wait.end?.saturating_sub(wait.start)))
            .collect();
        delays.sort_unstable();
        delays
    }
}
