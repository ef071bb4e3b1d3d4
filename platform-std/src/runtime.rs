//! The runtime: an executor with threads on it.

use core::{
    fmt,
    future::Future,
    mem::ManuallyDrop,
    panic::{RefUnwindSafe, UnwindSafe},
    time::Duration,
};
use std::{sync::OnceLock, thread};

use filch::{Heap, JoinHandle, Metrics, Platform, Scheduler, TaskInfo, WorkerId, WorkerSlot};

use crate::{
    builder::{BuildError, Builder},
    context::{Handle, Inner, SpawnError},
    fork,
    host::{Futex, Host},
    hosted::{Dress, Hosted},
    panics::lock,
    stable::{self, Kind},
};

type Executor<H> = Scheduler<Hosted<H>, Box<[WorkerSlot]>>;

/// What a runtime's memory holds: never freed, used again.
pub(crate) struct Shared<H: Host> {
    pub(crate) executor: Executor<H>,
    heap: &'static Heap,
    pub(crate) kind: Kind,
    inner: OnceLock<Inner>,
}

/// Threads that run tasks.
///
/// Dropping it cancels all tasks, waits for the polls under way, and joins the threads. Dropped by one of its own tasks it does
/// so on a thread of its own, later. Any number of runtimes live side by side; two whose tasks own each other are a deadlock when
/// both are dropped.
pub struct Runtime<H: Host = Futex> {
    /// Taken by `drop` alone.
    shared: ManuallyDrop<&'static Shared<H>>,
    handle: Handle,
}

impl<H: Host> Shared<H> {
    /// In memory that stays for ever.
    pub(crate) fn leak(executor: Executor<H>, kind: Kind) -> &'static Self {
        let heap = Box::leak(Heap::boxed());
        let shared: &'static Self =
            Box::leak(Box::new(Self { executor, heap, kind, inner: OnceLock::new() }));
        // Nobody else has it yet.
        let _ = shared.executor.platform().handle.set(shared.handle());
        shared
    }

    pub(crate) fn handle(&'static self) -> Handle {
        Handle(self.inner.get_or_init(|| Inner {
            core: self,
            heap: self.heap,
            spawner: self.executor.spawner(),
            timers: self.executor.timers(),
            process: fork::generation(),
        }))
    }
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
    pub(crate) fn shared(&self) -> &'static Shared<H> {
        *self.shared
    }

    /// Over an executor without threads.
    pub(crate) fn over(shared: &'static Shared<H>) -> Self {
        Self { shared: ManuallyDrop::new(shared), handle: shared.handle() }
    }
}

impl<H: Host> UnwindSafe for Runtime<H> {}
impl<H: Host> RefUnwindSafe for Runtime<H> {}

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
    executor.platform().pool().close();
    // SAFETY: every worker has left.
    unsafe { executor.platform().host.close() };
    executor.platform().dress(Dress::default());
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
