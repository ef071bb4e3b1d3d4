//! The runtime that the calling thread is in, and the free functions that use it.

use core::{
    cell::Cell,
    fmt,
    future::Future,
    panic::{RefUnwindSafe, UnwindSafe},
};
#[cfg(not(feature = "tracing"))]
use filch::Spawner;
use filch::{Class, Heap, Instant, JoinHandle, TaskOptions, Timers, WorkerId, atomic::AtomicU32};

#[cfg(feature = "tracing")]
use crate::tracing::Spawner;
use crate::{
    clock::Clock,
    entry::Entry,
    erased::Core,
    error::{NoRuntime, SpawnError, SpawnErrorKind},
    fork,
    host::Host,
    pausable::Pausable,
    unhandled::Fall,
};

/// A copyable handle to a runtime, to spawn tasks with. It may outlive the runtime.
///
/// After the runtime has shut down, spawns with its handle fail with [`SpawnErrorKind::Shutdown`]. A later runtime with as many workers may reuse
/// the memory, in the same process; an old handle then refers to that runtime.
#[derive(Clone, Copy)]
pub struct Handle(pub(crate) &'static Inner);

impl UnwindSafe for Handle {}
impl RefUnwindSafe for Handle {}

/// What a handle points to. The handle is one word, so that a signal handler sees all of it or nothing. Lives in the memory of a runtime, for ever.
pub(crate) struct Inner {
    pub(crate) core: &'static dyn Core,
    pub(crate) heap: &'static Heap,
    pub(crate) spawner: Spawner,
    pub(crate) timers: Timers,
    /// What else is done in each thread that enters the runtime.
    pub(crate) entry: Option<&'static dyn Entry>,
    /// [`filch::Scheduler::urgent_count`].
    pub(crate) urgent: Option<&'static AtomicU32>,
    /// The clock, if tests can stop it.
    pub(crate) clock: Option<&'static dyn Clock>,
    /// The process in which the runtime has its threads.
    pub(crate) process: u32,
    /// Whether a task's panic has ended the runtime.
    pub(crate) fall: Fall,
    /// Whether a recorder keeps what the tasks do.
    #[cfg(feature = "observe")]
    pub(crate) records: bool,
}

thread_local! {
    // Without destructors: a runtime may be built and dropped in the destructor of any other
    // thread-local value.
    /// Where the innermost bracket of the thread is: a worker, or a call that runs code of a runtime. Each puts back what was there.
    static CURRENT: Cell<Option<Handle>> = const { Cell::new(None) };
    /// Where the thread is outside of all brackets: the oldest of its runtimes of one thread, which end in any order.
    static RESIDENCE: Cell<Option<Handle>> = const { Cell::new(None) };
}

/// Puts the calling thread in this runtime until the next call, with what this returns.
pub(crate) fn enter(handle: Option<Handle>) -> Option<Handle> {
    CURRENT.replace(handle)
}

/// Puts the calling thread in this runtime where it is in none by [`enter`].
pub(crate) fn reside(handle: Option<Handle>) {
    RESIDENCE.set(handle);
}

/// The runtime that the calling thread is in.
#[inline]
pub(crate) fn current() -> Option<Handle> {
    CURRENT.get().or_else(|| RESIDENCE.get())
}

impl Handle {
    /// The runtime that the calling thread is in.
    ///
    /// # Errors
    /// [`NoRuntime`].
    #[inline]
    pub fn current() -> Result<Self, NoRuntime> {
        current().ok_or(NoRuntime)
    }

    /// Whether both are of one runtime.
    pub(crate) fn is(&self, other: Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }

    #[inline]
    pub(crate) fn check(&self) -> Result<(), SpawnErrorKind> {
        if self.0.process == fork::generation() { Ok(()) } else { Err(SpawnErrorKind::Forked) }
    }

    /// Spawns a task. In steady state this calls no allocator.
    ///
    /// # Errors
    /// [`SpawnError`], with the future.
    #[track_caller]
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_here(future).map_err(|error| self.refused(error))
    }

    /// Spawns a task. If the runtime has shut down, the handle reports the task as cancelled. Once its handle is dropped, the task is
    /// detached: it lives until it ends or the runtime does, also if nothing can wake it any more.
    ///
    /// # Panics
    /// In a forked child; when the allocator has no more memory.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_here(future).unwrap_or_else(|error| self.cancelled(error))
    }

    /// Spawns a task. Where a recorder keeps what it did, the task keeps the place of the call.
    #[inline]
    #[track_caller]
    pub(crate) fn spawn_here<F>(
        &self,
        future: F,
    ) -> Result<JoinHandle<F::Output>, filch::SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        #[cfg(feature = "observe")]
        if self.0.records {
            return self.0.spawner.spawn_with(TaskOptions::new(), self.0.heap, future);
        }
        self.0.spawner.spawn(self.0.heap, future)
    }

    /// Why the core refused a spawn.
    #[cold]
    pub(crate) fn refused<F>(&self, error: filch::SpawnError<F>) -> SpawnError<F> {
        let is_outside = || self.0.core.current_worker().is_none();
        let kind = match (self.check(), error.kind) {
            (Err(forked), _) => forked,
            (Ok(()), filch::SpawnErrorKind::NotPinned) if is_outside() => SpawnErrorKind::NoWorker,
            (Ok(()), filch::SpawnErrorKind::Shutdown) => SpawnErrorKind::Shutdown,
            (Ok(()), other) => SpawnErrorKind::Core(other),
        };
        SpawnError { kind, future: error.future }
    }

    /// The handle of a task that the core refused: cancelled if the runtime has shut down.
    #[cold]
    #[track_caller]
    pub(crate) fn cancelled<F>(&self, error: filch::SpawnError<F>) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let SpawnError { kind, future } = self.refused(error);
        if kind != SpawnErrorKind::Shutdown {
            panic!("{kind}");
        }
        match self.0.spawner.reserve(self.0.heap) {
            Ok(reserved) => reserved.spawn(future),
            Err(kind) => panic!("{kind}"),
        }
    }

    /// Spawns a task that stays on one worker.
    ///
    /// # Errors
    /// [`SpawnError`], with the future; also if there is no such worker.
    #[cfg_attr(feature = "tracing", track_caller)]
    pub fn spawn_pinned<F>(
        &self,
        worker: WorkerId,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0
            .spawner
            .spawn_pinned(self.0.heap, worker, future)
            .map_err(|error| self.refused(error))
    }

    /// Spawns a task that need not be `Send`. The caller is a pinned task or another local one, and the new task shares its worker. In a
    /// [`LocalRuntime`](crate::LocalRuntime) the caller is any code of its thread, but not a
    /// fork-join run that began between two polls.
    ///
    /// # Errors
    /// [`SpawnError`], with the future; also if the caller is neither: a task that is not pinned may move to another thread
    /// ([`filch::SpawnErrorKind::NotPinned`]), and the thread of a [`block_on`](Self::block_on) or of the blocking pool is no worker
    /// ([`SpawnErrorKind::NoWorker`]).
    #[cfg_attr(feature = "tracing", track_caller)]
    pub fn spawn_local<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let spawned = self.0.spawner.spawn_local(self.0.heap, future);
        spawned.or_else(|error| self.spawn_between(error)).map_err(|error| self.refused(error))
    }

    /// Spawns a task as the options say: its name, which is shown in [`Runtime::tasks`](crate::Runtime::tasks) and among the survivors of a
    /// shutdown, its worker, its class, its deadline, and whether it ends when nothing can wake it any more.
    ///
    /// # Errors
    /// [`SpawnError`], with the future; also if there is no such worker.
    pub fn spawn_with<F>(
        &self,
        options: TaskOptions,
        future: F,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.0.spawner.spawn_with(options, self.0.heap, future).map_err(|error| self.refused(error))
    }

    /// As [`give_way`], on the calling thread if that is one of this runtime's workers.
    #[inline]
    pub fn give_way(&self) -> bool {
        self.0.core.give_way()
    }

    /// The worker of this runtime that the calling thread is, if it is one.
    pub fn current_worker(&self) -> Option<WorkerId> {
        self.0.core.current_worker()
    }

    /// The runtime's clock and timers.
    pub fn timers(&self) -> Timers {
        self.0.timers
    }

    /// The host under the runtime, also in a [`Pausable`], if it has this type. A crate with a host of its own keeps there what its types need.
    pub fn host<H: Host>(&self) -> Option<&'static H> {
        let host = self.0.core.host();
        host.downcast_ref().or_else(|| host.downcast_ref().map(Pausable::inner))
    }

    /// What the host under the runtime has for types of I/O ([`Host::io`]), if it has this type.
    pub fn io<T: 'static>(&self) -> Option<&'static T> {
        self.0.core.io()?.downcast_ref()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("totals", &self.0.core.totals()).finish()
    }
}

