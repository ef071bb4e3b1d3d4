//! Looking at an executor from outside: counters and tasks.

use crate::scheduler::core::faces::OwnQueues;
use core::{fmt, ptr::NonNull};

use super::core::{
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
#[cfg(feature = "task-dump")]
use crate::task::waker::carry_out;
use crate::{
    memory::slab::Slab,
    metrics::{Totals, WorkerMetrics},
    parts::{On, Parts},
    platform::{Platform, WorkerId},
    task::{header::Header, info::TaskInfo, state::Snapshot, waker::drop_ref},
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// A snapshot of the counters. Callable from any context; a few loads for each worker.
    pub fn metrics(&self) -> Metrics<'_>
    where
        S::Parts: Parts<Metrics = On>,
    {
        Metrics { totals: self.totals(), source: self }
    }

    pub(crate) fn totals(&self) -> Totals {
        let (spawned, completed) = self.counts();
        Totals {
            spawned,
            completed,
            live: difference(spawned, completed),
            injector_depth: self.injector.get().map_or(0, |injector| injector.len()),
            parked: self.parked(),
            searching: self.idle.searching() as usize,
        }
    }

    fn parked(&self) -> usize {
        if self.is_shared() {
            return self.idle.parked(self);
        }
        self.slots().iter().filter(|slot| slot.shared.park.is_parked()).count()
    }

    /// Tasks spawned and completed. Completions are read first, so that a task counts as live rather than not at all.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let sum = |f: fn(&WorkerSlot<RING, S::Parts>) -> usize| {
            self.slots().iter().fold(0_usize, |sum, slot| sum.wrapping_add(f(slot)))
        };
        // Ordering: the Acquire of each count pairs with the Release of its `add`: a look that sees a completion sees the spawns
        // that came before it.
        let completed =
            self.gate.completed().wrapping_add(sum(|slot| slot.counters.completed.get()));
        let spawned = sum(|slot| slot.counters.spawned.get()).wrapping_add(self.gate.spawned());
        (spawned, completed)
    }

    /// How many tasks live.
    pub(crate) fn live(&self) -> usize {
        let (spawned, completed) = self.counts();
        difference(spawned, completed)
    }

    /// Shows every live task to `visit`, in no order. Lock-free: tasks that come and go meanwhile may or may not be shown.
    ///
    /// For diagnosis; each costs two read-modify-writes. A task whose reference count is at its limit is not shown.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Executor, TaskInfo, TaskOptions, TaskPool};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// let options = TaskOptions::new().name("pump");
    /// let pump = EXECUTOR.spawner().spawn_with(options, &TASKS, core::future::pending::<()>()).unwrap();
    /// let mut names = Vec::new();
    /// EXECUTOR.tasks(|task: TaskInfo| names.push((task.name, task.scheduled)));
    /// assert_eq!(names, [(Some("pump"), true)]);
    /// # drop(pump);
    /// ```
    pub fn tasks(&self, mut visit: impl FnMut(TaskInfo)) {
        // SAFETY: `each_task` holds a reference.
        self.each_task(|task| visit(unsafe { TaskInfo::of(task) }));
    }

    /// Wakes every live task, as a waker of its own would: for a [dump](crate::dump). From any context; cost: as [`tasks`](Self::tasks),
    /// and a wake and a poll for each.
    #[cfg(feature = "task-dump")]
    pub fn wake_tasks(&self) {
        self.each_task(|task| {
            // SAFETY: `each_task` holds a reference, which permits the transition; that does not consume it.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::wake), task) }
        });
    }

    /// Calls `visit` with each live task, to which there is a reference meanwhile.
    fn each_task(&self, mut visit: impl FnMut(NonNull<Header>)) {
        /// A reference, dropped also if `visit` panics.
        struct Held(NonNull<Header>);
        impl Drop for Held {
            fn drop(&mut self) {
                // SAFETY: made with a reference of its own.
                unsafe { drop_ref(self.0) };
            }
        }
        Slab::for_each(self.anchor.owners(), |task| {
            // SAFETY: a slot is a header for ever (INV-SLAB-SLOT).
            if unsafe { task.as_ref() }.state.apply(Snapshot::hold) {
                let held = Held(task);
                visit(held.0);
            }
        });
    }
}

/// How many of the tasks spawned have not completed. The count from outside has one bit less than the others (`Gate`).
fn difference(spawned: usize, completed: usize) -> usize {
    spawned.wrapping_sub(completed) & (usize::MAX >> 1)
}

/// A view of an executor's counters. See [`Scheduler::metrics`].
///
/// The totals are of the moment when it was made, the workers' figures of the moment when they are read: to compare them
/// with later ones, collect them.
///
/// ```
/// # filch_test_support::board!();
/// # use filch::{Executor, Metrics, TaskPool, Totals, WorkerId, WorkerMetrics};
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<512, 8> = TaskPool::new();
/// let task = EXECUTOR.spawn(&TASKS, async {}).unwrap();
/// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
/// let metrics: Metrics<'_> = EXECUTOR.metrics();
/// let totals: Totals = metrics.totals();
/// assert_eq!((totals.spawned, totals.completed, totals.live), (1, 1, 0));
/// let workers: Vec<(WorkerId, WorkerMetrics)> = metrics.workers().collect();
/// assert_eq!((workers.len(), workers[0].1.polls), (1, 1));
/// # drop(task);
/// # Ok::<(), filch::RunError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Metrics<'a> {
    totals: Totals,
    source: &'a dyn Source,
}

trait Source {
    fn slots(&self) -> usize;
    fn worker(&self, index: usize) -> Option<WorkerMetrics>;
}

impl<'a> Metrics<'a> {
    /// The executor's own figures, as they were when the snapshot was taken.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Each worker's figures, read as the iterator comes to them; spares last.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, WorkerMetrics)> + 'a {
        let source = self.source;
        (0..source.slots())
            .filter_map(move |i| source.worker(i).map(|m| (WorkerId::new(i as u16), m)))
    }
}

impl fmt::Debug for Metrics<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("totals", &self.totals).finish_non_exhaustive()
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Source for Scheduler<P, S, RING> {
    fn slots(&self) -> usize {
        Scheduler::slots(self).len()
    }

    fn worker(&self, index: usize) -> Option<WorkerMetrics> {
        let slot = Scheduler::slots(self).get(index)?;
        let c = &slot.counters;
        Some(WorkerMetrics {
            polls: c.polls.get(),
            forced_yields: c.forced_yields.get(),
            lifo_hits: c.lifo_hits.get(),
            steals: c.steals.get(),
            stolen: c.stolen.get(),
            injector_batches: c.injector_batches.get(),
            overflows: c.overflows.get(),
            parks: c.parks.get(),
            sweeps: c.sweeps.get(),
            rescues: c.rescues.get(),
            timers: c.timers.get(),
            jobs: c.jobs.get(),
            busy_micros: c.busy.get(),
            #[cfg(feature = "classes")]
            urgent_polls: slot.classes.get().map_or(0, |own| own.urgent_polls.get()),
            #[cfg(feature = "classes")]
            background_polls: slot.classes.get().map_or(0, |own| own.background_polls.get()),
            #[cfg(feature = "classes")]
            background_depth: slot
                .classes
                .get()
                .map_or(0, |own| own.ring.get().map_or(0, |ring| ring.len())),
            #[cfg(feature = "classes")]
            late: slot.classes.get().map_or(0, |own| own.late.get()),
            queue_depth: slot.queued() + usize::from(!slot.lifo.is_empty()),
            online: slot.is_online(),
        })
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> fmt::Debug for Scheduler<P, S, RING> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("workers", &self.slots().len())
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}
