//! What the programs share: a board that is linked and never run, and a flag that an interrupt handler raises.
#![no_std]

use core::{
    cell::UnsafeCell,
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Waker},
};

/// A flag that one task waits for.
pub struct Flag {
    raised: AtomicBool,
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: never run.
unsafe impl Sync for Flag {}

impl Flag {
    #[allow(clippy::new_without_default, reason = "a static")]
    pub const fn new() -> Self {
        Self { raised: AtomicBool::new(false), waker: UnsafeCell::new(None) }
    }

    /// What the handler does.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        // SAFETY: never run.
        if let Some(waker) = unsafe { &*self.waker.get() } {
            waker.wake_by_ref();
        }
    }
}

impl Future for &'static Flag {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.raised.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        // SAFETY: never run.
        unsafe { *self.waker.get() = Some(cx.waker().clone()) };
        Poll::Pending
    }
}

/// Set by the pender, from any context.
pub static SIGNAL: AtomicBool = AtomicBool::new(false);

#[unsafe(no_mangle)]
extern "Rust" fn __pender(_: *mut ()) {
    SIGNAL.store(true, Ordering::Release);
}

struct Masked;
critical_section::set_impl!(Masked);

// SAFETY: never run. On a board it is one instruction.
unsafe impl critical_section::Impl for Masked {
    unsafe fn acquire() {}
    unsafe fn release(_: ()) {}
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
