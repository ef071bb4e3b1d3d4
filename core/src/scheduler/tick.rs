//! What a busy worker sees to now and then: I/O, timers, a broadcast, and workers that are stuck.

use super::{context::Worker, estimate::TICK, slot::Slots};
use crate::platform::Platform;

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
        // A worker that is never idle sees here that a shutdown has missed a task, which was about to begin.
        let _ = self.executor.settle();
        self.join_broadcast();
        self.look_for_io();
        self.fire_timers();
        self.look_at_next();
    }

    /// In the midst of a tick: timers; I/O and another worker if polls take long.
    pub(super) fn look_up(&self) {
        self.fire_timers();
        if self.slot().local.estimate.is_slow() {
            self.look_for_io();
            self.look_at_next();
        }
    }

    /// Asks for I/O, and delivers what is ready; how much.
    pub(crate) fn look_for_io(&self) -> usize {
        self.ask();
        self.deliver()
    }
}
