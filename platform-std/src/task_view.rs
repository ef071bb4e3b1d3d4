//! The tasks that live, as a program may look at them.

use core::{ops::Deref, time::Duration};

use filch::{TaskId, TaskInfo, WorkerId};

/// A live task. From [`Handle::tasks`](crate::Handle::tasks).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Task {
    /// What the scheduler knows of it: its fields are this type's, too.
    pub info: TaskInfo,
    /// What it has done. None without `Builder::task_metrics` (feature `observe`), and for a task for which there was no room.
    pub activity: Option<Activity>,
}

impl Deref for Task {
    type Target = TaskInfo;

    fn deref(&self) -> &TaskInfo {
        &self.info
    }
}

/// What a task has done since its spawn, as the runtime's clock tells times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Activity {
    /// How long ago it was spawned.
    pub age: Duration,
    /// Its polls, the one under way included.
    pub polls: u64,
    /// The time in polls that have ended. What was polled on top of it, in sync code, does not count.
    pub busy: Duration,
    /// The longest poll that has ended, as above.
    pub longest_poll: Duration,
    /// How long it is inside a poll, if it is.
    pub polled: Option<Duration>,
    /// The time that it was ready and no worker polled it, without the wait of now.
    pub waited: Duration,
    /// How long it waits for a worker, if it does.
    pub waits: Option<Duration>,
    /// How often it was woken while it was not ready, or in its own poll.
    pub wakes: u64,
    /// Those in its own poll: by itself, as a rule. With most wakes of this kind, it polls what is not ready.
    pub self_wakes: u64,
    /// Its last wake.
    pub last_wake: Option<LastWake>,
}

/// When a task was woken last, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LastWake {
    /// How long ago.
    pub ago: Duration,
    /// What woke it.
    pub by: WokenBy,
}

/// What woke a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WokenBy {
    /// Another task, in a poll. That may be over, and its id be used again.
    Task(TaskId),
    /// The task itself, another context during its poll, or its worker right after that.
    Itself,
    /// A worker between two polls: a timer, or I/O.
    Worker(WorkerId),
    /// A thread that is no worker.
    Outside,
}
