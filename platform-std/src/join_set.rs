//! A set of tasks whose outputs are taken as the tasks end.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll},
};

use filch::{AbortHandle, JoinError, JoinHandle, TaskId};
use futures_util::{
    FutureExt,
    stream::{FuturesUnordered, Stream, StreamExt},
};

use crate::{
    coop::{budgeted, unconstrained},
    panics::resume,
    spawn::spawn,
};

/// Tasks whose outputs are taken in the order in which the tasks end. Dropping the set aborts the
/// tasks that are left. It is a [`Stream`] of outputs, too, which ends when the set is empty.
///
/// ```
/// let runtime = filch_std::Runtime::new().unwrap();
/// let sum = runtime.block_on(async {
///     let mut set = filch_std::task::JoinSet::new();
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
///
/// Every way in and out:
///
/// ```
/// use core::future::{pending, poll_fn};
/// use filch_std::{LocalRuntime, TaskOptions, task::JoinSet};
/// let runtime = LocalRuntime::new()?;
/// let here = *runtime.handle();
/// runtime.block_on(async {
///     let mut set = JoinSet::new();
///     set.spawn(async { 1 });
///     set.insert(filch_std::spawn_with(TaskOptions::new().name("named"), async { 2 })?);
///     set.insert(filch_std::spawn_local(async { 3 })?);
///     set.insert(filch_std::spawn_blocking(|| 4));
///     set.insert(here.spawn(async { 5 }));
///     assert_eq!((set.len(), set.ids().count()), (5, 5));
///
///     let mut sum = poll_fn(|cx| set.poll_join_next(cx)).await.unwrap()?;
///     let (_id, output) = poll_fn(|cx| set.poll_join_next_with_id(cx)).await.unwrap();
///     sum += output?;
///     while let Some((_id, output)) = set.try_join_next_with_id() {
///         sum += output?;
///     }
///     assert!(sum <= 15, "others may not have ended");
///     set.shutdown().await;
///     assert!(set.is_empty());
///
///     set.spawn(async { pending().await });
///     set.abort_all();
///     assert!(set.join_next().await.unwrap().is_err());
///     set.spawn(async { 8 });
///     set.detach_all();
///     assert!(set.is_empty());
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JoinSet<T> {
    tasks: FuturesUnordered<Member<T>>,
}

/// A task of a set, whose output comes with its id.
#[derive(Debug)]
struct Member<T>(JoinHandle<T>);

/// `None` for a handle whose output was taken before it came into the set.
type WithId<T> = (Option<TaskId>, Result<T, JoinError>);

impl<T> Future for Member<T> {
    type Output = WithId<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<WithId<T>> {
        let id = self.0.id();
        self.0.poll_unpin(cx).map(|output| (id, output))
    }
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

    /// Adds a task that is already spawned, in whatever way.
    pub fn insert(&mut self, task: JoinHandle<T>) {
        self.tasks.push(Member(task));
    }

