//! The runtime: an executor and its threads.

use core::{
    fmt,
    future::Future,
    mem::ManuallyDrop,
    panic::{RefUnwindSafe, UnwindSafe},
    time::Duration,
};
use std::thread;

use filch::{JoinHandle, Platform, TaskInfo, WorkerId};

#[cfg(feature = "observe")]
use crate::task_hooks::TaskHooks;
use crate::{
    block_on,
    clock::Clock,
    context::Handle,
    hooks,
    host::{Futex, Host},
    metrics::Metrics,
    panics::{lock, quietly},
    shared::Shared,
    stable,
    task_view::Task,
    thread_config::Dress,
};

/// A [`Runtime`] on this host: its tasks, timers and threads are those of any runtime.
///
/// ```
/// use filch_std::{Runtime, runtime::{Host, RuntimeOn}};
/// fn workers<H: Host>(runtime: &RuntimeOn<H>) -> usize {
///     runtime.handle().active_workers()
/// }
/// assert_eq!(workers(&Runtime::builder().workers(2).build()?), 2);
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
pub struct RuntimeOn<H: Host> {
    /// Only `drop` takes it.
    shared: ManuallyDrop<&'static Shared<H>>,
    handle: Handle,
}

/// Threads that run tasks.
///
/// Dropping the runtime cancels all tasks, waits for the polls in progress, and joins the threads.
/// If one of its own tasks drops it, or a hook of a runtime, another thread does this later. Any number of runtimes may
/// exist side by side. Two runtimes whose tasks own each other deadlock when both are dropped.
///
/// ```
/// use core::{future::pending, time::Duration};
/// use std::rc::Rc;
/// use filch_std::{Handle, Runtime, TaskOptions, runtime::{BlockingMetrics, Futex, Survivors, WorkerId}, task::Class};
/// // `Runtime::new()` has as many workers as there are processors.
/// let runtime = Runtime::builder().workers(2).build()?;
/// let task = runtime.spawn(async { 3 + 4 });
/// assert_eq!(runtime.block_on(task)?, 7);
/// runtime.block_on(runtime.spawn(async {}))?;
/// assert_eq!(runtime.current_worker(), None, "this thread is none");
/// let _: &Futex = runtime.host();
///
/// // A handle is copied to where tasks are spawned.
/// let handle: Handle = *runtime.handle();
/// let pinned = handle.spawn_with(TaskOptions::new().pinned(WorkerId::new(1)), async {
///     assert!(Handle::current().is_ok());
///     // The pinned task spawns local ones, which need not be `Send`.
///     filch_std::spawn_local(async { *Rc::new(7) }).expect("it is pinned").await
/// })?;
/// let bulk = TaskOptions::new().name("sort").class(Class::Background);
/// let sorted = handle.spawn_with(bulk, async { 7 })?;
/// let read = handle.spawn_blocking(|| std::fs::metadata("."));
/// assert_eq!(handle.block_on(async { Ok::<_, filch_std::JoinError>(pinned.await?? + sorted.await?) })?, 14);
/// assert!(handle.block_on(read)?.is_ok());
/// let pool: BlockingMetrics = handle.blocking_metrics();
/// assert_eq!((pool.done, pool.queued), (1, 0));
/// handle.block_on(handle.timers().sleep(Duration::from_millis(1)));
/// assert!(handle.host::<Futex>().is_some() && handle.io::<()>().is_none());
///
/// let waits = runtime.spawn(pending::<()>());
/// assert!(runtime.tasks().iter().any(|task| Some(task.id) == waits.id()));
/// let survivors: Survivors = runtime.shutdown(Duration::from_millis(1));
/// assert!(survivors.iter().any(|task| Some(task.id) == waits.id()));
/// assert!(handle.spawn_with(TaskOptions::new(), async {}).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Runtime = RuntimeOn<Futex>;

/// The tasks that did not end before a shutdown's deadline, and were cancelled.
pub type Survivors = Vec<TaskInfo>;

impl<H: Host> RuntimeOn<H> {
    pub(crate) fn shared(&self) -> &'static Shared<H> {
        *self.shared
    }

    /// A runtime over an executor without threads.
    pub(crate) fn over(shared: &'static Shared<H>) -> Self {
        Self { shared: ManuallyDrop::new(shared), handle: shared.handle() }
    }
}

