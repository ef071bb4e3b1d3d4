//! The smallest program that uses the executor: spawn, join, shutdown, wake from outside. It is linked and weighed,
//! never run.
#![no_std]
#![no_main]

use core::{
    future::Future,
    pin::Pin,
    sync::atomic::AtomicU32,
    task::{Context, Poll},
};

use filch::{Executor, Instant, JoinHandle, Platform, Sleep, TaskPool, WorkerId, WorkerSlot};

// Figures for .ci/size, as symbols that take no room.
core::arch::global_asm!(
    ".globl bytes_of_a_worker",
    ".set bytes_of_a_worker, {worker}",
    ".globl bytes_of_a_timer",
    ".set bytes_of_a_timer, {timer}",
    worker = const size_of::<WorkerSlot<256>>(),
    timer = const size_of::<Sleep>(),
);

struct Board;

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

static CLOCK: AtomicU32 = AtomicU32::new(0);
static CORE: AtomicU32 = AtomicU32::new(0);

static EXECUTOR: Executor<Board, 4> = Executor::new(Board);
static POOL: TaskPool<128, 16> = TaskPool::new();

/// By hand: an `async` block brings a panic of its own, for a poll after its end.
struct Parent(JoinHandle<()>);

impl Future for Parent {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    if let Ok(child) = EXECUTOR.spawn(&POOL, filch::yield_now()) {
        drop(EXECUTOR.spawn(&POOL, Parent(child)));
    }
    let _ = EXECUTOR.run(WorkerId::new(0));
    loop {
        core::hint::spin_loop();
    }
}
