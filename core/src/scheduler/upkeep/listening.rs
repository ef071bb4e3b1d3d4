//! How a worker listens: in its sleep, or by a question in passing. What it has heard of is delivered as it leaves its loop.

use crate::{
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

    /// Sleeps in the midst of user code, until it is notified or for no reason. What that code has put into the LIFO slot goes to the ring,
    /// and another worker is notified: this one does not come to it.
    pub(crate) fn wait(&self, _: &OutOfLoop<'_>) {
        let slot = self.slot();
        let was = slot.lifo.replace_in_user_code(false);
        if let Some(ready) = slot.lifo.take() {
            self.executor.push_by_class(slot, ready);
        }
        slot.lifo.set_in_user_code(was);
        self.park_as(Sleep::Wait, None, || true);
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
