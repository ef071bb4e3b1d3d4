//! The executor: its parts, and how workers enter it.

use core::{cell::Cell, fmt, future::Future, ptr::NonNull};

use super::{
    broadcast::Call,
    census::Census,
    config::{Config, Settings},
    error::{BuildError, RunError},
    shutdown::Gate,
    slot::{OFFLINE, ONLINE, STARTING, Slots, WorkerSlot},
    ward::Ward,
    worker::Worker,
};
use crate::{
    atomic::{AtomicPtr, AtomicU32, AtomicWord, Ordering, array_of, fence, maybe_const},
    platform::{Platform, StartError, WorkerId},
    queue::injector::Injector,
    sleep::idle::{Bitmap, GROUP, Idle},
    task::{
        join::JoinHandle,
        memory::{Memory, Slab},
        schedule::{Anchor, Ops},
        spawn::SpawnError,
    },
    watchdog::role::Watchdog,
};

/// An executor with room for `N` workers, const-constructible in a `static`.
///
/// ```ignore
/// static EXECUTOR: Executor<Board, 4> = Executor::new(Board);
/// // On each core:
/// EXECUTOR.run(WorkerId::new(core_id))?;
/// ```
///
/// See [`Scheduler`] for its methods. Memory: about 7 KiB for each worker on 64-bit targets, with the default ring of 256 tasks.
/// Of these the timer wheel takes 3 KiB, the ring 2 KiB, and fork-join jobs 1 KiB.
pub type Executor<P, const N: usize, const RING: usize = 256> =
    Scheduler<P, [WorkerSlot<RING>; N], RING>;

/// A work-stealing executor over a platform `P` and worker slots `S`.
///
/// All its methods need a `&'static` reference: the executor is a `static`, or leaked. Tasks are spawned into
/// [`Memory`](crate::Memory) that the caller provides. Workers enter with [`run`](Scheduler::run), or are stepped by hand with
/// [`worker`](Scheduler::worker).
///
/// | method | contexts |
/// |---|---|
/// | [`spawn`](Scheduler::spawn), [`spawner`](Scheduler::spawner) | any, interrupt handlers included (not NMI) |
/// | [`run`](Scheduler::run), [`worker`](Scheduler::worker) | a thread or core that is no worker yet |
/// | [`metrics`](Scheduler::metrics), [`tasks`](Scheduler::tasks) | any |
/// | [`shutdown`](Scheduler::shutdown) | a thread that is no worker |
#[repr(C)]
pub struct Scheduler<P: Platform, S, const RING: usize = 256> {
    /// The first field, so that a pointer to it is a pointer to the scheduler.
    anchor: Anchor,
    pub(crate) platform: Ward<P>,
    pub(crate) config: Settings,
    pub(crate) registry: AtomicPtr<Slab>,
    pub(crate) gate: Gate,
    pub(crate) census: Census,
    /// How many spare slots have ever been in use. These are the first ones.
    spares: AtomicU32,
    pub(crate) watchdog: Watchdog,
    /// Where the search for a wheel begins, for the next timer from outside.
    pub(crate) turn: AtomicU32,
    /// The broadcast under way.
    pub(crate) call: AtomicPtr<Call>,
    pub(crate) idle: Line<Idle>,
    pub(crate) injector: Line<Injector>,
    slots: S,
}

#[repr(align(128))]
pub(crate) struct Line<T>(pub(crate) T);

impl<T> core::ops::Deref for Line<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<P: Platform, const N: usize, const RING: usize> Executor<P, N, RING> {
    maybe_const! {
        /// An executor with the default configuration.
        ///
        /// # Panics
        /// If `N` is zero or above 4,096 (1,024 where 64-bit atomics are not native): at compile time in a `static`.
        pub fn new(platform: P) -> Self {
            Self::with_config(platform, Config::new())
        }
    }

