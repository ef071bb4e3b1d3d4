//! Panics in tasks: contained, carried through the core, and taken out again.

use std::{
    panic,
    sync::{Mutex, MutexGuard, PoisonError},
};

use core::{any::Any, panic::AssertUnwindSafe, ptr::NonNull};

use filch::{Panic, PanicVtable};

type Payload = Box<dyn Any + Send>;

static VTABLE: PanicVtable = PanicVtable { drop: drop_payload, message, resume: resume_payload };

/// Runs `f` and contains a panic: the `guard` of a runtime's platform.
#[doc(hidden)]
#[inline(always)]
pub fn contain(f: &mut dyn FnMut()) -> Result<(), Panic> {
    panic::catch_unwind(AssertUnwindSafe(f)).map_err(|payload: Payload| {
        let payload = NonNull::from(Box::leak(Box::new(payload)));
        // SAFETY: the table's functions take a leaked `Box<Payload>`; payloads are `Send`, and shared references to one
        // give access to its message only.
        unsafe { Panic::from_raw(payload.cast(), &VTABLE) }
    })
}

/// Calls user code whose panic no caller can receive; the same holds for a panic in the drop of the
/// payload.
pub(crate) fn quietly(f: impl FnOnce()) {
    let mut f = Some(f);
    drop(contain(&mut || {
        if let Some(f) = f.take() {
            f();
        }
    }));
}

/// Takes a lock whose content stays valid if a thread panics, so that poison is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The payload of a task's panic, as [`catch_unwind`](std::panic::catch_unwind) gives it.
///
/// # Errors
/// The panic itself, if it was not contained by a runtime of this crate.
///
/// ```
/// let runtime = filch_std::Runtime::new()?;
/// let fails = || {
///     let task = runtime.spawn(async { panic!("on purpose") });
///     runtime.block_on(task).err().and_then(|error| error.into_panic().ok()).expect("it has panicked")
/// };
/// let Ok(payload) = filch_std::task::payload(fails()) else { panic!("of another runtime") };
/// assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
/// // As if this thread had panicked:
/// assert!(std::panic::catch_unwind(|| filch_std::task::resume(fails())).is_err());
/// # Ok::<(), filch_std::runtime::BuildError>(())
/// ```
pub fn payload(panic: Panic) -> Result<Box<dyn Any + Send>, Panic> {
    // SAFETY: the vtable is this module's: the payload is a leaked `Box<Payload>`, and this
    // function owns it now.
    panic.into_raw(&VTABLE).map(|p| unsafe { *Box::from_raw(p.cast::<Payload>().as_ptr()) })
}

/// Resumes a task's panic in the calling thread.
///
/// # Panics
/// Always.
pub fn resume(panic: Panic) -> ! {
    panic.resume()
}

unsafe fn resume_payload(p: NonNull<()>) -> ! {
    // SAFETY: contract of the vtable: the payload is this function's now.
    panic::resume_unwind(*unsafe { Box::from_raw(p.cast::<Payload>().as_ptr()) })
}

unsafe fn drop_payload(p: NonNull<()>) {
    // SAFETY: contract of the vtable.
    let payload = unsafe { Box::from_raw(p.cast::<Payload>().as_ptr()) };
    // If the payload's drop panics, that second payload is leaked: no caller could receive it.
    if let Err(again) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        core::mem::forget(again);
    }
}

unsafe fn message(p: NonNull<()>) -> Option<&'static str> {
    // SAFETY: contract of the vtable; the message lives as long as the payload, which the caller
    // keeps.
    let payload: &'static Payload = unsafe { p.cast().as_ref() };
    match payload.downcast_ref::<&'static str>() {
        Some(text) => Some(text),
        None => payload.downcast_ref::<String>().map(String::as_str),
    }
}
