//! A task in its slot: the header, the future or its output, and what its spawn said of it.

use core::{cell::Cell, future::Future, mem::ManuallyDrop, pin::Pin, ptr::NonNull, task::Context};

#[cfg(feature = "classes")]
use super::due::Due;
use super::{
    error::JoinError,
    header::{Header, Tag, Vtable},
    join_slot::JoinSlot,
    state::Snapshot,
};
#[cfg(feature = "classes")]
use crate::platform::WorkerSet;
use crate::{atomic::UnsafeCell, platform::WorkerId};

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
        #[cfg(feature = "classes")]
        due: Self::due,
        #[cfg(feature = "classes")]
        workers: Self::workers,
        #[cfg(feature = "type-names")]
        type_name: core::any::type_name::<F>,
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

    /// Makes the built task one that never runs: cancelled and complete. The caller has its only reference, a handle's.
    ///
    /// # Safety
    /// As for `build`, which the caller has called. No other context knows of the task.
    pub(crate) unsafe fn cancel_unscheduled(slot: NonNull<Header>) {
        // SAFETY: INV-TASK-POLL: the future is the caller's to drop, and the error takes its place. If the drop unwinds,
        // the slot is leaked.
        unsafe {
            Self::drop_future(slot);
            Self::fail(slot, JoinError::Cancelled);
            slot.as_ref().state.publish(Snapshot::born_complete());
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
                let output = (&raw const (*stage).output).cast::<Result<F::Output, JoinError>>();
                to.cast::<Result<F::Output, JoinError>>().copy_from_nonoverlapping(output, 1);
            });
        }
    }

    unsafe fn meta(header: NonNull<Header>) -> Tag {
        // SAFETY: the caller holds a reference; `meta` is never written after `build`.
        unsafe { (*header.cast::<Self>().as_ptr()).meta.tag() }
    }

    #[cfg(feature = "classes")]
    unsafe fn due(header: NonNull<Header>) -> Option<NonNull<Due>> {
        // SAFETY: as for `meta`.
        unsafe { (*header.cast::<Self>().as_ptr()).meta.due().map(NonNull::from) }
    }

    #[cfg(feature = "classes")]
    unsafe fn workers(header: NonNull<Header>) -> Option<WorkerSet> {
        // SAFETY: as for `meta`.
        unsafe { (*header.cast::<Self>().as_ptr()).meta.workers() }
    }
}

/// Where a task keeps its [`Tag`]. A task without one takes no memory for it.
pub(crate) trait Meta: 'static {
    /// The state of a new task of this kind.
    fn first_state(&self) -> Snapshot;
    fn tag(&self) -> Tag;
    /// Room for a deadline. INV-DUE.
    #[cfg(feature = "classes")]
    fn due(&self) -> Option<&Due> {
        None
    }
    /// A set of more than one worker that the task has an affinity to.
    #[cfg(feature = "classes")]
    fn workers(&self) -> Option<WorkerSet> {
        None
    }
}

impl Meta for () {
    #[inline(always)]
    fn first_state(&self) -> Snapshot {
        Snapshot::spawned(false)
    }
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
    #[inline(always)]
    fn first_state(&self) -> Snapshot {
        Snapshot::spawned(true)
    }
    fn tag(&self) -> Tag {
        Tag { worker: Some(self.worker), local: self.local, ..Tag::default() }
    }
}

/// What another kind of task has, for one that ends when it is unreachable.
pub(crate) struct Ending<M>(pub(crate) M);

impl<M: Meta> Meta for Ending<M> {
    #[inline(always)]
    fn first_state(&self) -> Snapshot {
        self.0.first_state().ending_unreachable()
    }
    fn tag(&self) -> Tag {
        self.0.tag()
    }
}
