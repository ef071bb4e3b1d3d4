//! What a worker owes the others when it leaves its loop, for user code or for a sleep in the midst of it.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

use common::{Sleeps, ThreadExecutor, id, parked, pool, quiet, stop, until, watchdog};

/// An executor of two workers on threads of their own.
fn pair() -> &'static ThreadExecutor {
    let executor = parked(2, quiet());
    (0..2).for_each(|i| executor.start(id(i)).unwrap());
    until(|| (0..2).all(|i| executor.platform().sleeps(i) == Sleeps::Listens));
    executor
}

/// What worker 0 does while it waits for worker 1, which goes on when it has seen it asleep.
fn sleeper(executor: &ThreadExecutor) -> Sleeps {
    until(|| executor.platform().sleeps(0) != Sleeps::Awake);
    executor.platform().sleeps(0)
}

#[test]
fn a_worker_that_waits_for_a_stolen_job_does_not_listen() {
    let _watchdog = watchdog();
    let executor = pair();
    let run = executor.spawner().spawn_pinned(pool(), id(0), async move {
        let stolen = AtomicBool::new(false);
        let run = executor.fork(|fork| {
            // Worker 1 takes `b` as soon as it has asked for it.
            let a = |fork: filch::Fork<'_>| {
                until(|| {
                    fork.join(|_| (), |_| ());
                    stolen.load(SeqCst)
                });
            };
            let b = |_: filch::Fork<'_>| {
                stolen.store(true, SeqCst);
                sleeper(executor)
            };
            fork.join(a, b).1
        });
        run.ok()
    });
    let mut run = run.unwrap();
    let slept = run.join().unwrap();
    assert_eq!(slept, Some(Sleeps::Waits), "it listens, and user code comes next");
    stop(executor);
}

#[test]
fn a_worker_that_waits_for_a_broadcast_does_not_listen() {
    let _watchdog = watchdog();
    let executor = pair();
    let run = executor.spawner().spawn_pinned(pool(), id(0), async move {
        let slept = std::sync::Mutex::new(Sleeps::Awake);
        let workers = executor.broadcast(|worker| {
            if worker == id(1) {
                *slept.lock().unwrap() = sleeper(executor);
            }
        });
        (workers.ok(), slept.into_inner().unwrap())
    });
    let mut run = run.unwrap();
    assert_eq!(run.join().unwrap(), (Some(2), Sleeps::Waits));
    stop(executor);
}

#[test]
fn a_worker_that_is_idle_listens() {
    let _watchdog = watchdog();
    // It waits for that.
    stop(pair());
}
