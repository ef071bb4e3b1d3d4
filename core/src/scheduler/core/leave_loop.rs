//! The one way from a worker's loop into user code or into a wait.

use crate::scheduler::core::faces::OwnQueues;
use core::marker::PhantomData;

use super::{
    context::Worker,
    duties::Duties,
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::{
    atomic::Ordering,
    parts::{Parts, Switch},
    platform::{Platform, WorkerId},
    scheduler::{
        core::faces::{Placement, Waiting},
        state::lifo::LifoSlot,
        upkeep::pace::Pace,
    },
    trace::Event,
};

/// A worker is out of its loop, in user code or in a wait, and owes the others nothing.
#[must_use]
pub(crate) struct OutOfLoop<'w>(PhantomData<&'w ()>);

/// A batch of wakers that one of them has interrupted, if there is one: it goes on when this is dropped.
#[must_use]
pub(crate) struct Batch<F: Parts> {
    lifo: &'static LifoSlot<F::Cores>,
    duties: &'static Duties<F>,
    batching: bool,
}

impl<F: Parts> Drop for Batch<F> {
    fn drop(&mut self) {
        // INV-USER-CODE: duties change only while it is down.
        let was = self.lifo.replace_in_user_code(false);
        self.duties.set_batching(self.batching);
        self.lifo.set_in_user_code(was);
    }
}

/// User code runs until this is dropped (INV-USER-CODE).
struct InUserCode<C: Switch> {
    lifo: &'static LifoSlot<C>,
    was: bool,
}

impl<C: Switch> Drop for InUserCode<C> {
    fn drop(&mut self) {
        self.lifo.set_in_user_code(self.was);
    }
}

/// Code counts as a poll until this is dropped.
struct AsPoll<C: Switch> {
    lifo: &'static LifoSlot<C>,
    began: bool,
}

impl<C: Switch> Drop for AsPoll<C> {
    fn drop(&mut self) {
        self.lifo.end_as_poll(self.began);
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// The one way from the loop into user code, or into a wait that is not the loop's own sleep: gives up all duties.
    #[inline]
    pub(crate) fn leave_loop(&self) -> OutOfLoop<'_> {
        let duties = &self.slot().local.duties;
        if duties.has_owed() {
            self.give_up(true);
        }
        debug_assert!(!duties.has_owed_in_user_code(), "a worker in user code has no duty");
        OutOfLoop(PhantomData)
    }

