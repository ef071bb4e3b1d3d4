//! `JoinHandle`: waits for a task's output, and takes it.

use core::{
    fmt,
    future::Future,
    marker::PhantomData,
    mem::MaybeUninit,
    panic::{RefUnwindSafe, UnwindSafe},
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, Waker},
};

#[cfg(feature = "task-dump")]
use super::dump;
#[cfg(feature = "classes")]
use super::waker::header_of;
use super::{
    coop,
    error::JoinError,
    executor_ref::{ExecutorRef, Waiter},
    header::Header,
    info::{TaskId, TaskInfo},
    state::{Completed, Snapshot, Upgrade},
    waker::{carry_out, drop_complete, drop_ref},
};
use crate::atomic::AtomicU32;
#[cfg(feature = "classes")]
use crate::class::Class;

/// The task's reference count is at its limit, so that no further handle can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RefLimit;

impl fmt::Display for RefLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task's reference count is at its limit")
    }
}

impl core::error::Error for RefLimit {}

#[cfg(feature = "std")]
impl From<RefLimit> for std::io::Error {
    fn from(error: RefLimit) -> Self {
        Self::other(error)
    }
}

/// The right to a task's output.
///
/// Await it in async code, or [`join`](JoinHandle::join) it in sync code. Dropping it detaches the task: the task goes
/// on, and its output is dropped. One word.
///
/// # Cancel safety
/// Dropping a future that polls the handle loses nothing; poll the handle again.
///
/// # Classes
/// Priority inheritance: a task that awaits the handle, or joins it, boosts the awaited task to its own class if that comes earlier, until
/// the handle is dropped. The awaited task does the same for those that it awaits in turn. A task that is queued already stays in its
/// place; the new class counts when it is queued next. Two tasks that await each other's handles keep each other's boosts.
///
/// # Panics
/// Never. A handle whose output was taken returns [`JoinError::Taken`].
///
/// ```
/// # filch_test_support::board!();
/// # use filch::{Executor, JoinHandle, TaskPool, WorkerId};
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<256, 8> = TaskPool::new();
/// let mut sum: JoinHandle<u32> = EXECUTOR.spawn(&TASKS, async { 2 + 3 })?;
/// let mut endless = EXECUTOR.spawn(&TASKS, core::future::pending::<()>())?;
/// EXECUTOR.spawn(&TASKS, async { /* a task without a handle */ })?.detach();
/// assert_eq!(sum.info().map(|info| info.id), sum.id());
/// assert!(!sum.is_finished());
/// // In another task: sum.await
///
/// # let worker = EXECUTOR.worker(WorkerId::new(0))?;
/// # worker.run_for(8);
/// assert_eq!(sum.join()?, 5);
/// assert!(sum.id().is_none(), "the output was taken");
/// endless.abort();
/// assert!(endless.join().unwrap_err().is_cancelled());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[must_use = "a dropped handle detaches its task; say so with `detach`"]
pub struct JoinHandle<T> {
    /// INV-HANDLE: a reference to, and the join interest in, a task whose output is a `Result<T, JoinError>`. `None`
    /// once the output was taken.
    task: Option<NonNull<Header>>,
    output: PhantomData<T>,
}

