//! One core: a task is spawned, awaits a flag, and is woken by the handler that raises it.
#![no_std]
#![no_main]

use filch::{Executor, TaskCell, WorkerId, WorkerSlot};
use size_probe::{Board, Flag};

size_probe::figures!(WorkerSlot<8, ()>, 0);

static EXECUTOR: Executor<Board, 1, 8, ()> = Executor::new(Board);
static TASK: TaskCell<&'static Flag> = TaskCell::new();
static FLAG: Flag = Flag::new();

#[unsafe(no_mangle)]
extern "C" fn handler() {
    FLAG.raise();
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // The vector table's.
    core::hint::black_box(handler as extern "C" fn());
    drop(EXECUTOR.spawn(&TASK, &FLAG));
    let _ = EXECUTOR.run(WorkerId::new(0));
    loop {
        core::hint::spin_loop();
    }
}
