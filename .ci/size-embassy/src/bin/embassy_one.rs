//! One core: a task is spawned, awaits a flag, and is woken by the handler that raises it.
#![no_std]
#![no_main]

use core::{mem::MaybeUninit, sync::atomic::Ordering};

use embassy_executor::raw::{Executor, TaskStorage};
use size_embassy::{Flag, SIGNAL};

static mut EXECUTOR: MaybeUninit<Executor> = MaybeUninit::uninit();
static TASK: TaskStorage<&'static Flag> = TaskStorage::new();
static FLAG: Flag = Flag::new();

#[unsafe(no_mangle)]
extern "C" fn handler() {
    FLAG.raise();
}

#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    // The vector table's.
    core::hint::black_box(handler as extern "C" fn());
    // SAFETY: once.
    let executor: &'static Executor =
        unsafe { (*(&raw mut EXECUTOR)).write(Executor::new(core::ptr::null_mut())) };
    if let Ok(token) = TASK.spawn(|| &FLAG) {
        executor.spawner().spawn(token);
    }
    loop {
        // SAFETY: one context polls.
        unsafe { executor.poll() };
        while !SIGNAL.load(Ordering::Acquire) {
            core::hint::spin_loop();
        }
        SIGNAL.store(false, Ordering::Release);
    }
}
