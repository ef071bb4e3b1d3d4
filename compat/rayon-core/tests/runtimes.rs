//! Beside filch's own tasks: the calling thread's runtime is the pool.

use core::{
    hint,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    collections::HashSet,
    sync::{Barrier, Mutex, mpsc},
    thread::{self, ThreadId},
};

use filch_std::{Runtime, TaskOptions, parallel::Fork, task::Class, time};
use filch_test_support::watchdog;
use rayon_core::{
    ThreadPool, ThreadPoolBuilder, broadcast, current_num_threads, current_thread_index, join,
    scope, scope_fifo, spawn, spawn_broadcast,
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// The threads of a runtime's or a pool's workers.
fn threads_of() -> HashSet<ThreadId> {
    let threads = broadcast(|_| thread::current().id());
    assert_eq!(threads.len(), current_num_threads());
    threads.into_iter().collect()
}

/// Runs `f` in a task. The calling thread does not help, as it would in `block_on`.
fn in_task<R: Send + 'static>(runtime: &Runtime, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    runtime.spawn(async move { send.send(f()).unwrap() }).detach();
    receive.recv().unwrap()
}

#[test]
fn a_task_uses_its_own_runtime() {
    let runtime = runtime(3);
    let outcome = in_task(&runtime, || {
        assert_eq!(current_num_threads(), 3);
        assert!(current_thread_index().is_some_and(|index| index < 3));
        let workers = threads_of();
        assert_eq!(workers.len(), 3);
        assert!(workers.contains(&thread::current().id()));
        let seen = Mutex::new(HashSet::new());
        scope(|scope| {
            for _ in 0..200 {
                scope.spawn(|_| {
                    seen.lock().unwrap().insert(thread::current().id());
                });
            }
        });
        assert!(seen.into_inner().unwrap().is_subset(&workers));
        fib(16)
    });
    assert_eq!(outcome, 987);
}

/// The thread polls the task itself in some of the rounds: then it forks and is helped like a worker, without an index.
#[test]
fn a_thread_that_helps_takes_part() {
    let runtime = runtime(2);
    let main = thread::current().id();
    for _ in 0..200 {
        let task = runtime.spawn(async move {
            let index = current_thread_index();
            assert_eq!(index.is_none(), thread::current().id() == main);
            let both = Barrier::new(2);
            // Two threads, or it would hang.
            join(|| _ = both.wait(), || _ = both.wait());
            let ran = AtomicUsize::new(0);
            scope_fifo(|scope| {
                (0..9).for_each(|_| scope.spawn_fifo(|_| _ = ran.fetch_add(1, Ordering::Relaxed)));
            });
            (ran.into_inner(), fib(8))
        });
        assert_eq!(runtime.block_on(task).unwrap(), (9, 21));
    }
}

#[test]
fn a_thread_in_a_runtime_uses_it_and_is_no_worker() {
    let runtime = runtime(2);
    runtime.block_on(async {
        assert_eq!(current_num_threads(), 2);
        assert_eq!(current_thread_index(), None);
        let here = thread::current().id();
        assert!(!threads_of().contains(&here));
        let (a, _) = join(|| thread::current().id(), || ());
        assert_ne!(a, here, "a side of a join runs on a worker");
    });
}

#[test]
fn runtimes_and_pools_are_apart() {
    let (runtime, pool) = (runtime(2), pool(3));
    let of_pool = pool.install(threads_of);
    let in_pool = in_task(&runtime, move || {
        let before = threads_of();
        let in_pool = pool.install(|| {
            assert_eq!(current_num_threads(), 3);
            threads_of()
        });
        assert_eq!(current_num_threads(), 2);
        assert_eq!(before, threads_of());
        assert!(before.is_disjoint(&in_pool));
        in_pool
    });
    assert_eq!(in_pool, of_pool);
}

/// A runtime in the memory of one that has ended, with the registry of that one.
#[test]
fn one_runtime_after_the_other() {
    for _ in 0..20 {
        let runtime = runtime(2);
        assert_eq!(runtime.block_on(async { fib(12) }), 144);
        let task = runtime.spawn(async { scope(|s| s.spawn(|s| s.spawn(|_| ()))) });
        runtime.block_on(task).unwrap();
    }
}

