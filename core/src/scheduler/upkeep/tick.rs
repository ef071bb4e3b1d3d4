//! What a busy worker sees to now and then: I/O, timers, a broadcast, and workers that are stuck.

use super::pace::Pace;
use crate::{
    platform::Platform,
    scheduler::core::{
        context::Worker,
        faces::{Jobs, Lifecycle},
        slot::Slots,
    },
};

/// In nanoseconds: how often a worker looks for I/O in the midst of a tick, at most. Half of the time after which a look is due by
/// the estimate, or every second one might be left out.
const OFTEN: u64 = 500_000;

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// After so many polls: the end of a tick, or what is due in the midst of one.
    pub(crate) fn keep_up(&self, polls: u32) {
        let Some(pace) = self.slot().local.pace.get() else { return };
        if pace.is_tick_over() {
            self.end_tick(pace);
        } else if pace.is_due(polls) {
            self.look_up(pace);
        }
    }

    /// After the polls of a tick: count the time, take part in a broadcast, look for I/O, see to the timers.
    #[cold]
    fn end_tick(&self, pace: &Pace) {
        self.end_busy_period();
        pace.begin_tick();
        // A task that began as a shutdown cancelled all others is cancelled here, if this worker is never idle. That is a look at each
        // task, and can wait while tasks end on this worker: then no task can spawn, so that some tick sees no end.
        if !pace.has_seen_an_end(self.slot().counters.completed.get()) {
            let _ = self.executor.settle();
        }
        self.join_broadcast();
        self.look_for_io();
        self.look_for_orphans();
        self.fire_timers();
        self.look_at_next();
        // It takes effect before the next pass: this one has a task to find.
        let _ = self.executor.try_retire(self.slot());
    }

    /// A tick that is over ends now.
    pub(crate) fn end_tick_if_over(&self) {
        if let Some(pace) = self.slot().local.pace.get().filter(|pace| pace.is_tick_over()) {
            self.end_tick(pace);
        }
    }

    /// In the midst of a tick: timers; I/O and another worker if polls take long.
    fn look_up(&self, pace: &Pace) {
        self.fire_timers();
        if pace.is_slow() && pace.has_not_looked_for(OFTEN, self.now()) {
            self.look_for_io();
            self.look_at_next();
        }
    }

    /// In nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.executor.platform.now().as_nanos()
    }

    /// Asks for I/O, and delivers what is ready; how much.
    pub(crate) fn look_for_io(&self) -> usize {
        self.ask();
        self.deliver()
    }
}
