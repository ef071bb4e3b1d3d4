//! Where a ready task goes, and which worker is woken for it.

use super::{
    context::Worker,
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::{
    platform::{Platform, WorkerId},
    queue::{chain::Chain, ring::Overflow},
    task::header::Ready,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Queues a task that was woken or spawned, from any context.
    #[inline]
    pub(crate) fn schedule(&self, ready: Ready) {
        self.schedule_in(self.current().map(|(_, slot)| slot), ready);
    }

    /// As `schedule`, by the worker whose slot it is, if it is one.
    #[inline(always)]
    pub(crate) fn schedule_in(&self, slot: Option<&WorkerSlot<RING, S::Parts>>, ready: Ready) {
        if let Some(worker) = ready.pin() {
            return self.schedule_pinned(worker, ready);
        }
        match slot {
            // INV-ACCEPTING: only in a poll, and not in the midst of an owner-only operation.
            Some(slot) if slot.lifo.is_accepting() => {
                if self.platform.is_handler() {
                    return self.schedule_in_handler(slot, ready);
                }
                slot.lifo.accept(false);
                self.schedule_local(slot, ready);
                slot.lifo.accept(true);
            }
            _ => {
                self.injector.push(ready);
                self.notify();
            }
        }
    }

    /// A handler has interrupted a poll of the worker. The task must not wait for the end of that: another worker takes it, and a
    /// sleeper is woken at once, even in a batch. Where no other worker may take it, it goes to the LIFO slot if that is free. No
    /// handler touches the ring: it might have to move half of it.
    #[cold]
    fn schedule_in_handler(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        // Before the look: a handler that interrupts this one then leaves the slot alone.
        slot.lifo.accept(false);
        let is_for_others = self.has_company() && self.config.stealing();
        let has_room = slot.lifo.is_empty() && self.config.lifo_cap() > 0;
        let left = if is_for_others || !has_room { Some(ready) } else { slot.lifo.put(ready) };
        slot.lifo.accept(true);
        if let Some(ready) = left {
            self.injector.push(ready);
            self.notify();
        }
    }

    /// The newest task goes to the LIFO slot, the one before to the ring.
    #[inline]
    fn schedule_local(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        let displaced =
            if self.config.lifo_cap() == 0 { Some(ready) } else { slot.lifo.put(ready) };
        match displaced {
            Some(ready) => self.push_ring(slot, ready),
            None => self.cover_lifo(slot),
        }
    }

    /// Puts a task at the end of the worker's own ring.
    ///
    /// The caller is the worker, with the mark of INV-ACCEPTING down.
    #[inline(never)]
    pub(crate) fn push_ring(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        self.requeue(slot, ready);
    }

    /// As `push_ring`, for a task that has just been polled: in line, on the path of each task that yields.
    #[inline(always)]
    pub(crate) fn requeue(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        debug_assert!(!slot.lifo.is_accepting(), "INV-ACCEPTING");
        // SAFETY: INV-RING-OWNER: we are the worker, and no interrupt on it gets here.
        let overflow = unsafe { slot.ring.push(ready) };
        if let Overflow::None = overflow {
            // Without stealing, others can take what left for the injector, and no more.
            if self.has_company() && self.config.stealing() {
                self.notify_of(slot);
            }
        } else {
            self.shed(overflow, slot);
        }
    }

    #[cold]
    fn shed(&self, overflow: Overflow, slot: &WorkerSlot<RING, S::Parts>) {
        self.keep(overflow, slot);
        if self.has_company() {
            self.notify_of(slot);
        }
    }

    /// What did not fit into a worker's ring goes to the injector.
    pub(crate) fn keep(&self, overflow: Overflow, slot: &WorkerSlot<RING, S::Parts>) {
        match overflow {
            Overflow::None => {}
            Overflow::One(ready) => self.injector.push(ready),
            Overflow::Chain(chain) => {
                slot.counters.overflows.add(1);
                self.injector.push_chain(chain);
            }
        }
    }

    fn schedule_pinned(&self, worker: WorkerId, ready: Ready) {
        // Spawning has checked that the worker exists.
        self.slot_of(worker).inbox.push(ready);
        self.wake_worker(worker);
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// What is queued here goes to the injector, and a worker is woken for it. With the mark of INV-ACCEPTING down.
    pub(crate) fn give_away(&self) {
        let slot = self.slot();
        debug_assert!(!slot.lifo.is_accepting(), "INV-ACCEPTING");
        let mut chain = Chain::new();
        if let Some(ready) = slot.lifo.take() {
            chain.push_back(ready);
        }
        // SAFETY: INV-RING-OWNER: we are the worker.
        while let Some(ready) = unsafe { slot.ring.pop() } {
            chain.push_back(ready);
        }
        if !chain.is_empty() {
            self.executor.injector.push_chain(chain);
            self.executor.notify();
        }
    }
}
