//! Admission of new tasks, and what the scheduler does for their spawners.

use crate::scheduler::core::faces::OwnQueues;
use core::{cell::Cell, future::Future, ptr::NonNull};

use crate::{
    memory::slab::Slab,
    parts::{Parts, Switch},
    platform::{Platform, WorkerId, WorkerSet},
    queue::chain::Chain,
    scheduler::{
        core::{
            context::{Here, Worker},
            executor::Scheduler,
            faces::Queues,
            leave_loop::OutOfLoop,
            slot::{Slots, WorkerSlot},
        },
        state::retiring::Retiring,
    },
    task::{
        error::SpawnError,
        executor_ref::Caller,
        header::{Header, Ready},
        join::JoinHandle,
        run::{self, Polled},
        spawn::{Memory, Spawner},
        state::Snapshot,
        waker::{carry_out, drop_ref},
    },
    trace::{Event, Spawned},
};

/// The same as [`Scheduler::spawner`].
impl<P: Platform, S: Slots<RING>, const RING: usize> From<&'static Scheduler<P, S, RING>>
    for Spawner
{
    fn from(executor: &'static Scheduler<P, S, RING>) -> Self {
        executor.spawner()
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    /// A thin handle that spawns tasks here, and names neither the platform nor the slots.
    pub fn spawner(&'static self) -> Spawner {
        Spawner::new(self.erased())
    }

    /// Spends one unit of the budget of the poll under way in the calling context, for an operation of your own that is ready.
    /// False if the budget is used up: then wake the task and return `Pending`. True outside polls.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use core::{future::poll_fn, task::Poll};
    /// # use filch::{BUDGET, Executor, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// let mut polls = 0;
    /// let mut task = EXECUTOR.spawn(&TASKS, poll_fn(move |cx| {
    ///     polls += 1;
    ///     for _ in 0..BUDGET / 2 + 1 {
    ///         if !EXECUTOR.spend_budget() {
    ///             cx.waker().wake_by_ref();
    ///             return Poll::Pending;
    ///         }
    ///         // An operation of your own.
    ///     }
    ///     Poll::Ready(polls)
    /// }))?;
    /// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
    /// assert_eq!(task.join()?, 1);
    /// assert!(EXECUTOR.spend_budget(), "no poll, no limit");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn spend_budget(&'static self) -> bool {
        crate::task::coop::spend_at(self.erased())
    }

    /// Spawns a future into `memory`: [`Spawner::spawn`](crate::Spawner::spawn), which says how long the task lives.
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

    /// Counts a new task, and gives the worker that calls; none if the executor takes no task.
    pub(crate) fn admit(&'static self) -> Option<Caller> {
        if self.platform.is_forked() {
            return None;
        }
        match self.current() {
            // In a poll the caller's own task is live, so that the executor cannot stop before the spawn is counted.
            Some((worker, slot)) if Self::is_in_task(slot) => {
                if self.gate.is_cancelling() {
                    return None;
                }
                slot.lifo.set_in_user_code(false);
                slot.counters.spawned.add(1);
                slot.lifo.set_in_user_code(true);
                Some(Some(worker))
            }
            current => {
                // Nor before the end of a poll that has left its worker.
                let is_in_task = self.left_poll().is_some();
                let admits = if is_in_task { self.gate.admit_of_task() } else { self.gate.admit() };
                admits.then(|| current.map(|(worker, _)| worker))
            }
        }
    }

    /// Whether the calling worker is in a poll: not in a waker or a broadcast of its loop's own.
    fn is_in_task(slot: &WorkerSlot<RING, S::Parts>) -> bool {
        slot.lifo.is_in_user_code() && !slot.local.frame.get().is_null()
    }

    /// Takes an `admit` back.
    #[cold]
    pub(crate) fn dismiss(&self) {
        match self.current() {
            Some((_, slot)) if Self::is_in_task(slot) => {
                slot.lifo.set_in_user_code(false);
                slot.counters.spawned.add(1_usize.wrapping_neg());
                slot.lifo.set_in_user_code(true);
            }
            _ => {
                self.gate.dismiss();
                if self.gate.is_closing() {
                    self.wake_all();
                }
            }
        }
    }

    /// Schedules a new task, in the context for which `admit` returned `caller`.
    pub(crate) fn launch(&'static self, ready: Ready, caller: Caller) {
        let here = caller.and_then(|worker| Some((worker, self.slots().get(worker.index())?)));
        if <S::Parts as Parts>::Classes::ON {
            self.inherit_class(here.map(|(_, slot)| slot), &ready);
        }
        match here {
            Some((_, slot)) if slot.lifo.is_in_user_code() => {
                self.trace(here, Event::Spawn(Spawned::new(&ready)));
                self.queue_in_user_code(slot, ready);
            }
            _ => self.launch_outside(here, ready),
        }
    }

    #[inline(never)]
    fn launch_outside(&'static self, here: Here<'_, RING, S::Parts>, ready: Ready) {
        let _guard = self.guard_between_steps(here);
        self.trace(here, Event::Spawn(Spawned::new(&ready)));
        self.queue_outside(ready);
    }

    /// Counts a new task with an affinity to these workers. False if one of them does not exist, or if the first is to leave.
    pub(crate) fn admit_affine(&self, set: WorkerSet) -> bool {
        if !<S::Parts as Parts>::Cores::ON {
            return set == WorkerSet::only(WorkerId::new(0));
        }
        if !set.is_below(self.workers()) {
            return false;
        }
        self.slot_of(set.first()).shared.retiring.get().is_none_or(Retiring::admit)
    }

    /// Counts a new local task, if the calling context polls a task that is pinned to its worker, or is any user code of an only
    /// worker. Returns the worker.
    ///
    /// For the future's sake it is enough that the caller is a worker, which ends its local tasks before it leaves. The rest is
    /// for the caller's: a task that moves would leave its local tasks behind.
    pub(crate) fn admit_local(&self) -> Option<WorkerId> {
        let (worker, slot) = self.current().filter(|(_, slot)| slot.lifo.is_in_user_code())?;
        if self.slots().len() == 1 {
            return Self::count_local(slot, 1).then_some(worker);
        }
        // SAFETY: the slot is the calling worker's, and the flag is set.
        let task = unsafe { slot.polled() }?;
        // It may have an affinity to several workers.
        // SAFETY: a poll holds a reference to its task.
        let is_one = || unsafe { Header::pin(NonNull::from(task)) }.is_some();
        let pinned =
            task.state.load().is_bound() && (!<S::Parts as Parts>::Classes::ON || is_one());
        (pinned && Self::count_local(slot, 1)).then_some(worker)
    }

    /// Takes an `admit_local` back.
    pub(crate) fn dismiss_local(&self) {
        if let Some((_, slot)) = self.current() {
            Self::count_local(slot, 1_usize.wrapping_neg());
        }
    }

    /// Adds `n` to the count of local tasks, with the flag of INV-USER-CODE clear meanwhile. Adds nothing, and returns false, if
    /// the flag was clear already.
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    fn count_local(slot: &WorkerSlot<RING, S::Parts>, n: usize) -> bool {
        let in_user_code = slot.lifo.is_in_user_code();
        if in_user_code {
            slot.lifo.set_in_user_code(false);
            slot.local.locals.set(slot.local.locals.get().wrapping_add(n));
            slot.lifo.set_in_user_code(true);
        }
        in_user_code
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Worker<P, S, RING> {
    /// Ends this worker's local tasks, shielded or not. The worker goes offline, and their futures must not leave this context.
    pub(crate) fn retire_locals(&self, out: &OutOfLoop<'_>) {
        let (executor, slot) = (self.executor, self.slot());
        if slot.local.locals.get() == 0 {
            return;
        }
        let mine = |task: NonNull<Header>| {
            // SAFETY: a slot is a header for ever (INV-SLAB-SLOT); the reference is dropped below.
            unsafe {
                if task.as_ref().state.apply(Snapshot::hold) {
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
            Slab::for_each(executor.anchor.owners(), mine);
            // SAFETY: we are the worker.
            while let Some(ready) = unsafe { slot.pop_pinned() } {
                if ready.is_local() {
                    self.end(ready, out);
                } else {
                    others.push_back(ready);
                }
            }
        }
        while let Some(ready) = others.pop_front() {
            self.executor.requeue_special(slot, ready);
        }
    }

    /// Ends a local task of a worker that goes offline.
    pub(crate) fn end(&self, ready: Ready, out: &OutOfLoop<'_>) {
        let task = ready.as_ptr();
        let cancel = || run::cancel(ready, &self.executor.platform, &Cell::new(false));
        match self.in_user_code(out, cancel) {
            Polled::Again(ready) => self.executor.requeue_special(self.slot(), ready),
            _ => {
                self.trace_end(task);
                self.count_completion(&Polled::CompleteLocal);
            }
        }
    }
}
