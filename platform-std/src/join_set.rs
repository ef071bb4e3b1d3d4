//! A set of tasks whose outputs are taken as the tasks end.

use core::future::{Future, poll_fn};

use filch::{JoinError, JoinHandle, TaskOptions};
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::{context::Handle, error::SpawnError};

/// Tasks whose outputs are taken in the order in which the tasks end. Dropping the set aborts the
/// tasks that are left.
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// let sum = runtime.block_on(async {
///     let mut set = filch_std::JoinSet::new();
///     for i in 0..10 {
///         set.spawn(async move { i });
///     }
///     let mut sum = 0;
///     while let Some(output) = set.join_next().await {
///         sum += output.unwrap();
///     }
///     sum
/// });
/// assert_eq!(sum, 45);
/// ```
#[derive(Debug)]
pub struct JoinSet<T> {
    tasks: FuturesUnordered<JoinHandle<T>>,
}

impl<T> JoinSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        Self { tasks: FuturesUnordered::new() }
    }

    /// The number of tasks that have not been joined.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether all tasks have been joined.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Adds a task that is already spawned.
    pub fn insert(&mut self, task: JoinHandle<T>) {
        self.tasks.push(task);
    }

    /// Waits for the next task to end; `None` if the set is empty.
    ///
    /// # Cancel safety
    /// Dropping the future loses no output.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.tasks.poll_next_unpin(cx)).await
    }

    /// Aborts all tasks. They stay in the set until they are joined.
    pub fn abort_all(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    /// Aborts all tasks, and waits until they have ended.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the rest in the set, aborted.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Detaches all tasks, and empties the set.
    pub fn detach_all(&mut self) {
        core::mem::take(&mut self.tasks).into_iter().for_each(JoinHandle::detach);
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task on the current runtime, into the set.
    ///
    /// # Panics
    /// As [`spawn`](crate::spawn).
    #[track_caller]
    pub fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.insert(crate::spawn(future));
    }

    /// Spawns a task as the options say, on the current runtime, into the set.
    ///
    /// # Errors
    /// As [`spawn_with`](crate::spawn_with), with the future.
    pub fn spawn_with<F>(&mut self, options: TaskOptions, future: F) -> Result<(), SpawnError<F>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(crate::spawn_with(options, future)?);
        Ok(())
    }

    /// Spawns a task on a runtime, into the set.
    ///
    /// # Panics
    /// As [`Handle::spawn`].
    pub fn spawn_on(&mut self, runtime: &Handle, future: impl Future<Output = T> + Send + 'static) {
        self.insert(runtime.spawn(future));
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}
