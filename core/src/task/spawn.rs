//! Spawning: admission, the slot, the task in it, and the first schedule.

use core::{
    alloc::Layout,
    fmt,
    future::Future,
    ptr::NonNull,
    task::{Context, Poll},
};

use super::{
    cell::{Ending, Meta, Pinned, Task},
    coop::{ConsumeBudget, Unconstrained, budgeted_by},
    error::{SpawnError, SpawnErrorKind},
    executor_ref::{Caller, ExecutorRef},
    header::{Header, Ready, Slot},
    join::JoinHandle,
    options::TaskOptions,
    reserve::Reservation,
    state::Snapshot,
};
#[cfg(feature = "classes")]
use crate::class::Class;
use crate::platform::{WorkerId, WorkerSet};

/// Memory that an executor's tasks live in: a [`TaskPool`](crate::TaskPool), a [`TaskCell`](crate::TaskCell) or, with
/// feature `alloc`, a `Heap`.
///
/// Slots are type-stable: they are reused and never unmapped, so that a task can be found and woken without a lock.
/// Memory serves the executor that first spawns into it; a spawn by another fails with
/// [`SpawnErrorKind::ForeignMemory`].
///
/// Sealed: only this crate implements it.
///
/// [`SpawnErrorKind::ForeignMemory`]: crate::SpawnErrorKind::ForeignMemory
pub trait Memory: Sealed + Sync {}

pub trait Sealed {
    /// Takes a slot for a task of this layout, for the context with this number (`Caller`).
    #[doc(hidden)]
    fn take(
        &'static self,
        task: Layout,
        executor: ExecutorRef,
        caller: Caller,
    ) -> Result<Slot, SpawnErrorKind>;
}

/// Spawns tasks into one executor: a copyable, type-erased reference to it, whatever its platform.
///
/// Callable from any context but NMI. On a worker, in a poll, a new task goes to the worker's LIFO slot and wakes no worker;
/// from elsewhere it goes through the injector and wakes a sleeper. Lock-free; no allocation, unless the memory is a
/// `Heap` that must grow.
///
/// ```
/// # filch_test_support::board!();
/// # use filch::{Executor, SpawnErrorKind, TaskPool};
/// use filch::{JoinHandle, Memory, Spawner, TaskOptions, WorkerId};
///
/// /// A driver: it knows neither the platform nor the size of the executor.
/// fn start(on: Spawner, memory: &'static impl Memory) -> Result<[JoinHandle<u32>; 3], SpawnErrorKind> {
///     let first = WorkerId::new(0);
///     let requests = on.spawn(memory, async { 1 }).map_err(|error| error.kind)?;
///     let named = on.spawn_with(TaskOptions::new().name("log"), memory, async { 2 }).map_err(|error| error.kind)?;
///     let pinned = on.spawn_pinned(memory, first, async move {
///         // It need not be `Send`.
///         let three = std::rc::Rc::new(3);
///         let local = on.spawn_local(memory, async move { *three }).unwrap();
///         local.await.unwrap_or(0)
///     });
///     Ok([requests, named, pinned.map_err(|error| error.kind)?])
/// }
///
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<256, 8> = TaskPool::new();
/// let handles = start(EXECUTOR.spawner(), &TASKS).unwrap();
/// # EXECUTOR.worker(WorkerId::new(0))?.run_for(16);
/// let outputs = handles.map(|mut handle| handle.join().unwrap());
/// assert_eq!(outputs, [1, 2, 3]);
/// # Ok::<(), filch::RunError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Spawner {
    pub(super) executor: ExecutorRef,
}

impl Spawner {
    pub(crate) fn new(executor: ExecutorRef) -> Self {
        Self { executor }
    }

    /// Spawns a future into `memory`; it runs on whatever worker comes first. The task lives until it ends, is aborted, or the
    /// executor shuts down, also if it is detached, and nothing can wake it any more. To have such a task end, and its slot come
    /// back, spawn it with [`TaskOptions::end_unreachable`].
    ///
    /// # Errors
    /// [`SpawnError`] with the future, unchanged.
    pub fn spawn<F>(
        self,
        memory: &'static impl Memory,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.launch(memory, future, (), Given::default())
    }

