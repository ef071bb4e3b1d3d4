//! A set of tasks, whose outputs come as they end.

use core::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use futures_util::stream::{FuturesUnordered, Stream};

use super::{AbortHandle, Id, JoinError, JoinHandle, LocalSet, coop};
use crate::runtime::Handle;

/// A task's end, with its number.
struct Ending<T>(JoinHandle<T>);

impl<T> Future for Ending<T> {
    type Output = Result<(Id, T), JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.0.id();
        Pin::new(&mut self.0).poll(cx).map(|ended| ended.map(|output| (id, output)))
    }
}

/// A set of tasks with one type of output. Dropped, it aborts them.
pub struct JoinSet<T> {
    tasks: FuturesUnordered<Ending<T>>,
}

impl<T> JoinSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        Self { tasks: FuturesUnordered::new() }
    }

    /// How many tasks are in the set, those included that have ended and were not joined.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    fn insert(&mut self, task: JoinHandle<T>) -> AbortHandle {
        let abort = task.abort_handle();
        self.tasks.push(Ending(task));
        abort
    }
}

impl<T: 'static> JoinSet<T> {
    /// Spawns a task on the current runtime.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn spawn<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(super::spawn(task))
    }

    /// Spawns a task on that runtime.
    #[track_caller]
    pub fn spawn_on<F>(&mut self, task: F, handle: &Handle) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn(task))
    }

    /// Spawns a task in the current `LocalSet`.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn spawn_local<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(super::spawn_local(task))
    }

    /// Spawns a task in that `LocalSet`.
    #[track_caller]
    pub fn spawn_local_on<F>(&mut self, task: F, local_set: &LocalSet) -> AbortHandle
    where
        F: Future<Output = T> + 'static,
    {
        self.insert(local_set.spawn_local(task))
    }

    /// Runs a closure that blocks on the current runtime's pool.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, f: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.insert(super::spawn_blocking(f))
    }

    /// Runs a closure that blocks on that runtime's pool.
    #[track_caller]
    pub fn spawn_blocking_on<F>(&mut self, f: F, handle: &Handle) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send,
    {
        self.insert(handle.spawn_blocking(f))
    }

    /// The output of a task that has ended; `None` if the set is empty.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// As [`join_next`](Self::join_next), with the task.
    ///
    /// # Cancel safety
    /// As that.
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// The output of a task, if one has ended.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.try_join_next_with_id().map(|ended| ended.map(|(_, output)| output))
    }

    /// As [`try_join_next`](Self::try_join_next), with the task.
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        let mut cx = Context::from_waker(Waker::noop());
        match coop::unlimited(|| self.poll_join_next_with_id(&mut cx)) {
            Poll::Ready(ended) => ended,
            Poll::Pending => None,
        }
    }

    /// As [`join_next`](Self::join_next), for use in a `poll` function.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_join_next_with_id(cx)
            .map(|ended| ended.map(|ended| ended.map(|(_, output)| output)))
    }

    /// As [`poll_join_next`](Self::poll_join_next), with the task.
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        match ready!(Pin::new(&mut self.tasks).poll_next(cx)) {
            // The handle has spent a unit.
            Some(ended) => Poll::Ready(Some(ended)),
            None => coop::poll_spend(cx).map(|()| None),
        }
    }

    /// Aborts all tasks, and waits for their ends.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// The outputs of all tasks, as they end.
    ///
    /// # Panics
    /// If a task has panicked or was cancelled.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(ended) = self.join_next().await {
            match ended {
                Ok(output) => outputs.push(output),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => panic!("{error}"),
            }
        }
        outputs
    }

    /// Aborts all tasks. They stay in the set.
    pub fn abort_all(&mut self) {
        self.tasks.iter().for_each(|Ending(task)| task.abort());
    }

    /// Takes all tasks out, and leaves them to themselves.
    pub fn detach_all(&mut self) {
        self.tasks = FuturesUnordered::new();
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|Ending(task)| task.abort());
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Spawns the futures on the current runtime.
impl<T, F> FromIterator<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn from_iter<I: IntoIterator<Item = F>>(iter: I) -> Self {
        let mut set = Self::new();
        set.extend(iter);
        set
    }
}

/// Spawns the futures on the current runtime.
impl<T, F> Extend<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn extend<I: IntoIterator<Item = F>>(&mut self, iter: I) {
        iter.into_iter().for_each(|task| drop(self.spawn(task)));
    }
}
