//! What a worker takes from the injector and from others.

use super::{
    context::Worker,
    slot::{Slots, WorkerSlot},
};
use crate::{
    class::Class,
    platform::{Platform, WorkerId},
    queue::injector::Injector,
    scheduler::core::faces::OwnQueues,
    task::header::Ready,
    trace::Event,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// From the injector for this class, a batch: its first task to run, the rest, `most` of them, into the own ring, where thieves
    /// see them.
    #[inline]
    pub(crate) fn take_injector(&self, class: Class, most: usize) -> Option<Ready> {
        // A single worker takes what it polls: there is none to steal the rest.
        let most = if self.executor.is_shared() { most } else { 0 };
        let injector = self.executor.injector_of(class)?;
        if injector.is_empty() { None } else { self.take_batch(injector, class, most) }
    }

    fn take_batch(&self, injector: &Injector, class: Class, most: usize) -> Option<Ready> {
        let (executor, slot) = (self.executor, self.slot());
        let ring = slot.ring_of(class);
        // SAFETY: INV-RING-OWNER: we are the worker.
        let room = ring.map_or(0, |ring| unsafe { ring.room() }).min(most);
        let workers = executor.census.online() as usize;
        let mut more = false;
        let ready = injector.pop_batch(workers, room, |ready| {
            more = true;
            let Some(ring) = ring else { return };
            // SAFETY: as above; there is room for them.
            executor.push_overflow(unsafe { ring.push(ready) }, slot, class);
        })?;
        slot.counters.injector_batches.add(1);
        // What this worker leaves, in its ring or in the injector, others may take.
        if executor.is_shared()
            && !slot.local.duties.is_searching()
            && (more || !injector.is_empty())
        {
            executor.notify();
        }
        Some(ready)
    }

    /// Half the ring of a random victim, for tasks of this class: of one of the nearest that have some.
    pub(crate) fn steal(&self, class: Class) -> Option<Ready> {
        self.end_busy_period();
        let mut distance = 0;
        loop {
            let mut farther = None;
            for (index, victim) in self.others() {
                let to = WorkerId::new(index as u16);
                let at = self.executor.platform.distance(self.id(), to);
                if at > distance {
                    farther = Some(farther.map_or(at, |other: u32| other.min(at)));
                } else if at == distance {
                    if let Some(ready) = self.steal_from(index, victim, class) {
                        return Some(ready);
                    }
                }
            }
            distance = farther?;
        }
    }

    /// The slots of the other workers, a random one first.
    #[inline]
    pub(crate) fn others(
        &self,
    ) -> impl Iterator<Item = (usize, &'static WorkerSlot<RING, S::Parts>)> {
        let (slots, me) = (self.executor.slots_in_use(), self.id().index());
        let first = self.slot().local.rng.get().map_or(0, |rng| rng.below(slots.len() as u32));
        let first = first as usize;
        let others = (first..slots.len()).chain(0..first).filter(move |i| *i != me);
        others.filter_map(|i| Some((i, slots.get(i)?)))
    }

    pub(crate) fn steal_from(
        &self,
        index: usize,
        victim: &WorkerSlot<RING, S::Parts>,
        class: Class,
    ) -> Option<Ready> {
        let slot = self.slot();
        let (theirs, ours) = victim.ring_of(class).zip(slot.ring_of(class))?;
        if theirs.is_empty() {
            return None;
        }
        // SAFETY: INV-RING-OWNER: we are this worker, and the victim is another.
        let (ready, tasks) = unsafe { theirs.steal_into(ours) }?;
        slot.counters.steals.add(1);
        slot.counters.stolen.add(tasks);
        let event = Event::Steal { victim: index as u16, tasks: tasks as u16 };
        self.trace(event);
        Some(ready)
    }
}
