//! A set of tasks that stay on one thread, and need not be `Send`.

use core::{
    cell::RefCell,
    fmt,
    future::Future,
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll, Waker},
};
use std::{
    rc::{Rc, Weak},
    sync::Arc,
};

use pin_project_lite::pin_project;

use super::{JoinHandle, Spawned, coop};
use crate::runtime::{
    Handle, Id, Runtime, context,
    local::{Queue, Tasks, poll_once},
};

type LocalTask = Pin<Box<dyn Future<Output = ()>>>;

/// How many tasks are polled before the set gives way.
const BATCH: usize = 61;

/// What the tasks and the guards share.
struct Shared {
    tasks: RefCell<Tasks<LocalTask>>,
    queue: Arc<Queue>,
    id: Id,
}

thread_local! {
    /// The sets of the thread's local runtimes.
    static RUNTIMES: RefCell<Vec<(Id, Weak<Shared>)>> = const { RefCell::new(Vec::new()) };
    /// The set that the thread is in.
    static CURRENT: RefCell<Option<Rc<Shared>>> = const { RefCell::new(None) };
}

/// A set of tasks that stay on the thread that has it. They run while the set is awaited, or in
/// [`run_until`](Self::run_until) or [`block_on`](Self::block_on).
pub struct LocalSet {
    shared: Rc<Shared>,
}

/// The thread is in a `LocalSet` for as long as this lives: [`LocalSet::enter`].
pub struct LocalEnterGuard {
    before: Option<Rc<Shared>>,
}

impl fmt::Debug for LocalEnterGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalEnterGuard").finish_non_exhaustive()
    }
}

fn enter(shared: Option<Rc<Shared>>) -> LocalEnterGuard {
    let before = CURRENT.try_with(|current| current.replace(shared)).ok().flatten();
    LocalEnterGuard { before }
}

impl Drop for LocalEnterGuard {
    fn drop(&mut self) {
        let before = self.before.take();
        let mine = CURRENT.try_with(|current| current.replace(before));
        drop(mine);
    }
}

impl Shared {
    #[track_caller]
    fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (task, join) = Spawned::local(Handle::try_current().ok(), future);
        let entry = self.tasks.borrow_mut().insert(&self.queue, Box::pin(task));
        match entry {
            Ok(entry) => Waker::from(entry).wake(),
            Err(refused) => drop(refused),
        }
        join
    }

    /// Polls woken tasks; true if there may be more.
    fn turn(&self) -> bool {
        for _ in 0..BATCH {
            let Some(entry) = self.queue.pop() else { return false };
            let begun = self.tasks.borrow_mut().begin(&entry);
            if let Some((future, waker)) = begun {
                let left = poll_once(future, &waker);
                let over = self.tasks.borrow_mut().end(&entry, left);
                drop(over);
            }
        }
        true
    }

    /// One poll of the set, on a task whose waker is registered.
    fn tick(&self, cx: &mut Context<'_>) {
        self.queue.poller.register(cx.waker());
        if self.turn() {
            cx.waker().wake_by_ref();
        }
    }
}

impl LocalSet {
    /// An empty set.
    pub fn new() -> Self {
        let shared =
            Shared { tasks: RefCell::new(Tasks::new()), queue: Arc::default(), id: Id::next() };
        Self { shared: Rc::new(shared) }
    }

    /// This is the set of that local runtime.
    pub(crate) fn belong_to(&self, runtime: Id) {
        RUNTIMES.with(|sets| {
            let mut sets = sets.borrow_mut();
            sets.retain(|(_, set)| set.strong_count() > 0);
            sets.push((runtime, Rc::downgrade(&self.shared)));
        });
    }

    /// What no other set or runtime of the program has.
    pub fn id(&self) -> Id {
        self.shared.id
    }

    /// Puts the thread into the set until the guard is dropped: [`spawn_local`] spawns there.
    pub fn enter(&self) -> LocalEnterGuard {
        enter(Some(Rc::clone(&self.shared)))
    }

    /// Spawns a task in the set.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.shared.spawn(future)
    }

    /// Runs a future on the calling thread, and the set's tasks meanwhile.
    ///
    /// # Panics
    /// As [`Runtime::block_on`].
    #[track_caller]
    pub fn block_on<F: Future>(&self, rt: &Runtime, future: F) -> F::Output {
        rt.block_on(self.run_until(future))
    }

    /// Runs a future, and the set's tasks meanwhile.
    pub async fn run_until<F: Future>(&self, future: F) -> F::Output {
        RunUntil { set: self, future }.await
    }

    /// One poll with the thread in the set.
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let _entered = enter(Some(Rc::clone(&self.shared)));
        context::stay(f)
    }
}

impl Default for LocalSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalSet").finish_non_exhaustive()
    }
}

/// Runs the tasks until all are over.
impl Future for LocalSet {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.with(|| self.shared.tick(cx));
        match self.shared.tasks.borrow().len() {
            0 => coop::poll_spend(cx),
            _ => Poll::Pending,
        }
    }
}

impl Drop for LocalSet {
    fn drop(&mut self) {
        self.with(|| {
            let tasks = self.shared.tasks.borrow_mut().close();
            drop(tasks);
            self.shared.queue.clear();
        });
    }
}

pin_project! {
    struct RunUntil<'a, F> {
        set: &'a LocalSet,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for RunUntil<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let set = *this.set;
        set.with(|| {
            set.shared.queue.poller.register(cx.waker());
            let polled = this.future.poll(cx);
            if polled.is_pending() {
                set.shared.tick(cx);
            }
            polled
        })
    }
}

/// Spawns a task in the `LocalSet`, or the local runtime, that the thread is in.
///
/// # Panics
/// If it is in none.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    if let Ok(Some(shared)) = CURRENT.try_with(|current| current.borrow().clone()) {
        return shared.spawn(future);
    }
    // Ordering: Relaxed; a flag that does not change once the runtime is there.
    let local = |handle: &Handle| handle.inner.local.load(Ordering::Relaxed).then(|| handle.id());
    let Some(id) = context::with(|handle| handle.and_then(local)) else {
        panic!(
            "`spawn_local` called from outside of a `task::LocalSet` or `runtime::LocalRuntime`"
        );
    };
    let find = |sets: &RefCell<Vec<(Id, Weak<Shared>)>>| {
        sets.borrow().iter().find(|(of, _)| *of == id).and_then(|(_, set)| set.upgrade())
    };
    match RUNTIMES.try_with(find) {
        Ok(Some(shared)) => shared.spawn(future),
        _ => panic!(
            "Local tasks can only be spawned on a LocalRuntime from the thread the runtime was created on"
        ),
    }
}
