//! Admission of new tasks, and what the scheduler does for their spawners.

use core::{future::Future, ptr::NonNull};

use super::{
    away::Away,
    context::Worker,
    executor::Scheduler,
    slot::{Slots, WorkerSlot},
};
use crate::{
    atomic::AtomicPtr,
    platform::{Platform, WorkerId},
    queue::chain::Chain,
    task::{
        header::{Header, Ready},
        join::JoinHandle,
        memory::{Memory, Slab},
        schedule::Anchor,
        spawn::{SpawnError, Spawner},
        state::Snapshot,
        waker::{carry_out, drop_ref},
    },
    trace::Event,
};

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// A thin handle that spawns tasks here, and names neither the platform nor the slots.
    pub fn spawner(&'static self) -> Spawner {
        // SAFETY: our own anchor, and we are `'static`.
        unsafe { Spawner::new(self.anchor()) }
    }

    /// Spends one unit of the budget of the poll under way in the calling context, for an operation of your own that is ready.
    /// False if the budget is used up: then wake the task and return `Pending`. True outside polls.
    pub fn spend_budget(&'static self) -> bool {
        // SAFETY: our own anchor.
        unsafe { crate::task::coop::spend_at(self.anchor()) }
    }

    /// Spawns a future into `memory`: [`Spawner::spawn`](crate::Spawner::spawn).
    ///
    /// # Errors
    /// [`SpawnError`] with the future, unchanged.
    #[inline]
    pub fn spawn<F>(
        &'static self,
        memory: &'static impl Memory,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawner().spawn(memory, future)
    }

    pub(crate) unsafe fn op_admit(anchor: NonNull<Anchor>) -> Option<usize> {
        // SAFETY: the table is this type's.
        let this = unsafe { Self::of(anchor) };
        if this.platform.is_forked() {
            return None;
        }
        match this.current() {
            // In a poll the caller's own task is live, so that the executor cannot stop before the spawn is counted.
            Some((worker, slot)) if Self::is_in_task(slot) => {
                if this.gate.is_cancelling() {
                    return None;
                }
                slot.lifo.accept(false);
                slot.counters.spawned.add(1);
                slot.lifo.accept(true);
                Some(Self::number(Some(worker)))
            }
            current => this.gate.admit().then(|| Self::number(current.map(|(worker, _)| worker))),
        }
    }

    /// Whether the calling worker is in a poll: not in a waker or a broadcast of its loop's own.
    fn is_in_task(slot: &WorkerSlot<RING>) -> bool {
        slot.lifo.is_accepting() && !slot.local.frame.get().is_null()
    }

    #[cold]
    pub(crate) unsafe fn op_dismiss(anchor: NonNull<Anchor>) {
        // SAFETY: the table is this type's.
        let this = unsafe { Self::of(anchor) };
        match this.current() {
            Some((_, slot)) if Self::is_in_task(slot) => {
                slot.lifo.accept(false);
                slot.counters.spawned.add(1_usize.wrapping_neg());
                slot.lifo.accept(true);
            }
            _ => {
                this.gate.dismiss();
                if this.gate.is_closing() {
                    this.wake_all();
                }
            }
        }
    }

    pub(crate) unsafe fn op_launch(anchor: NonNull<Anchor>, ready: Ready, caller: usize) {
        // SAFETY: the table is this type's.
        let this = unsafe { Self::of(anchor) };
        let worker = caller.checked_sub(1).map(|index| WorkerId::new(index as u16));
        this.platform.event(worker, Event::Spawn(ready.as_ptr().as_ptr().addr()));
        this.schedule_in(worker.and_then(|worker| this.slots().get(worker.index())), ready);
    }

    pub(crate) unsafe fn op_registry(anchor: NonNull<Anchor>) -> &'static AtomicPtr<Slab> {
        // SAFETY: the table is this type's.
        &unsafe { Self::of(anchor) }.registry
    }

    /// The number of a context, see `Ops::caller`.
    #[inline]
    fn number(worker: Option<WorkerId>) -> usize {
        worker.map_or(0, |worker| worker.index() + 1)
    }

    pub(crate) unsafe fn op_caller(anchor: NonNull<Anchor>) -> usize {
        // SAFETY: the table is this type's.
        Self::number(unsafe { Self::of(anchor) }.platform.current_worker())
    }

    pub(crate) unsafe fn op_workers(anchor: NonNull<Anchor>) -> usize {
        // SAFETY: the table is this type's.
        unsafe { Self::of(anchor) }.workers()
    }

    pub(crate) unsafe fn op_admit_local(anchor: NonNull<Anchor>) -> Option<WorkerId> {
        // SAFETY: the table is this type's.
        let (worker, slot) = unsafe { Self::of(anchor) }.current()?;
        // SAFETY: frames of this worker are on the calling context's own stack. INV-LOCAL: an interrupt handler in a poll may
        // look.
        let frame = unsafe { slot.local.frame.get().as_ref() }?;
        // SAFETY: a poll holds a reference to its task.
        let pinned = unsafe { frame.task.as_ref() }.state.load().is_pinned();
        (pinned && Self::count_local(slot, 1)).then_some(worker)
    }

    pub(crate) unsafe fn op_dismiss_local(anchor: NonNull<Anchor>) {
        // SAFETY: the table is this type's.
        if let Some((_, slot)) = unsafe { Self::of(anchor) }.current() {
            Self::count_local(slot, 1_usize.wrapping_neg());
        }
    }

    /// Adds `n` to the count of local tasks, with the mark of INV-ACCEPTING down meanwhile. Adds nothing, and returns false, if
    /// the mark was down already.
    fn count_local(slot: &WorkerSlot<RING>, n: usize) -> bool {
        let accepting = slot.lifo.is_accepting();
        if accepting {
            slot.lifo.accept(false);
            slot.local.locals.set(slot.local.locals.get().wrapping_add(n));
            slot.lifo.accept(true);
        }
        accepting
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Ends this worker's local tasks, shielded or not. The worker goes offline, and their futures must not leave this context.
    pub(crate) fn retire_locals(&self, away: &Away<'_>) {
        let (executor, slot) = (self.executor, self.slot());
        if slot.local.locals.get() == 0 {
            return;
        }
        let mine = |task: NonNull<Header>| {
            // SAFETY: a slot is a header for ever (INV-SLAB-SLOT); the reference is dropped below.
            unsafe {
                if task.as_ref().state.apply(Snapshot::upgrade).is_ok() {
                    let tag = (task.as_ref().vtable().meta)(task);
                    if tag.local && tag.worker == Some(self.id()) {
                        carry_out(task.as_ref().state.apply(Snapshot::abort), task);
                    }
                    drop_ref(task);
                }
            }
        };
        let mut others = Chain::new();
        while slot.local.locals.get() > 0 {
            // Repeated, since the drop of one local task may spawn another.
            Slab::for_each(&executor.registry, mine);
            // SAFETY: we are the worker.
            while let Some(ready) = unsafe { slot.inbox.pop() } {
                if ready.is_local() {
                    self.end(ready, away);
                } else {
                    others.push_back(ready);
                }
            }
        }
        while let Some(ready) = others.pop_front() {
            slot.inbox.push(ready);
        }
    }
}
