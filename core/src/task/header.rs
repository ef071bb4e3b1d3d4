//! The header that every task begins with, and the `Ready` that queues carry.

use core::{
    cell::Cell, fmt, future::Future, mem::ManuallyDrop, panic::Location, pin::Pin, ptr::NonNull,
    task::Context,
};

use super::{
    join::{JoinError, JoinHandle, JoinSlot},
    memory::Home,
    state::{Snapshot, State},
};
use crate::{
    atomic::{AtomicPtr, UnsafeCell, maybe_const},
    platform::WorkerId,
};

/// The type-erased head of a task: four words.
///
/// Who may touch what:
///
/// | field | access |
/// |---|---|
/// | `state` | anybody with a reference, and whoever finds the slot in its memory |
/// | `link` | the holder of the `Ready`; the queue it is in; the free slots of its home |
/// | `vtable` | written by the spawner before `publish`; read by holders of a reference |
/// | `home` | written by whoever takes the slot for the first time; read by holders of a reference and owners of the slot |
#[repr(C)]
pub(crate) struct Header {
    pub(crate) state: State,
    pub(crate) link: AtomicPtr<Header>,
    vtable: UnsafeCell<Option<&'static Vtable>>,
    home: UnsafeCell<*const Home>,
}

const _: () = assert!(
    cfg!(any(filch_loom, filch_shuttle, filch_weakmem)) || size_of::<Header>() <= 32,
    "a header is four words: 32 bytes on 64-bit targets, 16 on 32-bit ones"
);

/// What a type-erased task can do. All take a header whose task has the type that the table was made for.
pub(crate) struct Vtable {
    /// Polls the future; true if it is done, its output in its place. The flag turns false when the future is gone,
    /// should the call unwind. INV-TASK-POLL.
    pub(crate) poll: unsafe fn(NonNull<Header>, &mut Context<'_>, &Cell<bool>) -> bool,
    /// Drops the future. INV-TASK-POLL.
    pub(crate) drop_future: unsafe fn(NonNull<Header>),
    /// Writes an error in place of the future that `drop_future` dropped. INV-TASK-POLL.
    pub(crate) fail: unsafe fn(NonNull<Header>, JoinError),
    /// Drops the output. INV-TASK-OUTPUT.
    pub(crate) drop_output: unsafe fn(NonNull<Header>),
    /// Moves the output out. INV-TASK-OUTPUT.
    pub(crate) take_output: unsafe fn(NonNull<Header>, *mut ()),
    /// What is known of the task beyond its header.
    pub(crate) meta: unsafe fn(NonNull<Header>) -> Tag,
    /// Where the join slot is, in bytes from the header.
    pub(crate) join_offset: usize,
}

// INV-TASK-POLL: the caller holds the `Ready` of a live task; nobody else touches its stage.
// INV-TASK-OUTPUT: the task is complete and the caller is the one to whom its output belongs: the join handle, or, if
// the join interest was gone before completion, the holder of the `Ready`.

impl Header {
    maybe_const! {
        /// The header of a free slot.
        pub(crate) fn vacant() -> Self {
            Self {
                state: State::vacant(),
                link: AtomicPtr::new(core::ptr::null_mut()),
                vtable: UnsafeCell::new(None),
                home: UnsafeCell::new(core::ptr::null()),
            }
        }
    }

    /// Says whose the slot is, for ever: its home, and in which part of it.
    ///
    /// # Safety
    /// The caller owns the slot, which nobody has used before.
    pub(crate) unsafe fn settle(&self, home: &'static Home, part: usize) {
        debug_assert!(part <= Home::PARTS, "INV-HOME-PART");
        let tagged = core::ptr::from_ref(home).map_addr(|address| address | part);
        // SAFETY: INV-HOME-SLOT: the caller owns the slot, and nobody has a reference by which to read this.
        self.home.with_mut(|p| unsafe { *p = tagged });
    }

