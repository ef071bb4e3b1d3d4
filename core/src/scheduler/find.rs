//! Where a worker finds its next task.

use super::{context::Worker, slot::Slots};
use crate::{platform::Platform, task::header::Ready};

/// Each so many searches for a task begin with the injector. One task is taken from there: a batch would go to the end of the ring.
const AROUND: u32 = 8;

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// The next task: now and then from the injector and the inbox, else LIFO slot, ring, inbox, injector, another
    /// worker's ring, the injector again.
    #[inline(always)]
    pub(crate) fn find(&self) -> Option<Ready> {
        let local = &self.slot().local;
        let tick = local.ticks.get().wrapping_add(1);
        local.ticks.set(tick);
        // A ring that never empties must not starve timers, I/O or the other queues.
        if tick % AROUND == 0 {
            if let Some(ready) = self.look_around() {
                return Some(ready);
            }
        }
        if tick & 1 == 0 {
            if let Some(ready) = self.take_inbox() {
                return Some(ready);
            }
        }
        self.take_own().or_else(|| self.take_inbox()).or_else(|| self.take_others())
    }

    /// Every `AROUND` looks for a task: the injector; the end of a tick, if it has come.
    #[inline(never)]
    fn look_around(&self) -> Option<Ready> {
        self.keep_up(AROUND);
        self.take_injector(0)
    }

    /// LIFO slot, capped, then ring.
    #[inline]
    fn take_own(&self) -> Option<Ready> {
        let (slot, streak) = (self.slot(), &self.slot().local.streak);
        if let Some(ready) = slot.lifo.take() {
            if streak.get() < self.executor.config.lifo_cap() {
                streak.set(streak.get() + 1);
                slot.counters.lifo_hits.add(1);
                return Some(ready);
            }
            // The cap is reached: to the end of the ring, where thieves see it too.
            self.executor.push_ring(slot, ready);
        }
        streak.set(0);
        // SAFETY: INV-RING-OWNER: we are the worker.
        unsafe { slot.ring.pop() }
    }

    #[inline]
    fn take_inbox(&self) -> Option<Ready> {
        // SAFETY: we are the worker.
        unsafe { self.slot().inbox.pop() }
    }

    #[inline(never)]
    fn take_others(&self) -> Option<Ready> {
        let local = &self.slot().local;
        // A worker that takes a whole tick's tasks at a time, or jobs, would never come to its end in `look_around`.
        self.end_tick_if_over();
        if let Some(ready) = self.take_injector(usize::MAX) {
            return Some(ready);
        }
        if !self.executor.config.stealing() || self.executor.in_use().len() == 1 {
            return None;
        }
        if !local.duties.is_searching() {
            if !self.executor.idle.try_search(self.executor.census.online()) {
                return None;
            }
            local.duties.searches();
        }
        self.steal().or_else(|| self.take_injector(usize::MAX))
    }
}
