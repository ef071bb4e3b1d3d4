//! Workers added and retired while the executor runs.
//!
//! `resize` asks the workers with the highest numbers to retire, and wakes them. Each leaves its loop when it is idle or at the end of a
//! tick, once neither a local task lives nor one that only this worker may run (`state/retiring.rs`). Its queued tasks move to
//! the injectors. Its timers stay in its wheel, and the other workers fire them. Another worker becomes the listener.
//!
//! The request may be withdrawn while the worker leaves. So both sides look twice. The context that resizes looks whether a worker that
//! should stay is offline, and has it started. The worker, once offline, looks whether it should stay, and comes back. At least one of them
//! sees the other; if both do, the second one finds the slot taken. A worker should also come back if a task was admitted for it while the
//! request was withdrawn, even if it has been asked again since.

use crate::{
    atomic::Ordering,
    parts::{On, Parts},
    platform::{Platform, StartError, WorkerEntry, WorkerId, worker::Place},
    scheduler::{
        core::{
            executor::Scheduler,
            slot::{OFFLINE, Slots},
        },
        error::ResizeError,
    },
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// How many workers take part: all that there is room for ([`workers`](Self::workers)), less those that [`resize`](Self::resize) has
    /// asked to leave. Some of them may be offline still.
    pub fn active(&self) -> usize {
        // Ordering: a number, in no order with others.
        let retired = self.retired.get().map_or(0, |n| n.load(Ordering::Relaxed));
        self.workers() - retired as usize
    }

    /// Has this many workers take part, those with the lowest numbers: asks the others to leave, and has those that are offline started
    /// ([`Platform::start`]).
    ///
    /// Returns at once. A worker that is to leave finishes the poll that it is in, and the fork-join run if it is in one. It gives its
    /// tasks to the others, which fire its timers too, and returns from [`run`](Self::run); a worker that is stepped by hand gets
    /// [`Step::Stopped`](crate::Step::Stopped). It stays for as long as a task lives that can run nowhere else: a local one, one that is
    /// pinned to it, one of a [`WorkerSet`](crate::WorkerSet) whose first worker it is; one that is offline is started for such a task. No
    /// new task has an affinity to it meanwhile ([`SpawnErrorKind::NoSuchWorker`](crate::SpawnErrorKind::NoSuchWorker)). A worker that
    /// waits in sync code leaves after the wait.
    ///
    /// Of several calls at once, the last one holds. A later shutdown, and a use of the memory after it ([`reopen`](Self::reopen)), begin
    /// with all workers. Contexts: a thread that may start another; cost: a look at each worker.
    ///
    /// # Errors
    /// [`ResizeError`]: for no workers and for too many, with nothing done. [`ResizeError::Start`] if the platform has refused to start a
    /// worker, with all else done: where workers enter [`run`](Self::run) by themselves, it is left to them.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Executor, Instant, ResizeError, StartError, Step, TaskPool, WorkerId};
    /// static EXECUTOR: Executor<Board, 4> = Executor::new(Board);
    /// static TASKS: TaskPool<256, 8> = TaskPool::new();
    /// let last = EXECUTOR.worker(WorkerId::new(3))?;
    /// let mut pinned = EXECUTOR.spawner().spawn_pinned(&TASKS, last.id(), async { 7 })?;
    ///
    /// // Cores 2 and 3 are to rest. This platform starts no cores: 0 and 1 have to enter by themselves.
    /// assert_eq!(EXECUTOR.resize(2), Err(ResizeError::Start(StartError::Unsupported)));
    /// assert_eq!(EXECUTOR.active(), 2);
    /// // One stays for its task, and for no other.
    /// assert!(EXECUTOR.spawner().spawn_pinned(&TASKS, last.id(), async {}).is_err());
    /// assert_eq!(last.step(), Step::Polled);
    /// assert_eq!(pinned.join()?, 7);
    /// assert_eq!(last.step(), Step::Stopped);
    /// drop(last);
    ///
    /// assert_eq!(EXECUTOR.resize(0), Err(ResizeError::ZeroWorkers));
    /// assert_eq!(EXECUTOR.resize(5), Err(ResizeError::TooManyWorkers(4)));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn resize(&'static self, workers: usize) -> Result<(), ResizeError>
    where
        S::Parts: Parts<Cores = On>,
    {
        let most = self.workers();
        match workers {
            0 => return Err(ResizeError::ZeroWorkers),
            n if n > most => return Err(ResizeError::TooManyWorkers(most)),
            n => self.set_active(n),
        }
        self.start_active()
    }

    /// Has the platform start worker `id` on a thread or core of its own.
    ///
    /// # Errors
    /// The platform's [`StartError`]. A worker that then cannot enter is not reported:
    /// [`WorkerEntry::run`](crate::WorkerEntry::run) returns at once.
    pub fn start(&'static self, id: WorkerId) -> Result<(), StartError> {
        // If the platform refuses, it drops the entry, which takes this back.
        self.census.await_start();
        self.platform.start(WorkerEntry::new(self, id, Place::Free))
    }

    /// Asks each worker to retire or to stay. A context that finds a newer number at its end begins again, so that the last number holds
    /// after the last context.
    fn set_active(&self, workers: usize) {
        let Some(retired) = self.retired.get() else { return };
        // Ordering: published by the requests: a context that makes one after this one has sees the number.
        retired.store((self.workers() - workers) as u32, Ordering::Relaxed);
        let mut set = usize::MAX;
        while set != self.active() {
            set = self.active();
            for (i, slot) in self.regular().iter().enumerate() {
                let Some(retiring) = slot.shared.retiring.get() else { return };
                if i < set {
                    retiring.withdraw();
                } else {
                    retiring.request();
                    // It sees the request after its sleep: a notice that comes before the sleep is kept.
                    self.unpark(WorkerId::new(i as u16));
                }
            }
        }
    }

    /// Has all workers started that are wanted and offline.
    fn start_active(&'static self) -> Result<(), ResizeError> {
        let mut outcome = Ok(());
        for (i, slot) in self.regular().iter().enumerate() {
            let Some(retiring) = slot.shared.retiring.get() else { break };
            // Ordering: after the AcqRel in `set_active`, which pairs with that in `Retiring::may_retire`: either the worker is seen
            // offline here, or it sees the request as it is.
            let is_missing = slot.shared.status.load(Ordering::Relaxed) == OFFLINE;
            if is_missing && !retiring.may_retire() && !retiring.mark_started() {
                if let Err(refused) = self.start(WorkerId::new(i as u16)) {
                    outcome = outcome.and(Err(ResizeError::Start(refused)));
                }
            }
        }
        outcome
    }

    /// A context that was started for the worker is about to become it, or will not.
    pub(crate) fn has_answered(&self, id: WorkerId) {
        if let Some(retiring) =
            self.slots().get(id.index()).and_then(|slot| slot.shared.retiring.get())
        {
            retiring.clear_started();
        }
    }

    /// The executor begins anew, with all workers.
    pub(crate) fn restore(&self) {
        self.set_active(self.workers());
    }
}