// SAFETY: INV-HANDLE: the handle gives out one `T`, by value, to one thread.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: INV-HANDLE: a shared handle gives out no `T`. It only makes transitions of the state, which any number of
// threads may do.
unsafe impl<T: Send> Sync for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// The caller hands over a reference and the join interest of a task with this output.
    pub(crate) unsafe fn new(task: NonNull<Header>) -> Self {
        Self { task: Some(task), output: PhantomData }
    }

    fn state(&self) -> Option<(NonNull<Header>, Snapshot)> {
        // SAFETY: INV-HANDLE: our reference keeps the header.
        self.task.map(|task| (task, unsafe { task.as_ref() }.state.load()))
    }

    /// Asks the task to end at its next poll boundary, or, if it holds a [`shield`](crate::shield) then, at the first
    /// one after it. A worker drops the future, later than this call. Callable from any context, interrupt handlers
    /// included. Cost: one read-modify-write, and a wake if the task was idle.
    pub fn abort(&self) {
        if let Some(task) = self.task {
            // SAFETY: INV-HANDLE: our reference keeps the header and permits the transition, which does not consume it.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::abort), task) };
        }
    }

    /// A handle that can abort the task and may outlive this one.
    ///
    /// # Errors
    /// [`RefLimit`] if the task has as many references as can be counted.
    pub fn abort_handle(&self) -> Result<AbortHandle, RefLimit> {
        let Some(task) = self.task else { return Ok(AbortHandle { task: None }) };
        AbortHandle::of(task)
    }

    /// Whether the task is complete, or its output was taken. Callable from any context; one load.
    pub fn is_finished(&self) -> bool {
        self.state().is_none_or(|(_, state)| state.is_complete())
    }

    /// Drops the handle and lets the task run on. The same as dropping the handle, but explicit.
    ///
    /// The task lives until it ends, is aborted, or the executor shuts down. That holds too of one that nothing can wake any more, such
    /// as one that awaits [`pending`](core::future::pending): it keeps what it guards. A spawn with
    /// [`TaskOptions::end_unreachable`](crate::TaskOptions::end_unreachable) says otherwise.
    pub fn detach(self) {}

    /// The task's id.
    pub fn id(&self) -> Option<TaskId> {
        self.task.map(TaskId::of)
    }

    /// The task's name, worker and state; `None` once its output was taken.
    pub fn info(&self) -> Option<TaskInfo> {
        // SAFETY: INV-HANDLE: we hold a reference.
        self.task.map(|task| unsafe { TaskInfo::of(task) })
    }

    /// Waits for the output in sync code. For threads, a kernel's main loop, and code inside a poll that cannot
    /// `await`.
    ///
    /// On a worker it runs other tasks until this one is complete, so that spawn and join cost little more than a call.
    /// On any other thread it runs tasks from the injector while there are any, then sleeps on the task's completion
    /// word.
    ///
    /// Do not hold a lock across this call: another task of this worker may run on top of this one, and deadlocks if it
    /// wants the lock. Release the lock first, or `await` the handle.
    ///
    /// A task that such a wait has begun can only return once everything above it on the same stack has returned. Tasks
    /// that join each other in sync code, in a ring over several workers, may so wait for ever. Where tasks join tasks
    /// that join tasks, `await` the handle.
    ///
    /// # Errors
    /// Those of the task; [`JoinError::OnItself`], [`JoinError::TooDeep`] and [`JoinError::MustNotWait`], with the
    /// handle still valid; and [`JoinError::Taken`]. Waits nest up to [`Config::nesting`](crate::Config::nesting). A
    /// deeper one sleeps, and a compensation worker takes over; it fails with `TooDeep` if tasks are queued and there is
    /// neither a worker nor a spare slot left.
    pub fn join(&mut self) -> Result<T, JoinError> {
        let Some((task, state)) = self.state() else { return Err(JoinError::Taken) };
        if !state.is_complete() {
            self.wait(task)?;
        }
        self.take(task)
    }

    fn wait(&mut self, task: NonNull<Header>) -> Result<(), JoinError> {
        // SAFETY: INV-HANDLE: our reference.
        let executor = unsafe { ExecutorRef::of(task) };
        // SAFETY: INV-HANDLE: our reference outlives the closure.
        let mut done = || unsafe { task.as_ref().state.load().is_complete() };
        match executor.waiter() {
            Waiter::MustNotWait => Err(JoinError::MustNotWait),
            Waiter::Worker(_, polls) | Waiter::Thread(polls) if polls.contain(task) => {
                Err(JoinError::OnItself)
            }
            Waiter::Worker(waker, _) => {
                if self.register(task, &waker).is_err() {
                    return Ok(());
                }
                #[cfg(feature = "classes")]
                set_boost(task, executor.class());
                if executor.help(&mut done) { Ok(()) } else { Err(JoinError::TooDeep) }
            }
            Waiter::Thread(_) => {
                executor.help(&mut done);
                if let Ok(word) = self.register_thread(task) {
                    // SAFETY: INV-HANDLE: the word is in the task's slot, which our reference keeps.
                    executor.block(unsafe { &*word });
                }
                Ok(())
            }
        }
    }

    /// Makes completion wake `waker`.
    fn register(&self, task: NonNull<Header>, waker: &Waker) -> Result<(), Completed> {
        // SAFETY: INV-HANDLE: our reference keeps the header and the join slot.
        let (header, slot) = unsafe { (task.as_ref(), Header::join_slot(task)) };
        if header.state.load().has_join_waker() {
            if slot.will_wake(waker) {
                return Ok(());
            }
            self.unregister(task)?;
        }
        slot.put(waker.clone());
        header.state.apply(Snapshot::set_join_waker).inspect_err(|_| drop(slot.take()))
    }

    /// Makes completion wake the calling thread, by the word in the slot.
    fn register_thread(&self, task: NonNull<Header>) -> Result<*const AtomicU32, Completed> {
        // SAFETY: INV-HANDLE: our reference keeps the header and the join slot.
        let (header, slot) = unsafe { (task.as_ref(), Header::join_slot(task)) };
        self.unregister(task)?;
        slot.put_word();
        header.state.apply(Snapshot::set_join_waker).map(|()| slot.word())
    }

    /// Takes the registered waker back, if there is one.
    fn unregister(&self, task: NonNull<Header>) -> Result<(), Completed> {
        // SAFETY: INV-HANDLE: our reference keeps the header and the join slot.
        let (header, slot) = unsafe { (task.as_ref(), Header::join_slot(task)) };
        if header.state.load().has_join_waker() {
            header.state.apply(Snapshot::unset_join_waker)?;
            drop(slot.take());
        }
        Ok(())
    }

    /// Takes the output of the complete task, and gives up the handle's reference.
    fn take(&mut self, task: NonNull<Header>) -> Result<T, JoinError> {
        self.task = None;
        let mut output = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: INV-TASK-OUTPUT: complete, and the interest was ours at completion; INV-HANDLE gives the type.
        // `drop_complete` consumes the handle's reference.
        unsafe {
            (task.as_ref().vtable().take_output)(task, output.as_mut_ptr().cast());
            drop_complete(task);
            output.assume_init()
        }
    }
}

