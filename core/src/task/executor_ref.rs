//! `ExecutorRef`: what a task needs of its scheduler.
//!
//! `task` declares the operations and `scheduler` implements them, so that `task` does not import `scheduler`. A
//! scheduler begins with an [`Anchor`], which leads from a thin pointer to a table of its operations. So a call costs
//! one load and one indirect call.

use core::{cell::Cell, mem::MaybeUninit, ptr::NonNull, task::Waker};

use super::{
    header::{Header, Ready, Slot},
    owner::{Owner, Owners},
};
use crate::{
    atomic::{AtomicU32, maybe_const},
    platform::{WorkerId, WorkerSet},
};
#[cfg(feature = "classes")]
use {
    super::info::TaskInfo,
    crate::{class::Class, instant::Instant},
};

/// The first field of a scheduler.
pub(crate) struct Anchor {
    operations: &'static Operations,
    owners: Owners,
}

impl Anchor {
    maybe_const! {
        /// The anchor of a scheduler of type `E`.
        pub(crate) fn of<E: TaskExecutor>() -> Self {
            Self { operations: Table::<E>::OPERATIONS, owners: Owners::new() }
        }
    }

    /// The slabs that serve the scheduler.
    pub(crate) fn owners(&self) -> &Owners {
        &self.owners
    }
}

/// A reference to a scheduler, whatever its type: one word.
///
/// INV-EXECUTOR: it points to a `'static` scheduler of a type `E`, which begins with the `Anchor::of::<E>()`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExecutorRef(NonNull<Anchor>);

// SAFETY: INV-EXECUTOR: schedulers are `Sync`.
unsafe impl Send for ExecutorRef {}
// SAFETY: as above.
unsafe impl Sync for ExecutorRef {}

impl ExecutorRef {
    /// # Safety
    /// `E` is `repr(C)`, its first field is an `Anchor`, and that of `executor` was made by `Anchor::of::<E>`.
    #[inline(always)]
    pub(crate) unsafe fn new<E: TaskExecutor>(executor: &'static E) -> Self {
        Self(NonNull::from(executor).cast())
    }

    /// For a word that other contexts read.
    #[inline(always)]
    pub(crate) fn into_raw(self) -> *mut () {
        self.0.as_ptr().cast()
    }

    /// # Safety
    /// The pointer is null, or comes from `into_raw`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(raw: *mut ()) -> Option<Self> {
        NonNull::new(raw.cast()).map(Self)
    }

    /// The executor of a task.
    ///
    /// # Safety
    /// The caller holds a reference to the task, or owns its slot.
    #[inline(always)]
    pub(crate) unsafe fn of(task: NonNull<Header>) -> Self {
        // SAFETY: INV-OWNER; INV-BOUND: the slab was bound before the task was spawned.
        unsafe { Self::from_raw(task.as_ref().owner().as_ref().executor()).unwrap_unchecked() }
    }

    /// Has a slab serve this executor for ever. False if it serves another.
    ///
    /// # Safety
    /// INV-OWNER.
    #[inline]
    pub(crate) unsafe fn adopt(self, slab: NonNull<Owner>) -> bool {
        // SAFETY: INV-OWNER; the list is this executor's.
        unsafe { Owner::bind(slab, self.into_raw(), self.anchor().owners()) }
    }

    #[inline(always)]
    fn anchor(self) -> &'static Anchor {
        // SAFETY: INV-EXECUTOR.
        unsafe { self.0.as_ref() }
    }
}

/// The table of the schedulers of type `E`.
struct Table<E>(E);

