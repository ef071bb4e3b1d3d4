//! What is known of a task, for diagnosis.

use core::{fmt, panic::Location, ptr::NonNull};

#[cfg(feature = "classes")]
use super::due::Due;
use super::header::{Header, Ready};
#[cfg(feature = "classes")]
use crate::{class::Class, platform::WorkerSet};
use crate::{
    platform::WorkerId,
    trace::{Describe, SpawnInfo},
};

/// A task's identity: the address of its header, unique among the tasks whose handle or waker is alive.
///
/// It costs nothing: nothing is stored. An id may be used again once the task is complete and no reference to it is
/// left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(usize);

impl TaskId {
    pub(crate) fn of(header: NonNull<Header>) -> Self {
        Self(header.as_ptr().addr())
    }

    /// The id of a task that an [`Event`](crate::Event) names.
    ///
    /// ```
    /// # use filch::{Event, TaskId};
    /// fn ended(event: Event<'_>) -> Option<TaskId> {
    ///     if let Event::End(task) = event { Some(TaskId::of_event(task)) } else { None }
    /// }
    /// assert_eq!(ended(Event::End(64)).map(TaskId::get), Some(64));
    /// ```
    pub const fn of_event(task: usize) -> Self {
        Self(task)
    }

    /// The id as a number.
    pub const fn get(self) -> usize {
        self.0
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {:#x}", self.0)
    }
}

/// What is known of a task, for finding one that is stuck.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task's id.
    pub id: TaskId,
    /// The task's name, if its spawn gave one.
    pub name: Option<&'static str>,
    /// The type of the task's future, with the feature `type-names`: what a task without a name is known by.
    pub type_name: Option<&'static str>,
    /// Where the task was spawned, if its spawn gave a name.
    pub location: Option<&'static Location<'static>>,
    /// The worker that the task is pinned to.
    pub worker: Option<WorkerId>,
    /// The workers that the task has an affinity to, if its spawn gave more than one.
    #[cfg(feature = "classes")]
    pub workers: Option<WorkerSet>,
    /// The class by which the task is queued: its own, or one that it inherits.
    #[cfg(feature = "classes")]
    pub class: Class,
    /// Whether the task is queued or being polled. If not, it waits for a wake.
    pub scheduled: bool,
    /// Whether the task was asked to end.
    pub cancelled: bool,
    /// How many [`shield`](crate::shield)s the task holds.
    pub shields: usize,
    /// References: the handle's, the wakers', the queue's.
    pub references: usize,
}

impl TaskInfo {
    /// # Safety
    /// The caller holds a reference.
    pub(crate) unsafe fn of(header: NonNull<Header>) -> Self {
        // SAFETY: the caller's reference.
        let (state, vtable) = unsafe { (header.as_ref().state.load(), header.as_ref().vtable()) };
        // SAFETY: as above; the table is that of the task's type.
        let tag = unsafe { (vtable.meta)(header) };
        Self {
            id: TaskId::of(header),
            name: tag.name,
            type_name: vtable.type_name(),
            location: tag.location,
            worker: tag.worker,
            // SAFETY: as above.
            #[cfg(feature = "classes")]
            workers: unsafe { (vtable.workers)(header) },
            #[cfg(feature = "classes")]
            class: state.class(),
            scheduled: state.wakes() > 0,
            cancelled: state.is_cancelled(),
            shields: state.shield() as usize,
            references: state.refs() as usize,
        }
    }
}

impl Describe for Ready {
    #[inline(always)]
    fn task(&self) -> usize {
        self.as_ptr().as_ptr().addr()
    }

    fn describe(&self) -> SpawnInfo {
        let header = self.header();
        // SAFETY: the `Ready` is a reference.
        let vtable = unsafe { header.vtable() };
        // SAFETY: as above; the table is that of the task's type.
        let tag = unsafe { (vtable.meta)(self.as_ptr()) };
        SpawnInfo {
            name: tag.name,
            type_name: vtable.type_name(),
            location: tag.location,
            #[cfg(feature = "classes")]
            class: header.state.load().class(),
            #[cfg(feature = "classes")]
            deadline: self.due().and_then(Due::at),
        }
    }
}
