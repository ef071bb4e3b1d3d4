//! Waiting in sync code: the waiting context helps while there is work, and then sleeps.

#[cfg(feature = "classes")]
use super::{classes::OwnClasses, executor::Cores};
use super::{
    context::{Waits, Worker},
    executor::Scheduler,
    nested::Nested,
    slot::Slots,
    worker::Step,
};
use crate::{
    parts::{On, Parts, Switch},
    platform::{Platform, WorkerId},
};

/// How often a context from outside looks before it sleeps, for about a microsecond in all. A worker that is awake needs that
/// long for a small task. A sleep costs both sides a system call, even if the wait ends before the sleep begins.
const LOOKS: u32 = if cfg!(filch_loom) { 0 } else { 6 };

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Works on other tasks until `done`, for sync code that waits for something.
    ///
    /// On a worker it polls tasks and sleeps in between, as the worker's own loop does. The code that makes `done` true must call
    /// [`unpark_worker`](Self::unpark_worker) afterwards. In a context that is no worker it helps only while a worker sleeps, so
    /// that no more threads work than there are workers, and only in a spare slot ([`Config::spares`](crate::Config::spares)).
    ///
    /// Waits nest on a worker up to [`Config::nesting`](crate::Config::nesting). In a deeper wait the worker polls only the tasks
    /// that are pinned to it. Otherwise it sleeps, fires its timers and receives I/O, while a replacement worker in a spare slot
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
        self.help(&mut done, Patience::None)
    }

    /// As [`help_until`](Self::help_until), but nests deeper rather than give up, until the stack overflows. For waits that
    /// cannot fail.
    #[doc(hidden)]
    pub fn help_until_done(&'static self, mut done: impl FnMut() -> bool) -> bool
    where
        S::Parts: Parts<Waits = On>,
    {
        self.help(&mut done, Patience::Endless)
    }

    /// As [`help_until`](Self::help_until), for waits that an event from outside may end. It gives up after no worker has been
    /// left for five seconds to run what is queued. Of several such waits the one that began last gives up first.
    #[doc(hidden)]
    pub fn help_patiently(&'static self, mut done: impl FnMut() -> bool) -> bool
    where
        S::Parts: Parts<Waits = On>,
    {
        self.help(&mut done, Patience::Some)
    }

    /// Polls the urgent tasks that wait, on top of the caller: for loops in sync code of a task, or of a piece of a fork-join run, that
    /// is not urgent itself. Whether there were any. False in interrupt handlers and event sinks, in a context that is no worker's, and where waits nest
    /// too deep ([`Config::nesting`](crate::Config::nesting)). The caller keeps its budget: other tasks than urgent ones still wait.
    ///
    /// Every 16th call in vain looks for I/O and timers too, 50 us after the last look at the earliest: what they wake may be urgent. Cost
    /// of the others: a few loads. As for [`help_until`](Self::help_until), a lock that the caller holds may be one that a task needs.
    ///
    /// The caller waits for the urgent tasks. In a piece of a fork-join run that another worker waits for, an urgent task that blocks in
    /// sync code until that very worker runs something (a task that is pinned there) is a deadlock: urgent tasks `await`.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use filch::{Class, Executor, TaskOptions, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// const REQUEST: TaskOptions = TaskOptions::new().class(Class::Urgent);
    /// let mut bulk = EXECUTOR.spawn(&TASKS, async {
    ///     let request = EXECUTOR.spawner().spawn_with(REQUEST, &TASKS, async { 7 }).unwrap();
    ///     // In the midst of a long loop:
    ///     assert!(EXECUTOR.give_way());
    ///     assert!(request.is_finished());
    /// })?;
    /// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
    /// # bulk.join()?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[cfg(feature = "classes")]
    pub fn give_way(&'static self) -> bool
    where
        S::Parts: Parts<Waits = On, Classes = On>,
    {
        self.give_way_if(OwnClasses::looks_around).0
    }

    /// As [`give_way`](Self::give_way), for callers that count their calls: it looks for I/O and timers unless the last look was less than
    /// 50 us ago. False if it did neither that nor poll a task.
    #[cfg(feature = "classes")]
    #[doc(hidden)]
    pub fn give_way_and_look(&'static self) -> bool
    where
        S::Parts: Parts<Waits = On, Classes = On>,
    {
        let (polled, looked) = self.give_way_if(|_| true);
        polled || looked
    }

    /// Whether it polled a task, and whether it looked for I/O and timers, which it does if it `may`.
    #[cfg(feature = "classes")]
    fn give_way_if(
        &'static self,
        may: impl FnOnce(&OwnClasses<RING, Cores<S, RING>>) -> bool,
    ) -> (bool, bool)
    where
        S::Parts: Parts<Waits = On, Classes = On>,
    {
        // First, as a handler must not touch the rest.
        let Waits::OnWorker(id, slot) = self.waits() else { return (false, false) };
        let Some(own) = slot.classes.get() else { return (false, false) };
        let worker = Worker::of(self, id);
        let pressed = self.is_pressed(slot);
        if !pressed && !may(own)
            || Self::is_in_urgent(slot)
            || slot.local.depth.get() >= self.config.nesting()
        {
            return (false, false);
        }
        let looks = !pressed && worker.is_time_to_look();
        if !pressed && !looks {
            return (false, false);
        }
        let left = slot.local.budget.get();
        let mut nested = Nested::enter(self, id, slot);
        nested.keep_budget(left);
        (worker.run_urgent(looks), looks)
    }

    pub(super) fn help(&'static self, done: &mut dyn FnMut() -> bool, patience: Patience) -> bool {
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
                let is_done = self.block_worker(id, slot, done, patience == Patience::Some);
                is_done || (patience == Patience::Endless && self.help_on(id, done))
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
        worker.slot().local.guest.set(true);
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

#[cfg(feature = "classes")]
impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Polls urgent tasks, whether any. If it `looks`, it looks for I/O and timers first.
    #[cold]
    fn run_urgent(&self, looks: bool) -> bool {
        if looks {
            self.look_for_io();
            self.fire_timers();
        }
        let mut polled = false;
        while let Some(ready) = self.take_urgent() {
            let _ = self.poll_apart(ready, &self.leave_loop());
            polled = true;
        }
        polled
    }
}

/// What a wait that is nested too deep does while no worker is left to run what is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It gives up.
    None,
    /// It gives up after a while.
    Some,
    /// It nests deeper.
    Endless,
}
