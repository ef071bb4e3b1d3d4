//! A worker: one pass of its loop, and a poll.

use core::ptr::NonNull;

use super::{
    context::{SlotGuard, Worker},
    leave_loop::OutOfLoop,
    slot::Slots,
};
use crate::{
    parts::{Parts, Switch},
    platform::{Panic, Platform, ward::Ward},
    scheduler::{
        core::faces::{Jobs, Lifecycle, Placement, Queues, Waiting},
        upkeep::pace::Pace,
    },
    task::{
        executor_ref::Frame,
        header::{Header, Ready},
        run::{self, Guard, Polled},
    },
    trace::Event,
};

/// The last round in which [`Platform::relax`] does not yield the core. Others rely on a worker that searches: it must run.
const LAST_SPIN: u32 = 5;

/// So many portions of timers are fired in one pass of the loop, at most.
const PORTIONS: u32 = 16;

/// How a worker's loop has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing is left to do for it.
    Leaves,
    /// It was asked to leave by a resize.
    Retires,
    /// The calling thread has left it already.
    HasLeft,
}

/// What one pass of the loop did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Step {
    /// It polled a task, ran a piece of another worker's fork-join run, or had its part in a broadcast.
    Polled,
    /// There was nothing to do.
    Idle,
    /// The executor has shut down, or the worker is to leave ([`resize`](crate::Scheduler::resize)): there will be nothing to do.
    Stopped,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// One pass of the loop: finds one task and polls it. Never blocks. In an event sink ([`Platform::event`]) it does nothing.
    #[inline]
    pub fn step(&self) -> Step {
        let Some(_in_loop) = self.enter_loop() else { return Step::Idle };
        self.resume_share();
        let mut step = self.pass();
        if step == Step::Idle && self.look_for_io() > 0 {
            step = self.pass();
        }
        // The next step may come late.
        let _ = self.leave_to_driver();
        step
    }

    /// As `step`, for loops that go on at once: a worker that found nothing may go on searching.
    #[inline]
    pub(crate) fn pass(&self) -> Step {
        if self.slot().local.duties.needs_slow_path() && self.pass_slow_path() {
            return Step::Stopped;
        }
        if self.run_first_job() {
            return Step::Polled;
        }
        match self.find().or_else(|| self.find_again()) {
            Some(ready) => Self::after_poll(self.poll(ready, &self.leave_loop())),
            None if self.run_next_job() => Step::Polled,
            None => match self.take_last() {
                Some(ready) => Self::after_poll(self.poll_apart(ready, &self.leave_loop())),
                None if self.run_last_job() => Step::Polled,
                None => {
                    self.end_busy_period();
                    if self.is_over() { Step::Stopped } else { Step::Idle }
                }
            },
        }
    }

    /// Whether there will be nothing to do for this worker: the executor has stopped, or the worker is to leave.
    fn is_over(&self) -> bool {
        self.executor.settle() || self.executor.try_retire(self.slot())
    }

    #[inline(always)]
    fn after_poll(is_worker: bool) -> Step {
        if is_worker { Step::Polled } else { Step::Stopped }
    }

    /// As `poll`, which is in line in the loop.
    #[inline(never)]
    pub(crate) fn poll_apart(&self, ready: Ready, out: &OutOfLoop<'_>) -> bool {
        self.poll(ready, out)
    }

    /// After events of I/O that it has heard of, and after timers.
    #[inline]
    fn find_again(&self) -> Option<Ready> {
        // Again, as a portion of many timers may have woken no task of this executor.
        for _ in 0..PORTIONS {
            if !((self.deliver() > 0) | self.fire_timers()) {
                break;
            }
            let ready = self.find();
            if ready.is_some() {
                return ready;
            }
        }
        None
    }

    /// What came while the worker slept is there for it alone to see to. Whether it leaves for good.
    #[cold]
    fn pass_slow_path(&self) -> bool {
        self.end_sleep_and_scan();
        if self.slot().local.duties.set_slept(false) {
            self.deliver();
            self.fire_timers();
            // The tick goes on: a worker that finds one task by turns must come to the end of a tick too, or it would never hear of I/O.
            // It was not in the reactor if it was notified before it slept.
            self.end_busy_period();
        }
        self.slot().local.duties.is_leaving() && self.executor.try_retire(self.slot())
    }

    /// At most `polls` polls, fewer if there is nothing to do; how many there were. Never blocks.
    pub fn run_for(&self, polls: usize) -> usize {
        (0..polls).take_while(|_| self.step() == Step::Polled).count()
    }

    /// Works until the worker is to leave for one of these reasons, or has left. Outside of polls. `hands_over`: the calling thread may
    /// leave the worker in the midst of a poll.
    pub(crate) fn run_loop(&self, hands_over: bool) -> End {
        let in_loop = SlotGuard::enter(self.executor, self.id());
        self.slot().local.may_hand_over.set(hands_over);
        let most = self.executor.config.spin_rounds();
        let platform = &self.executor.platform;
        let (mut round, mut misses) = (0, 0_u32);
        loop {
            match self.pass() {
                Step::Polled => {
                    (round, misses) = (0, 0);
                    continue;
                }
                Step::Stopped if self.executor.platform.current_worker() != Some(self.id()) => {
                    // The slot is another thread's.
                    core::mem::forget(in_loop);
                    return End::HasLeft;
                }
                Step::Stopped if self.slot().local.duties.is_leaving() => return End::Retires,
                Step::Stopped => return End::Leaves,
                Step::Idle => {}
            }
            if self.executor.is_surplus(self.id()) {
                return End::Leaves;
            }
            // Progressive idle: look again a few times before the sleep.
            if self.may_look_again(round, most) {
                platform.relax(round.min(LAST_SPIN));
                round += 1;
                continue;
            }
            round = 0;
            if self.park_and_learn(most) {
                misses = 0;
            } else {
                // A worker that has work in its hands may be off its core: in the end, leave it this one.
                if misses > LAST_SPIN {
                    let _ = self.leave_loop();
                }
                platform.relax(misses);
                misses = misses.saturating_add(1);
            }
        }
    }

    /// Polls the task. False if the worker was left in the midst of that (`waits/in_place.rs`): its slot may be another thread's.
    #[cfg_attr(not(target_pointer_width = "32"), inline(always))]
    pub(crate) fn poll(&self, ready: Ready, _: &OutOfLoop<'_>) -> bool {
        let (executor, slot) = (self.executor, self.slot());
        let local = &slot.local;
        let task = ready.as_ptr();
        let frame = Frame::new(task, local.frame.get());
        local.frame.set(&frame);
        local.budget.set(local.units.get().into());
        if let Some(pace) = local.pace.get() {
            if !pace.is_busy() {
                self.begin_busy_period(pace);
            }
            pace.count();
        }
        slot.counters.polls.add(1);
        slot.lifo.count_poll();
        self.trace(Event::PollStart(task.as_ptr().addr()));

        slot.lifo.set_in_user_code(true);
        let polled = run::poll(ready, &executor.platform, frame.gone());
        if <S::Parts as Parts>::Waits::ON && frame.has_left() {
            executor.end_outside(&frame, polled);
            return false;
        }
        slot.lifo.set_in_user_code(false);

        self.trace(Event::PollEnd(task.as_ptr().addr()));
        slot.lifo.count_poll();
        local.frame.set(frame.end(&local.frame));
        if let Polled::Again(ready) = &polled {
            executor.trace_wake(Some((self.id(), slot)), ready);
        }
        match polled {
            Polled::Again(ready) if ready.is_special::<S::Parts>() => {
                executor.requeue_special(slot, ready);
            }
            Polled::Again(ready) => executor.requeue(slot, ready),
            Polled::Idle => {}
            over => {
                self.trace_end(task);
                self.count_completion(&over);
            }
        }
        true
    }

    /// The first poll after an idle moment or a tick.
    #[cold]
    fn begin_busy_period(&self, pace: &Pace) {
        self.wake_watcher_for_poll();
        if let Some(watcher) = self.slot().local.watcher.get() {
            watcher.note_poll();
        }
        pace.begin_busy_period(self.now());
    }

    #[inline(always)]
    pub(crate) fn trace_end(&self, task: NonNull<Header>) {
        self.trace(Event::End(task.as_ptr().addr()));
    }

    pub(crate) fn count_completion(&self, over: &Polled) {
        let slot = self.slot();
        match over {
            Polled::CompleteLocal => slot.local.locals.set(slot.local.locals.get() - 1),
            Polled::CompleteAffine(worker) => self.executor.dismiss_affine(*worker),
            _ => {}
        }
        slot.counters.completed.add(1);
    }
}

impl<P: Platform> Guard for Ward<P> {
    #[inline(always)]
    fn call(&self, code: &mut dyn FnMut()) -> Result<(), Panic> {
        self.guard(code)
    }

    #[cold]
    fn trace_panic(&self, task: NonNull<Header>) {
        self.event(self.current_worker(), Event::Panic(task.as_ptr().addr()));
    }
}
