//! The header that every task begins with, the `Ready` that queues carry, and the `Slot` that holds no task.

use core::{cell::Cell, mem::ManuallyDrop, panic::Location, ptr::NonNull, task::Context};

#[cfg(feature = "classes")]
use super::due::Due;
use super::{error::JoinError, join_slot::JoinSlot, owner::Owner, state::State};
#[cfg(feature = "waker-events")]
use crate::atomic::Mark;
use crate::{
    atomic::{AtomicPtr, UnsafeCell, maybe_const},
    class::Class,
    instant::Instant,
    parts::{Parts, Switch},
    platform::{WorkerId, WorkerSet},
};

/// The type-erased head of a task: four words, with the feature `waker-events` five.
///
/// Access:
///
/// | field | access |
/// |---|---|
/// | `state` | any context with a reference, or that finds the slot in its slab |
/// | `link` | the holder of the `Ready`; the queue it is in; the free slots of its slab |
/// | `vtable` | written by the spawner before `publish`; read by holders of a reference |
/// | `owner` | written by the context that takes the slot first; read by holders of a reference, and by the slot's holder |
/// | `mark` | as `vtable`; and written in polls |
#[repr(C)]
pub(crate) struct Header {
    pub(crate) state: State,
    pub(crate) link: AtomicPtr<Header>,
    vtable: UnsafeCell<Option<&'static Vtable>>,
    owner: UnsafeCell<*mut Owner>,
    #[cfg(feature = "waker-events")]
    pub(super) mark: Mark,
}

const _: () = assert!(
    cfg!(any(filch_loom, filch_shuttle, filch_weakmem))
        || size_of::<Header>() <= 32 + if cfg!(feature = "waker-events") { 8 } else { 0 },
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
    /// The task's deadline, if it has room for one.
    #[cfg(feature = "classes")]
    pub(crate) due: unsafe fn(NonNull<Header>) -> Option<NonNull<Due>>,
    /// The workers that the task has an affinity to, if there are more than one.
    #[cfg(feature = "classes")]
    pub(crate) workers: unsafe fn(NonNull<Header>) -> Option<WorkerSet>,
    /// The name of the future's type.
    #[cfg(feature = "type-names")]
    pub(crate) type_name: fn() -> &'static str,
    /// The offset of the join slot from the header, in bytes.
    pub(crate) join_offset: usize,
}

impl Vtable {
    /// The name of the future's type, with the feature `type-names`.
    #[inline(always)]
    pub(crate) fn type_name(&self) -> Option<&'static str> {
        #[cfg(feature = "type-names")]
        return Some((self.type_name)());
        #[cfg(not(feature = "type-names"))]
        None
    }
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
                owner: UnsafeCell::new(core::ptr::null_mut()),
                #[cfg(feature = "waker-events")]
                mark: Mark::none(),
            }
        }
    }

    /// Records the slab that the slot is in, and the number of its chunk there. Both hold for ever.
    ///
    /// # Safety
    /// The caller owns the slot, which was never used before. INV-OWNER; INV-SLAB-CHUNK.
    pub(crate) unsafe fn init_owner(&self, owner: NonNull<Owner>, chunk: usize) {
        debug_assert!(chunk <= Owner::MAX_CHUNK, "INV-SLAB-CHUNK");
        let tagged = owner.as_ptr().map_addr(|address| address | chunk);
        // SAFETY: INV-SLAB-SLOT: the caller owns the slot, and no context has a reference by which to read this.
        self.owner.with_mut(|p| unsafe { *p = tagged });
    }

    /// Records the type of the task that the slot is about to hold.
    ///
    /// # Safety
    /// The caller owns the slot: it was taken, and holds no task yet.
    pub(crate) unsafe fn set_vtable(&self, vtable: &'static Vtable) {
        // SAFETY: INV-SLAB-SLOT: the caller owns the slot, and no context has a reference by which to read this.
        self.vtable.with_mut(|p| unsafe { *p = Some(vtable) });
        #[cfg(feature = "waker-events")]
        self.mark.set(None);
    }

    /// # Safety
    /// The caller holds a reference to the task.
    #[inline(always)]
    pub(crate) unsafe fn vtable(&self) -> &'static Vtable {
        // SAFETY: `set_vtable` wrote it before the reference existed, and nothing writes it while there is a reference.
        self.vtable.with(|p| unsafe { (*p).unwrap_unchecked() })
    }

    /// The slab that the slot is in: INV-OWNER.
    ///
    /// # Safety
    /// The caller holds a reference to the task, or owns the slot, which was used before.
    #[inline(always)]
    pub(crate) unsafe fn owner(&self) -> NonNull<Owner> {
        // SAFETY: `init_owner` wrote it before the slot's first task, and nothing has since. INV-SLAB-CHUNK: the mask
        // removes the number of the chunk.
        self.owner.with(|p| unsafe {
            NonNull::new_unchecked((*p).map_addr(|address| address & !Owner::MAX_CHUNK))
        })
    }

    /// The number of the chunk of its slab that the slot is in; 0 in a fixed slab.
    ///
    /// # Safety
    /// As `owner`.
    #[cfg(all(feature = "alloc", target_has_atomic = "64", not(filch_narrow)))]
    #[inline(always)]
    pub(crate) unsafe fn chunk_index(&self) -> usize {
        // SAFETY: as for `owner`.
        self.owner.with(|p| unsafe { (*p).addr() & Owner::MAX_CHUNK })
    }

    /// The worker that the task is pinned to, if it is pinned.
    ///
    /// # Safety
    /// The caller holds a reference to the task of `header`.
    #[inline]
    pub(crate) unsafe fn pin(header: NonNull<Header>) -> Option<WorkerId> {
        // SAFETY: the caller's reference, and the table is that of the task's type.
        unsafe {
            let task = header.as_ref();
            task.state.load().is_bound().then(|| (task.vtable().meta)(header).worker).flatten()
        }
    }

    /// # Safety
    /// The caller holds a reference to the task of `header`.
    pub(crate) unsafe fn join_slot<'a>(header: NonNull<Header>) -> &'a JoinSlot {
        // SAFETY: the slot's memory is one piece that begins with the header, and the table's offset is that of the
        // task's type.
        unsafe { header.byte_add(header.as_ref().vtable().join_offset).cast().as_ref() }
    }
}

