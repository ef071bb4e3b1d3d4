//! The executor: its parts, and how workers enter it.

use super::slot::{Slots, WorkerSlot};
use crate::{
    atomic::{AtomicU32, AtomicWord, Ordering, array_of, maybe_const},
    class::Class,
    parts::{All, Apart, Kept, On, Parts, Switch},
    platform::{Platform, WorkerId, ward::Ward},
    queue::injector::Injector,
    scheduler::{
        config::{Config, Settings},
        error::BuildError,
        state::{broadcasts::Broadcasts, census::Census, classes::Classes, gate::Gate},
    },
    sleep::idle::{Bitmap, GROUP, Idle},
    task::executor_ref::{Anchor, ExecutorRef},
    watchdog::role::Watchdog,
};

/// An executor with room for `N` workers, const-constructible in a `static`.
///
/// ```
/// # filch_test_support::board!();
/// # use filch::{Executor, Instant, RunError, TaskPool, WorkerId};
/// static EXECUTOR: Executor<Board, 4> = Executor::new(Board);
/// static TASKS: TaskPool<256, 32> = TaskPool::new();
///
/// // On each core:
/// fn core_main(core: u16) -> Result<(), RunError> {
///     EXECUTOR.run(WorkerId::new(core))
/// }
/// # let core = std::thread::spawn(|| core_main(0));
///
/// // Anywhere:
/// let mut handle = EXECUTOR.spawn(&TASKS, async { 6 * 7 })?;
/// assert_eq!(handle.join()?, 42);
/// # EXECUTOR.shutdown(Instant::MAX, |_| {})?;
/// # core.join().unwrap()?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// See [`Scheduler`] for its methods. Memory: about 7 KiB for each worker on 64-bit targets, with the default ring of 256 tasks.
/// Of these the timer wheel takes 3 KiB, the ring 2 KiB, and fork-join jobs 1 KiB.
pub type Executor<P, const N: usize, const RING: usize = 256, F = All> =
    Scheduler<P, [WorkerSlot<RING, F>; N], RING>;

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
///
/// ```
/// # filch_test_support::board!();
/// # use filch::{Config, Executor, Platform as _, Scheduler, Step, TaskPool, WorkerId};
/// static EXECUTOR: Executor<Board, 1> = Executor::with_config(Board, Config::new().watchdog(None));
/// static TASKS: TaskPool<256, 8> = TaskPool::new();
///
/// let executor: &'static Scheduler<Board, _> = &EXECUTOR;
/// let first = executor.spawn(&TASKS, async { 1 })?;
/// // Spawners do not name the executor's type.
/// let spawner = executor.spawner();
/// let mut second = spawner.spawn(&TASKS, async move { first.await.map(|one| one + 1) })?;
///
/// // One worker, stepped by hand.
/// let worker = executor.worker(WorkerId::new(0))?;
/// while worker.step() == Step::Polled {}
/// assert_eq!(second.join()??, 2);
/// assert_eq!(executor.workers(), 1);
/// assert_eq!(executor.platform().current_worker(), Some(worker.id()));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[repr(C)]
pub struct Scheduler<P: Platform, S: Slots<RING>, const RING: usize = 256> {
    /// The first field (INV-EXECUTOR).
    pub(crate) anchor: Anchor,
    pub(crate) platform: Ward<P>,
    pub(crate) config: Settings<S::Parts>,
    pub(crate) gate: Gate<S::Parts>,
    pub(crate) census: Census<S::Parts>,
    /// How many spare slots have ever been in use. These are the first ones.
    pub(crate) spares: AtomicU32,
    /// How many workers are asked to leave: those with the highest numbers.
    pub(crate) retired: Kept<AtomicU32, Cores<S, RING>>,
    pub(crate) watchdog: Watchdog,
    /// Where the search for a wheel begins, for the next timer from outside.
    pub(crate) turn: AtomicU32,
    pub(crate) broadcasts: Broadcasts,
    pub(crate) idle: Apart<Idle, Cores<S, RING>>,
    pub(crate) injector: Kept<Apart<Injector, On>, Cores<S, RING>>,
    pub(crate) classes: Apart<Ranks<S, RING>, Cores<S, RING>>,
    slots: S,
}

type Ranks<S, const RING: usize> = Kept<Classes, <<S as Slots<RING>>::Parts as Parts>::Classes>;
pub(crate) type Cores<S, const RING: usize> = <<S as Slots<RING>>::Parts as Parts>::Cores;

