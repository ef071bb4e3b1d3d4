//! As `one`, and the task sleeps between two looks at the flag.
#![no_std]
#![no_main]

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use filch::{Executor, Sleep, TaskCell, WorkerId, WorkerSlot, parts::FewTimers};
use size_probe::{Board, Flag};

size_probe::figures!(WorkerSlot<8, FewTimers>, size_of::<Sleep>());

static EXECUTOR: Executor<Board, 1, 8, FewTimers> = Executor::new(Board);
static TASK: TaskCell<Blink> = TaskCell::new();
static FLAG: Flag = Flag::new();

/// By hand: an `async` block brings a panic of its own, for a poll after its end.
struct Blink(Sleep);

impl Future for Blink {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the sleep stays where it is.
        let mut sleep = unsafe { self.as_mut().map_unchecked_mut(|blink| &mut blink.0) };
        while sleep.as_mut().poll(cx).is_ready() {
            FLAG.raise();
            let next = sleep.deadline() + Duration::from_millis(500);
            sleep.as_mut().reset(next);
        }
        Poll::Pending
    }
}

#[unsafe(no_mangle)]
extern "C" fn handler() {
    FLAG.raise();
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // The vector table's.
    core::hint::black_box(handler as extern "C" fn());
    drop(EXECUTOR.spawn(&TASK, Blink(EXECUTOR.sleep(Duration::ZERO))));
    let _ = EXECUTOR.run(WorkerId::new(0));
    loop {
        core::hint::spin_loop();
    }
}