#[inline]
#[track_caller]
pub(crate) fn expect_current() -> Handle {
    match Handle::current() {
        Ok(handle) => handle,
        Err(error) => panic!("{error}"),
    }
}

/// Spawns a task on the current runtime: [`Handle::spawn`].
///
/// # Panics
/// If the calling thread is in no runtime ([`try_spawn`] returns an error instead); in a forked child.
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// let four = runtime.block_on(async { filch_std::spawn(async { 2 + 2 }).await });
/// assert_eq!(four.unwrap(), 4);
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let Some(here) = current() else { panic!("{NoRuntime}") };
    here.spawn_here(future).unwrap_or_else(|error| here.cancelled(error))
}

/// Spawns a task on the current runtime, if there is one.
///
/// # Errors
/// [`SpawnError`], with the future.
#[track_caller]
pub fn try_spawn<F>(future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let Some(here) = current() else {
        return Err(SpawnError { kind: SpawnErrorKind::NoRuntime, future });
    };
    here.spawn_here(future).map_err(|error| here.refused(error))
}

/// Spawns a task that stays on one worker of the current runtime.
///
/// # Errors
/// [`SpawnError`], with the future.
#[cfg_attr(feature = "tracing", track_caller)]
pub fn spawn_pinned<F>(worker: WorkerId, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match Handle::current() {
        Ok(handle) => handle.spawn_pinned(worker, future),
        Err(NoRuntime) => Err(SpawnError { kind: SpawnErrorKind::NoRuntime, future }),
    }
}