/// All that a scope has spawned runs, also if the runtime ends in its midst.
#[test]
fn a_shutdown_leaves_no_scope_waiting() {
    for _ in 0..20 {
        let runtime = runtime(2);
        let (began, beginning) = mpsc::channel();
        let (done, end) = mpsc::channel();
        drop(runtime.spawn(async move {
            let ran = AtomicUsize::new(0);
            scope(|scope| {
                began.send(()).unwrap();
                for _ in 0..500 {
                    scope.spawn(|_| {
                        fib(5);
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
            done.send(ran.into_inner()).unwrap();
        }));
        beginning.recv().unwrap();
        drop(runtime);
        assert_eq!(end.recv(), Ok(500));
    }
}

/// Both sides of the join are under way, so that one of the workers waits for the other, or works as one that waits.
#[test]
fn a_broadcast_reaches_workers_that_wait_in_a_join() {
    let pool = pool(2);
    for _ in 0..50 {
        let both = Barrier::new(2);
        let (a, b) = pool.install(|| {
            join(
                || {
                    both.wait();
                },
                || {
                    both.wait();
                    broadcast(|context| context.index())
                },
            )
        });
        assert_eq!((a, b), ((), vec![0, 1]));
    }
}

#[test]
fn tasks_run_while_a_worker_waits_for_a_pool() {
    let (runtime, pool) = (runtime(1), pool(1));
    let handle = *runtime.handle();
    let seven = in_task(&runtime, move || {
        pool.install(|| {
            let (send, receive) = mpsc::channel();
            drop(handle.spawn(async move { send.send(7).unwrap() }));
            // The runtime's only worker waits for us, and works meanwhile.
            receive.recv().unwrap()
        })
    });
    assert_eq!(seven, 7);
}

/// On the only worker, between the sides of joins.
#[test]
fn urgent_tasks_run_between_two_pieces() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let handle = *runtime.handle();
    in_task(&runtime, move || {
        for pause in [None, Some(Duration::from_millis(1))] {
            let (send, receive) = mpsc::channel();
            let urgent = TaskOptions::new().class(Class::Urgent);
            let task = async move {
                if let Some(pause) = pause {
                    time::sleep(pause).await;
                }
                send.send(7).unwrap();
            };
            drop(handle.spawn_with(urgent, task).unwrap());
            let piece = || _ = hint::black_box(fib(1));
            while receive.try_recv() != Ok(7) {
                join(piece, piece);
            }
        }
    });
}

/// The thread is in another runtime while it is in a job of the first.
#[test]
fn a_runtime_in_a_job_is_the_pool_there() {
    let (outer, inner) = (runtime(2), runtime(3));
    in_task(&outer, move || {
        let sides = || {
            let within = inner.block_on(async { join(current_num_threads, current_num_threads) });
            (within, current_num_threads())
        };
        assert_eq!(join(sides, current_num_threads), (((3, 3), 2), 2));
    });
}

/// The worker waits for a side of its own runtime's run, and is in another runtime meanwhile.
#[test]
fn a_broadcast_reaches_workers_that_are_in_another_runtime() {
    let _watchdog = watchdog();
    let (outer, inner) = (runtime(2), runtime(1));
    let handle = *outer.handle();
    in_task(&outer, move || {
        let both = Barrier::new(2);
        let waits = |_: Fork<'_>| _ = both.wait();
        let calls = |_: Fork<'_>| {
            both.wait();
            broadcast(|context| (context.index(), current_num_threads()))
        };
        let outcome =
            inner.block_on(async { handle.fork(|fork| fork.join_open(waits, |f, _| calls(f))).1 });
        assert_eq!(outcome, [(0, 2), (1, 2)]);
    });
}

/// From the pool's own worker, which is in another runtime meanwhile.
#[test]
fn what_is_installed_in_a_pool_is_in_it() {
    let _watchdog = watchdog();
    let (pool, inner) = (pool(3), runtime(1));
    let outcome = pool.install(|| {
        inner.block_on(async {
            let within = pool.install(|| (current_num_threads(), join(current_num_threads, || ())));
            (within, current_num_threads())
        })
    });
    assert_eq!(outcome, ((3, (3, ())), 1));
    // The worker's own part of the wait.
    let outcome = pool.install(|| {
        inner.block_on(async {
            pool.in_place_scope(|scope| (0..9).for_each(|_| scope.spawn(|_| _ = fib(9))));
            pool.broadcast(|context| context.index())
        })
    });
    assert_eq!(outcome, [0, 1, 2]);
}

#[test]
fn a_pool_ends_after_what_was_spawned_in_it() {
    for threads in [1, 2, 4] {
        let (send, receive) = mpsc::channel();
        let exits = send.clone();
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .exit_handler(move |index| exits.send(1_000 + index).unwrap())
            .build()
            .unwrap();
        let (go, wait) = mpsc::channel::<()>();
        pool.spawn(move || {
            wait.recv().unwrap();
            let inner = send.clone();
            spawn_broadcast(move |context| inner.send(context.index()).unwrap());
            spawn(move || {
                send.send(500).unwrap();
            });
        });
        drop(pool);
        go.send(()).unwrap();
        let mut heard: Vec<_> = receive.iter().collect();
        let ends = heard.split_off(threads + 1);
        heard.sort_unstable();
        assert_eq!(heard, (0..threads).chain([500]).collect::<Vec<_>>(), "before the first end");
        assert_eq!(ends.len(), threads);
    }
}

#[test]
fn panics_of_both_sides_and_of_scopes_come_through() {
    let pool = pool(2);
    let message = |f: &(dyn Fn() + Sync)| {
        let payload = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| pool.install(f)));
        *payload.unwrap_err().downcast::<&str>().unwrap()
    };
    let ran = AtomicUsize::new(0);
    let count = || {
        ran.fetch_add(1, Ordering::Relaxed);
    };
    assert_eq!(message(&|| _ = join(|| panic!("a"), count)), "a");
    assert_eq!(message(&|| _ = join(count, || panic!("b"))), "b");
    assert_eq!(message(&|| _ = join(|| panic!("a"), || panic!("b"))), "a");
    let spawns = || {
        scope_fifo(|scope| {
            scope.spawn_fifo(|_| panic!("first"));
            (0..9).for_each(|_| scope.spawn_fifo(|_| count()));
        });
    };
    assert_eq!(message(&spawns), "first");
    assert_eq!(ran.into_inner(), 11, "all of the rest ran");
}

/// More threads come and go than there is time for each to start.
#[test]
fn pools_come_and_go() {
    for round in 0..200 {
        let pool = pool(1 + round % 3);
        if round % 2 == 0 {
            assert_eq!(pool.install(|| fib(8)), 21);
        }
        pool.spawn(|| ());
    }
}

#[test]
fn sleepers_are_woken_for_what_is_spawned_from_outside() {
    let pool = pool(2);
    for round in 0..100 {
        if round % 10 == 0 {
            // Long enough for the workers to fall asleep in most rounds; it is right either way.
            thread::sleep(Duration::from_millis(1));
        }
        let (send, receive) = mpsc::channel();
        pool.spawn(move || send.send(round).unwrap());
        assert_eq!(receive.recv(), Ok(round));
    }
}

/// A thread that stays the worker of a pool leaves the worker of a runtime that it was before.
#[test]
fn a_thread_that_becomes_a_pool_within_a_run_leaves_the_run() {
    /// Both stay: the thread stays the pool's worker. A static, so that leak checkers find them.
    static KEPT: Mutex<Vec<(ThreadPool, Runtime)>> = Mutex::new(Vec::new());
    let (outer, inner) = (runtime(2), runtime(1));
    let handle = *outer.handle();
    thread::spawn(move || {
        let mut pool = None;
        handle.fork(|_| {
            assert!(handle.current_worker().is_some());
            inner.block_on(async {
                let builder = ThreadPoolBuilder::new().num_threads(1).use_current_thread();
                pool = builder.build().ok();
            });
        });
        assert_eq!(handle.current_worker(), None, "the run is over");
        KEPT.lock().unwrap().extend(pool.map(|pool| (pool, inner)));
    })
    .join()
    .unwrap();
}
