//! The header that every task begins with, and the `Ready` that queues carry.

use core::{
    cell::Cell, fmt, future::Future, mem::ManuallyDrop, panic::Location, pin::Pin, ptr::NonNull,
    task::Context,
};

use super::{
    join::{JoinError, JoinHandle, JoinSlot},
    memory::Slab,
    state::{Snapshot, State},
};
use crate::{
    atomic::{AtomicPtr, UnsafeCell, maybe_const},
    platform::WorkerId,
};

/// The type-erased head of a task: four words.
///
/// Access:
///
/// | field | access |
/// |---|---|
/// | `state` | any context with a reference, or that finds the slot in its slab |
/// | `link` | the holder of the `Ready`; the queue it is in; the free slots of its slab |
/// | `vtable` | written by the spawner before `publish`; read by holders of a reference |
/// | `slab` | written by the slot's first owner; read by holders of a reference and by owners of the slot |
#[repr(C)]
pub(crate) struct Header {
    pub(crate) state: State,
    pub(crate) link: AtomicPtr<Header>,
    vtable: UnsafeCell<Option<&'static Vtable>>,
    slab: UnsafeCell<*const Slab>,
}

const _: () = assert!(
    cfg!(any(filch_loom, filch_shuttle, filch_weakmem)) || size_of::<Header>() <= 32,
    "a header is four words: 32 bytes on 64-bit targets, 16 on 32-bit ones"
);

/// The operations of a type-erased task. Each takes the header of a task of the type that the table was made for.
pub(crate) struct Vtable {
    /// Polls the future. True if it is complete: its output is then in its place. The flag becomes false when the
    /// future is dropped, in case the call unwinds afterwards. INV-TASK-POLL.
    pub(crate) poll: unsafe fn(NonNull<Header>, &mut Context<'_>, &Cell<bool>) -> bool,
    /// Drops the future. INV-TASK-POLL.
    pub(crate) drop_future: unsafe fn(NonNull<Header>),
    /// Writes an error where the future was, after `drop_future`. INV-TASK-POLL.
    pub(crate) fail: unsafe fn(NonNull<Header>, JoinError),
    /// Drops the output. INV-TASK-OUTPUT.
    pub(crate) drop_output: unsafe fn(NonNull<Header>),
    /// Moves the output out. INV-TASK-OUTPUT.
    pub(crate) take_output: unsafe fn(NonNull<Header>, *mut ()),
    /// The properties that the spawn gave the task: name, location, worker.
    pub(crate) meta: unsafe fn(NonNull<Header>) -> Tag,
    /// The offset of the join slot from the header, in bytes.
    pub(crate) join_offset: usize,
}

// INV-TASK-POLL: the caller holds the `Ready` of a live task; no other context touches its stage.
// INV-TASK-OUTPUT: the task is complete, and the output belongs to the caller: to the join handle, or, if the join
// interest was gone before completion, to the holder of the `Ready`.

impl Header {
    maybe_const! {
        /// The header of a free slot.
        pub(crate) fn vacant() -> Self {
            Self {
                state: State::vacant(),
                link: AtomicPtr::new(core::ptr::null_mut()),
                vtable: UnsafeCell::new(None),
                slab: UnsafeCell::new(core::ptr::null()),
            }
        }
    }

    /// Records the slab that the slot is in, and the number of its chunk there. Both hold for ever.
    ///
    /// # Safety
    /// The caller owns the slot, which was never used before.
    pub(crate) unsafe fn init_owner(&self, slab: &'static Slab, chunk: usize) {
        debug_assert!(chunk <= Slab::MAX_CHUNK, "INV-SLAB-CHUNK");
        let tagged = core::ptr::from_ref(slab).map_addr(|address| address | chunk);
        // SAFETY: INV-SLAB-SLOT: the caller owns the slot, and no context has a reference by which to read this.
        self.slab.with_mut(|p| unsafe { *p = tagged });
    }

    /// Records the type of the task that the slot is about to hold.
    ///
    /// # Safety
    /// The caller owns the slot: it was taken, and holds no task yet.
    pub(crate) unsafe fn set_vtable(&self, vtable: &'static Vtable) {
        // SAFETY: INV-SLAB-SLOT: the caller owns the slot, and no context has a reference by which to read this.
        self.vtable.with_mut(|p| unsafe { *p = Some(vtable) });
    }

    /// # Safety
    /// The caller holds a reference to the task.
    #[inline(always)]
    pub(crate) unsafe fn vtable(&self) -> &'static Vtable {
        // SAFETY: `set_vtable` wrote it before the reference existed, and nothing writes it while there is a reference.
        self.vtable.with(|p| unsafe { (*p).unwrap_unchecked() })
    }

    /// # Safety
    /// The caller holds a reference to the task, or owns the slot.
    #[inline(always)]
    pub(crate) unsafe fn slab(&self) -> &'static Slab {
        // SAFETY: `init_owner` wrote it before the slot's first task, and nothing has since. INV-SLAB-CHUNK: the mask
        // removes the number of the chunk.
        self.slab.with(|p| unsafe { &*(*p).map_addr(|address| address & !Slab::MAX_CHUNK) })
    }

    /// The number of the chunk of its slab that the slot is in; 0 in a fixed slab.
    ///
    /// # Safety
    /// As `slab`.
    #[cfg(all(feature = "alloc", target_has_atomic = "64", not(filch_narrow)))]
    #[inline(always)]
    pub(crate) unsafe fn chunk_index(&self) -> usize {
        // SAFETY: as for `slab`.
        self.slab.with(|p| unsafe { (*p).addr() & Slab::MAX_CHUNK })
    }

    /// # Safety
    /// The caller holds a reference to the task of `header`.
    pub(crate) unsafe fn join_slot<'a>(header: NonNull<Header>) -> &'a JoinSlot {
        // SAFETY: the slot's memory is one piece that begins with the header, and the table's offset is that of the
        // task's type.
        unsafe { header.byte_add(header.as_ref().vtable().join_offset).cast().as_ref() }
    }
}