    /// Waits for the next task to end; `None` if the set is empty.
    ///
    /// # Cancel safety
    /// Dropping the future loses no output.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// As [`join_next`](Self::join_next), with the task's id: that of [`ids`](Self::ids) and of [`TaskInfo`](crate::task::TaskInfo), which
    /// a later task may have again. `None` for the id of a handle whose output was taken before [`insert`](Self::insert).
    ///
    /// # Cancel safety
    /// As [`join_next`](Self::join_next).
    ///
    /// ```
    /// let runtime = filch_std::Runtime::new().unwrap();
    /// runtime.block_on(async {
    ///     let mut set = filch_std::task::JoinSet::new();
    ///     set.spawn(async { 7 });
    ///     let ids: Vec<_> = set.ids().collect();
    ///     let (id, output) = set.join_next_with_id().await.unwrap();
    ///     assert_eq!((id, output.unwrap()), (Some(ids[0]), 7));
    /// });
    /// ```
    pub async fn join_next_with_id(&mut self) -> Option<WithId<T>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// As [`join_next`](Self::join_next), in a `poll` of one's own.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_join_next_with_id(cx).map(|next| next.map(|(_, output)| output))
    }

    /// As [`join_next_with_id`](Self::join_next_with_id), in a `poll` of one's own.
    pub fn poll_join_next_with_id(&mut self, cx: &mut Context<'_>) -> Poll<Option<WithId<T>>> {
        if self.is_empty() {
            return budgeted(cx, |_| Poll::Ready(None));
        }
        self.tasks.poll_next_unpin(cx)
    }

    /// The ids of the tasks that have not been joined, in no order.
    pub fn ids(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks.iter().filter_map(|member| member.0.id())
    }

    /// The output of a task that has ended; `None` if none has, or the set is empty. Does not wait.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::new().unwrap();
    /// runtime.block_on(async {
    ///     let mut set = filch_std::task::JoinSet::new();
    ///     set.spawn(core::future::pending::<()>());
    ///     assert!(set.try_join_next().is_none());
    /// });
    /// ```
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.try_join_next_with_id().map(|(_, output)| output)
    }

    /// As [`try_join_next`](Self::try_join_next), with the task's id: [`join_next_with_id`](Self::join_next_with_id).
    pub fn try_join_next_with_id(&mut self) -> Option<WithId<T>> {
        // An empty budget would make a task that has ended look like one that has not.
        unconstrained(self.tasks.next()).now_or_never().flatten()
    }

    /// Waits for all tasks; their outputs, in the order in which the tasks ended.
    ///
    /// # Panics
    /// With the first panic of a task, or if a task was cancelled; the rest is aborted.
    ///
    /// # Cancel safety
    /// Dropping the future drops the set, and what was joined.
    ///
    /// ```
    /// let runtime = filch_std::Runtime::new().unwrap();
    /// let mut outputs = runtime.block_on(async {
    ///     let set: filch_std::task::JoinSet<_> = (0..3).map(|i| filch_std::spawn(async move { i })).collect();
    ///     set.join_all().await
    /// });
    /// outputs.sort();
    /// assert_eq!(outputs, [0, 1, 2]);
    /// ```
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(output) = self.join_next().await {
            match output.map_err(JoinError::into_panic) {
                Ok(output) => outputs.push(output),
                Err(Ok(panic)) => resume(panic),
                Err(Err(error)) => panic!("a task of the set: {error}"),
            }
        }
        outputs
    }

    /// Aborts all tasks. They stay in the set until they are joined.
    pub fn abort_all(&self) {
        self.tasks.iter().for_each(|member| member.0.abort());
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
        core::mem::take(&mut self.tasks).into_iter().for_each(|Member(task)| task.detach());
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task on the current runtime, into the set. Tasks of another kind, or on another runtime, come by [`insert`](Self::insert).
    ///
    /// # Panics
    /// As [`spawn`](crate::spawn).
    #[track_caller]
    pub fn spawn(&mut self, future: impl Future<Output = T> + Send + 'static) -> AbortHandle {
        let task = spawn(future);
        // There is room for one more reference to it.
        let Ok(abort) = task.abort_handle() else { unreachable!("a new task has few references") };
        self.insert(task);
        abort
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Extend<JoinHandle<T>> for JoinSet<T> {
    fn extend<I: IntoIterator<Item = JoinHandle<T>>>(&mut self, tasks: I) {
        tasks.into_iter().for_each(|task| self.insert(task));
    }
}

impl<T> FromIterator<JoinHandle<T>> for JoinSet<T> {
    fn from_iter<I: IntoIterator<Item = JoinHandle<T>>>(tasks: I) -> Self {
        let mut set = Self::new();
        set.extend(tasks);
        set
    }
}

impl<T> Stream for JoinSet<T> {
    type Item = Result<T, JoinError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_join_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.abort_all();
    }
}
