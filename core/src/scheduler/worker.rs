//! A worker: one pass of its loop, and a poll.

use core::{fmt, marker::PhantomData, mem::ManuallyDrop};

use super::{
    duties::Away,
    executor::Scheduler,
    help::Nested,
    slot::{Slots, WorkerSlot},
};
use crate::{
    platform::{Platform, WorkerId},
    queue::chain::Chain,
    task::{
        coop::BUDGET,
        header::Ready,
        run::{self, Polled},
        schedule::Frame,
    },
    trace::Event,
};

/// What one pass of the loop did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// It polled a task, ran a piece of another worker's fork-join run, or had its part in a broadcast.
    Polled,
    /// There was nothing to do.
    Idle,
    /// The executor has shut down; there will be nothing to do.
    Stopped,
}

/// The calling context as a worker of an executor, to be stepped by hand. See [`Scheduler::worker`].
///
/// Dropping it takes the worker offline: queued tasks go to the others; local tasks are cancelled; pinned ones wait for
/// the worker to come back. Dropped while the executor is at work in its slot (in the closure of a
/// [`help_until`](Scheduler::help_until), of a broadcast or of a fork-join run, or by a task that a
/// [`join`](crate::JoinHandle::join) polls), it goes offline at the end of that.
///
/// It is neither `Send` nor `Sync`: it *is* the context that it was made in.
pub struct Worker<P: Platform, S, const RING: usize = 256>
where
    S: Slots<RING>,
{
    pub(crate) executor: &'static Scheduler<P, S, RING>,
    slot: &'static WorkerSlot<RING>,
    id: WorkerId,
    not_send: PhantomData<*mut ()>,
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    pub(crate) fn new(executor: &'static Scheduler<P, S, RING>, id: WorkerId) -> Self {
        // SAFETY: `attach` has checked that there is such a slot.
        let slot = unsafe { executor.slots().get_unchecked(id.index()) };
        Self { executor, slot, id, not_send: PhantomData }
    }

    /// As `new`, for a look in the midst of something: dropped, it leaves the worker where it is.
    pub(crate) fn of(executor: &'static Scheduler<P, S, RING>, id: WorkerId) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self::new(executor, id))
    }

    /// Which worker this is.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> &'static WorkerSlot<RING> {
        self.slot
    }

    /// One pass of the loop: finds one task and polls it. Never blocks.
    #[inline]
    pub fn step(&self) -> Step {
        let _nested = self.nest();
        let mut step = self.pass();
        if step == Step::Idle && self.look_for_io() > 0 {
            step = self.pass();
        }
        // The next step may come late.
        let _ = self.leave_for_long();
        step
    }

    /// As `step`, for loops that go on at once: a worker that found nothing may go on searching.
    #[inline]
    pub(crate) fn pass(&self) -> Step {
        if self.slot().local.duties.comes_from_sleep() {
            self.after_sleep();
        }
        match self.find().or_else(|| self.find_again()) {
            Some(ready) => {
                self.poll(ready, &self.leave_loop());
                Step::Polled
            }
            None if self.join_broadcast() || self.run_job() => Step::Polled,
            None => {
                self.end_stretch();
                if self.executor.settle() { Step::Stopped } else { Step::Idle }
            }
        }
    }

    /// After events of I/O that it has heard of, and after timers.
    #[inline]
    fn find_again(&self) -> Option<Ready> {
        ((self.deliver() > 0) | self.fire_timers()).then(|| self.find()).flatten()
    }

    /// What came while the worker slept is there for it alone to see to.
    #[cold]
    fn after_sleep(&self) {
        self.end_park();
        if self.slot().local.duties.slept(false) {
            self.deliver();
            self.fire_timers();
            // Another tick begins. A pass that finds nothing ends none: a worker that polls one task in each would never hear of I/O.
            self.end_stretch();
            self.slot().local.in_tick.set(0);
        }
    }

    /// In user code of this very worker, the loop is a nested one.
    pub(super) fn nest(&self) -> Option<Nested<P, S, RING>> {
        let is_in_user_code = self.slot().lifo.is_accepting();
        is_in_user_code.then(|| Nested::enter(self.executor, self.id, self.slot()))
    }

    /// At most `polls` polls, fewer if there is nothing to do; how many there were. Never blocks.
    pub fn run_for(&self, polls: usize) -> usize {
        (0..polls).take_while(|_| self.step() == Step::Polled).count()
    }

    /// Works until the executor has shut down, or this is a replacement worker that is no longer needed.
    pub fn run(self) {
        let (most, limit) = (self.executor.config.spin_rounds(), &self.slot().local.spin_limit);
        let mut round = 0;
        loop {
            match self.pass() {
                Step::Polled => round = 0,
                Step::Stopped => return,
                Step::Idle if self.is_surplus() => return,
                // Progressive idle: look again a few times before the sleep.
                Step::Idle if limit.allows(round, most) => {
                    self.executor.platform.relax(round);
                    round += 1;
                }
                Step::Idle => {
                    self.park_and_learn(most);
                    round = 0;
                }
            }
        }
    }

    #[inline]
    pub(crate) fn poll(&self, ready: Ready, _: &Away<'_>) {
        let (executor, slot) = (self.executor, self.slot());
        let local = &slot.local;
        let task = ready.as_ptr();
        let frame = Frame { task, below: local.frame.get() };
        local.frame.set(&frame);
        local.budget.set(BUDGET);
        if local.stretch.get().is_none() {
            self.begin_stretch();
        }
        local.in_tick.set(local.in_tick.get() + 1);
        slot.counters.polls.add(1);
        slot.lifo.count_poll();
        executor.platform.event(Some(self.id), Event::PollStart(task.as_ptr().addr()));

        slot.lifo.accept(true);
        let polled = run::poll(ready, |f| executor.platform.guard(f));
        slot.lifo.accept(false);

        executor.platform.event(Some(self.id), Event::PollEnd(task.as_ptr().addr()));
        slot.lifo.count_poll();
        local.frame.set(frame.below);
        match polled {
            Polled::Again(ready) if ready.pin().is_some() => slot.inbox.push(ready),
            Polled::Again(ready) => executor.push_ring(slot, ready),
            Polled::Idle => {}
            over => self.count_completion(matches!(over, Polled::CompleteLocal)),
        }
    }

    /// The first poll after an idle moment or a tick.
    #[cold]
    fn begin_stretch(&self) {
        self.cover_poll();
        let local = &self.slot().local;
        let now = self.executor.platform.now().as_nanos();
        local.watcher.polls();
        local.stretch.set(Some((now, local.in_tick.get())));
    }

    fn count_completion(&self, is_local: bool) {
        let slot = self.slot();
        if is_local {
            slot.local.locals.set(slot.local.locals.get() - 1);
        }
        slot.counters.completed.add(1);
    }

    /// Ends a local task of a worker that goes offline.
    pub(crate) fn end(&self, ready: Ready, _: &Away<'_>) {
        match run::cancel(ready, |f| self.executor.platform.guard(f)) {
            Polled::Complete | Polled::CompleteLocal | Polled::Idle => self.count_completion(true),
            Polled::Again(ready) => self.slot().inbox.push(ready),
        }
    }

    /// After `TICK` polls: count the time, take part in a broadcast, look for I/O, see to the timers.
    #[cold]
    pub(crate) fn end_tick(&self) {
        self.end_stretch();
        self.slot().local.in_tick.set(0);
        // A worker that is never idle sees here that a shutdown has missed a task, which was about to begin.
        let _ = self.executor.settle();
        self.join_broadcast();
        self.look_for_io();
        self.fire_timers();
        self.look_at_next();
    }

    /// Asks for I/O, and delivers what is ready; how much.
    pub(crate) fn look_for_io(&self) -> usize {
        self.ask();
        self.deliver()
    }

    /// Ends the stretch of polls under way: its time goes to the estimate and to the metrics. Search time does not.
    pub(crate) fn end_stretch(&self) {
        let (slot, local) = (self.slot(), &self.slot().local);
        if let Some((begin, first)) = local.stretch.take() {
            let nanos = self.executor.platform.now().as_nanos().saturating_sub(begin);
            local.estimate.record(nanos, local.in_tick.get().saturating_sub(first));
            let nanos = nanos.saturating_add(u64::from(local.busy_rest.get()));
            slot.counters.busy.add((nanos / 1_000) as usize);
            local.busy_rest.set((nanos % 1_000) as u32);
        }
    }

    /// What is queued here goes to the injector, and a worker is woken for it. With the mark of INV-ACCEPTING down.
    pub(crate) fn give_away(&self) {
        let slot = self.slot();
        debug_assert!(!slot.lifo.is_accepting(), "INV-ACCEPTING");
        let mut chain = Chain::new();
        if let Some(ready) = slot.lifo.take() {
            chain.push_back(ready);
        }
        // SAFETY: INV-RING-OWNER: we are the worker.
        while let Some(ready) = unsafe { slot.ring.pop() } {
            chain.push_back(ready);
        }
        if !chain.is_empty() {
            self.executor.injector.push_chain(chain);
            self.executor.notify();
        }
    }
}

impl<P: Platform, S, const RING: usize> fmt::Debug for Worker<P, S, RING>
where
    S: Slots<RING>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("id", &self.id).finish_non_exhaustive()
    }
}
