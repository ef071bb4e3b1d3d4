//! `JoinHandle`: the one who waits for a task's output.

use core::{
    fmt,
    future::Future,
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
    panic::{RefUnwindSafe, UnwindSafe},
    pin::Pin,
    ptr::NonNull,
    task::{Context, Poll, RawWaker, RawWakerVTable, Waker},
};

use super::{
    coop,
    header::{Header, TaskId, TaskInfo},
    schedule::{Anchor, Current},
    state::{Completed, Snapshot, Upgrade},
    waker::{carry_out, drop_ref},
};
use crate::{
    atomic::{AtomicU32, Ordering, UnsafeCell},
    platform::Panic,
};

/// Why a task has no output.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The task was aborted, or its executor shut down.
    Cancelled,
    /// The task's poll, or the drop of its future, panicked.
    Panicked(Panic),
    /// `join` was called by the task itself, or by one that it waits for on the same stack. The handle stays good.
    OnItself,
    /// `join` is nested too deep on this worker, and no other worker could take over. The handle stays good.
    TooDeep,
    /// `join` was called where nothing may wait ([`Platform::may_wait`](crate::Platform::may_wait)): in an interrupt handler, or in a
    /// forked child, which has none of the threads. The handle stays good.
    MustNotWait,
    /// The output was taken before.
    Taken,
}

impl JoinError {
    /// Whether the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }

    /// The panic, or the error again.
    pub fn into_panic(self) -> Result<Panic, Self> {
        match self {
            Self::Panicked(panic) => Ok(panic),
            other => Err(other),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::Panicked(panic) => match panic.message() {
                Some(message) => write!(f, "the task panicked: {message}"),
                None => f.write_str("the task panicked"),
            },
            Self::OnItself => f.write_str("a task cannot join itself"),
            Self::TooDeep => f.write_str("join is nested too deep on this worker"),
            Self::MustNotWait => f.write_str("the calling context must not wait for a task"),
            Self::Taken => f.write_str("the task's output was taken before"),
        }
    }
}

impl core::error::Error for JoinError {}

/// The reference count of a task is at its limit: no further handle can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefLimit;

impl fmt::Display for RefLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the task's reference count is at its limit")
    }
}

impl core::error::Error for RefLimit {}

/// Who is to be woken at completion. Two words.
///
/// INV-JOIN-SLOT: while the state's join-waker bit is clear, the slot belongs to the join handle. While it is set, both
/// sides may read. A completion that finds it set gives the waker in it to the worker; the handle then leaves
/// it alone.
pub(crate) struct JoinSlot {
    /// Null for a thread that sleeps on `word`.
    vtable: UnsafeCell<*const RawWakerVTable>,
    data: UnsafeCell<Data>,
}

union Data {
    data: *const (),
    word: ManuallyDrop<AtomicU32>,
}

/// What the slot held.
pub(crate) enum Joiner {
    Waker(Waker),
    /// The completion word of a blocked thread; it is in the task's slot.
    Thread(*const AtomicU32),
}

impl JoinSlot {
    pub(crate) fn new() -> Self {
        Self {
            vtable: UnsafeCell::new(core::ptr::null()),
            data: UnsafeCell::new(Data { data: core::ptr::null() }),
        }
    }

    /// Handle's side, bit clear.
    fn put(&self, waker: Waker) {
        let waker = ManuallyDrop::new(waker);
        // SAFETY: INV-JOIN-SLOT: the bit is clear, so that the slot is the handle's.
        self.vtable.with_mut(|p| unsafe { *p = waker.vtable() });
        // SAFETY: INV-JOIN-SLOT: the bit is still clear. No field of the union needs to be dropped.
        self.data.with_mut(|p| unsafe { (*p).data = waker.data() });
    }

    /// Handle's side, bit clear.
    fn put_word(&self) {
        let word = Data { word: ManuallyDrop::new(AtomicU32::new(0)) };
        // SAFETY: INV-JOIN-SLOT: the bit is clear, so that the slot is the handle's.
        self.vtable.with_mut(|p| unsafe { *p = core::ptr::null() });
        // SAFETY: INV-JOIN-SLOT: the bit is still clear.
        self.data.with_mut(|p| unsafe { p.write(word) });
    }

