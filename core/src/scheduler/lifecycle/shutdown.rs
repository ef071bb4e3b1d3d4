//! The end: no new tasks, the old ones finish or are cancelled, the workers leave.

use crate::scheduler::core::faces::OwnQueues;
use core::fmt;

use crate::{
    atomic::{Ordering, fence},
    instant::Instant,
    parts::{On, Parts},
    platform::{Platform, WorkerId},
    scheduler::{
        config::Config,
        core::{
            executor::Scheduler,
            slot::{OFFLINE, Slots},
            worker::Step,
        },
        error::BuildError,
        state::gate::{CANCELLING, CLOSED, DRAINING, OPEN, STOPPED},
    },
    task::info::TaskInfo,
};

/// Why an executor was not shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ShutdownError {
    /// The caller is a worker of the executor, and would wait for itself.
    OnWorker,
    /// The calling context must not wait ([`Platform::context`]).
    MustNotWait,
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OnWorker => "a worker cannot wait for the end of its own executor",
            Self::MustNotWait => "the calling context must not wait",
        })
    }
}

impl core::error::Error for ShutdownError {}

#[cfg(feature = "std")]
impl From<ShutdownError> for std::io::Error {
    fn from(error: ShutdownError) -> Self {
        Self::other(error)
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING>
where
    S::Parts: Parts<Shutdown = On>,
{
    /// Ends the executor: refuses spawns from outside, lets the tasks finish until `deadline` (tasks may still spawn), shows
    /// those that survive it to `survivors`, cancels them, and waits until no task is left and every worker has left.
    /// [`Instant::MAX`] waits for all; a deadline that has passed cancels at once. Returns how many survived.
    ///
    /// When it returns nothing leaks and nothing runs. A task inside an endless poll, or that holds a
    /// [`shield`](crate::shield) for ever, makes it wait for ever. For workers that are offline the caller itself does the
    /// work, where the platform lets it be them. Blocks; call it from a thread that is no worker.
    ///
    /// # Errors
    /// [`ShutdownError`], with nothing done.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Config, Executor, Instant, ShutdownError, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// let task = EXECUTOR.spawn(&TASKS, core::future::pending::<()>())?;
    /// let worker = EXECUTOR.worker(WorkerId::new(0))?;
    /// assert_eq!(EXECUTOR.shutdown(Instant::MAX, |_| {}), Err(ShutdownError::OnWorker));
    /// drop(worker);
    /// // What has not ended is cancelled at once.
    /// let survived = EXECUTOR.shutdown(Instant::ZERO, |survivor| assert_eq!(Some(survivor.id), task.id()))?;
    /// assert_eq!(survived, 1);
    /// assert!(EXECUTOR.is_stopped());
    ///
    /// // The next use of the same memory, which ends without a wait.
    /// assert!(EXECUTOR.reopen());
    /// EXECUTOR.begin_shutdown();
    /// EXECUTOR.shutdown(Instant::ZERO, |_| {})?;
    /// assert!(EXECUTOR.reopen_with(&Config::new().stealing(false))?);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn shutdown(
        &'static self,
        deadline: Instant,
        mut survivors: impl FnMut(TaskInfo),
    ) -> Result<usize, ShutdownError> {
        let mut survived = 0;
        if !self.drain(deadline)? {
            self.tasks(|task| {
                survived += 1;
                survivors(task);
            });
            self.begin_shutdown();
            self.wait_until(None, |s| s.gate.is_stopped());
        }
        self.wait_until(None, |s| s.census.is_empty());
        Ok(survived)
    }

    /// The first part of a [`shutdown`](Self::shutdown): refuses spawns from outside, and lets the tasks finish until `deadline`. Whether
    /// none is left.
    ///
    /// # Errors
    /// As `shutdown`.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use core::future::pending;
    /// # use filch::{Executor, Instant, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// EXECUTOR.spawn(&TASKS, pending::<()>())?.detach();
    /// assert!(!EXECUTOR.drain(Instant::ZERO)?);
    /// assert!(EXECUTOR.spawn(&TASKS, async {}).is_err());
    /// assert_eq!(EXECUTOR.shutdown(Instant::ZERO, |_| {})?, 1);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn drain(&'static self, deadline: Instant) -> Result<bool, ShutdownError> {
        if self.online_worker().is_some() || self.left_poll().is_some() {
            return Err(ShutdownError::OnWorker);
        }
        if !self.platform.may_wait() {
            return Err(ShutdownError::MustNotWait);
        }
        self.gate.advance(DRAINING);
        self.wake_all();
        Ok(self.wait_until(Some(deadline), |s| s.gate.is_stopped()))
    }

