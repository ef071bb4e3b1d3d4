//! The blocking pool: its limit, its threads, the lack of threads, and what its closures see.

mod common;

use core::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{sync::Arc, thread};

use common::{Drops, Flag, message, until, watchdog};
#[cfg(target_os = "linux")]
use filch_test_support::alone;

use filch_std::{Handle, JoinError, Runtime, TaskOptions, internal::Threads};

#[test]
fn no_more_threads_than_the_limit() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).blocking_threads(3).build().unwrap();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let all: Vec<_> = (0..30)
        .map(|_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            rt.handle().spawn_blocking(move || {
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                thread::sleep(Duration::from_millis(1));
                now.fetch_sub(1, SeqCst);
            })
        })
        .collect();
    for task in all {
        rt.block_on(task).unwrap();
    }
    assert!((1..=3).contains(&most.load(SeqCst)), "{most:?}");
    let metrics = rt.handle().blocking_metrics();
    assert!(metrics.threads <= 3 && metrics.queued == 0, "{metrics:?}");
}

#[test]
fn a_closure_is_in_its_runtime() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).build().unwrap();
    let nested = rt.handle().spawn_blocking(|| {
        let handle = Handle::current().expect("it is in a runtime");
        filch_std::block_on(handle.spawn(async { filch_std::spawn(async { 7 }).await }))
    });
    assert_eq!(rt.block_on(nested).unwrap().unwrap().unwrap(), 7);
}

#[test]
fn a_panic_is_the_tasks_and_the_thread_stays() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    let panics = rt.handle().spawn_blocking(|| std::panic::resume_unwind(Box::new("on purpose")));
    match rt.block_on(panics) {
        Err(JoinError::Panicked(panic)) => {
            assert_eq!(message(&*filch_std::task::payload(panic).unwrap()), "on purpose");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(rt.block_on(rt.handle().spawn_blocking(|| 8)).unwrap(), 8);
    assert_eq!(rt.handle().blocking_metrics().threads, 1);
}

/// Its drop panics with another of its kind, so many times.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::resume_unwind(Box::new(Bomb(self.0 - 1)));
        }
    }
}

#[test]
fn outputs_whose_drops_panic_again_and_again_keep_no_thread() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    for depth in 0..5 {
        for panics in [false, true] {
            let (go, begun) = (Flag::new(), Flag::new());
            let (gate, begins) = (go.clone(), begun.clone());
            let task = rt.handle().spawn_blocking(move || {
                begins.set();
                gate.block();
                if panics {
                    std::panic::resume_unwind(Box::new(Bomb(depth)));
                }
                Bomb(depth)
            });
            begun.block();
            task.abort();
            assert!(matches!(rt.block_on(task), Err(JoinError::Cancelled)));
            go.set();
            assert_eq!(rt.block_on(rt.handle().spawn_blocking(|| 5)).unwrap(), 5);
        }
    }
}

#[test]
fn an_aborted_closure_never_begins() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    let go = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(AtomicBool::new(false));
    let (gate, has_begun) = (Arc::clone(&go), Arc::clone(&begun));
    let first = rt.handle().spawn_blocking(move || {
        has_begun.store(true, SeqCst);
        until(|| gate.load(SeqCst));
    });
    until(|| begun.load(SeqCst));
    let ran = Arc::new(AtomicBool::new(false));
    let runs = Arc::clone(&ran);
    let second = rt.handle().spawn_blocking(move || runs.store(true, SeqCst));
    until(|| rt.handle().blocking_metrics().queued == 1);
    second.abort();
    assert!(matches!(rt.block_on(second), Err(JoinError::Cancelled)));
    go.store(true, SeqCst);
    rt.block_on(first).unwrap();
    rt.block_on(rt.handle().spawn_blocking(|| {})).unwrap();
    assert!(!ran.load(SeqCst));
}