    /// Either side, as long as a `put_word` is in force.
    fn word(&self) -> *const AtomicU32 {
        // SAFETY: a place only, nothing is read.
        self.data.with(|p| unsafe { (&raw const (*p).word).cast() })
    }

    /// Either side, bit set.
    fn holds(&self, waker: &Waker) -> bool {
        // SAFETY: INV-JOIN-SLOT: the bit is set, so that both sides read, and nobody writes.
        self.vtable.with(|p| unsafe { core::ptr::eq(*p, waker.vtable()) })
            // SAFETY: INV-JOIN-SLOT: the bit is set, as before, and with a waker's table goes a waker's data.
            && self.data.with(|p| unsafe { core::ptr::eq((*p).data, waker.data()) })
    }

    /// The side to whom the waker belongs.
    pub(crate) fn take(&self) -> Joiner {
        // SAFETY: INV-JOIN-SLOT: the slot is the caller's. The parts were a waker's, which is now out of it.
        unsafe {
            match self.vtable.with(|p| (*p).as_ref()) {
                None => Joiner::Thread(self.word()),
                Some(vtable) => {
                    let data = self.data.with(|p| (*p).data);
                    Joiner::Waker(Waker::from_raw(RawWaker::new(data, vtable)))
                }
            }
        }
    }
}

/// The right to a task's output.
///
/// Await it in async code, or [`join`](JoinHandle::join) it from sync code. Dropping it detaches: the task goes on and
/// its output is dropped. One word.
///
/// # Cancel safety
/// Dropping a future that polls the handle loses nothing; poll the handle again.
///
/// # Panics
/// Never. After its output was taken a handle answers [`JoinError::Taken`].
#[must_use = "a dropped handle detaches its task; say so with `detach`"]
pub struct JoinHandle<T> {
    /// INV-HANDLE: a reference and the join interest of a task whose output is a `Result<T, JoinError>`; `None` once the
    /// output was taken.
    task: Option<NonNull<Header>>,
    output: PhantomData<T>,
}