    /// Says what the slot now holds.
    ///
    /// # Safety
    /// The caller owns the slot: it was taken, and holds no task yet.
    pub(crate) unsafe fn describe(&self, vtable: &'static Vtable) {
        // SAFETY: INV-HOME-SLOT: the caller owns the slot, and nobody has a reference by which to read this.
        self.vtable.with_mut(|p| unsafe { *p = Some(vtable) });
    }

    /// # Safety
    /// The caller holds a reference to the task.
    #[inline(always)]
    pub(crate) unsafe fn vtable(&self) -> &'static Vtable {
        // SAFETY: `describe` wrote it before the reference could be had, and nobody writes it while there is one.
        self.vtable.with(|p| unsafe { (*p).unwrap_unchecked() })
    }

    /// # Safety
    /// The caller holds a reference to the task, or owns the slot.
    #[inline(always)]
    pub(crate) unsafe fn home(&self) -> &'static Home {
        // SAFETY: `settle` wrote it before the slot's first task, and nobody since. INV-HOME-PART: the mask takes the part out.
        self.home.with(|p| unsafe { &*(*p).map_addr(|address| address & !Home::PARTS) })
    }

    /// Which part of its home the slot is in.
    ///
    /// # Safety
    /// As `home`.
    #[cfg(all(feature = "alloc", target_has_atomic = "64", not(filch_narrow)))]
    #[inline(always)]
    pub(crate) unsafe fn part(&self) -> usize {
        // SAFETY: as for `home`.
        self.home.with(|p| unsafe { (*p).addr() & Home::PARTS })
    }

    /// # Safety
    /// The caller holds a reference to the task of `header`.
    pub(crate) unsafe fn join_slot<'a>(header: NonNull<Header>) -> &'a JoinSlot {
        // SAFETY: the task's slot is in one piece with its header, and the table's offset is that of its type.
        unsafe { header.byte_add(header.as_ref().vtable().join_offset).cast().as_ref() }
    }
}

/// The linear token of the scheduler: the right to poll a task, and one reference to it.
///
/// At most one exists per task. It is the only thing that queues carry; dropping one would lose a wake-up, so that in
/// debug builds it panics.
#[must_use = "a Ready that is dropped is a lost wake-up"]
pub(crate) struct Ready(NonNull<Header>);

// SAFETY: a `Ready` owns its task's next poll; tasks that must not move between threads are pinned, and the scheduler
// polls those on their worker only.
unsafe impl Send for Ready {}

impl Ready {
    /// # Safety
    /// A transition gave the caller the task's `Ready` (`Act::Schedule`, `Pend::Again`, a new task), or the pointer
    /// comes from `into_raw`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(header: NonNull<Header>) -> Self {
        Self(header)
    }

    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> NonNull<Header> {
        self.0
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: a `Ready` holds a reference.
        unsafe { self.0.as_ref() }
    }

    /// Whether the task's future must not leave its worker's context.
    pub(crate) fn is_local(&self) -> bool {
        self.header().state.load().is_pinned() && self.tag().local
    }

    /// The worker that the task is pinned to.
    #[inline]
    pub(crate) fn pin(&self) -> Option<WorkerId> {
        if self.header().state.load().is_pinned() { self.tag().worker } else { None }
    }

    #[inline]
    fn tag(&self) -> Tag {
        // SAFETY: a `Ready` holds a reference, and the table is the task's own.
        unsafe { (self.header().vtable().meta)(self.0) }
    }
}

#[cfg(debug_assertions)]
impl Drop for Ready {
    fn drop(&mut self) {
        panic!("a Ready was lost: its task will never run again");
    }
}

/// What a spawn may say of its task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tag {
    pub(crate) name: Option<&'static str>,
    pub(crate) location: Option<&'static Location<'static>>,
    pub(crate) worker: Option<WorkerId>,
    pub(crate) local: bool,
}