#[test]
fn a_runtime_ends_while_a_closure_runs_and_its_threads_leave() {
    let _watchdog = watchdog();
    let (go, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let begun = Arc::new(AtomicBool::new(false));
    let rt = Runtime::builder().workers(1).build().unwrap();
    let (gate, end, begins) = (Arc::clone(&go), Arc::clone(&over), Arc::clone(&begun));
    let task = rt.handle().spawn_blocking(move || {
        begins.store(true, SeqCst);
        until(|| gate.load(SeqCst));
        end.store(true, SeqCst);
    });
    until(|| begun.load(SeqCst));
    drop(rt);
    let mut task = task;
    assert!(matches!(task.join(), Err(JoinError::Cancelled)));
    go.store(true, SeqCst);
    until(|| over.load(SeqCst));
}

/// The pool's only thread is at work for another, and stays so.
#[test]
fn the_end_of_the_runtime_waits_for_what_was_accepted() {
    let _watchdog = watchdog();
    for threads in [Threads::Pool, Threads::Waiting] {
        let rt = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
        let handle = *rt.handle();
        let (go, begun) = (Flag::new(), Flag::new());
        let (gate, begins) = (go.clone(), begun.clone());
        let busy = move || {
            begins.set();
            gate.block();
        };
        let busy = handle.spawn_on(threads, TaskOptions::new(), busy).unwrap();
        begun.block();
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let done = Arc::clone(&done);
            handle.accept(threads, move || _ = done.fetch_add(1, SeqCst)).unwrap();
        }
        handle.accept(threads, || std::panic::resume_unwind(Box::new("on purpose"))).unwrap();
        let dropped = Drops::new();
        let tally = dropped.tally();
        let never = handle.spawn_on(threads, TaskOptions::new(), move || drop(tally)).unwrap();
        assert_eq!(done.load(SeqCst), 0);
        drop(rt);
        assert_eq!((done.load(SeqCst), dropped.count()), (10, 1));
        assert!(handle.accept(threads, || unreachable!("the runtime has ended")).is_err());
        go.set();
        drop((busy, never));
    }
}

#[test]
fn what_waits_for_other_processes_keeps_no_thread_from_closures() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).blocking_threads(2).build().unwrap();
    let (go, begun) = (Flag::new(), Arc::new(AtomicUsize::new(0)));
    let waits: Vec<_> = (0..5)
        .map(|i| {
            let (gate, begun) = (go.clone(), Arc::clone(&begun));
            let wait = move || {
                begun.fetch_add(1, SeqCst);
                gate.block();
                i
            };
            rt.handle().spawn_on(Threads::Waiting, TaskOptions::new(), wait).unwrap()
        })
        .collect();
    // Both: while threads start, three of fewer may be queued.
    until(|| begun.load(SeqCst) == 2 && rt.handle().blocking_metrics().queued == 3);
    for i in 0..5 {
        assert_eq!(rt.block_on(rt.handle().spawn_blocking(move || i)).unwrap(), i);
    }
    let metrics = rt.handle().blocking_metrics();
    assert!((3..=4).contains(&metrics.threads) && metrics.queued == 3, "{metrics:?}");
    go.set();
    let sum: usize = waits.into_iter().map(|task| rt.block_on(task).unwrap()).sum();
    assert_eq!(sum, 10);
    assert_eq!(rt.handle().blocking_metrics().done, 10);
}

/// No thread can be started: in a process of its own, which has used up its limit of threads.
#[cfg(target_os = "linux")]
#[test]
fn where_no_thread_can_be_had_the_workers_run_closures() {
    alone("where_no_thread_can_be_had_the_workers_run_closures", use_up_all_threads);
}

#[cfg(target_os = "linux")]
fn use_up_all_threads() {
    let rt = Runtime::builder().workers(2).build().unwrap();
    rt.block_on(rt.spawn(async {})).unwrap();
    // SAFETY: limits this process, whose other threads go on as an unprivileged user: the limit
    // does not hold for the superuser.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &raw const none), 0);
        if libc::geteuid() == 0 {
            assert_eq!(libc::setuid(65_534), 0);
        }
    }
    assert!(thread::Builder::new().spawn(|| {}).is_err(), "the limit is in force");
    let all: Vec<_> = (0..100)
        .map(|i| {
            rt.handle().spawn_blocking(move || {
                thread::sleep(Duration::from_millis(1));
                i
            })
        })
        .collect();
    let sum: i32 = all.into_iter().map(|task| rt.block_on(task).unwrap()).sum();
    assert_eq!(sum, 4_950);
    let accepted = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&accepted);
    rt.handle().accept(Threads::Pool, move || done.store(true, SeqCst)).unwrap();
    assert!(accepted.load(SeqCst));
    let metrics = rt.handle().blocking_metrics();
    assert_eq!((metrics.threads, metrics.queued, metrics.done), (0, 0, 101));
}
