//! Spawning: admission, a slot, the task in it, the first schedule.

use core::{alloc::Layout, fmt, future::Future, panic::Location, ptr::NonNull};

use super::{executor::Scheduler, slot::WorkerSlot, worker::Worker};
use crate::{
    platform::{Platform, WorkerId},
    task::{
        header::{Header, Meta, Named, Pinned, Ready, Tag, Task},
        join::JoinHandle,
        memory::{Home, Memory},
        state::Snapshot,
        waker::{carry_out, drop_ref},
    },
    trace::Event,
};

/// Why a task was not spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnErrorKind {
    /// The memory has no free slot.
    Full,
    /// The task does not fit the memory's slots, by size or by alignment.
    TooLarge {
        /// Bytes that the task needs, header included.
        needed: usize,
        /// Its alignment.
        align: usize,
        /// Bytes in the largest slot.
        slot: usize,
        /// The alignment of slots.
        slot_align: usize,
    },
    /// The memory serves another executor.
    ForeignMemory,
    /// The executor is shutting down.
    Shutdown,
    /// The executor has no worker of that id.
    NoSuchWorker,
    /// A local task can be spawned on a worker only.
    NotOnWorker,
}

impl fmt::Display for SpawnErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no free slot for the task"),
            Self::TooLarge { needed, align, slot, slot_align } => write!(
                f,
                "the task takes {needed} bytes aligned to {align}, a slot has {slot} aligned to {slot_align}"
            ),
            Self::ForeignMemory => f.write_str("the memory serves another executor"),
            Self::Shutdown => f.write_str("the executor is shutting down"),
            Self::NoSuchWorker => f.write_str("the executor has no such worker"),
            Self::NotOnWorker => {
                f.write_str("a local task is spawned on the worker that it stays on")
            }
        }
    }
}

/// A future that was not spawned, and why.
pub struct SpawnError<F> {
    /// Why.
    pub kind: SpawnErrorKind,
    /// The future, as it was.
    pub future: F,
}

impl<F> fmt::Debug for SpawnError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnError").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for SpawnError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<F> core::error::Error for SpawnError<F> {}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: AsRef<[WorkerSlot<RING>]> + Sync + 'static,
{
    /// Spawns a future into `memory`; it runs on whatever worker comes first.
    ///
    /// Callable from any context but NMI. On a worker, in a poll, the task goes to the worker's LIFO slot and wakes nobody;
    /// from elsewhere it goes through the injector and wakes a sleeper. Lock-free; no allocation, unless the memory is
    /// a `Heap` that must grow.
    ///
    /// # Errors
    /// [`SpawnError`] with the future, unchanged.
    pub fn spawn<F>(
        &'static self,
        memory: &'static impl Memory,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.launch(memory, future, ())
    }

    /// Spawns a future that stays on one worker; it waits while that worker is offline.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and [`SpawnErrorKind::NoSuchWorker`].
    pub fn spawn_pinned<F>(
        &'static self,
        memory: &'static impl Memory,
        worker: WorkerId,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if worker.index() >= self.workers() {
            return Err(SpawnError { kind: SpawnErrorKind::NoSuchWorker, future });
        }
        self.launch(memory, future, Pinned { worker, local: false })
    }

