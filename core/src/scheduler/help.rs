//! Waiting in sync code: help while there is something to help with, then sleep.

use core::{mem::ManuallyDrop, ptr::NonNull};

use super::{
    executor::{RunError, Scheduler},
    leave::Leave,
    marks::Mark,
    slot::{OFFLINE, STARTING, Slots, WorkerSlot},
    worker::{Step, Worker},
};
use crate::{
    atomic::{AtomicU32, Ordering, fence},
    platform::{Platform, WorkerEntry, WorkerId},
    task::{coop::BUDGET, schedule::Anchor},
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
    /// On a worker it polls tasks and sleeps in between, as the worker's own loop does; whoever makes `done` true must
    /// call [`unpark_worker`](Self::unpark_worker) afterwards. From elsewhere it helps only while a worker sleeps,
    /// so that no more threads work than there are workers, and only through a spare slot
    /// ([`Config::spares`](crate::Config::spares)). Not for interrupt handlers.
    ///
    /// On a worker that is nested too deep a stand-in takes over; where none can be had, it nests deeper all the same, as there
    /// is nobody else to make `done` true.
    ///
    /// Returns whether `done` holds. Always true on a worker; elsewhere false means that there is nothing to help with, and that
    /// it was not done a few moments ([`Platform::relax`]) later either.
    pub fn help_until(&'static self, mut done: impl FnMut() -> bool) -> bool {
        self.help(&mut done, true)
    }

    /// `insist`: rather nest deeper than give up.
    pub(super) fn help(&'static self, done: &mut dyn FnMut() -> bool, insist: bool) -> bool {
        match self.working() {
            Some((id, slot)) => {
                let _nested = Nested::enter(self, id, slot);
                (slot.local.depth.get() > self.config.nesting && self.block_worker(id, slot, done))
                    || ((insist || slot.local.depth.get() <= self.config.nesting)
                        && self.help_on(id, done))
            }
            None => self.help_from_outside(done) || self.look_on(done),
        }
    }

    fn help_on(&'static self, id: WorkerId, done: &mut dyn FnMut() -> bool) -> bool {
        let worker = ManuallyDrop::new(Worker::new(self, id));
        let mut slept = false;
        loop {
            // Once in any case: who yields in sync code is done at once, and must let others run all the same.
            let step = worker.pass();
            if done() {
                // The poll around us may be long: what this worker has seen in its sleep is looked at now.
                if slept && self.has_work(id) {
                    self.notify();
                }
                return true;
            }
            if step != Step::Polled {
                worker.park();
                slept = true;
            }
        }
    }

    fn help_from_outside(&'static self, done: &mut dyn FnMut() -> bool) -> bool {
        if done() {
            return true;
        }
        if self.injector.is_empty() || !self.idle.any_parked() {
            return false;
        }
        let Some(helper) = self.helper() else { return false };
        let worker = helper.worker();
        // No jobs: they may be long, and what it waits for be done.
        let guest = &worker.slot().local.guest;
        guest.set(true);
        while self.idle.any_parked() && worker.pass() == Step::Polled {
            if done() {
                guest.set(false);
                return true;
            }
        }
        guest.set(false);
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

    /// Too deep to help: gives the queues away, has a stand-in started, and sleeps.
    fn block_worker(
        &'static self,
        id: WorkerId,
        slot: &'static WorkerSlot<RING>,
        done: &mut dyn FnMut() -> bool,
    ) -> bool {
        let worker = ManuallyDrop::new(Worker::new(self, id));
        worker.end_park();
        worker.give_away();
        self.publish_all(&slot.bay);
        let counted = self.count_out(&self.blocked);
        let relies = &slot.shared.relies;
        let relied = relies.swap(true, Ordering::Relaxed);
        // Ordering: pairs with the fences of those who read `blocked` in order to wake us: `call`, `leave`, `count_out`.
        fence(Ordering::SeqCst);
        let stand_in = self.start_stand_in();
        let helped = loop {
            if done() {
                break true;
            }
            // What is pinned here can run nowhere else, and may be what we wait for: that nests deeper still.
            // SAFETY: we are the worker.
            if let Some(ready) = unsafe { slot.inbox.pop() } {
                worker.poll(ready);
                worker.give_away();
                continue;
            }
            if !(stand_in || self.others_can_work()) {
                break false;
            }
            let deadline = worker.next_deadline();
            worker.listen(deadline);
            worker.answer_call();
            worker.deliver();
            worker.fire_timers();
            worker.give_away();
        };
        relies.store(relied, Ordering::Relaxed);
        drop(counted);
        if stand_in {
            self.dismiss_stand_in();
        }
        helped
    }

    /// One stand-in is no longer needed.
    pub(crate) fn dismiss_stand_in(&self) {
        self.surplus.fetch_add(1, Ordering::Relaxed);
        for i in self.workers()..self.slots().len() {
            self.unpark(WorkerId::new(i as u16));
        }
    }

    /// Whether a worker is left that neither sleeps in a join in which it cannot help, nor is about to leave.
    fn others_can_work(&self) -> bool {
        let count = |n: &AtomicU32| n.load(Ordering::Acquire);
        count(&self.blocked) + count(&self.joining) + count(&self.helpers) < count(&self.online)
    }

    /// Counts one more who cannot work on any task, in one of the counts of `others_can_work`, and has those who rely on others
    /// look at them again.
    pub(crate) fn count_out<'a>(&self, count: &'a AtomicU32) -> Counted<'a> {
        let counted = Counted::up(count);
        // Ordering: pairs with the fence in `block_worker`: either that one sees the count, or we see it.
        #[cfg(not(filch_mutant = "help_count"))]
        fence(Ordering::SeqCst);
        if self.blocked.load(Ordering::Relaxed) > 0 {
            self.disappoint();
        }
        counted
    }

    #[cold]
    fn disappoint(&self) {
        for (i, slot) in self.slots().iter().enumerate() {
            // Ordering: after the fence in `count_out`.
            if slot.shared.relies.load(Ordering::Relaxed) {
                self.unpark(WorkerId::new(i as u16));
            }
        }
    }

    /// Has a worker started in a spare slot. The slot is taken for it at once: a thread that helps must not come between,
    /// nor another worker start a second stand-in there, or one of the blocked would wait for nobody.
    pub(crate) fn start_stand_in(&'static self) -> bool {
        unsafe fn enter<P: Platform, S, const RING: usize>(at: NonNull<()>, id: WorkerId)
        where
            S: Slots<RING>,
        {
            // SAFETY: made below from a `&'static` scheduler of this type.
            let this: &'static Scheduler<P, S, RING> = unsafe { at.cast().as_ref() };
            match this.attach(id, STARTING) {
                Ok(worker) => worker.run(),
                // It was online for a moment.
                Err(RunError::WrongContext) => {}
                Err(_) => this.unreserve(id),
            }
        }
        (self.workers()..self.slots().len()).map(|i| WorkerId::new(i as u16)).any(|id| {
            if !self.reserve(id) {
                return false;
            }
            // SAFETY: as said in `enter`.
            let entry =
                unsafe { WorkerEntry::new(NonNull::from(self).cast(), id, enter::<P, S, RING>) };
            let started = self.platform.start(entry).is_ok();
            if !started {
                self.unreserve(id);
            }
            started
        })
    }

    /// Keeps a slot for a stand-in, if it is free.
    fn reserve(&self, id: WorkerId) -> bool {
        self.slots().get(id.index()).is_some_and(|slot| {
            // Ordering: Acquire pairs with the Release in `Worker::drop`; the platform's start passes it on.
            let status = &slot.shared.status;
            status.compare_exchange(OFFLINE, STARTING, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    /// The stand-in did not come.
    fn unreserve(&self, id: WorkerId) {
        if let Some(slot) = self.slots().get(id.index()) {
            // Ordering: Release passes on what `reserve` acquired.
            slot.shared.status.store(OFFLINE, Ordering::Release);
        }
    }

    pub(crate) unsafe fn op_help(anchor: NonNull<Anchor>, done: &mut dyn FnMut() -> bool) -> bool {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.help(done, false)
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

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// Whether this is a stand-in that is no longer needed.
    pub(crate) fn is_surplus(&self) -> bool {
        let surplus = &self.executor.surplus;
        self.id().index() >= self.executor.workers()
            // Ordering: a count.
            && surplus
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_ok()
    }
}

/// Counts one up for as long as it lives.
pub(crate) struct Counted<'a>(pub(super) &'a AtomicU32);

impl<'a> Counted<'a> {
    pub(crate) fn up(count: &'a AtomicU32) -> Self {
        // Ordering: AcqRel pairs with the Acquires in `others_can_work`.
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Ordering: as above.
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The worker's loop runs inside a poll: what that poll had is put back when it goes on.
pub(crate) struct Nested<P: Platform, S, const RING: usize>
where
    S: Slots<RING>,
{
    accepting: bool,
    gathers: bool,
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
        let in_poll = !slot.local.frame.get().is_null();
        if in_poll {
            // The poll below is no longer one that the sentry should take for stuck.
            slot.lifo.count_poll();
        }
        slot.local.depth.set(slot.local.depth.get() + 1);
        slot.bay.mix(true);
        let accepting = slot.lifo.replace_accept(false);
        // In a waker: what it has woken is told of now, since nobody knows when it returns.
        let gathers = slot.local.marks.replace(Mark::GATHERS, false);
        executor.tell_gathered(slot);
        Self {
            worker: Leave::at_end(executor, id),
            accepting,
            gathers,
            // Others run now, so that the poll below may begin anew; a budget without end stays one.
            budget: slot.local.budget.get().max(BUDGET),
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
        worker.rest();
        // The poll or the job below goes on, for long perhaps.
        worker.cover_poll();
        slot.bay.mix(false);
        slot.local.depth.set(slot.local.depth.get() - 1);
        slot.local.budget.set(self.budget);
        if self.in_poll {
            slot.lifo.count_poll();
        }
        slot.local.marks.set(Mark::GATHERS, self.gathers);
        slot.lifo.accept(self.accepting);
    }
}