impl<P: Platform, const N: usize, const RING: usize, F: Parts> Executor<P, N, RING, F> {
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
        /// If `N` is zero or above 4,096 (1,024 where 64-bit atomics are not native), if all slots are spares, for a watchdog that never
        /// sleeps ([`Config::watchdog`]), and for a budget of zero ([`Config::budget`]): at compile time in a `static`.
        pub fn with_config(platform: P, config: Config) -> Self {
            assert!(N > config.spares as usize, "an executor needs at least one worker");
            assert!(N <= WorkerId::MAX as usize + 1, "an executor has at most 4,096 workers (1,024 on narrow targets)");
            assert!(N == 1 || F::Cores::ON, "an executor of several workers has the part `Cores`");
            assert!(config.check().is_ok(), "a timeout of the watchdog is zero, or the budget");
            Self::assemble(platform, config, array_of!(WorkerSlot::new(); N))
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    const MOST: usize = if Cores::<S, RING>::ON { WorkerId::MAX as usize + 1 } else { 1 };

    /// An executor over the caller's own slots, for a number of workers that is known at run time.
    ///
    /// # Errors
    /// [`BuildError`] for no slots or too many, for a watchdog that never sleeps, and for a budget of zero.
    ///
    /// ```
    /// # filch_test_support::board!();
    /// use filch::{BuildError, Config, Scheduler, Slots, WorkerSlot, parts::All};
    ///
    /// /// The slots of a program that knows its number of cores when it starts.
    /// struct Cores(Box<[WorkerSlot]>);
    /// // SAFETY: always the same slots, which no other code has.
    /// unsafe impl Slots<256> for Cores {
    ///     type Parts = All;
    ///     fn slots(&self) -> &[WorkerSlot] {
    ///         &self.0
    ///     }
    /// }
    ///
    /// let slots = (0..3).map(|_| WorkerSlot::new()).collect();
    /// let executor = Scheduler::over(Board, Config::new(), Cores(slots))?;
    /// assert_eq!(executor.workers(), 3);
    /// let none = Scheduler::over(Board, Config::new(), Cores(Box::new([])));
    /// assert_eq!(none.err(), Some(BuildError::ZeroWorkers));
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn over(platform: P, config: Config, slots: S) -> Result<Self, BuildError> {
        match slots.slots().len() {
            n if n <= config.spares as usize => Err(BuildError::ZeroWorkers),
            n if n > Self::MOST => Err(BuildError::TooManyWorkers(Self::MOST)),
            _ => config.check().map(|()| Self::assemble(platform, config, slots)),
        }
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Scheduler<P, S, RING> {
    maybe_const! {
        fn assemble(platform: P, config: Config, slots: S) -> Self {
            Self {
                anchor: Anchor::of::<Self>(),
                platform: Ward(platform),
                config: Settings::new(&config),
                gate: Gate::new(),
                census: Census::new(),
                spares: AtomicU32::new(0),
                retired: Kept::new(AtomicU32::new(0)),
                watchdog: Watchdog::new(),
                turn: AtomicU32::new(0),
                broadcasts: Broadcasts::new(),
                idle: Apart::new(Idle::new()),
                injector: Kept::new(Apart::new(Injector::new())),
                classes: Apart::new(Kept::new(Classes::new())),
                slots,
            }
        }
    }

    #[inline(always)]
    pub(crate) fn slots(&self) -> &[WorkerSlot<RING, S::Parts>] {
        self.slots.slots()
    }

    /// The slots to search for work: all but the spare slots that no context has ever run.
    ///
    /// A slot is among them before its context's first push. So a worker that has seen that a slot may hold work sees the slot
    /// here. So does a worker that has put a SeqCst fence before this look, as `Idle::announce` does.
    #[inline]
    pub(crate) fn slots_in_use(&self) -> &[WorkerSlot<RING, S::Parts>] {
        if !self.is_shared() {
            return self.slots();
        }
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

    /// How many workers can enter, not counting spare slots, and those that [`resize`](Self::resize) has asked to leave included.
    pub fn workers(&self) -> usize {
        // An only worker has no spare slot.
        self.slots().len() - if self.is_shared() { self.config.spares as usize } else { 0 }
    }

    /// This scheduler, as its tasks know it.
    #[inline(always)]
    pub(crate) fn erased(&'static self) -> ExecutorRef {
        // SAFETY: INV-EXECUTOR: a scheduler is `repr(C)`, and begins with the anchor of its type.
        unsafe { ExecutorRef::new(self) }
    }

    /// The worker of the calling context, and its slot, even if the worker has not entered: a core knows its id before. Hints in
    /// the slot (in_user_code, a frame) say whether the worker is at work.
    #[inline]
    pub(crate) fn current(&self) -> Option<(WorkerId, &WorkerSlot<RING, S::Parts>)> {
        let id = self.platform.current_worker()?;
        self.slots().get(id.index()).map(|slot| (id, slot))
    }

    /// As `current`, for a worker that has entered.
    pub(crate) fn online_worker(&self) -> Option<(WorkerId, &WorkerSlot<RING, S::Parts>)> {
        self.current().filter(|(_, slot)| slot.is_online())
    }

    /// The slots whose workers may have timers: all but the spares.
    pub(crate) fn regular(&self) -> &[WorkerSlot<RING, S::Parts>] {
        self.slots().get(..self.workers()).unwrap_or_default()
    }

    /// The slot of a worker that exists.
    pub(crate) fn slot_of(&self, worker: WorkerId) -> &WorkerSlot<RING, S::Parts> {
        debug_assert!(worker.index() < self.slots().len());
        // SAFETY: slots stay, and ids of workers come from slots.
        unsafe { self.slots().get_unchecked(worker.index()) }
    }

    /// The injector for tasks of this class, which is not the urgent one. Without [`Cores`](crate::parts::Cores) there is none for
    /// normal tasks: they go to the inbox of the only worker, which is its one queue.
    #[inline(always)]
    pub(crate) fn injector_of(&self, class: Class) -> Option<&Injector> {
        match (self.classes.get(), class) {
            (Some(classes), Class::Background) => Some(&classes.background),
            _ => self.injector.get().map(|injector| &**injector),
        }
    }

    /// Whether several workers share the work. A single one needs no idle bitmap: a context that queues something for it notifies
    /// its park word in any case.
    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        <S::Parts as Parts>::Cores::ON
    }
}

impl<P: Platform, S: Slots<RING>, const RING: usize> Bitmap for Scheduler<P, S, RING> {
    #[inline(always)]
    fn words(&self) -> usize {
        self.slots().len().div_ceil(GROUP)
    }

    #[inline(always)]
    fn word(&self, group: usize) -> &AtomicWord {
        if group == 0 {
            return &self.idle.first;
        }
        // SAFETY: groups are those of workers that exist. A single worker has no second group.
        unsafe { self.slots().get_unchecked(group * GROUP).shared.bits.get().unwrap_unchecked() }
    }
}
