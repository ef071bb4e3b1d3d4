//! Where a worker finds its next task.

use super::{context::Worker, slot::Slots};
use crate::{
    class::Class, platform::Platform, scheduler::core::faces::Placement, task::header::Ready,
};

/// Each so many searches for a task begin with the injector. One task is taken from there: a batch would go to the end of the ring.
pub(crate) const AROUND: u32 = 8;

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// The next task: an urgent one before all others. Now and then comes a background task, the injector or the inbox; otherwise LIFO
    /// slot, ring, inbox, tasks with an affinity, injector, another worker's ring, and the injector again, in this order. Background
    /// tasks beyond their share come last.
    #[cfg_attr(not(target_pointer_width = "32"), inline(always))]
    pub(crate) fn find(&self) -> Option<Ready> {
        if let Some(ready) = self.take_first() {
            return Some(ready);
        }
        let local = &self.slot().local;
        let count = local.find_count.get().wrapping_add(1);
        local.find_count.set(count);
        // A ring that never empties must not starve timers, I/O or the other queues.
        if count % AROUND == 0 {
            if let Some(ready) = self.look_around() {
                return Some(ready);
            }
        }
        if count & 1 == 0 {
            if let Some(ready) = self.take_inbox() {
                return Some(ready);
            }
        }
        // In one piece with the loop: each poll passes here.
        if let Some(ready) = self.take_own() {
            return Some(ready);
        }
        self.take_inbox().or_else(|| self.take_others())
    }

    /// Every `AROUND` looks for a task: the injector; the end of a tick, if it has come.
    #[inline(never)]
    fn look_around(&self) -> Option<Ready> {
        self.keep_up(AROUND);
        self.take_in_turn().or_else(|| self.take_injector(Class::Normal, 0))
    }

    /// LIFO slot, capped, then ring.
    #[inline]
    pub(crate) fn take_own(&self) -> Option<Ready> {
        let (slot, streak) = (self.slot(), &self.slot().local.streak);
        if let Some(ready) = slot.lifo.take() {
            if streak.get() < slot.local.lifo_cap.get() {
                streak.set(streak.get() + 1);
                slot.counters.lifo_hits.add(1);
                return Some(ready);
            }
            // The cap is reached: to the end of the ring, where thieves see it too.
            self.executor.push_by_class(slot, ready);
        }
        streak.set(0);
        // SAFETY: INV-RING-OWNER: we are the worker.
        unsafe { slot.ring.get()?.pop() }
    }

    #[inline]
    fn take_inbox(&self) -> Option<Ready> {
        // SAFETY: we are the worker.
        unsafe { self.slot().inbox.pop() }
    }

    /// What is not this worker's own.
    #[inline(never)]
    fn take_others(&self) -> Option<Ready> {
        // A worker that takes a whole tick's tasks at a time, or jobs, would never come to its end in `look_around`.
        self.end_tick_if_over();
        self.take_before_shared()
            .or_else(|| self.take_shared())
            .or_else(|| self.take_after_shared())
    }

    /// From outside, or from another worker.
    fn take_shared(&self) -> Option<Ready> {
        if let Some(ready) = self.take_injector(Class::Normal, usize::MAX) {
            return Some(ready);
        }
        if !self.may_steal() {
            return None;
        }
        self.steal(Class::Normal).or_else(|| self.take_injector(Class::Normal, usize::MAX))
    }

    /// Whether this worker searches, from now on if it did not before.
    pub(crate) fn may_steal(&self) -> bool {
        if !self.executor.config.stealing() || self.executor.slots_in_use().len() == 1 {
            return false;
        }
        let duties = &self.slot().local.duties;
        if !duties.is_searching() {
            if !self.executor.idle.try_search(self.executor.census.online()) {
                return false;
            }
            duties.begin_search();
        }
        true
    }
}
