//! Where a task goes that is not like all others, and which worker is woken for it.

#[cfg(feature = "classes")]
use crate::{atomic::AtomicU32, instant::Instant};
use crate::{
    atomic::{Ordering, fence},
    class::Class,
    platform::{Platform, WorkerId, WorkerSet},
    scheduler::{
        core::{
            executor::Scheduler,
            faces::Queues,
            slot::{Slots, WorkerSlot},
        },
        state::classes::{Classes, Hints},
    },
    task::header::Ready,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Queues<RING, S::Parts>
    for Scheduler<P, S, RING>
{
    #[inline(never)]
    fn schedule_special(
        &self,
        slot: Option<&WorkerSlot<RING, S::Parts>>,
        ready: Ready,
    ) -> Option<Ready> {
        if let Some(worker) = ready.pin() {
            self.schedule_pinned(worker, ready);
            return None;
        }
        let Some(classes) = self.classes.get() else { return Some(ready) };
        if let Some(set) = ready.workers() {
            self.push_affine(classes, set, ready);
            return None;
        }
        let class = ready.class();
        match (class, slot) {
            (Class::Normal, _) => return Some(ready),
            (Class::Urgent, _) => self.push_urgent(classes, ready),
            // INV-USER-CODE: as in `queue_in_user_code`. No handler touches a ring.
            (_, Some(slot)) if !self.platform.is_handler() && !slot.is_blocked_in_place() => {
                slot.lifo.set_in_user_code(false);
                self.push_ring(slot, class, ready);
                slot.lifo.set_in_user_code(true);
            }
            _ => self.push_outside(classes, ready),
        }
        None
    }

    #[inline(never)]
    fn requeue_special(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        let Some(classes) = self.classes.get().filter(|_| ready.pin().is_none()) else {
            return self.push_pinned(slot, ready);
        };
        match (ready.workers(), ready.class()) {
            (Some(set), _) => self.push_affine(classes, set, ready),
            (None, Class::Urgent) => self.push_urgent(classes, ready),
            (None, class) => self.push_ring(slot, class, ready),
        }
    }

    #[inline]
    fn has_special(&self) -> bool {
        let waits = |all: &Classes| !all.urgent.is_empty() || !all.background.is_empty();
        self.classes.get().is_some_and(waits)
    }

    #[inline(always)]
    fn has_urgent_for(&self, slot: &WorkerSlot<RING, S::Parts>) -> bool {
        let (Some(all), Some(own)) = (self.classes.get(), slot.classes.get()) else { return false };
        all.urgent_epoch() != own.urgent_epoch.get() && own.has_urgent(all)
    }

    fn is_in_urgent(slot: &WorkerSlot<RING, S::Parts>) -> bool {
        // SAFETY: the caller is the worker.
        unsafe { slot.polled() }.is_some_and(|task| task.state.load().is_urgent())
    }

    fn inherit_class(&'static self, slot: Option<&WorkerSlot<RING, S::Parts>>, ready: &Ready) {
        let state = &ready.header().state;
        let given = state.load();
        if !given.is_classless() {
            let class = if self.config.classes() { given.own_class() } else { Class::Normal };
            return state.apply(|state| state.set_class(class));
        }
        let parent = match slot {
            // SAFETY: the slot is the calling worker's.
            Some(slot) => unsafe { slot.polled() },
            None => self.left_task(),
        };
        let Some(parent) = parent else { return };
        let parent = parent.state.load();
        // What a handler spawns has nothing to do with the poll that it has interrupted.
        if !parent.is_classless() && !self.platform.is_handler() {
            state.apply(|state| state.set_class(parent.own_class()));
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Pushes to the queue for the task's class that all workers share, and notifies.
    fn push_outside(&self, classes: &Classes, ready: Ready) {
        match ready.class() {
            Class::Urgent => return self.push_urgent(classes, ready),
            class => self.push_shared(class, ready),
        }
        self.notify();
    }

    fn push_urgent(&self, classes: &Classes, ready: Ready) {
        classes.urgent.push(ready);
        classes.bump_urgent_epoch();
        self.notify();
    }

    /// Queues a task that is pinned to the worker whose slot it is.
    pub(crate) fn push_pinned(&self, slot: &WorkerSlot<RING, S::Parts>, ready: Ready) {
        let class = slot.push_pinned(ready);
        if let Some(classes) = self.classes.get().filter(|_| class == Class::Urgent) {
            classes.bump_urgent_epoch();
        }
    }

    fn schedule_pinned(&self, worker: WorkerId, ready: Ready) {
        // Spawning has checked that the worker exists.
        self.push_pinned(self.slot_of(worker), ready);
        self.wake_worker(worker);
    }

    /// Queues a task for one of these workers, from any context.
    pub(crate) fn push_affine(&self, classes: &Classes, set: WorkerSet, ready: Ready) {
        let class = ready.class();
        classes.affine.push(ready);
        // Ordering: before the hints, see `OwnClasses::set_hint`.
        fence(Ordering::SeqCst);
        for worker in set.iter() {
            if let Some(own) = self.slot_of(worker).classes.get() {
                own.set_hint(Hints::of(class));
            }
        }
        if class == Class::Urgent {
            classes.bump_urgent_epoch();
        }
        self.wake_one_of(set);
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Whether an urgent task waits for the poll of a task of another class, in the context of the worker whose slot it is.
    #[inline(always)]
    pub(crate) fn must_give_way(&self, slot: &WorkerSlot<RING, S::Parts>) -> bool {
        self.has_urgent_for(slot)
            && Self::class_of(slot).is_some_and(|class| class != Class::Urgent)
    }

    /// The class of the task that the worker polls, for the worker itself.
    pub(crate) fn class_of(slot: &WorkerSlot<RING, S::Parts>) -> Option<Class> {
        // SAFETY: the caller is the worker.
        unsafe { slot.polled() }.map(|task| task.state.load().class())
    }

    /// A count that grows with each urgent task that comes: [`give_way`](Self::give_way) finds one only after it has changed.
    #[cfg(feature = "classes")]
    #[doc(hidden)]
    pub fn urgent_count(&self) -> Option<&AtomicU32> {
        self.classes.get().map(Classes::count)
    }

    /// How often urgent tasks have come, if one waits now that this worker may run: for simulations.
    #[doc(hidden)]
    pub fn urgent_calls(&self, worker: WorkerId) -> Option<u32> {
        let (all, own) = (self.classes.get()?, self.slots().get(worker.index())?.classes.get()?);
        own.has_urgent(all).then(|| all.urgent_epoch())
    }

    /// The earliest deadline of the urgent tasks that wait for any worker: for simulations.
    #[cfg(feature = "classes")]
    #[doc(hidden)]
    pub fn first_deadline(&self) -> Option<Instant> {
        self.classes.get()?.urgent.first_deadline()
    }
}
