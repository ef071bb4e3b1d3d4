//! What a worker takes from the injector and from others.

use super::{
    context::Worker,
    slot::{Slots, WorkerSlot},
};
use crate::{platform::Platform, task::header::Ready, trace::Event};

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// A batch: its first task to run, the rest, `most` of them, into the own ring, where thieves see them.
    #[inline]
    pub(super) fn take_injector(&self, most: usize) -> Option<Ready> {
        // A single worker takes what it polls: there is none to steal the rest.
        let most = if self.executor.is_shared() { most } else { 0 };
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
        if executor.is_shared()
            && !slot.local.duties.is_searching()
            && (more || !executor.injector.is_empty())
        {
            executor.notify();
        }
        Some(ready)
    }

    /// Half the ring of a random victim.
    pub(super) fn steal(&self) -> Option<Ready> {
        self.end_stretch();
        self.others().find_map(|(index, victim)| self.steal_from(index, victim))
    }

    /// The slots of the other workers, a random one first.
    #[inline]
    pub(super) fn others(
        &self,
    ) -> impl Iterator<Item = (usize, &'static WorkerSlot<RING, S::Parts>)> {
        let (slots, me) = (self.executor.in_use(), self.id().index());
        let first = self.slot().local.rng.get().map_or(0, |rng| rng.below(slots.len() as u32));
        let first = first as usize;
        let others = (first..slots.len()).chain(0..first).filter(move |i| *i != me);
        others.filter_map(|i| Some((i, slots.get(i)?)))
    }

    pub(super) fn steal_from(
        &self,
        index: usize,
        victim: &WorkerSlot<RING, S::Parts>,
    ) -> Option<Ready> {
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
