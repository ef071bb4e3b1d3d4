//! A lock held across a join: a worker that waits in `join` runs parts of what it waits for, and nothing else.

use core::{
    cell::RefCell,
    ops::Range,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::{
    sync::{Arc, Mutex, OnceLock, mpsc},
    thread,
};

use filch_std::Runtime;
use filch_test_support::{until, watchdog};
use rayon_core::{ThreadPool, ThreadPoolBuilder, broadcast, join, scope, spawn, spawn_broadcast};

const THREADS: usize = 4;
const ROUNDS: usize = 20;

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// A parallel loop, as rayon makes them: halves, down to single items.
fn each(items: Range<usize>, f: &(impl Fn(usize) + Sync)) {
    if items.len() < 2 {
        return items.for_each(f);
    }
    let half = items.start + items.len() / 2;
    join(|| each(items.start..half, f), || each(half..items.end, f));
}

/// What is computed under the locks. Others have time to steal.
fn compute() -> usize {
    let sum = AtomicUsize::new(0);
    each(0..16, &|i| {
        thread::yield_now();
        sum.fetch_add(i, Ordering::Relaxed);
    });
    sum.into_inner()
}

#[test]
fn a_mutex_is_held_across_joins_while_other_items_want_it() {
    let _watchdog = watchdog();
    let pool = pool(THREADS);
    for _ in 0..ROUNDS {
        let total = Mutex::new(0);
        pool.install(|| {
            each(0..64, &|_| {
                let mut total = total.lock().unwrap();
                *total += compute();
            });
        });
        assert_eq!(total.into_inner().unwrap(), 64 * 120);
    }
}

#[test]
fn a_value_that_many_items_want_is_made_in_parallel() {
    let _watchdog = watchdog();
    let pool = pool(THREADS);
    for _ in 0..ROUNDS {
        let once = OnceLock::new();
        pool.install(|| {
            each(0..64, &|_| {
                compute();
                assert_eq!(*once.get_or_init(compute), 120);
            });
        });
    }
}

/// What wants the value is spawned while the value is made, on the thread that makes it and then waits in a join.
#[test]
fn a_value_is_not_wanted_on_top_of_what_makes_it() {
    let _watchdog = watchdog();
    let pool = pool(2);
    for _ in 0..ROUNDS {
        let once = Arc::new(OnceLock::new());
        let (send, receive) = mpsc::channel();
        let stolen = AtomicBool::new(false);
        let make = || {
            let (once, send) = (Arc::clone(&once), send.clone());
            let first = || {
                until(|| stolen.load(Ordering::Relaxed));
                spawn(move || send.send(*once.get_or_init(|| 0)).unwrap());
            };
            join(first, || stolen.store(true, Ordering::Relaxed));
            7
        };
        assert_eq!(pool.install(|| *once.get_or_init(make)), 7);
        assert_eq!(receive.recv(), Ok(7));
    }
}

#[test]
fn what_the_thread_has_borrowed_is_not_borrowed_again_in_a_join() {
    thread_local! {
        static BORROWED: RefCell<usize> = const { RefCell::new(0) };
    }
    let _watchdog = watchdog();
    let pool = pool(THREADS);
    for _ in 0..ROUNDS {
        pool.install(|| {
            each(0..64, &|_| {
                BORROWED.with_borrow_mut(|sum| *sum += compute());
            });
        });
    }
    let sums = pool.broadcast(|_| BORROWED.take());
    assert_eq!(sums.into_iter().sum::<usize>(), ROUNDS * 64 * 120);
}

/// What is spawned in a join, and wants the lock, waits for the worker's loop.
#[test]
fn what_a_join_spawns_does_not_run_on_top_of_it() {
    static LOCK: Mutex<usize> = Mutex::new(0);
    let _watchdog = watchdog();
    for threads in [1, 2, THREADS] {
        let pool = pool(threads);
        let (send, receive) = mpsc::channel();
        pool.install(|| {
            scope(|scope| {
                for _ in 0..ROUNDS {
                    let send = send.clone();
                    scope.spawn(move |_| {
                        let mut lock = LOCK.lock().unwrap();
                        let job = || {
                            let send = send.clone();
                            spawn(move || {
                                *LOCK.lock().unwrap() += 1;
                                send.send(()).unwrap();
                            });
                        };
                        join(job, job);
                        *lock += 1;
                    });
                }
            });
        });
        drop(send);
        assert_eq!(receive.iter().count(), 2 * ROUNDS);
        assert_eq!(core::mem::take(&mut *LOCK.lock().unwrap()), 3 * ROUNDS);
    }
}

#[test]
fn tasks_of_a_runtime_hold_a_mutex_across_joins() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(THREADS).build().unwrap();
    for _ in 0..ROUNDS {
        static TOTAL: Mutex<usize> = Mutex::new(0);
        let task = |_| {
            runtime.spawn(async {
                let mut total = TOTAL.lock().unwrap();
                *total += compute();
            })
        };
        let tasks: Vec<_> = (0..64).map(task).collect();
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
        assert_eq!(core::mem::take(&mut *TOTAL.lock().unwrap()), 64 * 120);
    }
}

/// The exception: what each thread has to run. Here the caller of the broadcast is what the other worker waits for.
#[test]
fn a_worker_that_waits_in_a_join_takes_part_in_broadcasts() {
    let _watchdog = watchdog();
    let pool = pool(2);
    for _ in 0..ROUNDS {
        let stolen = AtomicUsize::new(0);
        let begins = || until(|| stolen.load(Ordering::Relaxed) > 0);
        let (_, indices) = pool.install(|| {
            join(begins, || {
                stolen.fetch_add(1, Ordering::Relaxed);
                let compute = |context: rayon_core::BroadcastContext<'_>| {
                    assert_eq!(compute(), 120);
                    context.index()
                };
                let first = broadcast(compute);
                scope(|scope| scope.spawn_broadcast(move |_, context| _ = compute(context)));
                first
            })
        });
        assert_eq!(indices, [0, 1]);
    }
}

/// A thread comes to its part when it has done what it has spawned; that has a broadcast of its own, which must not take the first's place.
#[test]
fn a_broadcast_in_what_comes_before_a_broadcast_ends() {
    let _watchdog = watchdog();
    let pool = pool(1);
    for _ in 0..ROUNDS {
        let (send, ends) = mpsc::channel();
        pool.install(|| {
            for _ in 0..8 {
                let send = send.clone();
                spawn(move || send.send(broadcast(|_| ()).len()).unwrap());
            }
            spawn_broadcast(move |_| send.send(0).unwrap());
        });
        assert_eq!(ends.iter().sum::<usize>(), 8);
    }
}

/// However late the other worker comes, and however deep the job lies.
#[test]
fn a_job_is_taken_while_the_first_side_runs() {
    fn nest(depth: usize, wait: &(impl Fn() + Sync), count: &AtomicUsize) {
        let deeper = || if depth == 0 { wait() } else { nest(depth - 1, wait, count) };
        join(deeper, || count.fetch_add(1, Ordering::Relaxed));
    }
    let _watchdog = watchdog();
    let pool = pool(2);
    for round in 0..ROUNDS {
        let ran = AtomicUsize::new(0);
        let depth = round % 8;
        let all = || until(|| ran.load(Ordering::Relaxed) == depth + 1);
        pool.install(|| nest(depth, &all, &ran));
    }
}
