//! Where a worker finds its next task.

use super::{
    estimate::TICK,
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
    worker::Worker,
};
use crate::{
    platform::{Platform, WorkerId},
    task::header::Ready,
    trace::Event,
};

/// Polls between two looks into the injector of a worker that has tasks of its own. It takes one task then: a batch would go to the
/// end of its ring.
const LOOK: u32 = 8;

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// The next task: now and then from the injector and the inbox, else LIFO slot, ring, inbox, injector, another
    /// worker's ring, the injector again.
    #[inline(always)]
    pub(crate) fn find(&self) -> Option<Ready> {
        let local = &self.slot().local;
        let tick = local.ticks.get().wrapping_add(1);
        local.ticks.set(tick);
        // A ring that never empties must not starve timers, I/O or the other queues.
        if tick % LOOK == 0 {
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

    /// Every `LOOK` looks for a task: the injector; the end of a tick, if it has come.
    #[inline(never)]
    fn look_around(&self) -> Option<Ready> {
        self.keep_up(LOOK);
        self.take_injector(0)
    }

    /// After so many polls: the end of a tick, or what is due in the midst of one.
    pub(crate) fn keep_up(&self, polls: u32) {
        let local = &self.slot().local;
        if local.in_tick.get() >= TICK {
            self.end_tick();
        } else if local.estimate.is_due(polls) {
            self.look_up();
        }
    }

    /// In the midst of a tick: timers; I/O and another worker if polls take long.
    fn look_up(&self) {
        self.fire_timers();
        if self.slot().local.estimate.is_slow() {
            self.look_for_io();
            self.look_at_next();
        }
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
        if local.in_tick.get() >= TICK {
            self.end_tick();
        }
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

    /// A batch: its first task to run, the rest, `most` of them, into the own ring, where thieves see them.
    #[inline]
    fn take_injector(&self, most: usize) -> Option<Ready> {
        if self.executor.injector.is_empty() { None } else { self.take_batch(most) }
    }

    fn take_batch(&self, most: usize) -> Option<Ready> {
        let (executor, slot) = (self.executor, self.slot());
        // SAFETY: INV-RING-OWNER: we are the worker.
        let room = unsafe { slot.ring.room() }.min(most);
        let workers = executor.census.online() as usize;
        let mut more = false;
        let ready = executor.injector.pop_batch(workers, room, |ready| {
            more = true;
            // SAFETY: as above; there is room for them.
            executor.keep(unsafe { slot.ring.push(ready) }, slot);
        })?;
        slot.counters.injector_batches.add(1);
        // What this worker leaves, in its ring or in the injector, others may take.
        if !slot.local.duties.is_searching() && (more || !executor.injector.is_empty()) {
            executor.notify();
        }
        Some(ready)
    }

    /// Half the ring of a random victim.
    fn steal(&self) -> Option<Ready> {
        self.end_stretch();
        let (slots, slot) = (self.executor.in_use(), self.slot());
        let n = slots.len();
        let mut victim = slot.local.rng.below(n as u32) as usize;
        for _ in 0..n {
            if victim != self.id().index() {
                if let Some(ready) = slots.get(victim).and_then(|v| self.steal_from(victim, v)) {
                    return Some(ready);
                }
            }
            victim = if victim + 1 == n { 0 } else { victim + 1 };
        }
        None
    }

    pub(super) fn steal_from(&self, index: usize, victim: &WorkerSlot<RING>) -> Option<Ready> {
        if victim.ring.is_empty() {
            return None;
        }
        let slot = self.slot();
        // SAFETY: INV-RING-OWNER: we are this worker, and the victim is another.
        let (ready, tasks) = unsafe { victim.ring.steal_into(&slot.ring) }?;
        slot.counters.steals.add(1);
        slot.counters.stolen.add(tasks);
        let event = Event::Steal { victim: index as u16, tasks: tasks as u16 };
        self.executor.platform.event(Some(self.id()), event);
        Some(ready)
    }
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// Whether there is a task that worker `me` could take from the injector or from another's ring, or a job of another.
    pub(crate) fn has_work(&self, me: WorkerId) -> bool {
        self.has_work_but_of(Some(me.index()))
    }

    /// As `has_work`, for any worker: in the injector, in any ring, and public jobs of any worker.
    pub(crate) fn has_work_for_any(&self) -> bool {
        self.has_work_but_of(None)
    }

    fn has_work_but_of(&self, me: Option<usize>) -> bool {
        let jobs = self.may_run_jobs();
        let has = |slot: &WorkerSlot<RING>| !slot.ring.is_empty() || (jobs && slot.has_jobs());
        !self.injector.is_empty()
            || (self.config.stealing()
                && self.in_use().iter().enumerate().any(|(i, slot)| Some(i) != me && has(slot)))
    }
}
