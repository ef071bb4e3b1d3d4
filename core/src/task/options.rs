//! What a spawn says of its task.

use core::panic::Location;

#[cfg(feature = "classes")]
use super::due::Due;
use super::{cell::Meta, header::Tag, state::Snapshot};
use crate::platform::WorkerId;
#[cfg(feature = "classes")]
use crate::{class::Class, instant::Instant};

/// What [`Spawner::spawn_with`](crate::Spawner::spawn_with) says of a task: name, worker and, with feature `classes`, class and
/// deadline. The task keeps it in its slot, with the place of the call to [`new`](Self::new): 32 bytes on 64-bit targets, and as
/// many more with that feature.
///
/// ```
/// use filch::{TaskOptions, WorkerId};
/// const CONTROL: TaskOptions = TaskOptions::new().name("control").pinned(WorkerId::new(0));
/// # let _ = CONTROL;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TaskOptions {
    tag: Tag,
    #[cfg(feature = "classes")]
    class: Option<Class>,
    #[cfg(feature = "classes")]
    deadline: Option<Instant>,
}

impl TaskOptions {
    /// No name, any worker; the class of the task that spawns.
    #[track_caller]
    pub const fn new() -> Self {
        Self {
            tag: Tag { name: None, location: Some(Location::caller()), worker: None, local: false },
            #[cfg(feature = "classes")]
            class: None,
            #[cfg(feature = "classes")]
            deadline: None,
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
        self
    }

    /// The task's class. Otherwise it has that of the task that spawns it, or is [`Normal`](Class::Normal) if none does.
    #[cfg(feature = "classes")]
    pub const fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// When the task should be polled first, at the latest. Of urgent tasks that wait, the one with the earliest deadline is polled
    /// next. For later polls see [`Spawner::set_deadline`](crate::Spawner::set_deadline).
    #[cfg(feature = "classes")]
    pub const fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    pub(crate) fn worker(&self) -> Option<WorkerId> {
        self.tag.worker
    }

    /// Whether it needs an executor with classes.
    #[cfg(feature = "classes")]
    pub(crate) fn needs_classes(&self) -> bool {
        self.class.is_some() || self.deadline.is_some()
    }

    pub(super) fn meta(self) -> Optioned {
        Optioned {
            tag: self.tag,
            #[cfg(feature = "classes")]
            class: self.class,
            #[cfg(feature = "classes")]
            due: Due::new(self.deadline),
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
}

impl Meta for Optioned {
    fn first_state(&self) -> Snapshot {
        let state = Snapshot::spawned(self.tag.worker.is_some());
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
}
