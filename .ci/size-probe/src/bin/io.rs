//! As `one`, and the task awaits a device's readiness, which a handler sets.
#![no_std]
#![no_main]

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use filch::{
    Executor, TaskCell, WorkerId, WorkerSlot,
    io::{Direction, Readiness, Ready},
};
use size_probe::Board;

size_probe::figures!(WorkerSlot<8, ()>, 0);

static EXECUTOR: Executor<Board, 1, 8, ()> = Executor::new(Board);
static TASK: TaskCell<Serve> = TaskCell::new();
static DEVICE: Readiness = Readiness::new();

/// By hand: an `async` block brings a panic of its own, for a poll after its end.
struct Serve;

impl Future for Serve {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(event) = DEVICE.poll_ready(cx, Direction::Read) {
            DEVICE.clear(event);
        }
        Poll::Pending
    }
}

#[unsafe(no_mangle)]
extern "C" fn handler() {
    DEVICE.set(Ready::READABLE);
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // The vector table's.
    core::hint::black_box(handler as extern "C" fn());
    drop(EXECUTOR.spawn(&TASK, Serve));
    let _ = EXECUTOR.run(WorkerId::new(0));
    loop {
        core::hint::spin_loop();
    }
}