    maybe_const! {
        /// An executor with this configuration.
        ///
        /// # Panics
        /// As [`new`](Executor::new), if all slots are spares, and for a watchdog that never sleeps ([`Config::watchdog`]).
        pub fn with_config(platform: P, config: Config) -> Self {
            assert!(N > config.spares as usize, "an executor needs at least one worker");
            assert!(N <= WorkerId::MAX as usize + 1, "an executor has at most 4,096 workers (1,024 on narrow targets)");
            assert!(!config.is_sleepless(), "a timeout of the watchdog is zero");
            Self::assemble(platform, config, array_of!(WorkerSlot::new(); N))
        }
    }
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// An executor over the caller's own slots, for a number of workers that is known at run time.
    ///
    /// # Errors
    /// [`BuildError`] for no slots or too many, and for a watchdog that never sleeps.
    pub fn over(platform: P, config: Config, slots: S) -> Result<Self, BuildError> {
        match slots.slots().len() {
            n if n <= config.spares as usize => Err(BuildError::ZeroWorkers),
            n if n > WorkerId::MAX as usize + 1 => {
                Err(BuildError::TooManyWorkers(WorkerId::MAX as usize + 1))
            }
            _ if config.is_sleepless() => Err(BuildError::WatchdogNeverSleeps),
            _ => Ok(Self::assemble(platform, config, slots)),
        }
    }
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    const OPS: &'static Ops = &Ops {
        schedule: Self::op_schedule,
        budget: Self::op_budget,
        current: Self::op_current,
        help: Self::op_help,
        block: Self::op_block,
        unblock: Self::op_unblock,
        unpark: Self::op_unpark,
        admit: Self::op_admit,
        dismiss: Self::op_dismiss,
        launch: Self::op_launch,
        registry: Self::op_registry,
        workers: Self::op_workers,
        caller: Self::op_caller,
        admit_local: Self::op_admit_local,
        dismiss_local: Self::op_dismiss_local,
        may_wait: Self::op_may_wait,
        guard: Self::op_contain,
    };

    maybe_const! {
        fn assemble(platform: P, config: Config, slots: S) -> Self {
            Self {
                anchor: Anchor::new(Self::OPS),
                platform: Ward(platform),
                config: Settings::new(&config),
                registry: AtomicPtr::new(core::ptr::null_mut()),
                gate: Gate::new(),
                census: Census::new(),
                spares: AtomicU32::new(0),
                watchdog: Watchdog::new(),
                turn: AtomicU32::new(0),
                call: AtomicPtr::new(core::ptr::null_mut()),
                idle: Line(Idle::new()),
                injector: Line(Injector::new()),
                slots,
            }
        }
    }

    #[inline(always)]
    pub(crate) fn slots(&self) -> &[WorkerSlot<RING>] {
        self.slots.slots()
    }

    /// The slots to search for work: all but the spare slots that no context has ever run.
    ///
    /// A slot is among them before its context's first push. So a worker that has seen that a slot may hold work sees the slot
    /// here. So does a worker that has put a SeqCst fence before this look, as `Idle::announce` does.
    #[inline]
    pub(crate) fn in_use(&self) -> &[WorkerSlot<RING>] {
        // Ordering: see above. The fences in `attach` and after each push are the other side.
        let unused = u32::from(self.config.spares) - self.spares.load(Ordering::Relaxed);
        let slots = self.slots();
        // SAFETY: there are more slots than spares, and no more spares in use than there are.
        unsafe { slots.get_unchecked(..slots.len() - unused as usize) }
    }

    /// The platform under the executor.
    pub fn platform(&self) -> &P {
        &self.platform.0
    }

    /// How many workers can enter, not counting spare slots.
    pub fn workers(&self) -> usize {
        self.slots().len() - self.config.spares as usize
    }

    pub(crate) fn anchor(&'static self) -> NonNull<Anchor> {
        // The scheduler begins with its anchor, and this pointer may reach all of it.
        NonNull::from(self).cast()
    }

    /// # Safety
    /// `anchor` is that of a scheduler of this type, `'static`.
    #[inline(always)]
    pub(crate) unsafe fn of(anchor: NonNull<Anchor>) -> &'static Self {
        // SAFETY: the caller's; see `anchor`.
        unsafe { anchor.cast().as_ref() }
    }

    /// The worker of the calling context, and its slot, even if the worker has not entered: a core knows its id before. Marks in
    /// the slot (accepting, a frame) say whether the worker is at work.
    #[inline]
    pub(crate) fn current(&self) -> Option<(WorkerId, &WorkerSlot<RING>)> {
        let id = self.platform.current_worker()?;
        self.slots().get(id.index()).map(|slot| (id, slot))
    }

    /// As `current`, for a worker that has entered.
    pub(crate) fn working(&self) -> Option<(WorkerId, &WorkerSlot<RING>)> {
        self.current().filter(|(_, slot)| slot.is_online())
    }

    /// Becomes worker `id` in the calling context, and works until the executor has shut down.
    ///
    /// # Errors
    /// [`RunError`], at once.
    pub fn run(&'static self, id: WorkerId) -> Result<(), RunError> {
        self.worker(id)?.run();
        Ok(())
    }

    /// Becomes worker `id` in the calling context, to be stepped by hand. When the handle is dropped the worker goes offline, and
    /// the tasks in its queues go to the others.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn worker(&'static self, id: WorkerId) -> Result<Worker<P, S, RING>, RunError> {
        if id.index() >= self.workers() {
            return Err(RunError::NoSuchWorker(self.workers()));
        }
        if !self.platform.may_wait() {
            return Err(RunError::MustNotWait);
        }
        if self.working().is_some() {
            return Err(RunError::AlreadyWorker);
        }
        self.attach(id, OFFLINE)
    }

    /// As `worker`, spare slots included, for a slot whose status is `from`. On failure the slot is not the caller's, whatever
    /// its status was.
    pub(crate) fn attach(
        &'static self,
        id: WorkerId,
        from: u32,
    ) -> Result<Worker<P, S, RING>, RunError> {
        let slot = self.slots().get(id.index()).ok_or(RunError::NoSuchWorker(self.workers()))?;
        if self.platform.current_worker().is_some_and(|other| other != id) {
            if from == STARTING {
                // The slot was reserved for this context.
                self.unreserve(id);
            }
            return Err(RunError::WrongContext);
        }
        // Ordering: Acquire pairs with the Release in `leave`: the slot's `Local` passes from one context to the next.
        slot.shared
            .status
            .compare_exchange(from, ONLINE, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| RunError::AlreadyRunning)?;
        slot.local.guest.set(false);
        if let Some(spare) = id.index().checked_sub(self.workers()) {
            // Ordering: see `in_use`.
            self.spares.fetch_max(spare as u32 + 1, Ordering::Relaxed);
            // Workers that sleep already did not know of this slot when they asked all owners for jobs.
            slot.bay.deque.ask();
        }
        let others = self.census.enter();
        slot.local.is_second.set(others == 1);
        // Ordering: pairs with the fence in `wait_until`: either the thread that waits for the end sees this worker, or this worker
        // sees that the end has come.
        fence(Ordering::SeqCst);
        // SAFETY: the slot is ours by the exchange above, until `leave`.
        unsafe { self.platform.enter(id) };
        let refused = if self.gate.is_stopped() {
            Some(RunError::Stopped)
        } else {
            (self.platform.current_worker() != Some(id)).then_some(RunError::WrongContext)
        };
        if let Some(error) = refused {
            self.leave(id, slot);
            return Err(error);
        }
        slot.shared.bell.hang(self.anchor(), id);
        // SAFETY: our own anchor and table; the calling context is this worker.
        unsafe { slot.bay.open(self.anchor(), Self::BAY, id) };
        let number = id.index() as u64 + 1;
        slot.local.rng.seed(self.config.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Ok(Worker::new(self, id))
    }

    /// The calling context is no longer worker `id`.
    pub(crate) fn leave(&self, id: WorkerId, slot: &WorkerSlot<RING>) {
        // SAFETY: as said in `attach`, which has called `enter`.
        unsafe { self.platform.leave(id) };
        // Ordering: Release pairs with the Acquire in `attach`.
        slot.shared.status.store(OFFLINE, Ordering::Release);
        self.decline_call(slot);
        self.census.leave();
        self.gate.tell_if_closing(&self.platform);
        // Ordering: after the fence in `tell_if_closing`, which pairs with the one in `block`.
        if !self.census.blocked.is_zero() {
            self.wake_all();
        }
    }

    /// Has the platform start worker `id` on a thread or core of its own.
    ///
    /// # Errors
    /// The platform's [`StartError`]. A worker that then cannot enter is not reported:
    /// [`WorkerEntry::run`](crate::WorkerEntry::run) returns at once.
    pub fn start(&'static self, id: WorkerId) -> Result<(), StartError> {
        // If the platform refuses, it drops the entry, which takes this back.
        self.census.expect();
        self.platform.start(self.entry::<OFFLINE>(id))
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

    unsafe fn op_budget(anchor: NonNull<Anchor>) -> Option<NonNull<Cell<u32>>> {
        // SAFETY: the table is this type's.
        let this = unsafe { Self::of(anchor) };
        match this.current() {
            Some((_, slot)) if !slot.local.frame.get().is_null() => {
                Some(NonNull::from(&slot.local.budget))
            }
            _ => this.platform.budget(),
        }
    }
}

impl<P: Platform, S, const RING: usize> Bitmap for Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    #[inline(always)]
    fn words(&self) -> usize {
        self.slots().len().div_ceil(GROUP)
    }

    #[inline(always)]
    fn word(&self, group: usize) -> &AtomicWord {
        if group == 0 {
            return &self.idle.first;
        }
        // SAFETY: groups are those of workers that exist.
        unsafe { &self.slots().get_unchecked(group * GROUP).shared.bits }
    }
}

impl<P: Platform, S, const RING: usize> fmt::Debug for Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler")
            .field("workers", &self.slots().len())
            .field("totals", &self.totals())
            .finish_non_exhaustive()
    }
}