    /// As [`leave_for_long`](Self::leave_for_long), to the context that drives the worker: what passes meanwhile is not the worker's time.
    pub(crate) fn leave_to_driver(&self) -> OutOfLoop<'_> {
        self.pause_share();
        self.leave_for_long()
    }

    /// As [`leave_loop`](Self::leave_loop), for what may take as long as a poll: a watcher sees to what this worker keeps waiting.
    pub(crate) fn leave_for_long(&self) -> OutOfLoop<'_> {
        let out = self.leave_loop();
        self.wake_watcher_for_poll();
        out
    }

    /// As [`leave_loop`](Self::leave_loop), by user code that waits, or calls other user code: if it is a waker in a batch, that ends
    /// here. What is left of it is delivered first; it goes on when the second value is dropped.
    pub(crate) fn leave_batch(&self) -> (OutOfLoop<'_>, Batch<S::Parts>) {
        let slot = self.slot();
        // INV-USER-CODE: duties change only while it is down.
        let was = slot.lifo.replace_in_user_code(false);
        let batching = slot.local.duties.set_batching(false);
        slot.local.duties.set_heard(batching && self.executor.has_reactor());
        slot.lifo.set_in_user_code(was);
        (self.leave_loop(), Batch { lifo: &slot.lifo, duties: &slot.local.duties, batching })
    }

    #[inline(never)]
    fn give_up(&self, with_due: bool) {
        let (lifo, duties) = (&self.slot().lifo, &self.slot().local.duties);
        // INV-USER-CODE: duties change only while it is down.
        let was = lifo.replace_in_user_code(false);
        let is_driven = duties.is_armed();
        self.end_sleep();
        if is_driven {
            // Code of the loop that drives it ends its rest here, of which that loop does not know.
            self.executor.platform.wake(self.id(), self.slot().shared.park.word());
        }
        if duties.end_search() {
            self.stop_searching();
        }
        if duties.take_watched() {
            self.hand_watch_over();
        }
        if duties.take_woken_by_hint() {
            self.wake_next_of_set();
        }
        self.deliver();
        if with_due {
            self.executor.flush_notify(self.slot());
        }
        lifo.set_in_user_code(was);
    }

    #[cold]
    fn stop_searching(&self) {
        let executor = self.executor;
        // A context that pushed saw this searcher, and woke no worker: a searcher that finds no task would sleep, and watch over the LIFO
        // slots. This one found a task, so it looks for another worker to do both.
        let look = || {
            executor.has_work(self.id())
                || self.slot().has_queued()
                || executor.is_unwatched_by_all_but(self.id())
        };
        if executor.idle.stop_searching(look) {
            executor.notify();
        }
    }

    /// Calls user code that is no poll: what it wakes goes to this worker's own queues, and it may wait.
    #[inline]
    pub(crate) fn in_user_code<R>(&self, _: &OutOfLoop<'_>, code: impl FnOnce() -> R) -> R {
        let lifo = &self.slot().lifo;
        let _in_user_code = InUserCode { lifo, was: lifo.replace_in_user_code(true) };
        code()
    }

    /// The same for code that may take as long as a poll: a watcher sees to what it keeps waiting.
    pub(crate) fn in_long_code<R>(&self, code: impl FnOnce() -> R) -> R {
        let out = self.leave_for_long();
        let lifo = &self.slot().lifo;
        let _as_poll = AsPoll { lifo, began: lifo.begin_as_poll() };
        self.in_user_code(&out, code)
    }

    /// Runs wakers. What they wake goes to this worker's own queues. If one of them panics, the rest run all the same.
    ///
    /// The worker puts off one duty: it does not notify another worker of each task, but once, when it leaves the loop for something else.
    /// A worker that woke up at the first task of a batch would find that task alone; later it takes half of the batch. A long waker counts
    /// as a long poll, so the watchdog looks after the tasks and timers behind it. If no worker watches, each task is notified of at once.
    pub(crate) fn run_wakers(&self, wake: &mut dyn FnMut()) {
        let (lifo, duties) = (&self.slot().lifo, &self.slot().local.duties);
        if duties.has_owed_before_batch() {
            self.give_up(false);
        }
        if !self.slot().local.pace.get().is_some_and(Pace::is_busy) {
            self.wake_watcher_for_poll();
        }
        // INV-USER-CODE: duties change only while it is down.
        let was = lifo.replace_in_user_code(false);
        // While none watches it puts off nothing: what it wakes may not wait for a waker that blocks.
        let batching = duties.is_batching();
        let batches = batching || self.executor.has_watcher();
        if !batches {
            // Nor does what an earlier batch has put off.
            self.executor.flush_notify(self.slot());
        }
        duties.set_batching(batches);
        let began = lifo.begin_as_poll();
        lifo.set_in_user_code(true);
        let guard = || while self.executor.platform.guard(wake).is_err() {};
        self.slot().without_task(guard);
        lifo.set_in_user_code(false);
        lifo.end_as_poll(began);
        duties.set_batching(batching);
        lifo.set_in_user_code(was);
    }

    /// Delivers what this worker has heard of, if it has; how much.
    pub(crate) fn deliver(&self) -> usize {
        let mut events = 0;
        if !self.slot().local.duties.take_heard() {
            return events;
        }
        // SAFETY: we are the worker.
        self.run_wakers(&mut || events += unsafe { self.executor.platform.deliver(self.id()) });
        events
    }

    /// The worker is awake, and in its loop. Nothing happens if it was not announced.
    #[inline(always)]
    pub(crate) fn end_sleep(&self) {
        if self.slot().local.duties.is_announced() {
            self.end_announced_sleep();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_announced_sleep(&self) {
        let executor = self.executor;
        if self.slot().local.duties.disarm() {
            self.slot().shared.park.disarm();
        }
        self.trace(Event::Unpark);
        let unclaimed = self.unannounce();
        if self.slot().local.duties.end_watch(unclaimed) {
            executor.watchdog.end();
        }
        if self.slot().is_hinted() {
            self.slot().local.duties.set_woken_by_hint();
        }
    }

    /// Takes the announcement back; false if the worker has been claimed, and so searches.
    pub(crate) fn unannounce(&self) -> bool {
        let executor = self.executor;
        let unclaimed = !executor.is_shared() || executor.idle.unannounce(executor, self.id());
        self.slot().local.duties.unannounce(!unclaimed);
        unclaimed
    }

    /// About to poll after an idle moment: if there is something that only a watcher would see to (timers of this worker, or of those that
    /// have left, a limit of polls, I/O that no worker waits for), and none watches, a sleeper is woken to, at most once in
    /// each of its sleeps. If the only sleepers are blocked workers, they are woken, and one of them watches and listens.
    #[inline]
    pub(crate) fn wake_watcher_for_poll(&self) {
        let executor = self.executor;
        let is_unheard = executor.is_unheard();
        if executor.watchdog.is_on() && !is_unheard {
            return;
        }
        let has_reason = || {
            self.slot().has_timers()
                || self.slot().local.orphans.get()
                || is_unheard
                || executor.config.poll_limit().is_some()
        };
        if executor.needs_watcher() && has_reason() {
            executor.wake_one();
        } else if !executor.census.blocked_asleep.is_zero()
            && (is_unheard || executor.config.has_watchdog() && has_reason())
        {
            executor.recheck_blocked();
        }
    }

    /// The worker watched, and turns to something else: if none watches now, a sleeper is woken to.
    #[cold]
    fn hand_watch_over(&self) {
        if self.executor.needs_watcher() {
            self.executor.wake_one();
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Whether the calling worker has a duty: for simulations, which ask it in user code.
    #[doc(hidden)]
    pub fn has_duties(&self) -> bool {
        self.online_worker().is_some_and(|(_, slot)| slot.local.duties.has_owed_in_user_code())
    }

    /// Whether a worker is in a wait that is too deep for it to run what is queued: for simulations.
    #[doc(hidden)]
    pub fn is_blocked(&self, worker: WorkerId) -> bool {
        let slot = self.slots().get(worker.index());
        // Ordering: a look, in no order with others.
        slot.is_some_and(|slot| slot.shared.awaits_others.load(Ordering::Relaxed))
    }

    /// Sends the notification that the calling worker has put off.
    fn flush_notify(&self, slot: &WorkerSlot<RING, S::Parts>) {
        debug_assert!(!slot.lifo.is_in_user_code(), "INV-USER-CODE");
        if slot.local.duties.take_due_notify() {
            let batching = slot.local.duties.set_batching(false);
            if !slot.lifo.is_empty() {
                self.wake_watcher_for_lifo(slot);
            }
            if self.has_injected() || (self.config.stealing() && slot.has_queued()) {
                self.notify();
            }
            slot.local.duties.set_batching(batching);
        }
    }
}
