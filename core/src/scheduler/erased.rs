//! What a task needs of its scheduler: the operations of an `ExecutorRef`.

use crate::scheduler::core::faces::Lifecycle;
use core::{
    cell::Cell,
    ptr::{NonNull, null},
};

use super::{
    core::{context::Waits, executor::Scheduler, slot::Slots},
    waits::help::RetryBudget,
};
use crate::{
    atomic::{AtomicU32, Ordering},
    memory::slab::Slab,
    parts::{Parts, Switch},
    platform::{Platform, WorkerId, WorkerSet},
    task::{
        coop::{exhaust, is_first_refusal},
        executor_ref::{Caller, Polls, TaskExecutor, Waiter},
        header::{Ready, Slot},
    },
};
#[cfg(feature = "classes")]
use crate::{
    class::Class,
    instant::Instant,
    task::{header::Header, info::TaskInfo},
};

#[cfg(feature = "classes")]
impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// The task that the calling context polls, if tasks can have classes.
    fn polled(&'static self) -> Option<&'static Header> {
        if !<S::Parts as Parts>::Classes::ON || self.platform.is_handler() {
            return None;
        }
        match self.current() {
            // SAFETY: the slot is the calling worker's.
            Some((_, slot)) => unsafe { slot.polled() },
            None => self.left_task(),
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> TaskExecutor for Scheduler<P, S, RING> {
    fn schedule(&'static self, ready: Ready) {
        Scheduler::schedule(self, ready);
    }

    fn admit(&'static self) -> Option<Caller> {
        Scheduler::admit(self)
    }

    #[cold]
    fn dismiss(&'static self) {
        Scheduler::dismiss(self);
    }

    fn launch(&'static self, ready: Ready, caller: Caller) {
        Scheduler::launch(self, ready, caller);
    }

    fn caller(&'static self) -> Caller {
        self.platform.current_worker()
    }

    fn free(&'static self, slot: Slot) {
        Slab::give(slot, || self.platform.current_worker());
    }

    fn admit_local(&'static self) -> Option<WorkerId> {
        Scheduler::admit_local(self)
    }

    fn dismiss_local(&'static self) {
        Scheduler::dismiss_local(self);
    }

    fn admit_affine(&'static self, set: WorkerSet) -> bool {
        Scheduler::admit_affine(self, set)
    }

    fn dismiss_affine(&'static self, first: WorkerId) {
        Lifecycle::dismiss_affine(self, first);
    }

    fn budget(&'static self) -> Option<NonNull<Cell<u32>>> {
        match self.current() {
            Some((_, slot)) if !slot.local.frame.get().is_null() => {
                if self.must_give_way(slot) {
                    exhaust(&slot.local.budget, slot.local.units.get().into());
                }
                Some(NonNull::from(&slot.local.budget))
            }
            _ => self.platform.budget(),
        }
    }

    fn wakes(&'static self) -> Option<u32> {
        if self.platform.is_handler() {
            return None;
        }
        let polled = match self.current() {
            // SAFETY: the slot is the calling worker's.
            Some((_, slot)) => unsafe { slot.polled() },
            None => self.left_task(),
        }?;
        Some(polled.state.load().wakes() as u32)
    }

    fn units(&'static self) -> u32 {
        self.config.budget().into()
    }

    fn count_forced_yield(&'static self) {
        if !<S::Parts as Parts>::Metrics::ON {
            return;
        }
        if let Some((_, slot)) = self.current() {
            // As in `budget`: otherwise it was that of a thread.
            if !slot.local.frame.get().is_null() && is_first_refusal(&slot.local.budget) {
                slot.counters.forced_yields.add(1);
            }
        }
    }

    fn waiter(&'static self) -> Waiter {
        match self.waits() {
            Waits::Outside => Waiter::Thread(Polls([null(), self.newest_left()])),
            Waits::OnWorker(id, slot) if <S::Parts as Parts>::Waits::ON => Waiter::Worker(
                self.slot_of(id).shared.waker.waker(),
                Polls([slot.local.frame.get(), self.newest_left()]),
            ),
            Waits::OnWorker(..) | Waits::Nowhere => Waiter::MustNotWait,
        }
    }

    fn help(&'static self, done: &mut dyn FnMut() -> bool) -> bool {
        Scheduler::help(self, done, RetryBudget::None)
    }

    fn block(&'static self, word: &AtomicU32) {
        // Ordering: Acquire pairs with the Release in `wake_thread`.
        while word.load(Ordering::Acquire) == 0 {
            self.platform.block(word, 0, None);
        }
    }

    /// Unless the platform has no such thing, ends every [`Platform::block`] on the word.
    fn unblock(&'static self, word: &AtomicU32) {
        self.platform.unblock(word);
    }

    fn unpark(&'static self, worker: WorkerId) {
        Scheduler::unpark(self, worker);
    }

    fn guard(&'static self, code: &mut dyn FnMut()) {
        drop(self.platform.guard(code));
    }

    #[cfg(feature = "classes")]
    fn has_classes(&'static self) -> bool {
        <S::Parts as Parts>::Classes::ON
    }

    #[cfg(feature = "classes")]
    fn has_boosts(&'static self) -> bool {
        self.config.classes()
    }

    #[cfg(feature = "classes")]
    fn task(&'static self) -> Option<TaskInfo> {
        // SAFETY: a poll holds a reference to its task.
        self.polled().map(|task| unsafe { TaskInfo::of(NonNull::from(task)) })
    }

    #[cfg(feature = "classes")]
    fn class(&'static self) -> Option<Class> {
        self.polled().map(|task| task.state.load().class())
    }

    #[cfg(feature = "classes")]
    fn set_class(&'static self, class: Class) -> bool {
        let class = if self.config.classes() { class } else { Class::Normal };
        self.polled().map(|task| task.state.apply(|state| state.set_class(class))).is_some()
    }

    #[cfg(feature = "classes")]
    fn set_deadline(&'static self, at: Option<Instant>) -> bool {
        // SAFETY: a poll holds a reference to its task. INV-DUE: the poll is the calling context's.
        let due =
            self.polled().and_then(|task| unsafe { (task.vtable().due)(NonNull::from(task)) });
        // SAFETY: as above.
        due.map(|due| unsafe { due.as_ref() }.set(at)).is_some()
    }

    #[cfg(feature = "classes")]
    fn should_yield(&'static self) -> bool {
        self.current().is_some_and(|(_, slot)| self.must_give_way(slot))
    }
}