impl<H: Host> UnwindSafe for RuntimeOn<H> {}
impl<H: Host> RefUnwindSafe for RuntimeOn<H> {}

impl<H: Host> RuntimeOn<H> {
    /// A handle to spawn with, from anywhere.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// [`Handle::spawn`].
    ///
    /// # Panics
    /// In a forked child; when the allocator has no more memory.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // Not by `Handle::spawn`, which makes each spawn 16 instructions longer (bench/instructions).
        let here = self.handle;
        here.spawn_here(future).unwrap_or_else(|error| here.cancelled(error))
    }

    /// [`Handle::block_on`].
    ///
    /// # Panics
    /// With the future's own panics; in a forked child; the rest is at [`Handle::block_on`].
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on::run(self.handle, future)
    }

    /// [`Handle::tasks`].
    pub fn tasks(&self) -> Vec<Task> {
        self.handle.0.core.live_tasks()
    }

    /// [`Handle::metrics`].
    pub fn metrics(&self) -> Metrics {
        self.handle.0.metrics()
    }

    /// The host under the runtime.
    pub fn host(&self) -> &H {
        &self.shared.executor.platform().host
    }

    /// The worker that the calling thread is, if it is one.
    pub fn current_worker(&self) -> Option<WorkerId> {
        self.shared.executor.platform().current_worker()
    }

    /// Ends the runtime. It refuses new tasks from outside, and its tasks have `patience` to end.
    /// Those that did not end are cancelled and returned. `Duration::MAX` waits for all.
    ///
    /// If one of the runtime's own tasks calls it, or a hook of a runtime, all tasks are cancelled at once, on another thread.
    pub fn shutdown(self, patience: Duration) -> Survivors {
        let this = ManuallyDrop::new(self);
        finish(*this.shared, &this.handle, patience)
    }
}

fn finish<H: Host>(shared: &'static Shared<H>, handle: &Handle, patience: Duration) -> Survivors {
    let executor = &shared.executor;
    if handle.check().is_err() {
        // A forked child: the threads are the parent's, so there is nothing to wait for.
        return Survivors::new();
    }
    if let Some(clock) = handle.0.clock {
        // The patience is in real time.
        clock.resume();
    }
    #[cfg(feature = "metrics")]
    {
        let publishers = lock(&executor.platform().publishers).take();
        publishers.iter().flatten().for_each(filch::AbortHandle::abort);
    }
    let mut survivors = Survivors::new();
    let deadline = executor.platform().now() + patience;
    let drained = if hooks::are_on_stack() { None } else { executor.drain(deadline).ok() };
    if drained == Some(false) {
        executor.tasks(|task| survivors.push(task));
    }
    if drained != Some(true) {
        handle.0.core.begin_shutdown();
    }
    if drained.is_none() || executor.shutdown(filch::Instant::MAX, |_| {}).is_err() {
        let handle = *handle;
        // If no thread can be started, the workers end by themselves, and the memory is not reused.
        drop(thread::Builder::new().spawn(move || finish(shared, &handle, Duration::ZERO)));
        return survivors;
    }
    handle.0.fall.has_ended();
    let before = executor.platform().on_wake.set(None, thread::yield_now);
    quietly(|| drop(before));
    executor.platform().resizes.wait();
    #[cfg(feature = "observe")]
    if let Some(recording) = executor.platform().sinks.recording.get() {
        recording.end(&executor.platform().host);
    }
    for thread in core::mem::take(&mut *lock(&executor.platform().threads)) {
        // Workers contain the panics of tasks; any other panic is a bug that has been printed.
        drop(thread.join());
    }
    executor.platform().close_pools();
    // SAFETY: every worker has left.
    unsafe { executor.platform().host.close() };
    executor.platform().dress(Dress::default());
    #[cfg(feature = "observe")]
    executor.platform().sinks.hooked.set(TaskHooks::default());
    // The executor stays closed until it is reused, so that spawns with handles of this runtime are
    // refused.
    if handle.0.clock.is_some_and(Clock::is_used_up) {
        stable::retire(shared);
    } else {
        stable::give(shared.kind, shared);
    }
    survivors
}

impl<H: Host> Drop for RuntimeOn<H> {
    fn drop(&mut self) {
        finish(*self.shared, &self.handle, Duration::ZERO);
    }
}

impl<H: Host> fmt::Debug for RuntimeOn<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("executor", &self.shared.executor).finish()
    }
}
