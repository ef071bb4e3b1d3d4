//! Fork-join runs that share the workers: with tasks, with other runs, with holders of locks.

mod common;

use core::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    sync::{Arc, Mutex},
    thread,
    time::Instant,
};

use common::runtime;
use filch_std::{Runtime, TaskOptions, parallel};

fn wait_for(what: impl Fn() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

/// Two workers, both in one loop, and tasks from outside: they run long before the loop would end.
#[test]
fn tasks_wait_for_a_slice_of_a_loop_not_for_its_end() {
    const CALLS: usize = 40_000;
    const TASKS: usize = 1_000;
    let _watchdog = common::watchdog();
    let runtime = runtime(2);
    let handle = *runtime.handle();
    let begun = Arc::new(AtomicUsize::new(0));
    let threads = Arc::new(Mutex::new(Vec::new()));
    let served = Arc::new(AtomicBool::new(false));
    let run = handle.spawn({
        let (begun, threads, served) =
            (Arc::clone(&begun), Arc::clone(&threads), Arc::clone(&served));
        parallel_loop(CALLS, move || {
            begun.fetch_add(1, Ordering::Relaxed);
            let me = thread::current().id();
            let mut threads = threads.lock().unwrap();
            if !threads.contains(&me) {
                threads.push(me);
            }
            drop(threads);
            // After they have run the loop need not last.
            let begin = Instant::now();
            while !served.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_micros(50) {}
        })
    });
    wait_for(|| threads.lock().unwrap().len() == 2 || begun.load(Ordering::Relaxed) == CALLS);
    let before = begun.load(Ordering::Relaxed);
    let tasks: Vec<_> = (0..TASKS).map(|i| handle.spawn(async move { i })).collect();
    for (i, task) in tasks.into_iter().enumerate() {
        assert_eq!(runtime.block_on(task).unwrap(), i);
    }
    let calls = begun.load(Ordering::Relaxed) - before;
    served.store(true, Ordering::Relaxed);
    runtime.block_on(run).unwrap();
    println!("{TASKS} tasks took {calls} of {CALLS} calls");
    assert_eq!(begun.load(Ordering::Relaxed), CALLS);
    assert!(calls < CALLS / 4, "the tasks have waited for {calls} calls of {CALLS}");
}

async fn parallel_loop(calls: usize, f: impl Fn() + Sync) {
    parallel::for_each(0..calls, |_| f());
}

/// As above, with the sides of joins, which are never given back: one worker is kept free of them.
#[test]
fn tasks_do_not_wait_for_jobs_if_workers_are_kept_free() {
    let _watchdog = common::watchdog();
    let runtime = Runtime::builder().workers(3).job_workers(1).build().unwrap();
    let handle = *runtime.handle();
    let (stolen, served) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            handle.fork(|fork| {
                let until_served = || wait_for(|| served.load(Ordering::Relaxed));
                fork.join(
                    |fork| {
                        // A worker that becomes idle from now on is noticed only at forks.
                        while !stolen.load(Ordering::Relaxed) {
                            fork.join(|_| thread::yield_now(), |_| {});
                        }
                        fork.join(|_| until_served(), |_| {});
                    },
                    |fork| {
                        stolen.store(true, Ordering::Relaxed);
                        fork.join(|_| until_served(), |_| {});
                    },
                )
            });
        });
        wait_for(|| stolen.load(Ordering::Relaxed));
        let tasks: Vec<_> = (0..100).map(|i| handle.spawn(async move { i })).collect();
        for (i, task) in tasks.into_iter().enumerate() {
            // Without help from this thread: it only checks.
            wait_for(|| task.is_finished());
            assert_eq!(runtime.block_on(task).unwrap(), i);
        }
        served.store(true, Ordering::Relaxed);
    });
}

/// The reverse: a run ends although tasks never do.
#[test]
fn a_run_goes_on_while_tasks_keep_all_workers_busy() {
    let _watchdog = common::watchdog();
    let runtime = runtime(2);
    let over = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..8)
        .map(|_| {
            let over = Arc::clone(&over);
            runtime.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    filch_std::task::yield_now().await;
                }
            })
        })
        .collect();
    for _ in 0..20 {
        let sum = runtime.handle().fork(|fork| fork.map_reduce(0..1_000, |i| i, |a, b| a + b));
        assert_eq!(sum, Some(499_500));
    }
    over.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|task| runtime.block_on(task).unwrap());
}

/// A worker that waits for a job only runs parts of that job: meanwhile there is a public job of
/// another run, which takes the lock that the waiting worker's caller holds.
#[test]
fn a_lock_may_be_held_across_a_join() {
    let _watchdog = common::watchdog();
    let runtime = runtime(3);
    let handle = *runtime.handle();
    for _ in 0..5 {
        let lock = Mutex::new(());
        let flags = [const { AtomicBool::new(false) }; 3];
        let [stolen, waits, released] = &flags;
        let (set, get) = (
            |flag: &AtomicBool| flag.store(true, Ordering::Relaxed),
            |flag: &AtomicBool| flag.load(Ordering::Relaxed),
        );
        thread::scope(|scope| {
            scope.spawn(|| {
                handle.fork(|fork| {
                    let guard = lock.lock().unwrap();
                    fork.join(
                        |fork| {
                            // A worker that becomes idle from now on is noticed only at forks.
                            while !get(stolen) {
                                fork.join(|_| thread::yield_now(), |_| {});
                            }
                            set(waits);
                        },
                        |_| {
                            set(stolen);
                            wait_for(|| get(released));
                        },
                    );
                    drop(guard);
                });
            });
            wait_for(|| get(waits));
            handle.fork(|fork| {
                fork.join(
                    // The other side can be stolen for a while.
                    |_| {
                        (0..200).for_each(|_| thread::yield_now());
                        set(released);
                    },
                    |_| drop(lock.lock().unwrap()),
                )
            });
        });
    }
}

