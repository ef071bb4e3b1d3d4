//! A slow waker: programs may use any waker, and combinators do.

use core::task::{Context, RawWaker, RawWakerVTable, Waker};

use super::{
    fiber::in_fiber,
    world::{pause, pause_in_waker, world},
};

/// INV-SLOW: the data is a `Box<Waker>`, which the waker owns.
static SLOW: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_it);

/// Polls with the context's waker, or sometimes with a slow one.
pub(super) fn poll_slowly<R>(cx: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
    if !(in_fiber() && world(|w| !w.replaying && w.rng.u8(..4) == 0)) {
        return poll(cx);
    }
    let waker = slow(cx.waker());
    poll(&mut Context::from_waker(&waker))
}

/// A waker that wakes what this one wakes; other fibers run while it is cloned.
fn slow(waker: &Waker) -> Waker {
    // SAFETY: INV-SLOW; the functions are as thread-safe as those of the waker within.
    unsafe { Waker::from_raw(raw(waker)) }
}

fn raw(waker: &Waker) -> RawWaker {
    RawWaker::new(Box::into_raw(Box::new(waker.clone())).cast_const().cast(), &SLOW)
}

/// # Safety
/// INV-SLOW, as for all of them.
unsafe fn clone(data: *const ()) -> RawWaker {
    pause();
    // SAFETY: INV-SLOW; it is borrowed by the caller.
    raw(unsafe { &*data.cast::<Waker>() })
}

unsafe fn wake(data: *const ()) {
    // SAFETY: INV-SLOW; the caller gives it up.
    let waker = unsafe { Box::from_raw(data.cast_mut().cast::<Waker>()) };
    pause_in_waker();
    waker.wake();
}

unsafe fn wake_by_ref(data: *const ()) {
    pause_in_waker();
    // SAFETY: INV-SLOW; it is borrowed by the caller.
    unsafe { &*data.cast::<Waker>() }.wake_by_ref();
}

unsafe fn drop_it(data: *const ()) {
    // SAFETY: INV-SLOW; the caller gives it up.
    drop(unsafe { Box::from_raw(data.cast_mut().cast::<Waker>()) });
}