/// The task that polls boosts the one that it waits for to its own class.
#[cfg(feature = "classes")]
#[inline]
fn boost_by(task: NonNull<Header>, waker: &Waker) {
    // SAFETY: INV-WAKER: the waker holds a reference.
    let waiter = header_of(waker).map(|waiter| unsafe { waiter.as_ref() }.state.load());
    // SAFETY: the caller holds a reference.
    let state = unsafe { task.as_ref() }.state.load();
    if waiter.is_some_and(Snapshot::is_plain) && state.is_plain() {
        return;
    }
    // A combinator's waker: the poll under way is that of the waiter.
    // SAFETY: the caller holds a reference.
    let class = || unsafe { ExecutorRef::of(task) }.class();
    set_boost(task, waiter.map(Snapshot::class).or_else(class));
}

/// Boosts the task to a class, or ends its boost. The caller holds a reference.
#[cfg(feature = "classes")]
fn set_boost(task: NonNull<Header>, class: Option<Class>) {
    // Urgent in any case: the task may lower its own class.
    let boost = |state: Snapshot| {
        class.filter(|class| *class == Class::Urgent || class.is_before(state.own_class()))
    };
    // SAFETY: the caller's reference.
    let state = unsafe { task.as_ref() }.state.load();
    if state.boost() != boost(state) {
        change_boost(task, &boost);
    }
}

