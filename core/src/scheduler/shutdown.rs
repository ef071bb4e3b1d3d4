//! The end: no new tasks, the old ones finish or are cancelled, the workers leave.

use core::fmt;

use super::{
    config::Config,
    error::BuildError,
    executor::Scheduler,
    slot::{OFFLINE, Slots},
    ward::Ward,
    worker::Step,
};
use crate::{
    atomic::{AtomicU32, AtomicUsize, Ordering, fence, maybe_const},
    instant::Instant,
    platform::{Platform, WorkerId},
    task::{header::TaskInfo, memory::Slab, state::Snapshot, waker::carry_out},
};

/// Every context may spawn.
const OPEN: u32 = 0;
/// Only tasks may spawn; the executor stops when none is left.
const DRAINING: u32 = 1;
/// No context may spawn, and every task is cancelled.
const CANCELLING: u32 = 2;
/// No task is left.
const STOPPED: u32 = 3;

/// The lowest bit of the outside count: closed.
const CLOSED: usize = 1;
const ONE: usize = 2;

/// Whether tasks may still be spawned, and whether all have ended.
///
/// Spawns from inside a poll are counted by their worker, without sharing; the executor cannot stop meanwhile, since the
/// spawning task itself is alive. Spawns from outside are counted here, in one word with the bit that closes the door, so
/// that each comes either before or after the closing.
#[derive(Debug)]
pub(crate) struct Gate {
    stage: AtomicU32,
    outside: AtomicUsize,
    /// Counts up when a waiter for the end should look again.
    news: AtomicU32,
}

impl Gate {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { stage: AtomicU32::new(OPEN), outside: AtomicUsize::new(0), news: AtomicU32::new(0) }
        }
    }

    /// Counts a spawn from outside; false if the door is closed, and then it was never counted: neither the workers nor
    /// [`Scheduler::metrics`] see a task that is none.
    pub(crate) fn admit(&self) -> bool {
        let next = |count: usize| (count & CLOSED == 0).then_some(count + ONE);
        // Ordering: AcqRel; Release so that a later closing sees what came before, Acquire so that a spawn that comes
        // too late sees the shutdown: pairs with the AcqRel in `advance`.
        self.outside.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    pub(crate) fn dismiss(&self) {
        self.outside.fetch_sub(ONE, Ordering::AcqRel);
    }

    pub(crate) fn spawned(&self) -> usize {
        self.outside.load(Ordering::Acquire) / ONE
    }

    #[inline]
    fn stage(&self) -> u32 {
        // Ordering: Acquire pairs with the AcqRel in `advance`.
        self.stage.load(Ordering::Acquire)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.stage() != OPEN
    }
    #[inline(always)]
    pub(crate) fn is_cancelling(&self) -> bool {
        self.stage() >= CANCELLING
    }
    pub(crate) fn is_stopped(&self) -> bool {
        self.stage() == STOPPED
    }

    /// Moves on to a later stage; true if it was not there yet.
    fn advance(&self, to: u32) -> bool {
        self.outside.fetch_or(CLOSED, Ordering::AcqRel);
        // Ordering: see `stage`.
        self.stage.fetch_max(to, Ordering::AcqRel) < to
    }

    pub(crate) fn tell<P: Platform>(&self, platform: &Ward<P>) {
        // Ordering: Release pairs with the Acquire in `wait_until`.
        self.news.fetch_add(1, Ordering::Release);
        platform.unblock(&self.news);
    }

    /// A worker has left.
    pub(crate) fn tell_if_closing<P: Platform>(&self, platform: &Ward<P>) {
        // Ordering: either we see the closing, or the thread that closes sees that we have left: pairs with the fence in
        // `wait_until`.
        fence(Ordering::SeqCst);
        if self.is_closing() {
            self.tell(platform);
        }
    }
}

/// Why an executor was not shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The caller is a worker of the executor, and would wait for itself.
    OnWorker,
    /// The calling context must not wait ([`Platform::may_wait`]).
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

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
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
    pub fn shutdown(
        &'static self,
        deadline: Instant,
        mut survivors: impl FnMut(TaskInfo),
    ) -> Result<usize, ShutdownError> {
        if self.working().is_some() {
            return Err(ShutdownError::OnWorker);
        }
        if !self.platform.may_wait() {
            return Err(ShutdownError::MustNotWait);
        }
        self.gate.advance(DRAINING);
        self.wake_all();
        let mut survived = 0;
        if !self.wait_until(Some(deadline), |s| s.gate.is_stopped()) {
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

    /// As [`reopen`](Self::reopen), with another configuration, whose [`spares`](Config::spares), [`seed`](Config::seed) and
    /// [`timer_tick`](Config::timer_tick) are of no account: those stay. Its times are in microseconds, 71 minutes at most.
    ///
    /// # Errors
    /// [`BuildError::WatchdogNeverSleeps`].
    pub fn reopen_with(&self, config: &Config) -> Result<bool, BuildError> {
        if config.is_sleepless() {
            Err(BuildError::WatchdogNeverSleeps)
        } else {
            Ok(self.reopen_as(Some(config)))
        }
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
        self.gate.outside.fetch_and(!CLOSED, Ordering::AcqRel);
        true
    }

    /// An idle worker sees whether the end has come; true if the executor has stopped.
    #[inline]
    pub(crate) fn settle(&self) -> bool {
        match self.gate.stage() {
            OPEN => false,
            STOPPED => true,
            stage => self.settle_closing(stage),
        }
    }

    #[cold]
    fn settle_closing(&self, stage: u32) -> bool {
        if stage == CANCELLING {
            // Tasks spawned by polls that did not see the closing yet. Each worker comes here after its own polls, so
            // that none of its spawns is missed.
            self.abort_all();
        }
        // Ordering: two workers that complete the last two tasks: each has counted its own before, and at least one sees
        // the other's.
        fence(Ordering::SeqCst);
        if self.live() != 0 {
            return false;
        }
        // Completions were read before spawns, and a look that sees a completion sees the spawns before it: at some moment
        // between the two no task was alive. So none has been spawned since: only tasks can spawn.
        if self.gate.advance(STOPPED) {
            self.wake_all();
            self.gate.tell(&self.platform);
        }
        true
    }

    fn abort_all(&self) {
        Slab::for_each(&self.registry, |task| {
            // SAFETY: a slot is a header for ever (INV-SLAB-SLOT); the transition needs no reference.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::abort_once), task) };
        });
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
            if !all && (slot.is_online() || !slot.inbox.has_mail()) {
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
