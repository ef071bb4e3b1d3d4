//! What a busy worker sees to now and then: I/O, timers, a broadcast, and workers that are stuck.

use super::{context::Worker, estimate::TICK, slot::Slots};
use crate::platform::Platform;

/// In nanoseconds: how often a worker looks for I/O in the midst of a tick, at most. Half of the time after which a look is due by
/// the estimate, or every second one might be left out.
const OFTEN: u64 = 500_000;

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// After so many polls: the end of a tick, or what is due in the midst of one.
    pub(crate) fn keep_up(&self, polls: u32) {
        let local = &self.slot().local;
        if local.in_tick.get() >= TICK {
            self.end_tick();
        } else if local.estimate.is_due(polls) {
            self.look_up();
        }
    }

    /// After `TICK` polls: count the time, take part in a broadcast, look for I/O, see to the timers.
    #[cold]
    pub(crate) fn end_tick(&self) {
        self.end_stretch();
        self.slot().local.in_tick.set(0);
        // A task that began as a shutdown cancelled all others is cancelled here, if this worker is never idle.
        let _ = self.executor.settle();
        self.join_broadcast();
        self.look_for_io();
        self.fire_timers();
        self.look_at_next();
    }

    /// In the midst of a tick: timers; I/O and another worker if polls take long.
    fn look_up(&self) {
        self.fire_timers();
        if self.slot().local.estimate.is_slow() && self.has_not_looked_for(OFTEN) {
            self.look_for_io();
            self.look_at_next();
        }
    }

    /// Whether the last look for I/O in the midst of a tick was so many nanoseconds ago. If so, the caller looks now.
    ///
    /// By the clock: polls seem to be long if the system takes the thread off its core in them. A worker that asked every eighth poll
    /// for that never ran out of work, and never left the core to the threads that sent it requests (p99 of 64 connections 1.4 times
    /// tokio's, and 1.1 times without).
    pub(crate) fn has_not_looked_for(&self, nanos: u64) -> bool {
        let looked = &self.slot().local.looked;
        let now = self.executor.platform.now().as_nanos();
        let is_due = now.saturating_sub(looked.get()) >= nanos;
        if is_due {
            looked.set(now);
        }
        is_due
    }

    /// Asks for I/O, and delivers what is ready; how much.
    pub(crate) fn look_for_io(&self) -> usize {
        self.ask();
        self.deliver()
    }
}
