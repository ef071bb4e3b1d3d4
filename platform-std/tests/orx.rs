//! orx-parallel's computations on a runtime's workers.

mod common;

use core::panic::AssertUnwindSafe;
use std::{
    collections::HashSet,
    panic::catch_unwind,
    sync::{Mutex, mpsc},
    thread::{self, ThreadId},
};

use common::runtime;
use filch_std::parallel::OrxPool;
use orx_parallel::{IntoParIter, Par, ParCollection, Runner, ThreadPool};

fn squares(pool: OrxPool, n: usize) -> usize {
    let squares: Vec<usize> =
        (0..n).into_par().runner(Runner::fixed_with_pool(pool)).map(|i| i * i).collect();
    assert!(squares.iter().enumerate().all(|(i, square)| i * i == *square), "in order");
    squares.len()
}

#[test]
fn iterators_run_on_threads_and_in_tasks() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let pool = OrxPool::new(*runtime.handle());
        assert_eq!(pool.max_num_threads().get(), workers);
        for n in [0, 1, 10, 10_000] {
            assert_eq!(squares(pool, n), n);
            let task = runtime.spawn(async move { squares(OrxPool::current().unwrap(), n) });
            assert_eq!(runtime.block_on(task).unwrap(), n);
        }
        let words = vec!["a", "bb", "ccc"];
        let words = words.par().runner(Runner::fixed_with_pool(pool));
        assert_eq!(words.map(|word| word.len()).sum::<usize>(), 6);
    }
    assert!(OrxPool::current().is_err());
}

#[test]
fn parts_run_on_the_workers_and_nowhere_else() {
    let runtime = runtime(3);
    let pool = OrxPool::new(*runtime.handle());
    let seen: Mutex<HashSet<ThreadId>> = Mutex::default();
    for _ in 0..100 {
        let all = (0..30).into_par().runner(Runner::fixed_with_pool(pool)).chunk_size(1);
        all.for_each(|_| {
            seen.lock().unwrap().insert(thread::current().id());
        });
    }
    let seen = seen.into_inner().unwrap();
    assert!(!seen.contains(&thread::current().id()));
    assert!((1..=3).contains(&seen.len()), "{seen:?}");
}

#[test]
fn a_panic_comes_through() {
    let runtime = runtime(2);
    let pool = OrxPool::new(*runtime.handle());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let all = (0..20).into_par().runner(Runner::fixed_with_pool(pool)).chunk_size(1);
        all.for_each(|i| assert_ne!(i, 3, "the third"));
    }));
    let message = *panicked.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("the third"), "{message}");
    assert_eq!(squares(pool, 100), 100, "the workers are as good as new");
}

#[test]
fn after_a_shutdown_it_runs_in_place() {
    let runtime = runtime(2);
    let pool = OrxPool::new(*runtime.handle());
    drop(runtime);
    assert_eq!(squares(pool, 1_000), 1_000);
}

#[test]
fn a_shutdown_in_its_midst_loses_nothing() {
    for _ in 0..20 {
        let runtime = runtime(2);
        let (began, beginning) = mpsc::channel();
        let (done, end) = mpsc::channel();
        drop(runtime.spawn(async move {
            began.send(()).unwrap();
            let pool = OrxPool::current().unwrap();
            (0..50).for_each(|_| done.send(squares(pool, 2_000)).unwrap());
        }));
        beginning.recv().unwrap();
        drop(runtime);
        assert_eq!(end.iter().collect::<Vec<_>>(), [2_000; 50]);
    }
}
