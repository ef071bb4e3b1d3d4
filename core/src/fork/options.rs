//! What a fork-join run says of itself.

#[cfg(feature = "classes")]
use crate::task::options::TaskOptions;
use crate::{
    class::Class,
    platform::{WorkerId, WorkerSet},
};

/// What [`Scheduler::fork_with`](crate::Scheduler::fork_with) says of a run: its class, and the workers that take part.
///
/// | class | a worker takes pieces of the run |
/// |---|---|
/// | `Urgent` | before tasks and pieces of the other classes |
/// | `Normal`, the default | when it finds no normal task |
/// | `Background` | when there is nothing else |
///
/// A worker that takes part of a loop, and has nothing else on its stack, gives way between two pieces: to urgent tasks, except in an
/// urgent run; in a background run to all that others would not take, without waiting for the end of
/// [`Config::job_slice`](crate::Config::job_slice). The worker that begins the run goes on with it whatever the class: it has the class of its task until then.
/// It gives way where the closures call [`Scheduler::give_way`](crate::Scheduler::give_way), or between two calls of
/// [`Fork::map_reduce_slice`](crate::Fork::map_reduce_slice).
///
/// ```
/// # #[cfg(feature = "classes")]
/// # {
/// use filch::{Class, ForkOptions, WorkerId, WorkerSet};
/// const SET: WorkerSet = WorkerSet::only(WorkerId::new(1));
/// const BULK: ForkOptions = ForkOptions::new().class(Class::Background).workers(SET);
/// assert_eq!(BULK.set(), Some(SET));
/// // A task that begins such a run.
/// let options = BULK.task().name("sort");
/// # let _ = options;
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ForkOptions {
    pub(crate) class: Class,
    workers: Option<WorkerSet>,
}

impl ForkOptions {
    /// A normal run, on all workers.
    pub const fn new() -> Self {
        Self { class: Class::Normal, workers: None }
    }

    /// The run's class.
    pub const fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// No other workers take pieces of the run, and one of them begins it.
    pub const fn workers(mut self, set: WorkerSet) -> Self {
        self.workers = Some(set);
        self
    }

    /// The workers that it has an affinity to.
    pub const fn set(&self) -> Option<WorkerSet> {
        self.workers
    }

    pub(crate) const fn affine_to(mut self, workers: Option<WorkerSet>) -> Self {
        self.workers = workers;
        self
    }

    /// The options of a task that begins such a run: its class, and its workers.
    #[cfg(feature = "classes")]
    #[track_caller]
    pub const fn task(self) -> TaskOptions {
        let task = TaskOptions::new().class(self.class);
        match self.workers {
            Some(set) => task.workers(set),
            None => task,
        }
    }

    /// Whether this worker may take part.
    pub(crate) fn is_allowed(&self, worker: WorkerId) -> bool {
        self.workers.is_none_or(|set| set.contains(worker))
    }
}