    /// Spawns a future that is not `Send`, on the calling worker, where it stays. It is cancelled when the worker goes offline.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn), and [`SpawnErrorKind::NotOnWorker`].
    pub fn spawn_local<F>(
        &'static self,
        memory: &'static impl Memory,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let Some((worker, slot)) = self.current() else {
            return Err(SpawnError { kind: SpawnErrorKind::NotOnWorker, future });
        };
        let handle = self.launch(memory, future, Pinned { worker, local: true })?;
        slot.local.locals.set(slot.local.locals.get() + 1);
        Ok(handle)
    }

    /// A spawn with a name, for diagnosis: the task keeps it, and where this was called.
    ///
    /// ```ignore
    /// EXECUTOR.named("uart").spawn(&POOL, read_uart())?;
    /// ```
    #[track_caller]
    pub fn named(&'static self, name: &'static str) -> Builder<P, S, RING> {
        let tag = Tag { name: Some(name), location: Some(Location::caller()), ..Tag::default() };
        Builder { executor: self, tag }
    }

    /// Takes a slot now, for a spawn later that cannot fail.
    ///
    /// # Errors
    /// [`SpawnErrorKind`], of the kinds that `spawn` has.
    pub fn reserve<F>(
        &'static self,
        memory: &'static impl Memory,
    ) -> Result<Reservation<F, P, S, RING>, SpawnErrorKind>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (slot, home) = self.slot_for::<F, ()>(memory)?;
        Ok(Reservation { executor: self, slot, home, future: core::marker::PhantomData })
    }

    fn launch<F: Future, M: Meta>(
        &'static self,
        memory: &'static impl Memory,
        future: F,
        meta: M,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>> {
        if !self.admit() {
            return Err(SpawnError { kind: SpawnErrorKind::Shutdown, future });
        }
        match self.slot_for::<F, M>(memory) {
            // SAFETY: the slot was taken for this type.
            Ok((slot, home)) => Ok(unsafe { self.begin(slot, home, future, meta) }),
            Err(kind) => {
                self.dismiss();
                Err(SpawnError { kind, future })
            }
        }
    }

    /// Takes a slot for a task of this type.
    fn slot_for<F: Future, M: Meta>(
        &'static self,
        memory: &'static impl Memory,
    ) -> Result<(NonNull<Header>, &'static Home), SpawnErrorKind> {
        let task = Layout::new::<Task<F, M>>();
        let home = memory.home(task).map_err(|slot| SpawnErrorKind::TooLarge {
            needed: task.size(),
            align: task.align(),
            slot: slot.size(),
            slot_align: slot.align(),
        })?;
        if !home.bind(self.anchor(), &self.registry) {
            return Err(SpawnErrorKind::ForeignMemory);
        }
        home.take().map(|slot| (slot, home)).ok_or(SpawnErrorKind::Full)
    }

    /// The task begins.
    ///
    /// # Safety
    /// The slot is the caller's, of this home, and was taken for a `Task<F, M>`; the spawn was admitted.
    unsafe fn begin<F: Future, M: Meta>(
        &'static self,
        slot: NonNull<Header>,
        home: &'static Home,
        future: F,
        meta: M,
    ) -> JoinHandle<F::Output> {
        // SAFETY: the caller's; publishing makes the handle's and the `Ready`'s reference.
        let (handle, ready) = unsafe {
            Task::build(slot, home, future, meta);
            slot.as_ref().state.publish(Task::<F, M>::first_state());
            (JoinHandle::new(slot), Ready::from_raw(slot))
        };
        let worker = self.platform.current_worker();
        self.platform.event(worker, Event::Spawn(slot.as_ptr().addr()));
        self.schedule(ready);
        handle
    }

    /// Counts a spawn; false if the executor takes none.
    #[inline]
    fn admit(&self) -> bool {
        match self.current() {
            // In a poll the caller's own task is live, so that the executor cannot stop under it.
            Some((_, slot)) if slot.lifo.is_accepting() => {
                if self.gate.is_cancelling() {
                    return false;
                }
                slot.lifo.accept(false);
                slot.counters.spawned.add(1);
                slot.lifo.accept(true);
                true
            }
            _ => {
                self.gate.admit() || {
                    // While it was counted, a worker may have missed the end.
                    self.wake_all();
                    false
                }
            }
        }
    }

    /// Takes a count of `admit` back.
    #[cold]
    fn dismiss(&self) {
        match self.current() {
            Some((_, slot)) if slot.lifo.is_accepting() => {
                slot.lifo.accept(false);
                slot.counters.spawned.add(1_usize.wrapping_neg());
                slot.lifo.accept(true);
            }
            _ => {
                self.gate.dismiss();
                if self.gate.is_closing() {
                    self.wake_all();
                }
            }
        }
    }
}

/// A spawn with a name. See [`Scheduler::named`].
pub struct Builder<P: Platform, S: 'static, const RING: usize = 256> {
    executor: &'static Scheduler<P, S, RING>,
    tag: Tag,
}

