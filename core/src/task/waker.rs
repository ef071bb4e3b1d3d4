//! The waker: one static table for all tasks, the header as data.
//!
//! `wake` takes no lock, allocates and frees nothing but a slot onto a lock-free stack, runs no user code and
//! waits for nobody, so that it is safe in an interrupt or signal handler, whatever that handler interrupted.
//!
//! The wake of a task that is complete does not touch its executor, unless it drops the last reference to a task of a `Heap`: then
//! the platform is asked which worker calls, for the stack that the slot goes to.

use core::{
    mem::ManuallyDrop,
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};

use super::{
    header::{Header, Ready},
    schedule::Anchor,
    state::{Act, Snapshot},
};

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

// INV-WAKER: the data of a waker with `VTABLE` is a header to which the waker holds a reference (a borrowed one: the
// borrower does, for as long as it lends it).

/// The waker of a task whose reference the caller lends for as long as it is used.
#[inline(always)]
pub(crate) fn borrowed(header: NonNull<Header>) -> ManuallyDrop<Waker> {
    // SAFETY: INV-WAKER, as the caller keeps its reference; never dropped, so the count stays right.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(header.as_ptr().cast(), &VTABLE)) })
}

/// The task behind a waker, if it is one of ours.
pub(crate) fn header_of(waker: &Waker) -> Option<NonNull<Header>> {
    if core::ptr::eq(waker.vtable(), &VTABLE) {
        NonNull::new(waker.data().cast_mut().cast())
    } else {
        None
    }
}

/// Carries out what a transition left to do.
///
/// # Safety
/// The act comes from a transition of this header's state that the caller was entitled to; the caller's reference, if
/// the transition consumed one, is not used again.
#[inline(always)]
pub(crate) unsafe fn carry_out(act: Act, header: NonNull<Header>) {
    if act != Act::None {
        // SAFETY: the caller's.
        unsafe { schedule_or_free(act, header) }
    }
}

/// # Safety
/// As for [`carry_out`].
unsafe fn schedule_or_free(act: Act, header: NonNull<Header>) {
    match act {
        Act::None => {}
        Act::Schedule => {
            // SAFETY: the transition gave us the `Ready`, which keeps the header until it is handed over.
            unsafe {
                let anchor = header.as_ref().home().anchor();
                (Anchor::ops(anchor).schedule)(anchor, Ready::from_raw(header));
            }
        }
        Act::Free => {
            // SAFETY: it was the last reference: the slot is ours to give back.
            unsafe { header.as_ref().home().give(header) };
        }
    }
}

/// # Safety
/// The caller gives up a reference.
pub(crate) unsafe fn drop_ref(header: NonNull<Header>) {
    // SAFETY: the caller's reference keeps the header until the transition.
    unsafe {
        let act = header.as_ref().state.apply(Snapshot::drop_ref);
        carry_out(act, header);
    }
}

fn cast(data: *const ()) -> NonNull<Header> {
    // SAFETY: INV-WAKER: a header is never null.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: INV-WAKER.
    unsafe { cast(data).as_ref() }.state.apply(Snapshot::clone_ref);
    RawWaker::new(data, &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: INV-WAKER; the waker's reference goes with the transition.
    unsafe {
        let act = cast(data).as_ref().state.apply(Snapshot::wake_by_value);
        carry_out(act, cast(data));
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: INV-WAKER.
    unsafe {
        let act = cast(data).as_ref().state.apply(Snapshot::wake);
        carry_out(act, cast(data));
    }
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: INV-WAKER.
    unsafe { drop_ref(cast(data)) }
}
