//! The runtime: an executor with threads on it.

use core::{any::TypeId, fmt, future::Future, mem::ManuallyDrop, time::Duration};
use std::{io, sync::PoisonError, thread};

use filch::{
    Config, Heap, JoinHandle, Metrics, Platform, Scheduler, TaskInfo, WorkerId, WorkerSlot,
};

use crate::{
    context::{Handle, SpawnError},
    fork,
    host::{Futex, Host},
    hosted::Hosted,
    stable::{self, Kind},
};

/// Slots for threads that help while they wait, and for stand-ins of blocked workers.
const SPARES: u16 = 8;

type Executor<H> = Scheduler<Hosted<H>, Box<[WorkerSlot]>>;

/// What a runtime's memory holds: never freed, used again.
pub(crate) struct Shared<H: Host> {
    pub(crate) executor: Executor<H>,
    heap: &'static Heap,
    pub(crate) kind: Kind,
}

/// Threads that run tasks.
///
/// Dropping it cancels all tasks, waits for the polls under way, and joins the threads. Dropped by one of its own tasks it does
/// so on a thread of its own, later. Any number of runtimes live side by side.
pub struct Runtime<H: Host = Futex> {
    /// Taken by `drop` alone.
    shared: ManuallyDrop<&'static Shared<H>>,
    handle: Handle,
}

/// Why a runtime was not built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A runtime needs at least one worker.
    ZeroWorkers,
    /// More workers than there can be; the largest number.
    TooManyWorkers(usize),
    /// The operating system refused a thread.
    Thread(io::Error),
    /// The operating system refused what the host needs.
    Host(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroWorkers => f.write_str("a runtime needs at least one worker"),
            Self::TooManyWorkers(max) => write!(f, "a runtime has at most {max} workers"),
            Self::Thread(error) => write!(f, "a worker's thread could not be started: {error}"),
            Self::Host(error) => write!(f, "the operating system refused the runtime: {error}"),
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Thread(error) | Self::Host(error) => Some(error),
            _ => None,
        }
    }
}

/// How many workers a runtime has by default: the processors that this process may use, by its affinity and its cgroup's
/// quota, as the standard library finds them; one if that is not known.
pub fn available_workers() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The knobs of a runtime.
///
/// ```
/// use core::time::Duration;
/// let runtime = filch_std::Runtime::builder()
///     .workers(2)
///     .name("compute")
///     .poll_limit(Some(Duration::from_millis(100)))
///     .build()?;
/// # Ok::<(), filch_std::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    workers: Option<usize>,
    name: String,
    stack: Option<usize>,
    config: Config,
}

impl Builder {
    fn new() -> Self {
        Self {
            workers: None,
            name: "filch".into(),
            stack: None,
            config: Config::new().spares(SPARES),
        }
    }

    /// How many workers (default: [`available_workers`]).
    pub fn workers(mut self, n: usize) -> Self {
        self.workers = Some(n);
        self
    }

    /// What the threads are called, a number behind it (default: `filch`).
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The threads' stacks, in bytes (default: the standard library's).
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack = Some(bytes);
        self
    }

    /// As [`Config::stealing`].
    pub fn stealing(mut self, on: bool) -> Self {
        self.config = self.config.stealing(on);
        self
    }

    /// As [`Config::lifo_cap`].
    pub fn lifo_cap(mut self, polls: u32) -> Self {
        self.config = self.config.lifo_cap(polls);
        self
    }

    /// As [`Config::spin_rounds`].
    pub fn spin_rounds(mut self, rounds: u32) -> Self {
        self.config = self.config.spin_rounds(rounds);
        self
    }

    /// As [`Config::sentry`].
    pub fn sentry(mut self, sleep: Option<(Duration, Duration)>) -> Self {
        self.config = self.config.sentry(sleep);
        self
    }

    /// As [`Config::park_timeout`].
    pub fn park_timeout(mut self, longest: Option<Duration>) -> Self {
        self.config = self.config.park_timeout(longest);
        self
    }

    /// As [`Config::poll_limit`].
    pub fn poll_limit(mut self, limit: Option<Duration>) -> Self {
        self.config = self.config.poll_limit(limit);
        self
    }

    /// As [`Config::nesting`].
    pub fn nesting(mut self, depth: u32) -> Self {
        self.config = self.config.nesting(depth);
        self
    }

    /// As [`Config::job_slice`].
    pub fn job_slice(mut self, slice: Duration) -> Self {
        self.config = self.config.job_slice(slice);
        self
    }

    /// As [`Config::job_workers`].
    pub fn job_workers(mut self, most: u16) -> Self {
        self.config = self.config.job_workers(most);
        self
    }

    /// Builds the runtime over futexes (condition variables where there are none).
    ///
    /// # Errors
    /// [`BuildError`]; threads that were started have ended by then.
    pub fn build(self) -> Result<Runtime, BuildError> {
        self.build_on()
    }

    /// Builds the runtime over another host.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_on<H: Host>(self) -> Result<Runtime<H>, BuildError> {
        let runtime = self.build_bare()?;
        for worker in 0..runtime.shared.executor.workers() {
            let executor = &runtime.shared.executor;
            if let Err(refused) = executor.start(WorkerId::new(worker as u16)) {
                let error = lock(&executor.platform().refused).take();
                return Err(BuildError::Thread(
                    error.unwrap_or_else(|| io::Error::other(refused.to_string())),
                ));
            }
        }
        Ok(runtime)
    }

    /// As `build_on`, without threads: its owner makes them, and has each call [`Handle::be_worker`].
    ///
    /// # Errors
    /// As [`build`](Self::build).
    #[doc(hidden)]
    pub fn build_bare<H: Host>(self) -> Result<Runtime<H>, BuildError> {
        fork::watch();
        let most = usize::from(WorkerId::MAX) + 1 - usize::from(SPARES);
        let workers = match self.workers.unwrap_or_else(|| available_workers().min(most)) {
            0 => return Err(BuildError::ZeroWorkers),
            n if n > most => return Err(BuildError::TooManyWorkers(most)),
            n => n,
        };
        self.prepare(workers)
    }

    /// An executor without threads.
    fn prepare<H: Host>(self, workers: usize) -> Result<Runtime<H>, BuildError> {
        let kind = Kind {
            host: TypeId::of::<H>(),
            slots: workers + usize::from(SPARES),
            config: self.config,
        };
        let shared = match stable::take::<Shared<H>>(&kind) {
            // A thread that helps as a spare worker may not have left yet: then that memory stays closed for ever.
            Some(shared) if shared.executor.reopen() => shared,
            _ => Self::make(kind)?,
        };
        let platform = shared.executor.platform();
        // The memory may have been a runtime's that stopped its clock.
        platform.clock.resume(|| platform.host.now());
        let handle = Handle {
            core: shared,
            heap: shared.heap,
            spawner: shared.executor.spawner(),
            timers: shared.executor.timers(),
            process: fork::generation(),
        };
        platform.dress(self.name, self.stack, handle);
        Ok(Runtime { shared: ManuallyDrop::new(shared), handle })
    }

    fn make<H: Host>(kind: Kind) -> Result<&'static Shared<H>, BuildError> {
        let host = H::new().map_err(BuildError::Host)?;
        let slots = (0..kind.slots).map(|_| WorkerSlot::new()).collect();
        let executor =
            Scheduler::over(Hosted::new(host), kind.config, slots).map_err(
                |error| match error {
                    filch::BuildError::TooManyWorkers(most) => BuildError::TooManyWorkers(most),
                    _ => BuildError::ZeroWorkers,
                },
            )?;
        let heap = Box::leak(Heap::boxed());
        Ok(Box::leak(Box::new(Shared { executor, heap, kind })))
    }
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A poisoned lock only says that a thread panicked; what these hold stays good.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    /// A runtime with the defaults.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// The knobs.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

