//! The waker: one static table for all tasks, with the header as its data.
//!
//! A wake takes no lock, allocates nothing, frees at most a slot onto a lock-free list, runs no user code, and waits
//! for nothing. So it is safe in an interrupt or signal handler, whatever that handler has interrupted.
//!
//! The wake of a complete task does not touch the executor, with one exception: if it drops the last reference, the
//! executor gives the slot back. For a slot of a `Heap` it asks the platform which worker calls, to choose the stack that
//! takes the slot.

use core::{
    mem::ManuallyDrop,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};

#[cfg(feature = "waker-events")]
use super::waker_events::{WakerEvent, tell};
use super::{
    executor_ref::ExecutorRef,
    header::{Header, Ready, Slot},
    state::{Action, Snapshot},
};

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

// INV-WAKER: the data of a waker with `VTABLE` is a header to which the waker holds a reference. If the waker is
// borrowed, its lender holds the reference for as long as it lends the waker.

/// A waker on a reference that the caller keeps for as long as it uses the waker.
#[inline(always)]
pub(crate) fn borrowed(header: NonNull<Header>) -> ManuallyDrop<Waker> {
    // SAFETY: INV-WAKER: the caller keeps its reference. The waker is never dropped, so the count stays right.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(header.as_ptr().cast(), &VTABLE)) })
}

/// The task behind a waker, if it is a waker of this crate.
pub(crate) fn header_of(waker: &Waker) -> Option<NonNull<Header>> {
    #[cfg(feature = "task-dump")]
    let is_ours = core::ptr::eq(waker.vtable(), &VTABLE) || super::dump::is_traced(waker);
    #[cfg(not(feature = "task-dump"))]
    let is_ours = core::ptr::eq(waker.vtable(), &VTABLE);
    if is_ours { NonNull::new(waker.data().cast_mut().cast()) } else { None }
}

/// Does what a transition left to its caller.
///
/// # Safety
/// The action comes from a transition of this header's state that the caller was permitted to make. If the transition
/// consumed the caller's reference, the reference is not used again.
#[inline(always)]
pub(crate) unsafe fn carry_out(action: Action, header: NonNull<Header>) {
    if action != Action::None {
        // SAFETY: as the caller promises.
        unsafe { schedule_or_free(action, header) }
    }
}

/// # Safety
/// As for [`carry_out`].
unsafe fn schedule_or_free(action: Action, header: NonNull<Header>) {
    match action {
        Action::None => {}
        Action::Schedule => {
            // SAFETY: the transition gave us the `Ready`, which keeps the header until it is passed on.
            unsafe { ExecutorRef::of(header).schedule(Ready::from_raw(header)) };
        }
        Action::Free => {
            // SAFETY: that was the last reference, so the slot is ours to give back.
            unsafe { ExecutorRef::of(header).free(Slot::from_raw(header)) };
        }
    }
}

/// # Safety
/// The caller gives up a reference.
pub(crate) unsafe fn drop_ref(header: NonNull<Header>) {
    // SAFETY: the caller's reference keeps the header until the transition.
    unsafe {
        let action = header.as_ref().state.apply(Snapshot::drop_ref);
        carry_out(action, header);
    }
}

/// Drops a reference of a task that is complete.
///
/// # Safety
/// The caller gives it up.
pub(super) unsafe fn drop_complete(header: NonNull<Header>) {
    // SAFETY: the caller's reference keeps the header until the transition. The task is complete, so the action is never `Schedule`.
    unsafe {
        if cfg!(any(target_pointer_width = "32", filch_narrow)) {
            drop_ref(header);
        } else {
            let action = header.as_ref().state.drop_complete();
            debug_assert!(action != Action::Schedule);
            carry_out(action, header);
        }
    }
}

pub(super) fn cast(data: *const ()) -> NonNull<Header> {
    // SAFETY: INV-WAKER: a header is never null.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

pub(super) unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: INV-WAKER.
    #[cfg(feature = "waker-events")]
    unsafe {
        tell(cast(data), WakerEvent::Clone);
    }
    // SAFETY: INV-WAKER.
    unsafe { cast(data).as_ref() }.state.apply(Snapshot::clone_ref);
    RawWaker::new(data, &VTABLE)
}

pub(super) unsafe fn wake(data: *const ()) {
    // SAFETY: INV-WAKER.
    #[cfg(feature = "waker-events")]
    unsafe {
        tell(cast(data), WakerEvent::Wake);
    }
    // SAFETY: INV-WAKER; the waker's reference is given up.
    unsafe {
        if cfg!(any(target_pointer_width = "32", filch_narrow)) {
            // Less code, where that counts.
            wake_task(cast(data));
            drop_ref(cast(data));
        } else {
            let action = cast(data).as_ref().state.apply(Snapshot::wake_by_value);
            carry_out(action, cast(data));
        }
    }
}

pub(super) unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: INV-WAKER.
    #[cfg(feature = "waker-events")]
    unsafe {
        tell(cast(data), WakerEvent::WakeByRef);
    }
    // SAFETY: INV-WAKER.
    unsafe { wake_task(cast(data)) }
}

/// # Safety
/// The caller has a reference.
unsafe fn wake_task(header: NonNull<Header>) {
    // SAFETY: the caller's reference keeps the header.
    unsafe {
        let action = header.as_ref().state.apply(Snapshot::wake);
        carry_out(action, header);
    }
}

pub(super) unsafe fn drop_waker(data: *const ()) {
    // SAFETY: INV-WAKER.
    #[cfg(feature = "waker-events")]
    unsafe {
        tell(cast(data), WakerEvent::Drop);
    }
    // SAFETY: INV-WAKER.
    unsafe { drop_ref(cast(data)) }
}