/// A slot that holds no task. Its holder owns the slot (INV-SLAB-SLOT).
#[must_use = "a Slot that is dropped is never used again"]
#[derive(Debug)]
pub struct Slot(NonNull<Header>);

impl Slot {
    /// # Safety
    /// The caller owns the slot, whose state says that there is no task, and passes it on.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(header: NonNull<Header>) -> Self {
        Self(header)
    }

    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<Header> {
        self.0
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
        self.header().state.load().is_bound() && self.tag().local
    }

    /// The worker that the task is pinned to, if it is pinned.
    #[inline]
    pub(crate) fn pin(&self) -> Option<WorkerId> {
        // SAFETY: a `Ready` holds a reference.
        unsafe { Header::pin(self.0) }
    }

    /// The worker that stays for it: the one that it is pinned to, or the first of the set that it has an affinity to. And whether its
    /// future must stay in that worker's context.
    #[inline]
    pub(crate) fn holder(&self) -> Option<(WorkerId, bool)> {
        if !self.header().state.load().is_bound() {
            return None;
        }
        let Tag { worker, local, .. } = self.tag();
        Some((worker.or_else(|| Some(self.workers()?.first()))?, local))
    }

    /// Whether it goes elsewhere than most tasks: it is bound to workers (pinned, or with an affinity), or has a class.
    #[inline(always)]
    pub(crate) fn is_special<F: Parts>(&self) -> bool {
        self.header().state.load().is_special(F::Cores::ON, F::Classes::ON)
    }

    /// The class by which it is queued.
    #[inline]
    pub(crate) fn class(&self) -> Class {
        self.header().state.load().class()
    }

    /// The workers that the task has an affinity to, if it has an affinity to a set.
    #[inline]
    pub(crate) fn workers(&self) -> Option<WorkerSet> {
        #[cfg(feature = "classes")]
        if self.header().state.load().is_bound() {
            // SAFETY: a `Ready` holds a reference, and the table is that of the task's type.
            return unsafe { (self.header().vtable().workers)(self.0) };
        }
        None
    }

    /// Its deadline, or `Instant::MAX`.
    pub(crate) fn deadline(&self) -> Instant {
        #[cfg(feature = "classes")]
        if let Some(at) = self.due().and_then(Due::at) {
            return at;
        }
        Instant::MAX
    }

    /// Its place among others, if it has room for one; else zero.
    pub(crate) fn ticket(&self) -> u64 {
        #[cfg(feature = "classes")]
        if let Some(due) = self.due() {
            return due.ticket.get();
        }
        0
    }

    /// Gives it a place among others, if it has room for one.
    pub(crate) fn set_ticket(&self, ticket: u64) {
        #[cfg(feature = "classes")]
        if let Some(due) = self.due() {
            due.ticket.set(ticket);
        }
        let _ = ticket;
    }

    /// Its deadline, and its place among others with deadlines, if it has room for one.
    #[cfg(feature = "classes")]
    pub(crate) fn due(&self) -> Option<&Due> {
        // SAFETY: a `Ready` holds a reference, and the table is that of the task's type. INV-DUE: the room is the task's own.
        unsafe { (self.header().vtable().due)(self.0).map(|due| due.as_ref()) }
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
    pub(crate) ends_unreachable: bool,
}