// SAFETY: INV-HANDLE: the handle gives out a `T`, by value and to one thread.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: INV-HANDLE: a shared handle gives out no `T`; it makes transitions of the state, which any number of threads may.
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

    /// Asks the task to end at its next poll boundary, unless a [`shield`](crate::shield) is held then. Its future is
    /// dropped on a worker, later than this call. Callable from any context, interrupt handlers included; one
    /// read-modify-write, and a wake if the task was idle.
    pub fn abort(&self) {
        if let Some(task) = self.task {
            // SAFETY: INV-HANDLE: our reference keeps the header, and entitles to the transition, which leaves it to us.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::abort), task) };
        }
    }

    /// Something that can abort the task, and outlive the handle.
    ///
    /// # Errors
    /// [`RefLimit`] if the task has as many references as can be counted.
    pub fn abort_handle(&self) -> Result<AbortHandle, RefLimit> {
        let Some(task) = self.task else { return Ok(AbortHandle { task: None }) };
        AbortHandle::of(task)
    }

    /// Whether the output is there, or was taken. Callable from any context; one load.
    pub fn is_finished(&self) -> bool {
        self.state().is_none_or(|(_, state)| state.is_complete())
    }

    /// Lets the task go its way, for as long as something can wake it: one that waits for what nothing can wake, such as
    /// [`pending`](core::future::pending), is cancelled, and its future dropped. The same as dropping the handle, said aloud.
    ///
    /// A task is alive while it is queued, being polled, or referred to by a waker. A guard that is to live until the shutdown waits
    /// for something, say a sleep until [`Instant::MAX`](crate::Instant::MAX).
    pub fn detach(self) {}

    /// The task's id.
    pub fn id(&self) -> Option<TaskId> {
        self.task.map(TaskId::of)
    }

    /// What is known of the task; `None` once its output was taken.
    pub fn info(&self) -> Option<TaskInfo> {
        // SAFETY: INV-HANDLE: a reference is what `of` asks for.
        self.task.map(|task| unsafe { TaskInfo::of(task) })
    }

    /// Waits for the output in sync code, without an executor's poll: for threads, kernels' main loops, and for code in
    /// the midst of a poll that has no `await`.
    ///
    /// On a worker it runs other tasks until this one is complete, so that spawn and join cost little more than a
    /// call. From a thread that is no worker it helps from the injector, then sleeps on the task's own completion
    /// word.
    ///
    /// A lock that is held across this call is a deadlock if another task of this worker wants it, as that task may run on top of
    /// this one: release it before, or `await` the handle.
    ///
    /// A task that was begun by such a wait is over only when what lies above it on the same stack is: tasks that join each
    /// other in sync code, in a ring of several workers, may wait for ever, each under what the other waits for. Where
    /// tasks join tasks that join tasks, `await` the handle.
    ///
    /// # Errors
    /// Those of the task, and [`JoinError::OnItself`], [`JoinError::TooDeep`], [`JoinError::MustNotWait`] with the handle still good, and
    /// [`JoinError::Taken`]. Waits nest up to [`Config::nesting`](crate::Config::nesting); a deeper one sleeps, and a
    /// replacement worker takes over; it is `TooDeep` if tasks are queued and neither a worker nor a spare slot is left.
    pub fn join(&mut self) -> Result<T, JoinError> {
        let Some((task, state)) = self.state() else { return Err(JoinError::Taken) };
        if !state.is_complete() {
            self.wait(task)?;
        }
        self.take(task)
    }

    fn wait(&mut self, task: NonNull<Header>) -> Result<(), JoinError> {
        // SAFETY: INV-HANDLE: our reference keeps the task, and its home.
        let anchor = unsafe { task.as_ref().home().anchor() };
        // SAFETY: a home's anchor is that of a `'static` scheduler.
        let ops = unsafe { Anchor::ops(anchor) };
        // SAFETY: the table is that of this anchor's scheduler, which is `'static`.
        if !unsafe { (ops.may_wait)(anchor) } {
            return Err(JoinError::MustNotWait);
        }
        // SAFETY: as above.
        match unsafe { (ops.current)(anchor) } {
            Some(current) => {
                if current.is_polling(task) {
                    return Err(JoinError::OnItself);
                }
                if self.register(task, &current.waker).is_err() {
                    return Ok(());
                }
                // SAFETY: INV-HANDLE: our reference outlives the closure.
                let mut done = || unsafe { task.as_ref().state.load().is_complete() };
                // SAFETY: the table is that of this anchor's scheduler, which is `'static`.
                let helped = unsafe { (ops.help)(anchor, &mut done) };
                if helped { Ok(()) } else { Err(JoinError::TooDeep) }
            }
            None => {
                // SAFETY: INV-HANDLE: our reference outlives the closure.
                let mut done = || unsafe { task.as_ref().state.load().is_complete() };
                // SAFETY: the table is that of this anchor's scheduler, which is `'static`.
                unsafe { (ops.help)(anchor, &mut done) };
                if let Ok(word) = self.register_thread(task) {
                    // SAFETY: the table is that of this anchor's scheduler; INV-HANDLE: the word is in the task's slot, which our
                    // reference keeps.
                    unsafe { (ops.block)(anchor, &*word) };
                }
                Ok(())
            }
        }
    }

    /// Makes `waker` the one that completion wakes.
    fn register(&self, task: NonNull<Header>, waker: &Waker) -> Result<(), Completed> {
        // SAFETY: INV-HANDLE: our reference keeps the header and the join slot.
        let (header, slot) = unsafe { (task.as_ref(), Header::join_slot(task)) };
        if header.state.load().has_join_waker() {
            if slot.holds(waker) {
                return Ok(());
            }
            self.unregister(task)?;
        }
        slot.put(waker.clone());
        header.state.apply(Snapshot::set_join_waker).inspect_err(|_| drop(slot.take()))
    }

    /// Makes the calling thread the one that completion wakes.
    fn register_thread(&self, task: NonNull<Header>) -> Result<*const AtomicU32, Completed> {
        // SAFETY: INV-HANDLE: our reference keeps the header and the join slot.
        let (header, slot) = unsafe { (task.as_ref(), Header::join_slot(task)) };
        self.unregister(task)?;
        slot.put_word();
        header.state.apply(Snapshot::set_join_waker).map(|()| slot.word())
    }

    /// Takes back whatever waker is registered.
    fn unregister(&self, task: NonNull<Header>) -> Result<(), Completed> {
        // SAFETY: INV-HANDLE: our reference keeps the header and the join slot.
        let (header, slot) = unsafe { (task.as_ref(), Header::join_slot(task)) };
        if header.state.load().has_join_waker() {
            header.state.apply(Snapshot::unset_join_waker)?;
            drop(slot.take());
        }
        Ok(())
    }

    /// Takes the output of the complete task, and lets the task go.
    fn take(&mut self, task: NonNull<Header>) -> Result<T, JoinError> {
        self.task = None;
        let mut output = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: INV-TASK-OUTPUT: complete, and the interest was ours at completion; INV-HANDLE gives the type. The
        // handle's reference goes with `drop_complete`.
        unsafe {
            (task.as_ref().vtable().take_output)(task, output.as_mut_ptr().cast());
            carry_out(task.as_ref().state.drop_complete(), task);
            output.assume_init()
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((task, state)) = self.state() else { return Poll::Ready(Err(JoinError::Taken)) };
        if !state.is_complete() && self.register(task, cx.waker()).is_ok() {
            return Poll::Pending;
        }
        // SAFETY: a home's anchor is that of a `'static` scheduler; our reference keeps the task.
        if !unsafe { coop::spend(cx.waker(), task.as_ref().home().anchor()) } {
            cx.waker().wake_by_ref();
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
        let detached = self.unregister(task).and_then(|()| header.state.apply(Snapshot::detach));
        match detached {
            // SAFETY: INV-HANDLE entitled us to the transition. Our reference went with it, and is not used again.
            Ok(act) => unsafe { carry_out(act, task) },
            Err(Completed) => {
                // SAFETY: INV-HANDLE: our reference keeps the task's home, whose anchor is that of a `'static` scheduler.
                let (anchor, mut output) =
                    unsafe { (task.as_ref().home().anchor(), Some(self.take(task))) };
                // What its drop panics with has nobody to go to.
                // SAFETY: the table is that of this anchor's scheduler.
                unsafe { (Anchor::ops(anchor).guard)(anchor, &mut || drop(output.take())) };
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("task", &self.info()).finish()
    }
}

// What a panic may leave half done is the task's, and its output says so.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl UnwindSafe for AbortHandle {}
impl RefUnwindSafe for AbortHandle {}

/// Something that can abort a task and does nothing else. Dropping it changes nothing.
#[derive(Debug)]
pub struct AbortHandle {
    /// INV-ABORT: a reference; `None` if the task was over when the handle was made.
    task: Option<NonNull<Header>>,
}

// SAFETY: INV-ABORT: a reference may be used and given up on any thread, as a waker's is.
unsafe impl Send for AbortHandle {}
// SAFETY: INV-ABORT: a shared handle makes transitions of the state alone, which any number of threads may.
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

    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        if let Some(task) = self.task {
            // SAFETY: INV-ABORT: our reference keeps the header, and entitles to the transition, which leaves it to us.
            unsafe { carry_out(task.as_ref().state.apply(Snapshot::abort), task) };
        }
    }

    /// Whether the task is over.
    pub fn is_finished(&self) -> bool {
        // SAFETY: INV-ABORT: our reference keeps the header.
        self.task.is_none_or(|task| unsafe { task.as_ref() }.state.load().is_complete())
    }

    /// A second one.
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
            // SAFETY: INV-ABORT: we give our reference up, and `self` is not used again.
            unsafe { drop_ref(task) };
        }
    }
}

impl Current {
    /// Whether the task is being polled on the calling stack.
    fn is_polling(&self, task: NonNull<Header>) -> bool {
        let mut frame = self.frame;
        // SAFETY: frames are on this very stack, below us, and outlive the call.
        while let Some(f) = unsafe { frame.as_ref() } {
            if f.task == task {
                return true;
            }
            frame = f.below;
        }
        false
    }
}

/// Ends a thread's sleep on its completion word.
///
/// # Safety
/// The word came from `Joiner::Thread`, and the caller still holds a reference to its task, of this anchor's scheduler.
pub(crate) unsafe fn wake_thread(anchor: NonNull<Anchor>, word: *const AtomicU32) {
    // SAFETY: the caller's reference keeps the slot that the word is in, and the scheduler of this anchor is `'static`.
    unsafe {
        // Ordering: Release pairs with the Acquire in `Platform::block`; the state word carries the output.
        (*word).store(1, Ordering::Release);
        (Anchor::ops(anchor).unblock)(anchor, &*word);
    }
}
