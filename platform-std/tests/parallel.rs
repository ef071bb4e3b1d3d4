//! Fork-join on a runtime's threads, with tasks beside it.

mod common;

use core::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    collections::HashMap,
    panic::catch_unwind,
    sync::{Arc, Mutex},
    thread::{self, ThreadId},
};

use common::runtime;
use filch_std::{JoinError, Runtime, parallel};
use parallel::Fork;

fn fib(fork: Fork<'_>, n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = fork.join(|fork| fib(fork, n - 1), |fork| fib(fork, n - 2));
    a + b
}

fn fib_free(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = parallel::join(|| fib_free(n - 1), || fib_free(n - 2));
    a + b
}

/// Which threads have called `note`, and how often.
#[derive(Default)]
struct Threads(Mutex<HashMap<ThreadId, usize>>);

impl Threads {
    fn note(&self) {
        *self.0.lock().unwrap().entry(thread::current().id()).or_default() += 1;
    }

    fn counts(&self) -> Vec<usize> {
        self.0.lock().unwrap().values().copied().collect()
    }
}

#[test]
fn runs_begin_on_threads_in_tasks_and_in_each_other() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let handle = *runtime.handle();
        for _ in 0..50 {
            assert_eq!(handle.fork(|fork| fib(fork, 16)), 987);
        }
        assert_eq!(runtime.block_on(async { fib_free(12) }), 144, "on a thread in the runtime");
        let task = runtime.spawn(async { (fib_free(15), parallel::run(|fork| fib(fork, 15))) });
        assert_eq!(runtime.block_on(task).unwrap(), (610, 610));
        let nested =
            handle.fork(|fork| fork.join(|_| fib_free(12), |_| handle.fork(|f| fib(f, 12))));
        assert_eq!(nested, (144, 144));
    }
}

#[test]
fn a_thread_takes_the_place_of_an_idle_worker() {
    let _watchdog = common::watchdog();
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (handle, me) = (*runtime.handle(), thread::current().id());
        // After the workers have started and gone to sleep.
        while handle.fork(|_| thread::current().id()) != me {
            thread::yield_now();
        }
        assert!(filch_std::Handle::current().is_err(), "it is no worker any more");
        // A task that is spawned there can leave the thread.
        let task = handle.fork(|_| filch_std::spawn(async { 7 }));
        common::until(|| task.is_finished());
        assert_eq!(runtime.block_on(task).unwrap(), 7);
    }
}

#[test]
fn many_threads_share_one_runtime() {
    let runtime = runtime(3);
    let handle = *runtime.handle();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(move || {
                for _ in 0..30 {
                    assert_eq!(handle.fork(|fork| fib(fork, 14)), 377);
                }
            });
        }
    });
}

#[test]
fn a_run_borrows_from_its_caller() {
    let runtime = runtime(2);
    let mut numbers: Vec<u64> = (0..10_000).collect();
    let sum = runtime.handle().fork(|fork| {
        fork.for_each_mut(&mut numbers, |n| *n *= 2);
        fork.map_reduce(0..numbers.len(), |i| numbers[i], |a, b| a + b)
    });
    assert_eq!(sum, Some(99_990_000));
    runtime.block_on(async {
        let mut halves = numbers.chunks_mut(5_000).collect::<Vec<_>>();
        parallel::scope(|scope| {
            for half in &mut halves {
                scope.spawn(|_| half.reverse());
            }
        });
        let total = AtomicUsize::new(0);
        parallel::for_each(0..1_000, |i| {
            total.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(total.into_inner(), 499_500);
        let mut small = [1, 2, 3];
        parallel::for_each_mut(&mut small, |n| *n += 1);
        assert_eq!(small, [2, 3, 4]);
        assert_eq!(parallel::map_reduce(0..4, |i| i, usize::max), Some(3));
    });
    assert_eq!((numbers[0], numbers[9_999]), (9_998, 10_000));
}

#[test]
fn a_panic_reaches_the_thread_that_began_the_run() {
    let runtime = runtime(2);
    let handle = *runtime.handle();
    let ran = AtomicUsize::new(0);
    for _ in 0..20 {
        let run = || {
            handle.fork(|fork| {
                fork.for_each(0..100, |i| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                    if i == 63 {
                        std::panic::panic_any(i);
                    }
                });
            });
        };
        let payload = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&63_usize));
    }
    // Calls that had not begun when the panic was seen are left out.
    assert!((20..=20 * 100).contains(&ran.into_inner()) || cfg!(not(panic = "unwind")));
    let failed = runtime.block_on(async { parallel::offload(|_| panic!("in a task")).await });
    let Err(JoinError::Panicked(panic)) = failed else { panic!("it has panicked") };
    assert_eq!(panic.message(), Some("in a task"));
    assert_eq!(handle.fork(|fork| fib(fork, 12)), 144);
}

#[test]
fn a_task_that_awaits_a_run_gives_its_worker_back() {
    // The only worker: a task that kept it would wait for ever.
    let runtime = runtime(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |what| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(what)
    };
    let (before, a, b, after) = (note("before"), note("a"), note("b"), note("after"));
    let task = runtime.spawn(async move {
        before();
        parallel::join_async(a, b).await.unwrap();
        after();
    });
    runtime.block_on(task).unwrap();
    assert_eq!(*order.lock().unwrap(), ["before", "a", "b", "after"]);
}

#[test]
fn after_the_end_a_run_is_the_callers_own_work() {
    let runtime = runtime(2);
    let handle = *runtime.handle();
    drop(runtime);
    let me = thread::current().id();
    let who = handle.fork(|fork| fork.join(|_| thread::current().id(), |_| thread::current().id()));
    assert_eq!(who, (me, me));
}

