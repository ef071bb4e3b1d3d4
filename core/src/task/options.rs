//! What a spawn says of its task.

use core::panic::Location;

#[cfg(feature = "classes")]
use super::due::Due;
use super::{cell::Meta, header::Tag, state::Snapshot};
use crate::platform::{WorkerId, WorkerSet};
#[cfg(feature = "classes")]
use crate::{class::Class, instant::Instant};

/// What [`Spawner::spawn_with`](crate::Spawner::spawn_with) says of a task: name, worker and, with feature `classes`, class and
/// deadline. The task keeps it in its slot, with the place of the call to [`new`](Self::new): 32 bytes on 64-bit targets, and as
/// many more with that feature.
///
/// ```
/// use filch::{TaskOptions, WorkerId};
/// const CONTROL: TaskOptions = TaskOptions::new().name("control").pinned(WorkerId::new(0));
/// assert_eq!(CONTROL.given_name(), Some("control"));
/// # #[cfg(feature = "classes")]
/// # {
/// // With the feature `classes`: soon, and on these workers.
/// use filch::{Class, Instant, WorkerSet};
/// const ANY: WorkerSet = WorkerSet::only(WorkerId::new(0));
/// let answer = TaskOptions::new().class(Class::Urgent).deadline(Instant::from_nanos(9_000)).workers(ANY);
/// # let _ = answer;
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TaskOptions {
    tag: Tag,
    #[cfg(feature = "classes")]
    class: Option<Class>,
    #[cfg(feature = "classes")]
    deadline: Option<Instant>,
    #[cfg(feature = "classes")]
    workers: Option<WorkerSet>,
}

impl TaskOptions {
    /// No name, any worker; the class of the task that spawns.
    #[track_caller]
    pub const fn new() -> Self {
        Self {
            tag: Tag {
                name: None,
                location: Some(Location::caller()),
                worker: None,
                local: false,
                ends_unreachable: false,
            },
            #[cfg(feature = "classes")]
            class: None,
            #[cfg(feature = "classes")]
            deadline: None,
            #[cfg(feature = "classes")]
            workers: None,
        }
    }

    /// A name, for diagnosis.
    pub const fn name(mut self, name: &'static str) -> Self {
        self.tag.name = Some(name);
        self
    }

    /// The task runs on this worker only. It waits while that worker is offline.
    pub const fn pinned(mut self, worker: WorkerId) -> Self {
        self.tag.worker = Some(worker);
        #[cfg(feature = "classes")]
        {
            self.workers = None;
        }
        self
    }

    /// Once the task is detached, and nothing can wake it any more, it is cancelled at once, and its slot is free again. A task that
    /// awaits [`pending`](core::future::pending), or what has lost its other side without a word, would otherwise stay until the executor
    /// shuts down: see [`JoinHandle::detach`](crate::JoinHandle::detach). For pools whose slots must come back.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use core::future::pending;
    /// # use filch::{Executor, TaskOptions, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<256, 8> = TaskPool::new();
    /// let spawner = EXECUTOR.spawner();
    /// spawner.spawn(&TASKS, pending::<()>())?.detach();
    /// spawner.spawn_with(TaskOptions::new().end_unreachable(), &TASKS, pending::<()>())?.detach();
    /// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
    /// // Each was polled once.
    /// let mut left = 0;
    /// EXECUTOR.tasks(|_| left += 1);
    /// assert_eq!(left, 1);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub const fn end_unreachable(mut self) -> Self {
        self.tag.ends_unreachable = true;
        self
    }

    /// The task's class. Otherwise it has that of the task that spawns it, or is [`Normal`](Class::Normal) if none does.
    #[cfg(feature = "classes")]
    pub const fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// The task runs on these workers only. It waits while all of them are offline, or busy: no other takes it. It is not inherited.
    ///
    /// A worker finds such a task at a constant cost while tasks of 16 sets or fewer wait; beyond that, at a cost linear in the tasks of the
    /// other sets. Where one worker will do, [`pinned`](Self::pinned) is cheaper. The one that is called last of the two holds.
    #[cfg(feature = "classes")]
    pub const fn workers(mut self, set: WorkerSet) -> Self {
        self.tag.worker = set.single();
        self.workers = if self.tag.worker.is_none() { Some(set) } else { None };
        self
    }

    /// When the task should be polled first, at the latest. Of urgent tasks that wait, the one with the earliest deadline is polled
    /// next. For later polls see [`Spawner::set_deadline`](crate::Spawner::set_deadline).
    #[cfg(feature = "classes")]
    pub const fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    /// The name, if there is one.
    ///
    /// ```
    /// let options = filch::TaskOptions::new().name("control");
    /// assert_eq!(options.given_name(), Some("control"));
    /// assert_eq!(options.location().map(|place| place.line()), Some(line!() - 2));
    /// ```
    pub const fn given_name(&self) -> Option<&'static str> {
        self.tag.name
    }

    /// The place of the call to [`new`](Self::new).
    pub const fn location(&self) -> Option<&'static Location<'static>> {
        self.tag.location
    }

    /// The workers that it names.
    pub(crate) fn affine_to(&self) -> Option<WorkerSet> {
        #[cfg(feature = "classes")]
        if self.workers.is_some() {
            return self.workers;
        }
        self.tag.worker.map(WorkerSet::only)
    }

    /// Whether it needs an executor with classes.
    #[cfg(feature = "classes")]
    pub(crate) fn needs_classes(&self) -> bool {
        self.class.is_some() || self.deadline.is_some() || self.workers.is_some()
    }

    pub(super) fn meta(self) -> Optioned {
        Optioned {
            tag: self.tag,
            #[cfg(feature = "classes")]
            class: self.class,
            #[cfg(feature = "classes")]
            due: Due::new(self.deadline),
            #[cfg(feature = "classes")]
            workers: self.workers,
        }
    }
}

impl Default for TaskOptions {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

/// The options in the task's slot.
pub(crate) struct Optioned {
    tag: Tag,
    #[cfg(feature = "classes")]
    class: Option<Class>,
    #[cfg(feature = "classes")]
    due: Due,
    #[cfg(feature = "classes")]
    workers: Option<WorkerSet>,
}

impl Meta for Optioned {
    fn first_state(&self) -> Snapshot {
        let has_affinity = self.tag.worker.is_some();
        #[cfg(feature = "classes")]
        let has_affinity = has_affinity || self.workers.is_some();
        let state = Snapshot::spawned(has_affinity);
        let state = if self.tag.ends_unreachable { state.ending_unreachable() } else { state };
        #[cfg(feature = "classes")]
        let state = self.class.map_or(state, |class| state.of_class(class));
        state
    }

    fn tag(&self) -> Tag {
        self.tag
    }

    #[cfg(feature = "classes")]
    fn due(&self) -> Option<&Due> {
        Some(&self.due)
    }

    #[cfg(feature = "classes")]
    fn workers(&self) -> Option<WorkerSet> {
        self.workers
    }
}
