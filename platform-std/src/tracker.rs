//! Tasks that are spawned from many places, and awaited at one.

use core::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use filch::{AbortHandle, JoinHandle, SpawnError};
use pin_project_lite::pin_project;

use crate::{blocking::spawn_blocking, coop::budgeted, panics::lock, spawn::spawn};

/// Tasks that are spawned from many places, and awaited at one: for a shutdown that lets connections finish. Outputs go to the
/// [`JoinHandle`]s, or nowhere; a [`JoinSet`](crate::task::JoinSet) collects them.
///
/// A clone is another handle of the same tracker. Dropping handles does nothing to the tasks. A task counts from its spawn until its
/// future has been dropped. Cost: a lock for each spawn and each end.
///
/// ```
/// # use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// # static DONE: AtomicUsize = AtomicUsize::new(0);
/// let runtime = filch_std::Runtime::new()?;
/// let tracker = filch_std::task::TaskTracker::new();
/// runtime.block_on(async {
///     for _ in 0..3 {
///         let connections = tracker.clone();
///         tracker.spawn(async move {
///             // A task may spawn more.
///             connections.spawn(async { _ = DONE.fetch_add(1, Relaxed) }).detach();
///         }).detach();
///     }
///     tracker.close();
///     tracker.wait().await;
/// });
/// assert_eq!(DONE.load(Relaxed), 3);
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
///
/// Idea: tokio-util's type of the same name.
///
/// Every way in and out:
///
/// ```
/// use core::future::pending;
/// use filch_std::{LocalRuntime, TaskOptions, task::{TaskTracker, Tracked}};
/// let runtime = LocalRuntime::new()?;
/// let tracker = TaskTracker::new();
/// runtime.block_on(async {
///     tracker.spawn(async {}).detach();
///     tracker.spawn_by(async {}, |task| filch_std::spawn_with(TaskOptions::new().name("named"), task))?.detach();
///     tracker.spawn_by(async {}, filch_std::spawn_local)?.detach();
///     tracker.spawn_by(async {}, |task| Ok(runtime.spawn(task)))?.detach();
///     let counted: Tracked<_> = tracker.track(async { 7 });
///     assert_eq!(tracker.len(), 5);
///     assert_eq!(counted.into_inner().await, 7);
///     tracker.spawn_blocking(|| {}).detach();
///     tracker.close();
///     tracker.wait().await;
///     assert!(tracker.is_closed() && tracker.is_empty());
///
///     tracker.reopen();
///     let stuck = tracker.spawn(pending::<()>());
///     tracker.abort_all();
///     assert!(stuck.await.is_err());
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct TaskTracker(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    closed: bool,
    /// How many tasks and waits have ever begun: gives each its number.
    begun: u64,
    live: HashMap<u64, Entry>,
    /// By the numbers of their waits.
    waiting: HashMap<u64, Waker>,
}

/// What the tracker knows of a task.
enum Entry {
    /// It cannot be aborted from here: it is about to be spawned, or was aborted, or is a future in the code of another.
    Alone,
    /// As `Alone`; it is to be aborted as soon as it is spawned.
    Doomed,
    Task(AbortHandle),
}

impl TaskTracker {
    /// A tracker without tasks, which is open.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets [`wait`](Self::wait) return once no task is left. Tasks may be spawned all the same.
    pub fn close(&self) {
        lock(&self.0).closed = true;
        self.tell();
    }

