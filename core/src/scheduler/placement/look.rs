//! Questions about urgent tasks. They change nothing.

#[cfg(feature = "classes")]
use crate::{atomic::AtomicU32, instant::Instant, scheduler::state::classes::Classes};
use crate::{
    class::Class,
    platform::{Platform, WorkerId},
    scheduler::core::{
        executor::Scheduler,
        faces::Queues,
        slot::{Slots, WorkerSlot},
    },
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// Whether an urgent task waits for the poll of a task of another class, in the context of the worker whose slot it is.
    #[inline(always)]
    pub(crate) fn must_give_way(&self, slot: &WorkerSlot<RING, S::Parts>) -> bool {
        self.is_pressed(slot) && Self::class_of(slot).is_some_and(|class| class != Class::Urgent)
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
