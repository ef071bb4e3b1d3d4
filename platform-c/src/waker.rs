//! Wakers, by value and without a heap.

use core::{
    ffi::c_void,
    mem::ManuallyDrop,
    ptr::null,
    task::{RawWakerVTable, Waker},
};

use crate::{
    filch_status::{self, *},
    status::attempt,
};

/// Wakes one task. A `poll` gets one that it may use until it returns; to keep it, it makes a clone. A clone is woken or dropped
/// once. A waker that was, is empty; all zeros are an empty waker too.
///
/// To copy the struct is to move the waker: the old copy is not used again. That, and the use of a clone after it was dropped by
/// another copy, is undefined behaviour, which the library cannot see.
#[repr(C)]
#[derive(Debug)]
pub struct filch_waker {
    data: *const c_void,
    table: *const c_void,
}

impl filch_waker {
    /// The same waker, which the result does not own.
    pub(crate) fn lend(waker: &Waker) -> Self {
        let table: *const RawWakerVTable = waker.vtable();
        Self { data: waker.data().cast(), table: table.cast() }
    }

    /// # Safety
    /// `this` is null, or points to a waker that is alive or empty.
    pub(crate) unsafe fn borrow(this: *const Self) -> Result<ManuallyDrop<Waker>, filch_status> {
        // SAFETY: the caller's.
        let this = unsafe { this.as_ref() }.ok_or(FILCH_ENULL)?;
        // SAFETY: only `lend` writes tables that are not null.
        let table = unsafe { this.table.cast::<RawWakerVTable>().as_ref() }.ok_or(FILCH_EINIT)?;
        // SAFETY: the parts are those of a waker, which the result does not drop.
        Ok(ManuallyDrop::new(unsafe { Waker::new(this.data.cast(), table) }))
    }

    /// Takes the waker out, and leaves an empty one.
    ///
    /// # Safety
    /// As `borrow`; and the caller owns the waker.
    unsafe fn take(this: *mut Self) -> Result<Waker, filch_status> {
        // SAFETY: the caller's.
        let waker = unsafe { Self::borrow(this)? };
        // SAFETY: `borrow` has seen that it is not null.
        unsafe { *this = Self { data: null(), table: null() } };
        Ok(ManuallyDrop::into_inner(waker))
    }
}

/// Makes `*clone` a second waker of the same task, to be woken or dropped later. From any context.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT (`waker` is empty).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_waker_clone(
    waker: *const filch_waker,
    clone: *mut filch_waker,
) -> filch_status {
    attempt(|| {
        if clone.is_null() {
            return Err(FILCH_ENULL);
        }
        // SAFETY: the caller's.
        let copy = ManuallyDrop::new((*unsafe { filch_waker::borrow(waker)? }).clone());
        // SAFETY: the caller's.
        unsafe { clone.write(filch_waker::lend(&copy)) };
        Ok(FILCH_OK)
    })
}

/// Wakes the task, and leaves the waker as it is. From any context: interrupt handlers, other cores, other threads.
///
/// FILCH_OK, also if the task has ended; FILCH_ENULL, FILCH_EINIT (empty).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_waker_wake_by_ref(waker: *const filch_waker) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { filch_waker::borrow(waker)? }.wake_by_ref();
        Ok(FILCH_OK)
    })
}

/// Wakes the task and drops the clone, which is empty then. From any context.
///
/// FILCH_OK, also if the task has ended; FILCH_ENULL, FILCH_EINIT (empty).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_waker_wake(waker: *mut filch_waker) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        unsafe { filch_waker::take(waker)? }.wake();
        Ok(FILCH_OK)
    })
}

/// Drops the clone, which is empty then. From any context. A detached task without any waker left is cancelled.
///
/// FILCH_OK; FILCH_ENULL, FILCH_EINIT (empty).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn filch_waker_drop(waker: *mut filch_waker) -> filch_status {
    attempt(|| {
        // SAFETY: the caller's.
        drop(unsafe { filch_waker::take(waker)? });
        Ok(FILCH_OK)
    })
}
