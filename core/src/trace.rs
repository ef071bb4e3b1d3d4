//! The events that the scheduler reports to the platform.

use core::{fmt, panic::Location};

#[cfg(feature = "classes")]
use crate::{class::Class, instant::Instant};

/// Something that the scheduler did, reported to [`Platform::event`](crate::Platform::event).
///
/// Tasks are named by the address of their header, which is unique among live tasks.
///
/// A task's events are a `Spawn`; for each poll a `PollStart` and a `PollEnd`, and between two polls a `Wake`; and an `End`. It waits for a
/// worker from `Spawn` or `Wake` to `PollStart`. What wakes or spawns it is the task that the reporting worker polls at that time, or a
/// context that is no worker's. A wake that finds the task ready has no event.
///
/// Each worker reports in the order of what it does. Events of two workers about one task may cross: its next poll may begin on another
/// one, or a new task in its slot, before the worker of the last poll has reported the `PollEnd` and the `End`.
///
/// ```
/// # use std::sync::Mutex;
/// # use filch::{Executor, Instant, Platform, TaskOptions, TaskPool, WorkerId, atomic::AtomicU32};
/// use filch::{Event, SpawnInfo, Spawned};
///
/// static NAMES: Mutex<Vec<(usize, Option<&str>)>> = Mutex::new(Vec::new());
/// fn note(spawned: Spawned<'_>) {
///     let info: SpawnInfo = spawned.info();
///     NAMES.lock().unwrap().push((spawned.task(), info.name));
/// }
///
/// struct Board;
/// # // SAFETY: there is one thread.
/// unsafe impl Platform for Board {
///     fn event(&self, _: Option<WorkerId>, event: Event<'_>) {
///         if let Event::Spawn(spawned) = event {
///             note(spawned);
///         }
///     }
///     // ...
/// #     fn now(&self) -> Instant { Instant::ZERO }
/// #     fn current_worker(&self) -> Option<WorkerId> { Some(WorkerId::new(0)) }
/// #     unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
/// #     fn wake(&self, _: WorkerId, _: &AtomicU32) {}
/// }
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<256, 1> = TaskPool::new();
/// let task = EXECUTOR.spawner().spawn_with(TaskOptions::new().name("pump"), &TASKS, async {}).unwrap();
/// let id = task.id().unwrap();
/// assert_eq!(*NAMES.lock().unwrap(), [(id.get(), Some("pump"))]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Event<'a> {
    /// A task was spawned. It is not queued yet.
    Spawn(Spawned<'a>),
    /// A task was woken, and was not ready before; or it is polled again at the end of its poll, in which it was woken. It is ready when
    /// this is reported.
    Wake(usize),
    /// A worker begins to poll a task.
    PollStart(usize),
    /// A poll of the task, or the drop of its future, has panicked. Its output will be that panic; its `End` follows.
    Panic(usize),
    /// A worker ends the poll.
    PollEnd(usize),
    /// The task is over: complete, cancelled, or it has panicked. Its last `PollEnd` came before. A local task whose worker leaves ends
    /// without a poll.
    End(usize),
    /// A worker took this many tasks from another.
    Steal {
        /// The worker that they were taken from.
        victim: u16,
        /// How many tasks.
        tasks: u16,
    },
    /// A worker is about to sleep.
    Park,
    /// A worker woke up.
    Unpark,
    /// A worker has been inside one poll for longer than the configured limit.
    LongPoll {
        /// The stuck worker.
        worker: u16,
        /// How long it has been inside, at least, in nanoseconds.
        nanos: u64,
    },
    /// The next poll that the worker begins is that of a task of this class. Without it that is a normal one, or one that waited in the
    /// inbox of a worker in a wait too deep to help in.
    #[cfg(feature = "classes")]
    Class {
        /// The task.
        task: usize,
        /// Urgent or background.
        class: Class,
        /// The deadline by which an urgent task was queued.
        deadline: Option<Instant>,
    },
    /// A worker begins the poll of a task later than the task's deadline.
    #[cfg(feature = "classes")]
    LateDeadline {
        /// The task.
        task: usize,
        /// How much later, in nanoseconds.
        nanos: u64,
    },
}

/// A task that was spawned, in [`Event::Spawn`].
///
/// It reads what its spawn said of the task when it is asked: a sink that does not ask pays nothing.
#[derive(Clone, Copy)]
pub struct Spawned<'a>(&'a dyn Describe);

/// What is known of a task that is spawned.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SpawnInfo {
    /// The task's name, if its spawn gave one.
    pub name: Option<&'static str>,
    /// The type of its future, with the feature `type-names`.
    pub type_name: Option<&'static str>,
    /// Where it was spawned, if its spawn took options.
    pub location: Option<&'static Location<'static>>,
    /// Its class.
    #[cfg(feature = "classes")]
    pub class: Class,
    /// Its deadline.
    #[cfg(feature = "classes")]
    pub deadline: Option<Instant>,
}

/// A task, as its spawner knows it.
pub(crate) trait Describe {
    fn task(&self) -> usize;
    fn describe(&self) -> SpawnInfo;
}

impl<'a> Spawned<'a> {
    pub(crate) fn new(task: &'a impl Describe) -> Self {
        Self(task)
    }

    /// The task, as the other events name it.
    #[inline(always)]
    pub fn task(self) -> usize {
        self.0.task()
    }

    /// Its name, the place of its spawn, its class. Cost: a few calls through pointers.
    pub fn info(self) -> SpawnInfo {
        self.0.describe()
    }
}

impl PartialEq for Spawned<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.task() == other.task()
    }
}

impl Eq for Spawned<'_> {}

impl fmt::Debug for Spawned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.task())
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Spawned<'_> {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "{=usize:#x}", self.task());
    }
}