/// From one list: the trait that a scheduler implements, the table of its functions, and the methods of `ExecutorRef` that
/// call them.
macro_rules! operations {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// The operations of a scheduler.
        pub(crate) trait TaskExecutor: Sized + Sync + 'static {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? fn $name(&'static self $(, $arg: $type)*) $(-> $result)?;)*
        }

        /// Each is called with a reference to a scheduler of the type that the table was made for.
        struct Operations {
            $($(#[cfg($cfg)])? $name: unsafe fn(ExecutorRef $(, $type)*) $(-> $result)?,)*
        }

        impl<E: TaskExecutor> Table<E> {
            const OPERATIONS: &'static Operations = &Operations {
                // SAFETY: INV-EXECUTOR: the reference leads to this table, so that its scheduler is an `E`.
                $($(#[cfg($cfg)])? $name: |to $(, $arg)*| unsafe { to.0.cast::<E>().as_ref() }.$name($($arg),*),)*
            };
        }

        impl ExecutorRef {
            $(
                $(#[doc = $doc])*
                $(#[cfg($cfg)])?
                #[inline]
                pub(crate) fn $name(self $(, $arg: $type)*) $(-> $result)? {
                    // SAFETY: INV-EXECUTOR: the table is that of the scheduler's type.
                    unsafe { (self.anchor().operations.$name)(self $(, $arg)*) }
                }
            )*
        }
    };
}

operations! {
    /// Queues a task that was woken.
    fn schedule(ready: Ready);
    /// Counts a new task, and gives what `caller` gives; none if the executor takes no task.
    fn admit() -> Option<Caller>;
    /// Takes an `admit` back: no task was launched.
    fn dismiss();
    /// Schedules a new task, in the context for which `admit` returned `caller`.
    fn launch(ready: Ready, caller: Caller);
    /// The worker of the calling context. It selects the free slots that the context shares with few others.
    fn caller() -> Caller;
    /// Gives a slot back to its slab.
    fn free(slot: Slot);
    /// Counts a new local task of the calling worker, if the calling context polls a task that is pinned to it. Returns
    /// the worker.
    fn admit_local() -> Option<WorkerId>;
    /// Takes an `admit_local` back.
    fn dismiss_local();
    /// Counts a new task with an affinity to these workers. False if one of them does not exist, or if the first is to leave.
    fn admit_affine(set: WorkerSet) -> bool;
    /// Takes an `admit_affine` back.
    fn dismiss_affine(first: WorkerId);
    /// The budget of the poll that the calling context is in, if it is in one.
    fn budget() -> Option<NonNull<Cell<u32>>>;
    /// The units with which a poll begins.
    fn units() -> u32;
    /// How often the task was woken that the calling context polls, as far as that is counted.
    fn wakes() -> Option<u32>;
    /// That budget has refused an operation.
    fn count_forced_yield();
    /// As what the calling context waits for a task.
    fn waiter() -> Waiter;
    /// Runs other tasks until the condition holds. False if it gives up before.
    fn help(done: &mut dyn FnMut() -> bool) -> bool;
    /// Waits until the word is not zero.
    fn block(word: &AtomicU32);
    /// Ends every `block` on the word, which has changed.
    fn unblock(word: &AtomicU32);
    /// Ends the worker's sleep, this one or the next.
    fn unpark(worker: WorkerId);
    /// Calls user code, and discards its panic.
    fn guard(code: &mut dyn FnMut());
    /// Whether tasks can have classes.
    #[cfg(feature = "classes")]
    fn has_classes() -> bool;
    /// Whether the class of a task can be boosted.
    #[cfg(feature = "classes")]
    fn has_boosts() -> bool;
    /// The task that the calling context polls.
    #[cfg(feature = "classes")]
    fn task() -> Option<TaskInfo>;
    /// The class of the task that the calling context polls.
    #[cfg(feature = "classes")]
    fn class() -> Option<Class>;
    /// Gives that task another class; whether there is one.
    #[cfg(feature = "classes")]
    fn set_class(class: Class) -> bool;
    /// Gives that task another deadline; whether there is one with room for it.
    #[cfg(feature = "classes")]
    fn set_deadline(at: Option<Instant>) -> bool;
    /// Whether that task should give way to an urgent one.
    #[cfg(feature = "classes")]
    fn should_yield() -> bool;
}

/// The worker that calls; none outside of the workers.
pub(crate) type Caller = Option<WorkerId>;

/// A context that waits for a task in sync code.
pub(crate) enum Waiter {
    MustNotWait,
    /// A thread that is no worker.
    Thread(Polls),
    /// A worker, and what unparks it, which holds no reference to a task.
    Worker(Waker, Polls),
}

/// The polls of the calling context, innermost first: of its worker, and those that have left theirs.
pub(crate) struct Polls(pub(crate) [*const Frame; 2]);

impl Polls {
    /// Whether the task is being polled on the calling stack, or on that of a coroutine of this context.
    pub(super) fn contain(&self, task: NonNull<Header>) -> bool {
        self.0.iter().any(|newest| Self::are_of(*newest, task))
    }

    fn are_of(newest: *const Frame, task: NonNull<Header>) -> bool {
        let mut frame = newest;
        // SAFETY: INV-FRAME: none of them ends before the call does.
        while let Some(f) = unsafe { frame.as_ref() } {
            if f.task() == Some(task) {
                return true;
            }
            frame = f.below.get();
        }
        false
    }
}

/// A poll under way on some stack.
///
/// INV-FRAME: a worker's frames are those of the polls under way on its context, each linked to the one that was the newest as it began.
/// A frame stays where it is until `end` has taken it out. On one stack the newest ends first. A coroutine with a stack of its own
/// that is suspended in a poll ends in any order.
pub(crate) struct Frame {
    task: Option<NonNull<Header>>,
    /// The poll is over, and its reference to the task gone: what runs now is a waker of the task that waited for this one.
    gone: Cell<bool>,
    /// The worker has been left in the midst of the poll.
    left: Cell<bool>,
    /// What was given to `leave`.
    outside: Cell<MaybeUninit<Outside>>,
    below: Cell<*const Frame>,
}

/// What a poll that has left its worker puts back at its end.
#[derive(Clone, Copy)]
struct Outside {
    executor: ExecutorRef,
    context: *const (),
    budget: u32,
}

impl Frame {
    #[inline(always)]
    pub(crate) fn new(task: NonNull<Header>, below: *const Frame) -> Self {
        Self { task: Some(task), ..Self::empty(below) }
    }

    /// What runs on top of a poll and is not its task's.
    #[inline(always)]
    pub(crate) fn empty(below: *const Frame) -> Self {
        Self {
            task: None,
            gone: Cell::new(false),
            left: Cell::new(false),
            outside: Cell::new(MaybeUninit::uninit()),
            below: Cell::new(below),
        }
    }

    /// The task, to which the poll holds a reference.
    pub(crate) fn task(&self) -> Option<NonNull<Header>> {
        self.task.filter(|_| !self.gone.get())
    }

    /// Whether no other poll is under way below.
    pub(crate) fn is_outermost(&self) -> bool {
        self.below.get().is_null()
    }

    /// The worker has been left: the poll goes on outside of the workers. `context`: from [`Platform::stay`](crate::Platform::stay).
    /// `budget`: that of the context before. `below`: another such poll of this context, or null.
    pub(crate) fn leave(
        &self,
        executor: ExecutorRef,
        context: *const (),
        budget: u32,
        below: *const Self,
    ) {
        self.left.set(true);
        self.outside.set(MaybeUninit::new(Outside { executor, context, budget }));
        self.below.set(below);
    }

    /// Whether it was.
    #[inline(always)]
    pub(crate) fn has_left(&self) -> bool {
        self.left.get()
    }

    fn outside(&self) -> Option<Outside> {
        // SAFETY: `leave` has set both.
        self.has_left().then(|| unsafe { self.outside.get().assume_init() })
    }

    /// The executor of a poll that has left.
    pub(crate) fn executor(&self) -> Option<ExecutorRef> {
        self.outside().map(|outside| outside.executor)
    }

    /// The context and the budget that were given to `leave`.
    pub(crate) fn before(&self) -> Option<(*const (), u32)> {
        self.outside().map(|outside| (outside.context, outside.budget))
    }

    /// What was given to `leave` as `below`.
    pub(crate) fn below(&self) -> *const Self {
        self.below.get()
    }

    /// The address of the task, which may be gone.
    pub(crate) fn address(&self) -> usize {
        self.task.map_or(0, |task| task.as_ptr().addr())
    }

    /// The poll is over: takes the frame out of those of its worker, of which `newest` is the last. Returns the last one that is left.
    #[inline(always)]
    pub(crate) fn end(&self, newest: &Cell<*const Frame>) -> *const Frame {
        if core::ptr::eq(newest.get(), self) { self.below.get() } else { self.end_below(newest) }
    }

    #[cold]
    #[inline(never)]
    fn end_below(&self, newest: &Cell<*const Frame>) -> *const Frame {
        let mut frame = newest.get();
        // SAFETY: INV-FRAME.
        while let Some(above) = unsafe { frame.as_ref() } {
            frame = above.below.get();
            if core::ptr::eq(frame, self) {
                above.below.set(self.below.get());
                break;
            }
        }
        newest.get()
    }

    /// For `run::poll`.
    pub(crate) fn gone(&self) -> &Cell<bool> {
        &self.gone
    }
}
