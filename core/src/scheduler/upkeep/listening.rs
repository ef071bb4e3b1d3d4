//! How a worker listens: in its sleep, or by a question in passing. What it has heard of is delivered as it leaves its loop.

use core::cell::Cell;

use crate::{
    atomic::{Ordering, fence},
    instant::Instant,
    platform::Platform,
    scheduler::core::{context::Worker, executor::Scheduler, leave_loop::OutOfLoop, slot::Slots},
    sleep::{
        listener::{ASKS, SLEEPS},
        park::{LISTENING, Sleep},
    },
};

/// How often a worker on its way to sleep looks whether another has finished asking.
const LOOKS: u32 = 6;
/// In nanoseconds: how long it sleeps on its word if the other has not.
const SOON: u64 = 1_000_000;
/// In nanoseconds: how long a worker waits in the midst of user code before it listens, if no other does: what it waits for may wait for an
/// event. Most waits are shorter, and a wake by the park word costs less than one by the reactor.
const LISTEN_AFTER: u64 = 10_000_000;

/// From when a worker that waits in the midst of user code listens: set by its first sleep.
#[derive(Default)]
pub(crate) struct ListensFrom(Cell<Option<Instant>>);

impl ListensFrom {
    fn time(&self, now: Instant) -> Instant {
        let time = self.0.get().unwrap_or_else(|| now.after_nanos(LISTEN_AFTER));
        self.0.set(Some(time));
        time
    }
}

/// Why a worker does not listen.
enum Busy {
    /// Another sleeps in the reactor.
    Sleeps,
    /// Another asks, and has not finished for a while.
    Asks,
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    fn begin_to_listen(&self) -> Result<(), Busy> {
        for round in 0..LOOKS {
            if self.idle.listener.begin(SLEEPS) {
                return Ok(());
            }
            // A hint; a listener that wakes up at this moment sees to what this worker does not hear of.
            if self.idle.listener.is_asleep() {
                return Err(Busy::Sleeps);
            }
            self.platform.relax(round);
        }
        Err(Busy::Asks)
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Sleeps until it is notified, until `deadline`, or for no reason: in the reactor, if no other worker is there. Does not sleep
    /// unless `still`, which is called once the worker can be notified.
    ///
    /// The worker is in its loop, and delivers what it has heard of before it leaves that.
    pub(crate) fn sleep(&self, deadline: Option<Instant>, still: impl FnOnce() -> bool) {
        let executor = self.executor;
        let listens =
            if executor.has_reactor() { executor.begin_to_listen() } else { Err(Busy::Sleeps) };
        match listens {
            Ok(()) => {
                let heard = self.park_as(Sleep::Listen, deadline, still);
                executor.idle.listener.end();
                self.hear(heard);
            }
            Err(Busy::Sleeps) => {
                self.park_as(Sleep::Wait, deadline, still);
            }
            Err(Busy::Asks) => {
                let soon = executor.platform.now().after_nanos(SOON);
                let deadline = deadline.map_or(soon, |deadline| deadline.min(soon));
                self.park_as(Sleep::Wait, Some(deadline), still);
            }
        }
    }

    fn hear(&self, heard: bool) {
        let local = &self.slot().local;
        local.duties.set_heard(heard);
        if let Some(limit) = local.spin_limit.get().filter(|_| heard) {
            limit.note_event();
        }
    }

    /// Asks the reactor what is ready, without blocking, unless another worker is in there: that one hears of it.
    pub(crate) fn ask(&self) {
        let (executor, slot) = (self.executor, self.slot());
        if executor.has_reactor() && executor.idle.listener.begin(ASKS) {
            let at_once = Some(Instant::ZERO);
            let word = slot.shared.park.word();
            // SAFETY: INV-LISTENER; we are the worker, and have entered. The word is another: the worker is awake.
            let heard = unsafe { executor.platform.listen(self.id(), word, LISTENING, at_once) };
            executor.idle.listener.end();
            self.hear(heard);
        }
    }

    /// Sleeps in the midst of user code. The sleep ends with a notice, when one of its timers is due, when it is time to listen, or without a
    /// reason. What that code has put into the LIFO slot goes to the ring, and another worker is notified: this one does not come to it.
    /// [`serve`](Self::serve) follows.
    pub(crate) fn wait(&self, _: &OutOfLoop<'_>, listens_from: &ListensFrom) {
        let (executor, slot) = (self.executor, self.slot());
        // INV-USER-CODE: duties change only while it is down.
        let was = slot.lifo.replace_in_user_code(false);
        if let Some(ready) = slot.lifo.take() {
            executor.push_by_class(slot, ready);
        }
        let timer = slot.next_timer(executor.config.wheel_slot_log2);
        let first = |time: Instant| Some(timer.map_or(time, |timer| timer.min(time)));
        let now = if executor.has_reactor() { Some(executor.platform.now()) } else { None };
        match now.map(|now| (now, listens_from.time(now))) {
            // A listener that turns to a poll does not tell this worker, which so looks now and then whether there is one.
            Some((now, from)) if now >= from => {
                self.sleep(first(now.after_nanos(LISTEN_AFTER)), || true);
                // Ordering: pairs with the fence in `Idle::announce`: either this worker, which no longer listens, sees one that sleeps, or that
                // one finds that it may listen.
                fence(Ordering::SeqCst);
                executor.wake_new_listener();
                self.wake_watcher_for_poll();
            }
            Some((_, from)) => {
                self.park_as(Sleep::Wait, first(from), || true);
            }
            None => {
                self.park_as(Sleep::Wait, timer, || true);
            }
        }
        slot.lifo.set_in_user_code(was);
    }

    /// After a sleep in the midst of user code: delivers the I/O that it has heard of, and fires its timers. The wakers run here. The tasks
    /// that they wake go to the injector: this worker does not come to them, and a busy worker looks into the rings of others late.
    pub(crate) fn serve(&self) {
        let (executor, slot) = (self.executor, self.slot());
        let has_heard = slot.local.duties.has_heard();
        let now = if slot.has_timers() { Some(executor.platform.now()) } else { None };
        let due = now.filter(|now| slot.is_overdue(*now));
        if !has_heard && due.is_none() {
            return;
        }
        // INV-USER-CODE: duties change only while it is down.
        let was = slot.lifo.replace_in_user_code(false);
        // The wakers are no part of the run that the worker is in.
        slot.foreign_work(true);
        self.deliver();
        if let Some(now) = due {
            self.expire(slot, now);
        }
        slot.foreign_work(false);
        self.give_away();
        // What the wakers have put off is due now.
        let _ = self.leave_loop();
        slot.lifo.set_in_user_code(was);
    }

    /// The one place where a worker sleeps. Does not unless `still`, which is called once the worker can be notified. Whether it has
    /// heard of something.
    fn park_as(&self, how: Sleep, deadline: Option<Instant>, still: impl FnOnce() -> bool) -> bool {
        let (platform, me) = (&self.executor.platform, self.id());
        let mut heard = false;
        self.slot().shared.park.park(how, |word, parked| {
            if !still() {
                return;
            }
            match how {
                // SAFETY: we are the worker, and have entered.
                Sleep::Wait => unsafe { platform.wait(me, word, parked, deadline) },
                Sleep::Listen => {
                    // SAFETY: as above; INV-LISTENER.
                    heard = unsafe { platform.listen(me, word, parked, deadline) };
                }
            }
        });
        heard
    }
}
