//! Where a ready task goes, and which worker is woken for it.

use super::{
    context::{Here, SlotGuard, Worker},
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::{
    class::Class,
    parts::{Parts, Switch},
    platform::{Platform, WorkerId},
    queue::{chain::Chain, ring::Overflow},
    scheduler::core::faces::{OwnQueues, Queues},
    task::header::Ready,
    trace::Event,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Queues a task that was woken, from any context.
    #[inline]
    pub(crate) fn schedule(&'static self, ready: Ready) {
        let here = self.current();
        match here {
            Some((_, slot)) if slot.lifo.is_in_user_code() => {
                self.trace_wake(here, &ready);
                self.queue_in_user_code(slot, ready);
            }
            _ => self.schedule_outside(here, ready),
        }
    }

    #[inline(never)]
    fn schedule_outside(&'static self, here: Here<'_, RING, S::Parts>, ready: Ready) {
        let _guard = self.guard_between_steps(here);
        self.trace_wake(here, &ready);
        self.queue_outside(ready);
    }

    /// Keeps the calling worker in its slot until the result is dropped. The caller is about to call an event sink, which may drop the worker's
    /// handle; then another context could enter the slot. In the midst of a step the worker stays in any case.
    pub(crate) fn guard_between_steps(
        &'static self,
        here: Here<'_, RING, S::Parts>,
    ) -> Option<SlotGuard<P, S, RING>> {
        // A handler on the worker keeps off (INV-LOCAL), and is over before that goes on.
        let (id, slot) = here.filter(|_| !self.platform.is_handler())?;
        let is_between = slot.local.calls.get() == 0 && slot.is_online();
        is_between.then(|| SlotGuard::enter(self, id))
    }

    /// Before the task is queued, as it may be over afterwards.
    #[inline(always)]
    pub(crate) fn trace_wake(&self, by: Here<'_, RING, S::Parts>, ready: &Ready) {
        self.trace(by, Event::Wake(ready.as_ptr().as_ptr().addr()));
    }

    /// Queues a task that user code of the worker whose slot it is has woken or spawned, or a handler that has interrupted that code.
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    #[cfg_attr(not(target_pointer_width = "32"), inline(always))]
    pub(crate) fn queue_in_user_code(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        let mut ready = ready;
        if ready.is_special::<S::Parts>() {
            let Some(normal) = self.schedule_special(Some(slot), ready) else { return };
            ready = normal;
        }
        if self.platform.is_handler() {
            return self.schedule_in_handler(slot, ready);
        }
        // INV-USER-CODE: an interrupt finds it down in the midst of an owner-only operation.
        slot.lifo.set_in_user_code(false);
        self.schedule_local(slot, ready);
        slot.lifo.set_in_user_code(true);
    }

    /// Queues a task that was woken or spawned elsewhere.
    pub(crate) fn queue_outside(&self, ready: Ready) {
        let mut ready = ready;
        if ready.is_special::<S::Parts>() {
            let Some(normal) = self.schedule_special(None, ready) else { return };
            ready = normal;
        }
        self.push_shared(Class::Normal, ready);
        self.notify();
    }

    /// A handler has interrupted a poll of the worker. The task must not wait for the end of that: another worker takes it, and a
    /// sleeper is woken at once, even in a batch. Where no other worker may take it, it goes to the LIFO slot if that is free. No
    /// handler touches the ring: it might have to move half of it.
    #[cold]
    fn schedule_in_handler(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        // Before the look: a handler that interrupts this one then leaves the slot alone.
        slot.lifo.set_in_user_code(false);
        let is_for_others = self.has_company() && self.config.stealing();
        let has_room = slot.lifo.is_empty() && slot.local.lifo_cap.get() > 0;
        let left = if is_for_others || !has_room { Some(ready) } else { slot.lifo.put(ready) };
        slot.lifo.set_in_user_code(true);
        if let Some(ready) = left {
            self.push_shared(Class::Normal, ready);
            self.notify();
        }
    }

    /// The newest task goes to the LIFO slot, the one before to the ring.
    #[inline]
    fn schedule_local(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        if slot.local.lifo_cap.get() == 0 {
            return self.schedule_in_ring(slot, ready);
        }
        match slot.lifo.put(ready) {
            Some(ready) => self.push_by_class(slot, ready),
            None => self.wake_watcher_for_lifo(slot),
        }
    }

    /// The LIFO slot is not in use.
    #[cold]
    fn schedule_in_ring(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        if slot.is_blocked_in_place() {
            self.push_shared(Class::Normal, ready);
            self.notify();
        } else {
            self.push_by_class(slot, ready);
        }
    }

    /// Puts a task at the end of the worker's own ring for its class, which is not the urgent one.
    ///
    /// The caller is the worker, with the flag of INV-USER-CODE clear.
    #[inline(never)]
    pub(crate) fn push_ring(&self, slot: &WorkerSlot<RING, S::Parts>, class: Class, ready: Ready) {
        self.push_end(slot, class, ready);
    }

    /// As `push_ring`, for a task that has just been polled: in line, on the path of each task that yields.
    #[cfg_attr(not(target_pointer_width = "32"), inline(always))]
    pub(crate) fn requeue(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        self.push_end(slot, Class::Normal, ready);
    }

    #[cfg_attr(not(target_pointer_width = "32"), inline(always))]
    fn push_end(&self, slot: &WorkerSlot<RING, S::Parts>, class: Class, ready: Ready) {
        debug_assert!(!slot.lifo.is_in_user_code(), "INV-USER-CODE");
        if let Some(classes) = self.classes.get().filter(|_| class == Class::Background) {
            classes.note_background();
        }
        let Some(ring) = slot.ring_of(class).or(slot.ring.get()) else {
            return self.push_shared(class, ready);
        };
        // SAFETY: INV-RING-OWNER: we are the worker, and no interrupt on it gets here.
        let overflow = unsafe { ring.push(ready) };
        if let Overflow::None = overflow {
            // Without stealing, others can take what left for the injector, and no more.
            if self.has_company() && self.config.stealing() {
                self.notify_of(slot);
            }
        } else {
            self.overflow_and_notify(overflow, slot, class);
        }
    }

    #[cold]
    fn overflow_and_notify(
        &self,
        overflow: Overflow,
        slot: &WorkerSlot<RING, S::Parts>,
        class: Class,
    ) {
        self.push_overflow(overflow, slot, class);
        if self.has_company() {
            self.notify_of(slot);
        }
    }

    /// What did not fit into a worker's ring goes to the injector for its class.
    pub(crate) fn push_overflow(
        &self,
        overflow: Overflow,
        slot: &WorkerSlot<RING, S::Parts>,
        class: Class,
    ) {
        match overflow {
            Overflow::None => {}
            Overflow::One(ready) => self.push_shared(class, ready),
            Overflow::Chain(chain) => {
                slot.counters.overflows.add(1);
                self.push_chain(class, chain);
            }
        }
    }

    /// Puts a task into the queue for its class that is no worker's, if there is one.
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    pub(crate) fn push_shared(&self, class: Class, ready: Ready) {
        match self.injector_of(class) {
            Some(injector) => injector.push(ready),
            None => self.slot_of(WorkerId::new(0)).inbox.push(ready),
        }
    }

    fn push_chain(&self, class: Class, mut chain: Chain) {
        match self.injector_of(class) {
            Some(injector) => injector.push_chain(chain),
            None => {
                while let Some(ready) = chain.pop_front() {
                    self.push_shared(class, ready)
                }
            }
        }
    }

    /// Puts a task that was in the LIFO slot, or in that of another worker, into the queue for its class.
    pub(crate) fn push_by_class(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        if <S::Parts as Parts>::Classes::ON && ready.is_special::<S::Parts>() {
            self.requeue_special(slot, ready);
        } else {
            self.push_ring(slot, Class::Normal, ready);
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// What is queued here goes to the injector, and a worker is woken for it. With the flag of INV-USER-CODE clear.
    pub(crate) fn give_away(&self) {
        let slot = self.slot();
        debug_assert!(!slot.lifo.is_in_user_code(), "INV-USER-CODE");
        let mut chain = Chain::new();
        if let Some(ready) = slot.lifo.take() {
            chain.push_back(ready);
        }
        self.give_ring(Class::Normal, chain);
        if <S::Parts as Parts>::Classes::ON {
            self.give_ring(Class::Background, Chain::new());
        }
    }

    /// The tasks of a ring go behind those of the chain, and all to the injector.
    fn give_ring(&self, class: Class, mut chain: Chain) {
        // SAFETY: INV-RING-OWNER: we are the worker.
        while let Some(ready) = self.slot().ring_of(class).and_then(|ring| unsafe { ring.pop() }) {
            chain.push_back(ready);
        }
        if !chain.is_empty() {
            self.executor.push_chain(class, chain);
            self.executor.notify();
        }
    }
}