/// Every wait is too deep: a worker that waits for a job sleeps, and a compensation worker takes its
/// place.
#[test]
fn waits_that_may_not_help_have_stand_ins() {
    for nesting in [0, 1] {
        let _watchdog = common::watchdog();
        let runtime = Runtime::builder().workers(3).nesting(nesting).build().unwrap();
        for _ in 0..30 {
            assert_eq!(runtime.handle().fork(|fork| fib(fork, 18)), 2_584);
        }
        assert_eq!(runtime.block_on(runtime.spawn(async { 7 })).unwrap(), 7);
    }
}

/// A job waits for a task in sync code: the jobs that its worker has forked before do not wait with
/// it.
#[test]
fn a_job_may_wait_for_a_task() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let handle = *runtime.handle();
        let sum = handle.fork(|fork| {
            fork.map_reduce(
                0..200,
                |i| handle.block_on(handle.spawn(async move { i })).unwrap(),
                |a, b| a + b,
            )
        });
        assert_eq!(sum, Some(19_900));
    }
}

/// Four jobs of uneven length, split finely. A static partition would keep one worker busy for 350
/// units of 750; four workers need at least 187.5.
#[test]
fn uneven_jobs_are_spread_over_all_workers() {
    let runtime = runtime(4);
    let threads = Threads::default();
    let (at_once, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (at_once, most) = (&at_once, &most);
    runtime.handle().fork(|fork| {
        fork.scope(|scope| {
            for units in [100, 100, 200, 350] {
                let threads = &threads;
                scope.spawn(move |fork| {
                    fork.for_each(0..units, |_| {
                        threads.note();
                        most.fetch_max(
                            at_once.fetch_add(1, Ordering::Relaxed) + 1,
                            Ordering::Relaxed,
                        );
                        // Work that sleeps: the machine may have fewer cores than workers.
                        thread::sleep(Duration::from_micros(300));
                        at_once.fetch_sub(1, Ordering::Relaxed);
                    });
                });
            }
        });
    });
    let counts = threads.counts();
    println!("units by worker: {counts:?}; an even share is 187.5");
    assert_eq!(counts.iter().sum::<usize>(), 750);
    // The caller may change the worker whose place it takes, and during the change two may have it.
    assert!(matches!(counts.len(), 4 | 5), "every worker: {counts:?}");
    let most = most.load(Ordering::Relaxed);
    assert!(matches!(most, 4 | 5), "{most} units at a time");
    assert!(counts.iter().all(|n| *n < 350), "better than a static partition: {counts:?}");
}

#[test]
fn tasks_go_on_beside_a_run_and_no_thread_is_added() {
    const TASKS: usize = 1_000;
    const WORKERS: usize = 3;
    let runtime = runtime(WORKERS);
    let threads = Arc::new(Threads::default());
    let served = Arc::new(AtomicUsize::new(0));
    let late = runtime.block_on(async {
        let run = parallel::offload({
            let (threads, served) = (Arc::clone(&threads), Arc::clone(&served));
            move |fork| {
                // Until all other tasks have run: they do, although every worker could take parts
                // of this loop for ever.
                let mut rounds = 0;
                while served.load(Ordering::Relaxed) < TASKS {
                    fork.for_each(0..64, |_| threads.note());
                    rounds += 1;
                }
                rounds
            }
        });
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (threads, served) = (Arc::clone(&threads), Arc::clone(&served));
                filch_std::spawn(async move {
                    filch_std::task::yield_now().await;
                    threads.note();
                    served.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        run.await.unwrap()
    });
    println!("{late} rounds");
    // The thread in `block_on` may help, in the place of a worker that sleeps.
    assert!(threads.counts().len() <= WORKERS + 1, "{:?}", threads.counts());
}

#[test]
fn a_broadcast_runs_once_on_each_worker() {
    for workers in [1, 2, 4] {
        let _watchdog = common::watchdog();
        let runtime = runtime(workers);
        let handle = *runtime.handle();
        let threads = Threads::default();
        let ids = handle.broadcast(|worker| {
            threads.note();
            worker.index()
        });
        assert_eq!(ids, (0..workers).collect::<Vec<_>>());
        assert_eq!(threads.counts(), vec![1; workers]);
        // From tasks and threads, all at the same time; each waits for its turn, and takes part in
        // the others.
        let tasks: Vec<_> =
            (0..20).map(|i| handle.spawn(async move { parallel::broadcast(move |_| i) })).collect();
        thread::scope(|scope| {
            for i in 100..103 {
                scope.spawn(move || assert_eq!(handle.broadcast(|_| i), vec![i; workers]));
            }
        });
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(runtime.block_on(task).unwrap(), vec![i; workers]);
        }
    }
}

/// The other workers wait for jobs that end only after the broadcast.
#[test]
fn jobs_may_broadcast() {
    let _watchdog = common::watchdog();
    let runtime = runtime(3);
    let ran = AtomicUsize::new(0);
    for _ in 0..20 {
        runtime.handle().fork(|fork| {
            fork.for_each(0..8, |_| {
                let outcomes = parallel::broadcast(|_| ran.fetch_add(1, Ordering::Relaxed));
                assert_eq!(outcomes.len(), 3);
            });
        });
    }
    assert_eq!(ran.into_inner(), 20 * 8 * 3);
}

#[test]
fn a_broadcast_that_no_worker_can_run_has_no_outcomes() {
    let runtime = runtime(2);
    let handle = *runtime.handle();
    let inner = handle.broadcast(|_| parallel::broadcast(|_| {}).len());
    assert_eq!(inner, [0, 0], "in another one");
    let failed = catch_unwind(AssertUnwindSafe(|| handle.broadcast(|_| panic!("in a broadcast"))));
    assert!(failed.is_err());
    drop(runtime);
    assert_eq!(handle.broadcast(|_| {}), []);
}
