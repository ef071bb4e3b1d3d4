//! Nested waits in sync code: how deep, which worker takes over, what a panic leaves behind.

mod common;

use core::{
    future::{Future, poll_fn},
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    task::Poll,
    time::Duration,
};
use std::{
    panic::{catch_unwind, resume_unwind},
    sync::Arc,
};

use common::{until, watchdog};
use filch_std::{Handle, JoinError, Runtime, TaskOptions, runtime::WorkerId};

fn online(rt: &Runtime) -> usize {
    rt.metrics().workers().filter(|(_, worker)| worker.online).count()
}

#[test]
fn five_thousand_tasks_that_block_on_a_sleep_leave_the_stack_whole() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(2).build().unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..5_000)
        .map(|_| {
            let ended = Arc::clone(&ended);
            rt.spawn(async move {
                filch_std::block_on(filch_std::time::sleep(Duration::from_millis(50)));
                ended.fetch_add(1, SeqCst);
            })
        })
        .collect();
    for task in tasks {
        rt.block_on(task).unwrap();
    }
    assert_eq!(ended.load(SeqCst), 5_000);
    until(|| online(&rt) == 2);
}

/// Joins nested `depth` deep; returns how many levels below were cut off.
fn join_down(depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let mut handle = filch_std::spawn(async move { join_down(depth - 1) });
    match handle.join() {
        Ok(given_up) => given_up,
        Err(JoinError::TooDeep) => 1,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn joins_go_as_deep_as_all_spare_places_allow() {
    let _watchdog = watchdog();
    for round in 0..50 {
        let rt = Runtime::builder().workers(2).build().unwrap();
        let deep = rt.spawn(async { join_down(600) });
        // A helper would take a spare slot.
        until(|| deep.is_finished());
        assert_eq!(rt.block_on(deep).unwrap(), 0, "round {round}");
    }
}

#[test]
fn block_on_that_nobody_can_end_panics_and_the_runtime_goes_on() {
    let _watchdog = watchdog();
    fn descend(depth: usize) -> Result<usize, String> {
        if depth == 0 {
            return Ok(0);
        }
        match filch_std::block_on(filch_std::spawn(async move { descend(depth - 1) })) {
            Ok(below) => below.map(|n| n + 1),
            Err(error) => Err(error.to_string()),
        }
    }
    let rt = Runtime::builder().workers(1).nesting(4).build().unwrap();
    let deep = |depth| {
        let deep = rt.spawn(async move { descend(depth) });
        // Without help from this thread, which would take a spare slot; the tasks that were cut off
        // run by themselves.
        until(|| rt.metrics().totals().live == 0);
        rt.block_on(deep).unwrap()
    };
    // The depth that was cut off works once more.
    let error = deep(60).unwrap_err();
    assert!(error.contains("nested too deep"), "{error}");
    assert_eq!(deep(20), Ok(20));
    until(|| online(&rt) == 1);
}

#[test]
fn a_timer_that_is_due_is_waited_for_though_tasks_are_queued() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).nesting(0).build().unwrap();
    // One worker and eight spare slots, each in a sleep, and more tasks behind them.
    let sleep = || filch_std::block_on(filch_std::time::sleep(Duration::from_millis(20)));
    let tasks: Vec<_> = (0..40).map(|_| rt.spawn(async move { sleep() })).collect();
    for task in tasks {
        rt.block_on(task).unwrap();
    }
}

#[test]
fn timers_of_a_worker_that_is_blocked_by_a_stolen_job_are_seen_to() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(2).nesting(0).build().unwrap();
    let handle = *rt.handle();
    let run = handle.spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async move {
        // In the wheel of this worker.
        let mut sleep = Box::pin(filch_std::time::sleep(Duration::from_millis(30)));
        poll_fn(|cx| {
            assert!(sleep.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        let stolen = AtomicBool::new(false);
        handle.fork(|fork| {
            let a = |fork: filch::Fork<'_>| {
                until(|| {
                    fork.join(|_| (), |_| ());
                    stolen.load(SeqCst)
                });
            };
            let b = |_: filch::Fork<'_>| {
                stolen.store(true, SeqCst);
                filch_std::block_on(sleep);
            };
            fork.join(a, b);
        });
    });
    rt.block_on(run.unwrap()).unwrap();
}

#[test]
fn a_panic_in_a_wait_leaves_no_replacement_behind() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(2).nesting(0).build().unwrap();
    for _ in 0..20 {
        let wait = rt.handle().spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async {
            let handle = Handle::current().unwrap();
            let mut looks = 0;
            let wait = || {
                handle.help_until(&mut || {
                    looks += 1;
                    if looks == 2 {
                        resume_unwind(Box::new("on purpose"));
                    }
                    false
                })
            };
            assert!(catch_unwind(AssertUnwindSafe(wait)).is_err());
        });
        let wait = wait.unwrap();
        // It checks again when it is woken.
        while !wait.is_finished() {
            rt.handle().unpark(WorkerId::new(0));
            std::thread::yield_now();
        }
        rt.block_on(wait).unwrap();
        until(|| online(&rt) == 2);
    }
    // All spare slots are free.
    let deep = rt.spawn(async { join_down(8) });
    until(|| deep.is_finished());
    assert_eq!(rt.block_on(deep).unwrap(), 0);
}
