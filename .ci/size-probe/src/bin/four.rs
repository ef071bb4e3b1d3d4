//! Four cores with all that there is: spawn, join, wake.
#![no_std]
#![no_main]

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use filch::{Executor, JoinHandle, Sleep, TaskPool, WorkerId, WorkerSlot};
use size_probe::Board;

size_probe::figures!(WorkerSlot<256>, size_of::<Sleep>());

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
