//! Waiting in sync code: help while there is something to help with, then sleep.

use core::ptr::NonNull;

use super::{
    executor::Scheduler,
    leave::Leave,
    slot::{Slots, WorkerSlot},
    worker::{Step, Worker},
};
use crate::{
    atomic::{AtomicU32, Ordering},
    platform::{Platform, WorkerId},
    task::{coop::renewed, schedule::Anchor},
};

/// How often a context from outside looks before it sleeps, for about a microsecond in all: what a worker that is awake needs for
/// a small task. A sleep costs both sides a system call, even if the news comes before it begins.
const LOOKS: u32 = if cfg!(filch_loom) { 0 } else { 6 };

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// Works on other tasks until `done`, for sync code that waits for something.
    ///
    /// On a worker it polls tasks and sleeps in between, as the worker's own loop does; whatever makes `done` true must
    /// call [`unpark_worker`](Self::unpark_worker) afterwards. From elsewhere it helps only while a worker sleeps,
    /// so that no more threads work than there are workers, and only through a spare slot
    /// ([`Config::spares`](crate::Config::spares)).
    ///
    /// Waits nest on a worker up to [`Config::nesting`](crate::Config::nesting). One below that sleeps, fires its timers and hears
    /// of I/O, while a replacement worker in a spare slot takes its place.
    ///
    /// Another task runs on top of the caller: a lock that the caller holds across this call, and that such a task wants, is a
    /// deadlock if the thread of this worker is the one that would release it. Release it before, or `await` in place of
    /// this.
    ///
    /// Returns whether `done` holds. False on a worker: it is nested too deep, tasks are queued, and no worker is left to run
    /// them. False, at once, in a context that must not wait ([`Platform::may_wait`]). False elsewhere: there is nothing to help
    /// with, and it was not done a few moments ([`Platform::relax`]) later either.
    ///
    /// # Panics
    /// With a panic of `done`.
    pub fn help_until(&'static self, mut done: impl FnMut() -> bool) -> bool {
        self.help(&mut done, Patience::None)
    }

    /// As [`help_until`](Self::help_until), but rather nests deeper than gives up, until the stack overflows. For waits that have no
    /// way to fail.
    #[doc(hidden)]
    pub fn help_until_done(&'static self, mut done: impl FnMut() -> bool) -> bool {
        self.help(&mut done, Patience::Endless)
    }

    /// As [`help_until`](Self::help_until), for waits that an event from outside may end: gives up when no worker has been left for
    /// five seconds to run what is queued, the wait that began last first.
    #[doc(hidden)]
    pub fn help_patiently(&'static self, mut done: impl FnMut() -> bool) -> bool {
        self.help(&mut done, Patience::Some)
    }

    pub(super) fn help(&'static self, done: &mut dyn FnMut() -> bool, patience: Patience) -> bool {
        if !self.platform.may_wait() {
            return done();
        }
        match self.working() {
            Some((id, slot)) => {
                let _nested = Nested::enter(self, id, slot);
                let deep = slot.local.depth.get() > self.config.nesting();
                (deep && self.block_worker(id, slot, done, patience == Patience::Some))
                    || ((!deep || patience == Patience::Endless) && self.help_on(id, done))
            }
            None => self.help_from_outside(done) || self.look_on(done),
        }
    }

    fn help_on(&'static self, id: WorkerId, done: &mut dyn FnMut() -> bool) -> bool {
        let worker = Worker::of(self, id);
        let mut slept = false;
        loop {
            // Once in any case: who yields in sync code is done at once, and must let others run all the same.
            let step = worker.pass();
            let _ = worker.leave_loop();
            if done() {
                // The poll around us may be long: what this worker has seen in its sleep is looked at now.
                if slept && self.has_work(id) {
                    self.notify();
                }
                return true;
            }
            if step != Step::Polled {
                worker.park_in_loop();
                slept = true;
            }
        }
    }

    fn help_from_outside(&'static self, done: &mut dyn FnMut() -> bool) -> bool {
        if done() {
            return true;
        }
        if self.injector.is_empty() || !self.idle.any_parked(self) {
            return false;
        }
        let Some(helper) = self.helper() else { return false };
        let worker = helper.worker();
        // No jobs: they may be long, and what it waits for be done. The slot's next context may take some.
        worker.slot().local.guest.set(true);
        while self.idle.any_parked(self) && worker.pass() == Step::Polled {
            let _ = worker.leave_loop();
            if done() {
                return true;
            }
        }
        drop(helper);
        done()
    }

    /// Looks whether it is done a few times more, before the caller sleeps.
    fn look_on(&self, done: &mut dyn FnMut() -> bool) -> bool {
        (0..LOOKS).any(|round| {
            self.platform.relax(round);
            done()
        })
    }

    pub(crate) unsafe fn op_help(anchor: NonNull<Anchor>, done: &mut dyn FnMut() -> bool) -> bool {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.help(done, Patience::None)
    }

    pub(crate) unsafe fn op_may_wait(anchor: NonNull<Anchor>) -> bool {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.platform.may_wait()
    }

    pub(crate) unsafe fn op_contain(anchor: NonNull<Anchor>, f: &mut dyn FnMut()) {
        // SAFETY: the table is this type's.
        drop(unsafe { Self::of(anchor) }.platform.guard(f));
    }

    pub(crate) unsafe fn op_block(anchor: NonNull<Anchor>, word: &AtomicU32) {
        // SAFETY: the table is this type's.
        let platform = &unsafe { Self::of(anchor) }.platform;
        // Ordering: Acquire pairs with the Release in `wake_thread`.
        while word.load(Ordering::Acquire) == 0 {
            platform.block(word, 0, None);
        }
    }
}