    /// Takes [`close`](Self::close) back.
    pub fn reopen(&self) {
        lock(&self.0).closed = false;
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).closed
    }

    /// The number of tasks that have not ended.
    pub fn len(&self) -> usize {
        lock(&self.0).live.len()
    }

    /// Whether all tasks have ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until the tracker is closed and no task is left. Any number of tasks may wait.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn wait(&self) {
        let wait = Wait { tracker: self, number: lock(&self.0).number() };
        poll_fn(|cx| budgeted(cx, |cx| wait.poll(cx))).await;
    }

    /// Aborts all tasks that there are, but not futures of [`track`](Self::track). Does not wait for their end.
    pub fn abort_all(&self) {
        let mut tasks = Vec::new();
        for entry in lock(&self.0).live.values_mut() {
            match core::mem::replace(entry, Entry::Alone) {
                Entry::Task(task) => tasks.push(task),
                Entry::Alone | Entry::Doomed => *entry = Entry::Doomed,
            }
        }
        // Outside of the lock, as an abort may call a hook of the program.
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Counts a future that is polled in the code of a task, for as long as it lives.
    pub fn track<F: Future>(&self, future: F) -> Tracked<F> {
        Tracked { future, _token: self.begin() }
    }

    /// Spawns a task on the current runtime.
    ///
    /// # Panics
    /// As [`spawn`](crate::spawn).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (future, number) = self.numbered(future);
        self.keep(number, spawn(future))
    }

    /// Spawns a task in whatever way: on a runtime of which there is a handle, as options say, or one that need not be `Send`.
    ///
    /// # Errors
    /// That of `spawn`, with the future alone, which counts no more.
    pub fn spawn_by<F: Future>(
        &self,
        future: F,
        spawn: impl FnOnce(Tracked<F>) -> Result<JoinHandle<F::Output>, SpawnError<Tracked<F>>>,
    ) -> Result<JoinHandle<F::Output>, SpawnError<F>> {
        let (future, number) = self.numbered(future);
        match spawn(future) {
            Ok(task) => Ok(self.keep(number, task)),
            Err(SpawnError { kind, future }) => {
                Err(SpawnError { kind, future: future.into_inner() })
            }
        }
    }

    /// Runs a closure that blocks, on the current runtime. It counts until it has returned: once it has begun an abort does not end it.
    ///
    /// # Panics
    /// As [`spawn_blocking`](crate::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let token = self.begin();
        let number = token.number;
        let task = spawn_blocking(move || {
            let _token = token;
            f()
        });
        self.keep(number, task)
    }

    fn begin(&self) -> Token {
        let mut state = lock(&self.0);
        let number = state.number();
        state.live.insert(number, Entry::Alone);
        Token { tracker: self.clone(), number }
    }

    fn numbered<F: Future>(&self, future: F) -> (Tracked<F>, u64) {
        let future = self.track(future);
        let number = future._token.number;
        (future, number)
    }

    /// The task of this number was spawned, and may have ended.
    fn keep<T>(&self, number: u64, task: JoinHandle<T>) -> JoinHandle<T> {
        let Ok(abort) = task.abort_handle() else { unreachable!("a new task has few references") };
        let mut state = lock(&self.0);
        let abort = match state.live.get_mut(&number) {
            Some(entry @ Entry::Alone) => {
                *entry = Entry::Task(abort);
                None
            }
            Some(Entry::Doomed) => Some(abort),
            Some(Entry::Task(_)) | None => None,
        };
        drop(state);
        abort.iter().for_each(AbortHandle::abort);
        task
    }

    /// Wakes those that wait, if it is over.
    fn tell(&self) {
        let mut state = lock(&self.0);
        let waiting =
            if state.is_over() { core::mem::take(&mut state.waiting) } else { HashMap::new() };
        drop(state);
        waiting.into_values().for_each(Waker::wake);
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    fn is_over(&self) -> bool {
        self.closed && self.live.is_empty()
    }
}

impl fmt::Debug for TaskTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.0);
        let (len, closed) = (state.live.len(), state.closed);
        f.debug_struct("TaskTracker").field("len", &len).field("closed", &closed).finish()
    }
}

/// One call of [`TaskTracker::wait`], until this is dropped.
struct Wait<'a> {
    tracker: &'a TaskTracker,
    number: u64,
}

impl Wait<'_> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = lock(&self.tracker.0);
        if state.is_over() {
            return Poll::Ready(());
        }
        let before = state.waiting.insert(self.number, waker);
        drop(state);
        // Outside of the lock: the drop of a waker may be that of a task.
        drop(before);
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let waker = lock(&self.tracker.0).waiting.remove(&self.number);
        drop(waker);
    }
}

/// One task of a tracker, until this is dropped.
struct Token {
    tracker: TaskTracker,
    number: u64,
}

impl Drop for Token {
    fn drop(&mut self) {
        let entry = lock(&self.tracker.0).live.remove(&self.number);
        self.tracker.tell();
        drop(entry);
    }
}

pin_project! {
    /// A future that a [`TaskTracker`] counts for as long as it lives. From [`TaskTracker::track`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Tracked<F> {
        #[pin]
        future: F,
        // The last field: the future has been dropped before.
        _token: Token,
    }
}

impl<F> Tracked<F> {
    /// The future alone, which counts no more.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Tracked<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

impl<F> fmt::Debug for Tracked<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracked").finish_non_exhaustive()
    }
}