/// The linear token of the scheduler: the right to poll a task, and one reference to it.
///
/// At most one exists for each task. Queues carry nothing else. Dropping one would lose a wake-up, so it panics in
/// debug builds.
#[must_use = "a Ready that is dropped is a lost wake-up"]
pub(crate) struct Ready(NonNull<Header>);

// SAFETY: a `Ready` owns its task's next poll. A task that must not move between threads is pinned, and the scheduler
// polls it on its worker only.
unsafe impl Send for Ready {}

impl Ready {
    /// # Safety
    /// A transition gave the caller the task's `Ready` (`Action::Schedule`, `AfterPending::Again`, a new task), or the pointer
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

    /// Whether the task's future must stay in its worker's context.
    pub(crate) fn is_local(&self) -> bool {
        self.header().state.load().is_pinned() && self.tag().local
    }

    /// The worker that the task is pinned to, if it is pinned.
    #[inline]
    pub(crate) fn pin(&self) -> Option<WorkerId> {
        if self.header().state.load().is_pinned() { self.tag().worker } else { None }
    }

    #[inline]
    fn tag(&self) -> Tag {
        // SAFETY: a `Ready` holds a reference, and the table is that of the task's type.
        unsafe { (self.header().vtable().meta)(self.0) }
    }
}

#[cfg(debug_assertions)]
impl Drop for Ready {
    fn drop(&mut self) {
        panic!("a Ready was lost: its task will never run again");
    }
}

/// Properties that a spawn gave its task.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tag {
    pub(crate) name: Option<&'static str>,
    pub(crate) location: Option<&'static Location<'static>>,
    pub(crate) worker: Option<WorkerId>,
    pub(crate) local: bool,
}

/// Where a task keeps its [`Tag`]. A task without one takes no memory for it.
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

/// The tag of a pinned task without a name. A local task's future is not `Send`, and is dropped when its worker goes
/// offline.
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

/// The tag of a task with a name. `PINNED` says whether the task is pinned to the tag's worker.
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

    /// Builds the task in a slot, except for the state.
    ///
    /// # Safety
    /// The caller owns the slot, which is large enough, aligned, and has a valid header.
    pub(crate) unsafe fn build(slot: NonNull<Header>, future: F, meta: M) {
        let task = slot.cast::<Self>().as_ptr();
        // SAFETY: INV-SLAB-SLOT: the slot is the caller's, and the task fits. The header is kept, since other contexts
        // may read its state.
        unsafe {
            (&raw mut (*task).join).write(JoinSlot::new());
            (&raw mut (*task).stage)
                .write(UnsafeCell::new(Stage { future: ManuallyDrop::new(future) }));
            (&raw mut (*task).meta).write(meta);
            slot.as_ref().set_vtable(Self::VTABLE);
        }
    }

    /// The state of a new task of this kind.
    pub(crate) fn first_state() -> Snapshot {
        Snapshot::spawned(M::PINNED)
    }

    /// Makes the built task one that never runs: cancelled and complete, with a handle.
    ///
    /// # Safety
    /// As for `build`, which the caller has called. No other context knows of the task.
    pub(crate) unsafe fn cancel_unscheduled(slot: NonNull<Header>) -> JoinHandle<F::Output> {
        // SAFETY: INV-TASK-POLL: the future is the caller's to drop, and the error takes its place. The handle's
        // reference is the only one. If the drop unwinds, the slot is leaked.
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
                    // SAFETY: INV-TASK-POLL. If the drop of the future unwinds, this frame drops the output, and the
                    // worker writes an error in its place.
                    unsafe {
                        ManuallyDrop::drop(&mut (*stage).future);
                        (&raw mut (*stage).output).write(ManuallyDrop::new(Ok(output)));
                    }
                    true
                }
            }
        };
        // SAFETY: INV-TASK-POLL: only the caller uses the stage, and the task is of this type.
        unsafe { Self::stage(header, poll) }
    }

    unsafe fn drop_future(header: NonNull<Header>) {
        // SAFETY: INV-TASK-POLL: the future is there until this call, and is not used after it.
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
/// It costs nothing: nothing is stored. An id may be used again once the task is complete and no reference to it is
/// left.
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

/// What is known of a task, for finding one that is stuck.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TaskInfo {
    /// The task's id.
    pub id: TaskId,
    /// The task's name, if its spawn gave one.
    pub name: Option<&'static str>,
    /// Where the task was spawned, if its spawn gave a name.
    pub location: Option<&'static Location<'static>>,
    /// The worker that the task is pinned to.
    pub worker: Option<WorkerId>,
    /// Whether the task is queued or being polled. If not, it waits for a wake.
    pub scheduled: bool,
    /// Whether the task was asked to end.
    pub cancelled: bool,
    /// How many [`shield`](crate::shield)s the task holds.
    pub shields: usize,
    /// References: the handle's, the wakers', the queue's.
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