/// The tasks that outlived a shutdown's deadline, and were cancelled.
pub type Survivors = Vec<TaskInfo>;

impl<H: Host> Runtime<H> {
    /// A handle to spawn with, from anywhere.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// [`Handle::spawn`].
    ///
    /// # Panics
    /// As there.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// [`Handle::try_spawn`].
    ///
    /// # Errors
    /// As there.
    pub fn try_spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.try_spawn(future)
    }

    /// [`Handle::block_on`].
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// The counters.
    pub fn metrics(&self) -> Metrics<'_> {
        self.shared.executor.metrics()
    }

    /// Shows every live task to `visit`: for a person who looks for a stuck one.
    pub fn tasks(&self, visit: impl FnMut(TaskInfo)) {
        self.shared.executor.tasks(visit);
    }

    /// The host under the runtime.
    pub fn host(&self) -> &H {
        &self.shared.executor.platform().host
    }

    /// The worker that the calling thread is, if it is one.
    pub fn current_worker(&self) -> Option<WorkerId> {
        self.shared.executor.platform().current_worker()
    }

    /// Ends the runtime: no new tasks from outside; the old ones have `patience` to end; those that did not are cancelled and
    /// returned. `Duration::MAX` waits for all.
    ///
    /// Called by one of the runtime's own tasks it cancels everything without patience, on a thread of its own.
    pub fn shutdown(self, patience: Duration) -> Survivors {
        let this = ManuallyDrop::new(self);
        finish(*this.shared, &this.handle, patience)
    }
}

fn finish<H: Host>(shared: &'static Shared<H>, handle: &Handle, patience: Duration) -> Survivors {
    let executor = &shared.executor;
    if handle.check().is_err() {
        // A forked child: the threads are the parent's, there is nothing to wait for.
        return Survivors::new();
    }
    // The patience is real time.
    executor.platform().clock.resume(|| executor.platform().host.now());
    shared.wake_all();
    let mut survivors = Survivors::new();
    let deadline = executor.platform().now() + patience;
    if executor.shutdown(deadline, |task| survivors.push(task)).is_err() {
        executor.begin_shutdown();
        let handle = *handle;
        // If there is no thread to be had, the workers end by themselves, and the memory is not used again.
        drop(thread::Builder::new().spawn(move || finish(shared, &handle, Duration::ZERO)));
        return survivors;
    }
    for thread in core::mem::take(&mut *lock(&executor.platform().threads)) {
        // Workers contain the panics of tasks; what is left is a bug that has been printed.
        drop(thread.join());
    }
    // It stays closed until it serves again, so that spawns by handles of this runtime are refused.
    stable::give(shared.kind, shared);
    survivors
}

impl<H: Host> Drop for Runtime<H> {
    fn drop(&mut self) {
        finish(*self.shared, &self.handle, Duration::ZERO);
    }
}

impl<H: Host> fmt::Debug for Runtime<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("executor", &self.shared.executor).finish()
    }
}
