//! Spawning tasks: on a runtime of which there is a handle, and on the current one.

use core::future::Future;

use filch::{JoinHandle, SpawnError, SpawnErrorKind, TaskOptions};

use crate::context::{Handle, current, expect_current};

/// What users know as methods of the handle stands here, as most of this crate spawns.
impl Handle {
    /// Spawns a task. If the runtime has shut down, the handle reports the task as cancelled. Once its handle is dropped, the task is
    /// detached: it lives until it ends or the runtime does, also if nothing can wake it any more. In steady state this calls no allocator.
    ///
    /// # Panics
    /// In a forked child; when the allocator has no more memory. [`spawn_with`](Self::spawn_with) returns an error instead.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_here(future).unwrap_or_else(|error| self.cancelled(error))
    }

    /// Spawns a task as the options say: its name, which is shown in [`tasks`](Self::tasks) and among the survivors of a shutdown, the
    /// worker or workers that it stays on, its class, its deadline, and whether it ends when nothing can wake it any more.
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

    /// Spawns a task that need not be `Send`. The caller is a task that is pinned to a worker ([`TaskOptions::pinned`]) or another local
    /// one, and the new task shares its worker. In a [`LocalRuntime`](crate::runtime::LocalRuntime) the caller is any code of its thread,
    /// but not a fork-join run that began between two polls.
    ///
    /// # Errors
    /// [`SpawnError`], with the future; also if the caller is neither: a task that is not pinned may move to another thread
    /// ([`NotPinned`](SpawnErrorKind::NotPinned)), and the thread of a [`block_on`](Self::block_on) or of the blocking pool is no worker
    /// ([`NoWorker`](SpawnErrorKind::NoWorker)).
    #[cfg_attr(feature = "tracing", track_caller)]
    pub fn spawn_local<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let spawned = self.0.spawner.spawn_local(self.0.heap, future);
        spawned.or_else(|error| self.spawn_between(error)).map_err(|error| self.refused(error))
    }

    /// Spawns a task. Where a recorder keeps what it did, the task keeps the place of the call.
    #[inline]
    #[track_caller]
    pub(crate) fn spawn_here<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
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

    /// Spawns a local task that the core has refused, if the caller is the thread of a runtime of one thread, between its polls.
    #[cold]
    #[cfg_attr(feature = "tracing", track_caller)]
    fn spawn_between<F>(&self, error: SpawnError<F>) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let core = self.0.core;
        let is_between =
            core.slots() == 1 && core.current_worker().is_some() && self.check().is_ok();
        if !is_between || error.kind != SpawnErrorKind::NotPinned {
            return Err(error);
        }
        let (mut future, mut spawned) = (Some(error.future), None);
        core.as_poll(&mut || {
            spawned = future.take().map(|f| self.0.spawner.spawn_local(self.0.heap, f));
        });
        let Some(spawned) = spawned else { unreachable!("it is called once") };
        spawned
    }

    /// Why the core refused a spawn, as far as only the runtime knows.
    #[cold]
    pub(crate) fn refused<F>(&self, error: SpawnError<F>) -> SpawnError<F> {
        let is_outside = || self.0.core.current_worker().is_none();
        let kind = match (self.check(), error.kind) {
            (Err(forked), _) => forked,
            (Ok(()), SpawnErrorKind::NotPinned) if is_outside() => SpawnErrorKind::NoWorker,
            (Ok(()), kind) => kind,
        };
        SpawnError { kind, ..error }
    }

    /// The handle of a task that the core refused: cancelled if the runtime has shut down.
    #[cold]
    #[track_caller]
    pub(crate) fn cancelled<F>(&self, error: SpawnError<F>) -> JoinHandle<F::Output>
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
}

/// Spawns a task on the current runtime: [`Handle::spawn`].
///
/// # Panics
/// If the calling thread is in no runtime ([`spawn_with`] returns an error instead); in a forked child.
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
    let here = expect_current();
    here.spawn_here(future).unwrap_or_else(|error| here.cancelled(error))
}

/// Spawns a task as the options say, on the current runtime: [`Handle::spawn_with`].
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
        Some(here) => here.spawn_with(options, future),
        None => Err(SpawnError { kind: SpawnErrorKind::NoRuntime, future }),
    }
}

/// Spawns a task that need not be `Send`, on the worker of the task that calls: [`Handle::spawn_local`].
///
/// # Errors
/// As that, and [`SpawnErrorKind::NoRuntime`].
#[cfg_attr(feature = "tracing", track_caller)]
pub fn spawn_local<F>(future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
where
    F: Future + 'static,
    F::Output: 'static,
{
    match current() {
        Some(here) => here.spawn_local(future),
        None => Err(SpawnError { kind: SpawnErrorKind::NoRuntime, future }),
    }
}
