//! What a runtime leaves behind: nothing.

use core::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicIsize, Ordering::SeqCst},
};
use std::{alloc::System, sync::mpsc, thread};

use filch_test_support::{Flag, alone, until};
use filch_tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    task::{self, LocalSet},
};

/// The system's allocator, and how many bytes it has given out.
struct Measured;

static BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator, and a counter.
unsafe impl GlobalAlloc for Measured {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, SeqCst);
        // SAFETY: the caller's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, SeqCst);
        // SAFETY: the caller's contract.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measured = Measured;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Calls `f` again and again: descriptors do not grow, nor does memory if `f` waits for the end.
fn leaves_nothing(waits: bool, f: impl Fn()) {
    const ROUNDS: isize = 100;
    let rounds = || (0..ROUNDS).for_each(|_| f());
    // What is kept for later runtimes.
    rounds();
    let (files, bytes) = (descriptors(), BYTES.load(SeqCst));
    rounds();
    // A thread that nothing waits for may have its last steps to do.
    until(|| descriptors() <= files);
    let kept = (BYTES.load(SeqCst) - bytes) / ROUNDS;
    // Threads of tokio's own pool, which nothing waits for, may still have a runtime whose memory the next one would have used.
    assert!(!waits || kept < 512, "{kept} bytes by runtime");
}

const KINDS: [fn() -> Builder; 2] = [Builder::new_current_thread, Builder::new_multi_thread];

fn each(waits: bool, f: impl Fn(Runtime)) {
    for kind in KINDS {
        leaves_nothing(waits, || f(kind().worker_threads(2).enable_all().build().unwrap()));
    }
}

#[test]
fn an_empty_runtime_leaves_nothing() {
    alone("an_empty_runtime_leaves_nothing", || each(true, drop));
}

#[test]
fn a_runtime_that_ends_in_the_background_leaves_nothing() {
    alone("a_runtime_that_ends_in_the_background_leaves_nothing", || {
        each(false, |runtime| {
            runtime.spawn(core::future::pending::<()>());
            runtime.shutdown_background();
        });
    });
}

#[test]
fn a_runtime_that_was_used_leaves_nothing() {
    async fn uses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        task::spawn(async move { listener.accept().await.map(drop) });
        task::spawn_blocking(|| {}).await.unwrap();
        #[cfg(feature = "companion")]
        real::task::spawn_blocking(|| {}).await.unwrap();
        let set = LocalSet::new();
        set.spawn_local(core::future::pending::<()>());
        set.run_until(task::yield_now()).await;
    }
    alone("a_runtime_that_was_used_leaves_nothing", || {
        each(true, |runtime| {
            runtime.block_on(uses());
            let handle = runtime.handle().clone();
            thread::spawn(move || handle.block_on(task::yield_now())).join().unwrap();
        });
    });
}

#[test]
fn a_runtime_with_hooks_leaves_nothing() {
    alone("a_runtime_with_hooks_leaves_nothing", || {
        for kind in KINDS {
            leaves_nothing(true, || {
                let mut builder = kind();
                builder.worker_threads(2).on_thread_start(|| {}).on_thread_stop(|| {});
                let runtime = builder.thread_name_fn(|| "named".into()).build().unwrap();
                runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
            });
        }
    });
}

/// How many bytes more there are after `f` than before.
fn kept(f: impl FnOnce()) -> isize {
    let before = BYTES.load(SeqCst);
    f();
    BYTES.load(SeqCst) - before
}

#[test]
fn threads_that_wait_for_the_seat_of_a_current_thread_runtime_leave_nothing() {
    alone("threads_that_wait_for_the_seat_of_a_current_thread_runtime_leave_nothing", || {
        const ROUNDS: usize = 10_000;
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (drives, over) = (Flag::new(), Flag::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                runtime.block_on(async {
                    drives.set();
                    over.wait().await;
                });
            });
            drives.block();
            let short = || runtime.block_on(async {});
            short();
            let calls = kept(|| (0..ROUNDS).for_each(|_| short()));
            let wakes = kept(|| {
                runtime.block_on(async {
                    for _ in 0..ROUNDS {
                        task::yield_now().await;
                    }
                });
            });
            // The next in the seat goes on where the first ends.
            let (send, receive) = mpsc::channel();
            scope.spawn(|| {
                let task = runtime.spawn(async move { send.send(()).unwrap() });
                runtime.block_on(task).unwrap();
            });
            over.set();
            receive.recv().unwrap();
            // Less than a byte for each: the threads may have something of their own to begin with.
            let most = ROUNDS as isize;
            assert!(calls < most && wakes < most, "{calls} and {wakes} bytes");
        });
    });
}