/// What a wait does that is nested too deep, while no worker is left to run what is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It gives up.
    None,
    /// It gives up after a while.
    Some,
    /// It nests deeper.
    Endless,
}

/// The worker's loop runs inside a poll: what that poll had is put back when it goes on.
pub(crate) struct Nested<P: Platform, S, const RING: usize>
where
    S: Slots<RING>,
{
    accepting: bool,
    batching: bool,
    budget: u32,
    in_poll: bool,
    /// A field, and so dropped after the rest.
    worker: Leave<P, S, RING>,
}

impl<P: Platform, S, const RING: usize> Nested<P, S, RING>
where
    S: Slots<RING>,
{
    pub(crate) fn enter(
        executor: &'static Scheduler<P, S, RING>,
        id: WorkerId,
        slot: &'static WorkerSlot<RING>,
    ) -> Self {
        let in_poll = slot.lifo.is_in_poll();
        if in_poll {
            // The poll below is no longer one that others should take for stuck.
            slot.lifo.count_poll();
        }
        slot.local.depth.set(slot.local.depth.get() + 1);
        slot.bay.mix(true);
        let accepting = slot.lifo.replace_accept(false);
        // In a batch of wakers: what they have woken is made known now, as this one may take long.
        let batching = slot.local.duties.batches(false);
        let _ = Worker::of(executor, id).leave_loop();
        Self {
            worker: Leave::at_end(executor, id),
            accepting,
            batching,
            // Others run now, so that the poll below may begin anew; a budget without end stays one.
            budget: renewed(slot.local.budget.get()),
            in_poll,
        }
    }
}

impl<P: Platform, S, const RING: usize> Drop for Nested<P, S, RING>
where
    S: Slots<RING>,
{
    fn drop(&mut self) {
        let worker = self.worker.worker();
        let slot = worker.slot();
        let _ = worker.leave_loop();
        // The poll or the job below goes on, for long perhaps.
        worker.cover_poll();
        slot.bay.mix(false);
        slot.local.depth.set(slot.local.depth.get() - 1);
        slot.local.budget.set(self.budget);
        if self.in_poll {
            slot.lifo.count_poll();
        }
        slot.local.duties.batches(self.batching);
        slot.lifo.accept(self.accepting);
    }
}