/// Spawns a task that need not be `Send`. The caller is a pinned task or another local one, and the new task shares its worker; or it is any code
/// of the thread of a [`LocalRuntime`](crate::LocalRuntime).
///
/// # Errors
/// [`SpawnError`], with the future; also if the caller is neither: [`Handle::spawn_local`].
#[cfg_attr(feature = "tracing", track_caller)]
pub fn spawn_local<F>(future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
where
    F: Future + 'static,
    F::Output: 'static,
{
    match Handle::current() {
        Ok(handle) => handle.spawn_local(future),
        Err(NoRuntime) => Err(SpawnError { kind: SpawnErrorKind::NoRuntime, future }),
    }
}

/// Spawns a task as the options say, in the current runtime: [`Handle::spawn_with`].
///
/// # Errors
/// As that, and [`SpawnErrorKind::NoRuntime`].
pub fn spawn_with<F>(
    options: TaskOptions,
    future: F,
) -> Result<JoinHandle<F::Output>, SpawnError<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match current() {
        Some(handle) => handle.spawn_with(options, future),
        None => Err(SpawnError { kind: SpawnErrorKind::NoRuntime, future }),
    }
}

/// The class of the task that calls: [`filch::Spawner::class`]. `None` outside of tasks.
pub fn class() -> Option<Class> {
    current()?.0.spawner.class()
}

/// Gives the task that calls another class: [`filch::Spawner::set_class`]. False outside of tasks.
pub fn set_class(class: Class) -> bool {
    current().is_some_and(|handle| handle.0.spawner.set_class(class))
}

/// Sets when the task that calls should be polled next, at the latest: [`filch::Spawner::set_deadline`]. False outside of tasks that were spawned
/// by [`spawn_with`].
pub fn set_deadline(at: Option<Instant>) -> bool {
    current().is_some_and(|handle| handle.0.spawner.set_deadline(at))
}

/// Polls the urgent tasks that wait, on top of the caller, which is not urgent itself; whether there were any. For sync loops in tasks, as pieces
/// of parallel iterators are: [`filch::Scheduler::give_way`].
///
/// ```
/// use filch_std::{Class, TaskOptions};
/// let runtime = filch_std::Runtime::builder().workers(1).build()?;
/// let (send, receive) = std::sync::mpsc::channel();
/// let computes = runtime.handle().spawn_with(TaskOptions::new(), async move {
///     assert!(filch_std::set_class(Class::Background) && filch_std::class() == Some(Class::Background));
///     assert!(filch_std::set_deadline(Some(filch_std::time::now())) && !filch_std::should_yield());
///     let urgent = TaskOptions::new().class(Class::Urgent);
///     filch_std::spawn_with(urgent, async move { send.send(7).unwrap() }).unwrap().detach();
///     assert!(filch_std::should_yield() && filch_std::give_way());
///     receive.try_recv()
/// })?;
/// assert_eq!(runtime.block_on(computes)?, Ok(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn give_way() -> bool {
    current().is_some_and(|handle| handle.give_way())
}

/// Whether an urgent task waits, and the task that calls is not urgent: [`filch::Spawner::should_yield`]. For loops that spend no budget. Cost: a
/// few loads.
pub fn should_yield() -> bool {
    current().is_some_and(|handle| handle.0.spawner.should_yield())
}

/// Runs a closure that blocks, as the options say, in the current runtime: [`Handle::spawn_blocking_with`].
///
/// # Errors
/// As that, and [`SpawnErrorKind::NoRuntime`].
#[track_caller]
pub fn spawn_blocking_with<F, T>(options: TaskOptions, f: F) -> Result<JoinHandle<T>, SpawnError<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match current() {
        Some(handle) => handle.spawn_blocking_with(options, f),
        None => Err(SpawnError { kind: SpawnErrorKind::NoRuntime, future: f }),
    }
}

/// Runs a closure that blocks, in the current runtime: [`Handle::spawn_blocking`].
///
/// # Panics
/// As [`spawn`].
#[track_caller]
pub fn spawn_blocking<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    expect_current().spawn_blocking(f)
}