/// Where a task keeps its [`Tag`]: nowhere at all for a task that has none.
pub(crate) trait Meta: 'static {
    const PINNED: bool;
    fn tag(&self) -> Tag;
}

impl Meta for () {
    const PINNED: bool = false;
    fn tag(&self) -> Tag {
        Tag::default()
    }
}

/// A pinned task without a name. A local one, whose future is not `Send`, ends when its worker goes offline.
pub(crate) struct Pinned {
    pub(crate) worker: WorkerId,
    pub(crate) local: bool,
}

impl Meta for Pinned {
    const PINNED: bool = true;
    fn tag(&self) -> Tag {
        Tag { worker: Some(self.worker), local: self.local, ..Tag::default() }
    }
}

/// A task with a name; `PINNED` says whether its worker counts.
pub(crate) struct Named<const PINNED: bool>(pub(crate) Tag);

impl<const PINNED: bool> Meta for Named<PINNED> {
    const PINNED: bool = PINNED;
    fn tag(&self) -> Tag {
        self.0
    }
}

/// A task in its slot.
#[repr(C)]
pub(crate) struct Task<F: Future, M> {
    header: Header,
    join: JoinSlot,
    stage: UnsafeCell<Stage<F>>,
    meta: M,
}

/// The future until the task is complete, then its output.
union Stage<F: Future> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<Result<F::Output, JoinError>>,
}

impl<F: Future, M: Meta> Task<F, M> {
    const VTABLE: &'static Vtable = &Vtable {
        poll: Self::poll,
        drop_future: Self::drop_future,
        fail: Self::fail,
        drop_output: Self::drop_output,
        take_output: Self::take_output,
        meta: Self::meta,
        join_offset: core::mem::offset_of!(Self, join),
    };

    /// Builds the task in a slot, all but the state.
    ///
    /// # Safety
    /// The caller owns the slot, which is large enough and aligned, and whose header is valid.
    pub(crate) unsafe fn build(slot: NonNull<Header>, future: F, meta: M) {
        let task = slot.cast::<Self>().as_ptr();
        // SAFETY: INV-HOME-SLOT: the slot is the caller's, with room for the task. The header stays as it is, since others may
        // look at its state.
        unsafe {
            (&raw mut (*task).join).write(JoinSlot::new());
            (&raw mut (*task).stage)
                .write(UnsafeCell::new(Stage { future: ManuallyDrop::new(future) }));
            (&raw mut (*task).meta).write(meta);
            slot.as_ref().describe(Self::VTABLE);
        }
    }

    /// The state in which the task begins.
    pub(crate) fn first_state() -> Snapshot {
        Snapshot::spawned(M::PINNED)
    }

    /// A task that never runs: cancelled and complete, with a handle.
    ///
    /// # Safety
    /// As `build`, which came before; nobody else knows of the task.
    pub(crate) unsafe fn cancel_unscheduled(slot: NonNull<Header>) -> JoinHandle<F::Output> {
        // SAFETY: the future is the caller's to drop (INV-TASK-POLL), and the error takes its place. The handle's is
        // the only reference. If the drop unwinds, the slot is leaked, no more.
        unsafe {
            Self::drop_future(slot);
            Self::fail(slot, JoinError::Cancelled);
            slot.as_ref().state.publish(Snapshot::born_complete());
            JoinHandle::new(slot)
        }
    }

    unsafe fn stage<R>(header: NonNull<Header>, f: impl FnOnce(*mut Stage<F>) -> R) -> R {
        // SAFETY: the header is that of a `Task<F, M>`, since it came with this type's table.
        unsafe { (*header.cast::<Self>().as_ptr()).stage.with_mut(f) }
    }

    unsafe fn poll(header: NonNull<Header>, cx: &mut Context<'_>, alive: &Cell<bool>) -> bool {
        let poll = |stage: *mut Stage<F>| {
            // SAFETY: INV-TASK-POLL; the future is never moved until it is dropped.
            let future = unsafe { Pin::new_unchecked(&mut *(*stage).future) };
            match future.poll(cx) {
                core::task::Poll::Pending => false,
                core::task::Poll::Ready(output) => {
                    alive.set(false);
                    // SAFETY: INV-TASK-POLL. If the drop unwinds, the output is dropped with this frame, and the
                    // worker writes the error in its place.
                    unsafe {
                        ManuallyDrop::drop(&mut (*stage).future);
                        (&raw mut (*stage).output).write(ManuallyDrop::new(Ok(output)));
                    }
                    true
                }
            }
        };
        // SAFETY: INV-TASK-POLL: the caller has the stage to itself, of a task of this type.
        unsafe { Self::stage(header, poll) }
    }

    unsafe fn drop_future(header: NonNull<Header>) {
        // SAFETY: INV-TASK-POLL: the future is there until this call, and nobody uses it any more.
        unsafe { Self::stage(header, |stage| ManuallyDrop::drop(&mut (*stage).future)) }
    }

    unsafe fn fail(header: NonNull<Header>, error: JoinError) {
        // SAFETY: INV-TASK-POLL; the future is gone.
        unsafe {
            Self::stage(header, |stage| {
                (&raw mut (*stage).output).write(ManuallyDrop::new(Err(error)));
            });
        }
    }

    unsafe fn drop_output(header: NonNull<Header>) {
        // SAFETY: INV-TASK-OUTPUT: the output is there, and the caller's to drop.
        unsafe { Self::stage(header, |stage| ManuallyDrop::drop(&mut (*stage).output)) }
    }

    unsafe fn take_output(header: NonNull<Header>, to: *mut ()) {
        // SAFETY: INV-TASK-OUTPUT; `to` points to room for one, as the caller knows the output's type.
        unsafe {
            Self::stage(header, |stage| {
                to.cast::<Result<F::Output, JoinError>>()
                    .write(ManuallyDrop::take(&mut (*stage).output));
            });
        }
    }

    unsafe fn meta(header: NonNull<Header>) -> Tag {
        // SAFETY: the caller holds a reference; `meta` is never written after `build`.
        unsafe { (*header.cast::<Self>().as_ptr()).meta.tag() }
    }
}