impl<P: Platform, S, const RING: usize> Builder<P, S, RING>
where
    S: AsRef<[WorkerSlot<RING>]> + Sync + 'static,
{
    /// As [`Scheduler::spawn`].
    ///
    /// # Errors
    /// As [`Scheduler::spawn`].
    pub fn spawn<F>(
        self,
        memory: &'static impl Memory,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.executor.launch(memory, future, Named::<false>(self.tag))
    }

    /// As [`Scheduler::spawn_pinned`].
    ///
    /// # Errors
    /// As [`Scheduler::spawn_pinned`].
    pub fn spawn_pinned<F>(
        self,
        memory: &'static impl Memory,
        worker: WorkerId,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if worker.index() >= self.executor.workers() {
            return Err(SpawnError { kind: SpawnErrorKind::NoSuchWorker, future });
        }
        let tag = Tag { worker: Some(worker), ..self.tag };
        self.executor.launch(memory, future, Named::<true>(tag))
    }
}

impl<P: Platform, S: 'static, const RING: usize> fmt::Debug for Builder<P, S, RING> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("tag", &self.tag).finish_non_exhaustive()
    }
}

/// A slot taken ahead of its task. Dropping it gives the slot back.
pub struct Reservation<F, P: Platform, S: 'static, const RING: usize = 256> {
    executor: &'static Scheduler<P, S, RING>,
    /// INV-RESERVED: ours, of `home`, taken for a `Task<F, ()>`.
    slot: NonNull<Header>,
    home: &'static Home,
    future: core::marker::PhantomData<fn(F)>,
}

// SAFETY: INV-RESERVED: an empty slot may go anywhere.
unsafe impl<F, P: Platform, S: Sync, const RING: usize> Send for Reservation<F, P, S, RING> {}

impl<F, P: Platform, S, const RING: usize> Reservation<F, P, S, RING>
where
    S: AsRef<[WorkerSlot<RING>]> + Sync + 'static,
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Spawns into the slot. Infallible: if the executor shuts down meanwhile, the future is dropped where all cancelled ones
    /// are, or here if the executor has closed, and the handle says [`Cancelled`](crate::JoinError::Cancelled).
    pub fn spawn(self, future: F) -> JoinHandle<F::Output> {
        let this = core::mem::ManuallyDrop::new(self);
        if this.executor.admit() {
            // SAFETY: INV-RESERVED.
            return unsafe { this.executor.begin(this.slot, this.home, future, ()) };
        }
        // SAFETY: INV-RESERVED. A task that is over from the start: its only reference is the handle's.
        unsafe {
            Task::build(this.slot, this.home, future, ());
            Task::<F, ()>::cancel_unscheduled(this.slot)
        }
    }
}

impl<F, P: Platform, S: 'static, const RING: usize> Drop for Reservation<F, P, S, RING> {
    fn drop(&mut self) {
        // SAFETY: INV-RESERVED.
        unsafe { self.home.give(self.slot) };
    }
}

impl<F, P: Platform, S: 'static, const RING: usize> fmt::Debug for Reservation<F, P, S, RING> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").finish_non_exhaustive()
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: AsRef<[WorkerSlot<RING>]> + Sync + 'static,
{
    /// The worker goes offline: its local tasks, whose futures must not leave this context, end now, shielded or not.
    pub(crate) fn retire_locals(&self) {
        let (executor, slot) = (self.executor, self.slot());
        if slot.local.locals.get() == 0 {
            return;
        }
        let mine = |task: NonNull<Header>| {
            // SAFETY: a slot is a header for ever (INV-HOME-SLOT); the reference is dropped below.
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
        let mut others = crate::queue::chain::Chain::new();
        while slot.local.locals.get() > 0 {
            // Again and again: the drop of one may spawn another.
            Home::for_each(&executor.registry, mine);
            // SAFETY: we are the worker.
            while let Some(ready) = unsafe { slot.inbox.pop() } {
                if ready.is_local() {
                    self.end(ready);
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