    /// Spawns a future that runs on one worker only. It waits while that worker is offline.
    ///
    /// # Errors
    /// [`SpawnError`] with the future, unchanged: also [`SpawnErrorKind::NoSuchWorker`], if there is no such worker, or if it is to leave
    /// ([`Scheduler::resize`](crate::Scheduler::resize)).
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
        let meta = Pinned { worker, local: false };
        self.launch_pinned(memory, worker, future, meta, Given::default())
    }

    /// Spawns a future that is not `Send`, from a pinned or a local task. It runs on that task's worker, and is
    /// cancelled when the worker goes offline. On an executor of one worker slot the caller is any task, or code in
    /// [`Scheduler::as_poll`](crate::Scheduler::as_poll).
    ///
    /// # Errors
    /// [`SpawnError`] with the future, unchanged: also [`SpawnErrorKind::NotPinned`], if the caller is none of those.
    pub fn spawn_local<F>(
        self,
        memory: &'static impl Memory,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.launch_local(memory, future, |pinned| pinned, Given::default())
    }

    /// Spawns a future as the options say.
    ///
    /// # Errors
    /// [`SpawnError`] with the future, unchanged: also [`SpawnErrorKind::NoSuchWorker`], if there is no such worker; and, for a class, a deadline or
    /// a set of workers, `SpawnErrorKind::NoClasses`, if the executor has no classes.
    pub fn spawn_with<F>(
        self,
        options: TaskOptions,
        memory: &'static impl Memory,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let given = Given {
            #[cfg(feature = "classes")]
            class: None,
            #[cfg(feature = "classes")]
            needs_classes: options.needs_classes(),
        };
        match options.affine_to() {
            None => self.launch(memory, future, options.meta(), given),
            Some(set) => self.launch_affine(memory, set, future, options.meta(), given),
        }
    }

    /// As [`spawn`](Self::spawn), or [`spawn_pinned`](Self::spawn_pinned), for a task that ends when nothing can wake it any more
    /// ([`TaskOptions::end_unreachable`]), which takes no room in its slot.
    ///
    /// # Errors
    /// As those.
    #[doc(hidden)]
    pub fn spawn_ending<F>(
        self,
        memory: &'static impl Memory,
        worker: Option<WorkerId>,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match worker {
            None => self.launch(memory, future, Ending(()), Given::default()),
            Some(worker) => {
                let meta = Ending(Pinned { worker, local: false });
                self.launch_pinned(memory, worker, future, meta, Given::default())
            }
        }
    }

    /// Takes a slot now, so that a later spawn cannot fail.
    ///
    /// # Errors
    /// [`SpawnErrorKind`], of the kinds that [`spawn`](Self::spawn) returns.
    pub fn reserve<F>(self, memory: &'static impl Memory) -> Result<Reservation<F>, SpawnErrorKind>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let slot = self.slot_for::<F, ()>(memory, self.executor.caller())?;
        // SAFETY: INV-RESERVED: the slot was taken for this type.
        Ok(unsafe { Reservation::new(self, self.executor, slot) })
    }

    pub(crate) fn launch_pinned<F: Future, M: Meta>(
        self,
        memory: &'static impl Memory,
        worker: WorkerId,
        future: F,
        meta: M,
        given: Given,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>> {
        self.launch_affine(memory, WorkerSet::only(worker), future, meta, given)
    }

    /// As `launch`, for a task that runs on these workers only.
    fn launch_affine<F: Future, M: Meta>(
        self,
        memory: &'static impl Memory,
        set: WorkerSet,
        future: F,
        meta: M,
        given: Given,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>> {
        if !self.executor.admit_affine(set) {
            return Err(SpawnError { kind: SpawnErrorKind::NoSuchWorker, future });
        }
        let spawned = self.launch(memory, future, meta, given);
        spawned.inspect_err(|_| self.executor.dismiss_affine(set.first()))
    }

    pub(crate) fn launch_local<F: Future, M: Meta>(
        self,
        memory: &'static impl Memory,
        future: F,
        meta: impl FnOnce(Pinned) -> M,
        given: Given,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>> {
        let Some(worker) = self.executor.admit_local() else {
            return Err(SpawnError { kind: SpawnErrorKind::NotPinned, future });
        };
        let spawned = self.launch(memory, future, meta(Pinned { worker, local: true }), given);
        spawned.inspect_err(|_| self.executor.dismiss_local())
    }

    #[inline]
    pub(crate) fn launch<F: Future, M: Meta>(
        self,
        memory: &'static impl Memory,
        future: F,
        meta: M,
        given: Given,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>> {
        #[cfg(feature = "classes")]
        if (given.class.is_some() || given.needs_classes) && !self.executor.has_classes() {
            return Err(SpawnError { kind: SpawnErrorKind::NoClasses, future });
        }
        let Some(caller) = self.executor.admit() else {
            return Err(SpawnError { kind: SpawnErrorKind::Shutdown, future });
        };
        match self.slot_for::<F, M>(memory, caller) {
            // SAFETY: the slot was taken for this type, and the task has been admitted.
            Ok(slot) => Ok(unsafe { self.begin(slot, caller, future, meta, given) }),
            Err(kind) => {
                self.executor.dismiss();
                Err(SpawnError { kind, future })
            }
        }
    }

    /// Takes a slot for a task of this type.
    #[inline]
    fn slot_for<F: Future, M: Meta>(
        self,
        memory: &'static impl Memory,
        caller: Caller,
    ) -> Result<NonNull<Header>, SpawnErrorKind> {
        let slot = memory.take(Layout::new::<Task<F, M>>(), self.executor, caller)?;
        Ok(slot.into_raw())
    }

    /// Builds the task in its slot, and schedules it.
    ///
    /// # Safety
    /// The caller owns the slot, which was taken for a `Task<F, M>`. `admit` has returned `caller` for this task.
    #[inline]
    pub(super) unsafe fn begin<F: Future, M: Meta>(
        self,
        slot: NonNull<Header>,
        caller: Caller,
        future: F,
        meta: M,
        given: Given,
    ) -> JoinHandle<F::Output> {
        // SAFETY: the slot is the caller's and of this type. `publish` makes two references, the handle's and the
        // `Ready`'s.
        unsafe {
            let state = given.to(meta.first_state());
            Task::build(slot, future, meta);
            slot.as_ref().state.publish(state);
            let handle = JoinHandle::new(slot);
            self.executor.launch(Ready::from_raw(slot), caller);
            handle
        }
    }
}

/// What a spawn says of its task that the slot need not keep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given {
    #[cfg(feature = "classes")]
    pub(crate) class: Option<Class>,
    /// What the slot keeps needs them.
    #[cfg(feature = "classes")]
    pub(crate) needs_classes: bool,
}

impl Given {
    fn to(self, state: Snapshot) -> Snapshot {
        #[cfg(feature = "classes")]
        let state = self.class.map_or(state, |class| state.of_class(class));
        state
    }
}

/// Budgets of this executor's polls, found even if the waker is foreign.
impl Spawner {
    /// The function [`consume_budget`](crate::consume_budget) for tasks of this executor, whatever waker polls them.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// # use core::{future::poll_fn, task::Poll};
    /// # use filch::{Executor, Spawner, TaskPool, WorkerId};
    /// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
    /// # static TASKS: TaskPool<512, 8> = TaskPool::new();
    /// async fn copy(on: Spawner) -> u8 {
    ///     on.consume_budget().await;
    ///     assert_eq!(on.poll_budget(), filch::BUDGET);
    ///     let byte = poll_fn(|cx| on.budgeted(cx, |_| Poll::Ready(7))).await;
    ///     on.unconstrained(async { byte }).await
    /// }
    /// # let mut handle = EXECUTOR.spawn(&TASKS, copy(EXECUTOR.spawner()))?;
    /// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
    /// # assert_eq!(handle.join()?, 7);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn consume_budget(self) -> ConsumeBudget {
        ConsumeBudget(Some(self.executor))
    }

    /// The units with which each poll of this executor's tasks begins: [`Config::budget`](crate::Config::budget). From any context.
    pub fn poll_budget(self) -> u32 {
        self.executor.units()
    }

    /// The function [`budgeted`](crate::budgeted) for tasks of this executor, whatever waker polls them.
    #[inline]
    pub fn budgeted<T>(
        self,
        cx: &mut Context<'_>,
        op: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        budgeted_by(Some(self.executor), cx, op)
    }

    /// The function [`unconstrained`](crate::unconstrained) for tasks of this executor, whatever waker polls them.
    pub fn unconstrained<F: Future>(self, future: F) -> Unconstrained<F> {
        Unconstrained { own: Some(self.executor), future }
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawner").finish_non_exhaustive()
    }
}