/// A task's identity: the address of its header, unique among the tasks whose handle or waker is alive.
///
/// Free of cost: nothing is stored. An id may be used again once the task is complete and nobody refers to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(usize);

impl TaskId {
    pub(crate) fn of(header: NonNull<Header>) -> Self {
        Self(header.as_ptr().addr())
    }

    /// The id as a number.
    pub const fn get(self) -> usize {
        self.0
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {:#x}", self.0)
    }
}

/// What is known of a task, for a person who looks for a stuck one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TaskInfo {
    /// Which task.
    pub id: TaskId,
    /// Its name, if its spawn gave one.
    pub name: Option<&'static str>,
    /// Where it was spawned, if its spawn gave a name.
    pub location: Option<&'static Location<'static>>,
    /// The worker it is pinned to.
    pub worker: Option<WorkerId>,
    /// It is queued or being polled; else it waits to be woken.
    pub scheduled: bool,
    /// It was asked to end.
    pub cancelled: bool,
    /// `shield`s that it holds.
    pub shields: usize,
    /// References: handle, wakers, queue.
    pub references: usize,
}

impl TaskInfo {
    /// # Safety
    /// The caller holds a reference.
    pub(crate) unsafe fn of(header: NonNull<Header>) -> Self {
        // SAFETY: the caller's reference.
        let (state, tag) = unsafe {
            let h = header.as_ref();
            (h.state.load(), (h.vtable().meta)(header))
        };
        Self {
            id: TaskId::of(header),
            name: tag.name,
            location: tag.location,
            worker: tag.worker,
            scheduled: state.wakes() > 0,
            cancelled: state.is_cancelled(),
            shields: state.shield() as usize,
            references: state.refs() as usize,
        }
    }
}