    /// Cancels every task and stops, without waiting: for callers that must not block, workers included. Spawns are refused from now on.
    pub fn begin_shutdown(&self) {
        self.gate.advance(CANCELLING);
        self.abort_all();
        self.wake_all();
    }

    /// Whether no task is left after a shutdown.
    pub fn is_stopped(&self) -> bool {
        self.gate.is_stopped()
    }

    /// Opens an executor again that has shut down and whose workers have all left. False, and nothing done, if they have
    /// not. Not while another thread shuts it down: that one might wait for an end that has come and gone.
    pub fn reopen(&self) -> bool {
        self.reopen_as(None)
    }

    /// As [`reopen`](Self::reopen), with another configuration, whose [`spares`](Config::spare_slots) and
    /// [`timer_resolution`](Config::timer_resolution) are of no account: those stay. Its times are in microseconds, 71 minutes at most.
    ///
    /// # Errors
    /// [`BuildError::WatchdogNeverSleeps`], [`BuildError::ZeroBudget`].
    pub fn reopen_with(&self, config: &Config) -> Result<bool, BuildError> {
        config.check().map(|()| self.reopen_as(Some(config)))
    }

    fn reopen_as(&self, config: Option<&Config>) -> bool {
        if !self.census.is_deserted() {
            return false;
        }
        // Ordering: AcqRel: after all that was done before the end, before all that comes.
        let stage = &self.gate.stage;
        if stage.compare_exchange(STOPPED, OPEN, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        if let Some(config) = config {
            self.config.change(config);
        }
        self.census.reset();
        self.restore();
        self.gate.outside.fetch_and(!CLOSED, Ordering::AcqRel);
        true
    }

    /// Waits for a condition that comes with `Gate::tell`; false if the deadline came first.
    fn wait_until(&'static self, deadline: Option<Instant>, done: impl Fn(&Self) -> bool) -> bool {
        loop {
            // Ordering: Acquire pairs with the Release in `tell`.
            let news = self.gate.news.load(Ordering::Acquire);
            // Ordering: pairs with the fence in `tell_if_closing`.
            fence(Ordering::SeqCst);
            if done(self) {
                return true;
            }
            if deadline.is_some_and(|end| self.platform.now() >= end) {
                return false;
            }
            let alone = self.census.is_empty();
            self.work_for_absent(alone, deadline);
            if alone {
                self.platform.relax(0);
            } else {
                self.platform.block(&self.gate.news, news, deadline);
            }
        }
    }

    /// Is each worker in turn that has left with tasks pinned to it, or all of them if no worker is online, until there is
    /// nothing to do. A core that can be no other worker but its own is of no help here.
    fn work_for_absent(&'static self, all: bool, deadline: Option<Instant>) {
        for (i, slot) in self.slots().iter().enumerate() {
            if !all && (slot.is_online() || !slot.has_mail()) {
                continue;
            }
            let Ok(worker) = self.attach(WorkerId::new(i as u16), OFFLINE) else { continue };
            while worker.step() == Step::Polled {
                if deadline.is_some_and(|end| self.platform.now() >= end) {
                    break;
                }
            }
        }
    }
}