#[cfg(feature = "classes")]
#[cold]
fn change_boost(task: NonNull<Header>, boost: &dyn Fn(Snapshot) -> Option<Class>) {
    // SAFETY: the caller's reference, which permits the transition; that does not consume it.
    unsafe {
        let executor = ExecutorRef::of(task);
        if executor.has_boosts() {
            carry_out(task.as_ref().state.apply(|state| state.with_boost(boost(state))), task);
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((task, state)) = self.state() else {
            return coop::budgeted(cx, |_| Poll::Ready(Err(JoinError::Taken)));
        };
        if !state.is_complete() && self.register(task, cx.waker()).is_ok() {
            #[cfg(feature = "classes")]
            boost_by(task, cx.waker());
            #[cfg(feature = "task-dump")]
            dump::waits(cx.waker(), || dump::Wait::Join(TaskId::of(task)));
            return Poll::Pending;
        }
        // SAFETY: INV-HANDLE: our reference.
        if !coop::spend(cx.waker(), unsafe { ExecutorRef::of(task) }) {
            // SAFETY: as above.
            coop::force_yield(cx.waker(), Some(unsafe { ExecutorRef::of(task) }));
            return Poll::Pending;
        }
        Poll::Ready(self.take(task))
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let Some(task) = self.task else { return };
        // SAFETY: INV-HANDLE: our reference keeps the header, until the transition.
        let header = unsafe { task.as_ref() };
        let state = header.state.load();
        #[cfg(feature = "classes")]
        if !state.is_plain() {
            set_boost(task, None);
        }
        // Only the handle registers a waker.
        let unregistered = if state.has_join_waker() { self.unregister(task) } else { Ok(()) };
        match unregistered.and_then(|()| header.state.apply(Snapshot::detach)) {
            // SAFETY: INV-HANDLE permitted the transition, which consumed our reference; it is not used again.
            Ok(action) => unsafe { carry_out(action, task) },
            Err(Completed) => {
                // SAFETY: INV-HANDLE: our reference.
                let executor = unsafe { ExecutorRef::of(task) };
                let mut output = Some(self.take(task));
                // A panic of the output's drop is discarded: no handle is left to report it to.
                executor.guard(&mut || drop(output.take()));
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("task", &self.info()).finish()
    }
}

// A panic can leave only the task itself half done, and then its output is an error.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

/// A handle that can abort a task and do nothing else. Dropping it changes nothing.
///
/// ```
/// # filch_test_support::board!();
/// # use filch::{AbortHandle, Executor, RefLimit, TaskPool, WorkerId};
/// # static EXECUTOR: Executor<Board, 1> = Executor::new(Board);
/// # static TASKS: TaskPool<256, 8> = TaskPool::new();
/// let mut task = EXECUTOR.spawn(&TASKS, core::future::pending::<()>())?;
/// let abort: Result<AbortHandle, RefLimit> = task.abort_handle();
/// let (abort, second) = (abort?, task.abort_handle()?.try_clone()?);
/// abort.abort();
/// # EXECUTOR.worker(WorkerId::new(0))?.run_for(8);
/// assert!(second.is_finished());
/// assert!(task.join().unwrap_err().is_cancelled());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AbortHandle {
    /// INV-ABORT: a reference; `None` if the task was complete when the handle was made.
    task: Option<NonNull<Header>>,
}

// SAFETY: INV-ABORT: like a waker's, the reference may be used and given up on any thread.
unsafe impl Send for AbortHandle {}
// SAFETY: INV-ABORT: a shared handle only makes transitions of the state, which any number of threads may do.
unsafe impl Sync for AbortHandle {}

impl AbortHandle {
    fn of(task: NonNull<Header>) -> Result<Self, RefLimit> {
        // SAFETY: both callers hold a reference: INV-HANDLE, INV-ABORT.
        match unsafe { task.as_ref() }.state.apply(Snapshot::upgrade) {
            Ok(()) => Ok(Self { task: Some(task) }),
            Err(Upgrade::Vacant) => Ok(Self { task: None }),
            Err(Upgrade::Limit) => Err(RefLimit),
        }
    }

    /// Asks the task to end, as [`JoinHandle::abort`] does.
    pub fn abort(&self) {
        if let Some(task) = self.task {
            // SAFETY: INV-ABORT: our reference keeps the header and permits the transition, which does not consume it.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::abort), task) };
        }
    }

    /// Whether the task is complete.
    pub fn is_finished(&self) -> bool {
        // SAFETY: INV-ABORT: our reference keeps the header.
        self.task.is_none_or(|task| unsafe { task.as_ref() }.state.load().is_complete())
    }

    /// A second handle of the same task.
    ///
    /// # Errors
    /// [`RefLimit`] if the task has as many references as can be counted.
    pub fn try_clone(&self) -> Result<Self, RefLimit> {
        self.task.map_or(Ok(Self { task: None }), Self::of)
    }
}

impl Drop for AbortHandle {
    fn drop(&mut self) {
        if let Some(task) = self.task {
            // SAFETY: INV-ABORT: we give up our reference, and `self` is not used again.
            unsafe { drop_ref(task) };
        }
    }
}
