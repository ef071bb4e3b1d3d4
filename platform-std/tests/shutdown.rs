//! A shutdown ends, whatever happens meanwhile.

mod common;

use core::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicU32, Ordering::SeqCst},
};
use std::{alloc::System, thread};

use common::{until, watchdog};
use filch_std::{Runtime, task::yield_now};

const OPEN: u32 = 0;
const ARMED: u32 = 1;
const STANDS: u32 = 2;
const GOES: u32 = 3;

static GATE: AtomicU32 = AtomicU32::new(OPEN);

/// Delays a large allocation while the gate is armed: the memory of a task whose spawn has been
/// admitted.
struct Slow;

// SAFETY: the system's allocator, with a delay.
unsafe impl GlobalAlloc for Slow {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > 3_000 && GATE.compare_exchange(ARMED, STANDS, SeqCst, SeqCst).is_ok() {
            while GATE.load(SeqCst) == STANDS {
                thread::yield_now();
            }
        }
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Slow = Slow;

#[test]
fn a_task_whose_spawn_was_under_way_is_cancelled_though_no_worker_is_ever_idle() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let handle = *runtime.handle();
    let spawner = runtime.spawn(async move {
        let room = [0_u8; 3_000];
        GATE.store(ARMED, SeqCst);
        // It is admitted, then gets memory, and can be cancelled only after that.
        let endless = handle.spawn(async move {
            loop {
                yield_now().await;
                core::hint::black_box(&room);
            }
        });
        endless.detach();
    });
    spawner.detach();
    until(|| GATE.load(SeqCst) == STANDS);
    // All tasks are cancelled except the one that is about to begin.
    handle.begin_shutdown();
    GATE.store(GOES, SeqCst);
    drop(runtime);
}