/// Slices that end at once: everything is given back all the time, and nothing is lost or out of
/// order.
#[test]
fn what_is_given_back_comes_in_order() {
    let _watchdog = common::watchdog();
    for workers in [2, 4] {
        for slice in [Duration::ZERO, Duration::from_micros(20)] {
            let runtime = Runtime::builder().workers(workers).job_slice(slice).build().unwrap();
            for _ in 0..5 {
                let list = runtime.handle().fork(|fork| {
                    fork.map_reduce(
                        0..500,
                        |i| {
                            if i % 16 == 0 {
                                thread::yield_now();
                            }
                            vec![i]
                        },
                        |mut a, mut b| {
                            a.append(&mut b);
                            a
                        },
                    )
                });
                assert_eq!(list, Some((0..500).collect()));
                let mut elements = vec![0; 500];
                runtime.handle().fork(|fork| fork.for_each_mut(&mut elements, |n| *n += 1));
                assert!(elements.iter().all(|n| *n == 1));
            }
        }
    }
}

/// As many loops as workers, each in a task: in their async form they take turns with other tasks.
#[test]
fn loops_in_tasks_take_turns_with_other_tasks() {
    const CALLS: usize = 20_000;
    let _watchdog = common::watchdog();
    let runtime = runtime(2);
    let (begun, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let loops: Vec<_> = (0..2)
        .map(|_| {
            let (begun, served) = (Arc::clone(&begun), Arc::clone(&served));
            runtime.spawn(async move {
                let text = String::from("borrowed");
                let call = |i: usize| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    let begin = Instant::now();
                    let pause = Duration::from_micros(50);
                    while !served.load(Ordering::Relaxed) && begin.elapsed() < pause {}
                    i + text.len()
                };
                parallel::map_reduce_async(0..CALLS, call, |a, b| a + b).await
            })
        })
        .collect();
    wait_for(|| begun.load(Ordering::Relaxed) > 10);
    let calls = runtime.spawn({
        let begun = Arc::clone(&begun);
        async move {
            let before = begun.load(Ordering::Relaxed);
            for _ in 0..50 {
                filch_std::task::yield_now().await;
            }
            begun.load(Ordering::Relaxed) - before
        }
    });
    let calls = runtime.block_on(calls).unwrap();
    served.store(true, Ordering::Relaxed);
    for task in loops {
        assert_eq!(runtime.block_on(task).unwrap(), Some(CALLS * (CALLS - 1) / 2 + 8 * CALLS));
    }
    println!("50 turns took {calls} of {} calls", 2 * CALLS);
    assert!(calls < CALLS, "a task has waited for {calls} calls in 50 turns");
}

/// One loop on two workers, in a task that shares its worker with another task. The other task
/// waits for a few slices, of some 20 calls on each worker, whether the loop is split or not.
#[test]
fn a_loop_that_is_split_takes_turns_with_the_task_beside_it() {
    const CALLS: usize = 20_000;
    const TURNS: usize = 50;
    let _watchdog = common::watchdog();
    let runtime = runtime(2);
    let pin = |task| {
        runtime
            .handle()
            .spawn_with(TaskOptions::new().pinned(filch_std::runtime::WorkerId::new(0)), task)
            .unwrap()
    };
    let (begun, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let calls = Arc::new(AtomicUsize::new(0));
    let ticker: Task = Box::pin({
        let (begun, served) = (Arc::clone(&begun), Arc::clone(&served));
        let calls = Arc::clone(&calls);
        async move {
            while begun.load(Ordering::Relaxed) == 0 {
                filch_std::task::yield_now().await;
            }
            let before = begun.load(Ordering::Relaxed);
            for _ in 0..TURNS {
                filch_std::task::yield_now().await;
            }
            calls.store(begun.load(Ordering::Relaxed) - before, Ordering::Relaxed);
            served.store(true, Ordering::Relaxed);
        }
    });
    let run: Task = Box::pin(async move {
        let call = |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            let (begin, pause) = (Instant::now(), Duration::from_micros(50));
            while !served.load(Ordering::Relaxed) && begin.elapsed() < pause {}
        };
        parallel::for_each_async(0..CALLS, call).await;
        assert_eq!(begun.load(Ordering::Relaxed), CALLS);
    });
    for task in [ticker, run].map(pin) {
        runtime.block_on(task).unwrap();
    }
    let calls = calls.load(Ordering::Relaxed);
    println!("{TURNS} turns took {calls} of {CALLS} calls");
    assert!(calls < TURNS * 100, "a task has waited for {calls} calls in {TURNS} turns");
}

type Task = core::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
