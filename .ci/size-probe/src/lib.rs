//! What the programs share: a platform that is linked and never run, and a flag that an interrupt handler raises.
#![no_std]

use core::{
    cell::UnsafeCell,
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    task::{Context, Poll, Waker},
};

use filch::{Instant, Platform, WorkerId};

/// Figures for .ci/size, as symbols that take no room: bytes of a worker's slot, and of a timer.
#[macro_export]
macro_rules! figures {
    ($slot:ty, $timer:expr) => {
        core::arch::global_asm!(
            ".globl bytes_of_a_worker",
            ".set bytes_of_a_worker, {worker}",
            ".globl bytes_of_a_timer",
            ".set bytes_of_a_timer, {timer}",
            worker = const size_of::<$slot>(),
            timer = const $timer,
        );
    };
}

/// A board whose cores and clock are words in memory.
pub struct Board;

static CLOCK: AtomicU32 = AtomicU32::new(0);
static CORE: AtomicU32 = AtomicU32::new(0);

// SAFETY: never run.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        // SAFETY: never run.
        Instant::from_nanos(unsafe { CLOCK.as_ptr().read_volatile() }.into())
    }
    fn current_worker(&self) -> Option<WorkerId> {
        // SAFETY: never run.
        Some(WorkerId::new(unsafe { CORE.as_ptr().read_volatile() } as u16))
    }
    unsafe fn wait(&self, _: WorkerId, _: &filch::atomic::AtomicU32, _: u32, _: Option<Instant>) {}
    fn wake(&self, _: WorkerId, _: &filch::atomic::AtomicU32) {}
}

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

/// By hand: an `async` block brings a panic of its own, for a poll after its end.
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

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
