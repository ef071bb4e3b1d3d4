//! Waiting in sync code: the waiting context helps while there is work, and then sleeps.

use crate::{
    atomic::{Ordering, fence},
    parts::{On, Parts, Switch},
    platform::{Platform, WorkerId},
    scheduler::{
        core::{
            context::{Waits, Worker},
            executor::Scheduler,
            faces::{JobOffers, Lifecycle},
            nested::Nested,
            slot::{OFFLINE, Slots},
            worker::Step,
        },
        state::census::Counted,
    },
};

/// How often a context from outside looks before it sleeps, for about a microsecond in all. A worker that is awake needs that
/// long for a small task. A sleep costs both sides a system call, even if the wait ends before the sleep begins.
const LOOKS: u32 = if cfg!(filch_loom) { 0 } else { 6 };

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Works on other tasks until `done`, for sync code that waits for something.
    ///
    /// On a worker it polls tasks and sleeps in between, as the worker's own loop does. The code that makes `done` true must call
    /// [`unpark_worker`](Self::unpark_worker) afterwards. In a context that is no worker it helps only while a worker sleeps, so
    /// that no more threads work than there are workers, and only in a spare slot ([`Config::spare_slots`](crate::Config::spare_slots)).
    ///
    /// Waits nest on a worker up to [`Config::nesting`](crate::Config::nesting). In a deeper wait the worker polls only the tasks
    /// that are pinned to it. Otherwise it sleeps, fires its timers and receives I/O, while a compensation worker in a spare slot
    /// takes its place.
    ///
    /// Other tasks run on top of the caller. A lock that the caller holds across this call, and that such a task needs, is a
    /// deadlock if only the thread of this worker would release it. Release the lock before this call, or `await` in place of
    /// this call.
    ///
    /// Returns whether `done` holds. On a worker the result is false if the wait is nested too deep, tasks are queued, and no
    /// worker is left to run them. In a context that must not wait ([`Platform::context`], event sinks) it is false at once unless `done`
    /// holds. In other contexts it is false if there is nothing to help with, and `done` does not hold a few moments
    /// ([`Platform::relax`]) later either.
    ///
    /// # Panics
    /// With a panic of `done`.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use core::sync::atomic::{AtomicBool, Ordering};
    /// # use filch::{Executor, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// static DONE: AtomicBool = AtomicBool::new(false);
    /// # let worker = EXECUTOR.worker(WorkerId::new(0))?;
    /// let task = EXECUTOR.spawn(&TASKS, async {
    ///     DONE.store(true, Ordering::Release);
    ///     // The worker that waits below may sleep.
    ///     EXECUTOR.unpark_worker(WorkerId::new(0));
    /// }).unwrap();
    /// // In sync code on worker 0, which runs the task meanwhile:
    /// assert!(EXECUTOR.help_until(|| DONE.load(Ordering::Acquire)));
    /// # drop(task);
    /// # Ok::<(), filch::RunError>(())
    /// ```
    pub fn help_until(&'static self, mut done: impl FnMut() -> bool) -> bool
    where
        S::Parts: Parts<Waits = On>,
    {
        self.help(&mut done, RetryBudget::None)
    }

    /// As [`help_until`](Self::help_until), but nests deeper rather than give up, until the stack overflows. For waits that
    /// cannot fail.
    #[doc(hidden)]
    pub fn help_until_done(&'static self, mut done: impl FnMut() -> bool) -> bool
    where
        S::Parts: Parts<Waits = On>,
    {
        self.help(&mut done, RetryBudget::Endless)
    }

    /// As [`help_until`](Self::help_until), for waits that an event from outside may end. It gives up after no worker has been
    /// left for five seconds to run what is queued. Of several such waits the one that began last gives up first.
    #[doc(hidden)]
    pub fn help_patiently(&'static self, mut done: impl FnMut() -> bool) -> bool
    where
        S::Parts: Parts<Waits = On>,
    {
        self.help(&mut done, RetryBudget::Some)
    }

    pub(crate) fn help(&'static self, done: &mut dyn FnMut() -> bool, budget: RetryBudget) -> bool {
        if !<S::Parts as Parts>::Waits::ON {
            return done();
        }
        match self.waits() {
            Waits::Nowhere => done(),
            Waits::OnWorker(id, slot) => {
                let _nested = Nested::enter(self, id, slot);
                if slot.local.depth.get() <= self.config.nesting() {
                    return self.help_on(id, done);
                }
                let is_done = self.block_worker(id, slot, done, budget == RetryBudget::Some);
                is_done || (budget == RetryBudget::Endless && self.help_on(id, done))
            }
            Waits::Outside => self.help_from_outside(done) || self.look_on(done),
        }
    }

    fn help_on(&'static self, id: WorkerId, done: &mut dyn FnMut() -> bool) -> bool {
        let worker = Worker::of(self, id);
        let mut slept = false;
        loop {
            // A pass comes first: sync code that yields is done at once, and must let others run all the same.
            let step = worker.pass();
            if worker.in_user_code(&worker.leave_loop(), &mut *done) {
                // The poll around this call may be long: others are notified now of the work that came while this worker slept.
                if slept && self.has_work(id) {
                    self.notify();
                }
                return true;
            }
            if step != Step::Polled {
                if !worker.park_in_loop() {
                    // No other worker may rely on one that yields its core.
                    let _ = worker.leave_loop();
                    self.platform.relax(u32::MAX);
                }
                slept = true;
            }
        }
    }

    fn help_from_outside(&'static self, done: &mut dyn FnMut() -> bool) -> bool {
        if done() {
            return true;
        }
        if !self.has_injected() || !self.idle.any_parked(self) {
            return false;
        }
        let Some(helper) = self.helper() else { return false };
        let worker = helper.worker();
        // A helper takes no jobs: they may be long, and its wait may be over before. The next context of the slot may take jobs.
        worker.slot().local.takes_no_jobs.set(true);
        while self.idle.any_parked(self) && worker.pass() == Step::Polled {
            if worker.in_user_code(&worker.leave_loop(), &mut *done) {
                return true;
            }
        }
        drop(helper);
        done()
    }

    /// Looks a few more times whether the wait is over, before the caller sleeps.
    fn look_on(&self, done: &mut dyn FnMut() -> bool) -> bool {
        (0..LOOKS).any(|round| {
            self.platform.relax(round);
            done()
        })
    }
}

/// What a wait that is nested too deep does while no worker is left to run what is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryBudget {
    /// It gives up.
    None,
    /// It gives up after a while.
    Some,
    /// It nests deeper.
    Endless,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Makes the calling context, which is no worker, a helper in the place of a worker that is without work: so that no more
    /// contexts work than there are workers. `None` if no worker is without work, or no spare slot is free.
    pub(crate) fn helper(&'static self) -> Option<Helper<P, S, RING>> {
        let helpers = || self.census.helpers.get() as usize;
        if self.without_work() <= helpers() {
            return None;
        }
        let worker = self.spare_slots().find_map(|(id, _)| self.enter_slot(id, OFFLINE).ok())?;
        // The helper is online before it is counted as one that cannot run tasks (`others_can_work`).
        worker.slot().local.helping.set(true);
        let helper = Helper { _helping: Helping::begin(self), worker };
        // Other helpers may have come at the same time.
        (self.without_work() >= helpers()).then_some(helper)
    }
}

/// A helper: a worker in a spare slot, for as long as this lives.
pub(crate) struct Helper<P: Platform, S: Slots<RING>, const RING: usize> {
    /// The first field, so it is dropped first: the worker that gets its place back is notified before the helper leaves.
    _helping: Helping<P, S, RING>,
    worker: Worker<P, S, RING>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Helper<P, S, RING> {
    pub(crate) fn worker(&self) -> &Worker<P, S, RING> {
        &self.worker
    }
}

/// A context is counted as a helper, for as long as this lives. The fields are dropped in this order.
pub(crate) struct Helping<P: Platform, S: Slots<RING>, const RING: usize> {
    _counted: Counted<'static>,
    _place: Place<P, S, RING>,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Helping<P, S, RING> {
    pub(crate) fn begin(executor: &'static Scheduler<P, S, RING>) -> Self {
        let counted = executor.count_out(executor.census.helpers.up());
        Self { _counted: counted, _place: Place(executor) }
    }
}

/// Dropped, it gives the place of a helper, which has been counted out, back to the worker that is without work.
struct Place<P: Platform, S: Slots<RING>, const RING: usize>(&'static Scheduler<P, S, RING>);

impl<P: Platform, S: Slots<RING>, const RING: usize> Drop for Place<P, S, RING> {
    fn drop(&mut self) {
        let executor = self.0;
        // One more worker may take jobs (`may_run_jobs`). An owner that found no worker to take its jobs must look again.
        // Ordering: pairs with the fence in `answer`: either the owner sees the count, or it is asked anew. Pairs with the fence
        // in `Idle::announce` too: either a worker that goes to sleep beside a public job sees the count, or this context sees
        // that it sleeps.
        fence(Ordering::SeqCst);
        executor.ask_for_jobs();
        if executor.has_work_for_any() {
            executor.notify();
        }
    }
}
