//! Fork-join jobs, and the other duties of the workers that run them.

mod common;

use core::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};
use std::{sync::Arc, thread};

use common::{Mine, Sim, Sleeps, id, pool, quiet, stop, threads, until, watchdog};
use filch::{Fork, JoinError, Step};

/// A worker that must not help waits for its job inside the poll of a task, and gives its queues to the other worker.
#[test]
fn a_task_that_waits_for_a_job_too_deep_to_help() {
    let executor = threads(2, quiet().nesting(0));
    let stolen = AtomicBool::new(false);
    let task = async move {
        let run = executor.fork(|fork| {
            fork.join(
                |fork| {
                    while !stolen.load(SeqCst) {
                        fork.is_wanted();
                        thread::yield_now();
                    }
                },
                |_| {
                    stolen.store(true, SeqCst);
                    // Gives the other worker time to begin its wait.
                    (0..1_000).for_each(|_| thread::yield_now());
                },
            )
        });
        run.is_ok()
    };
    assert!(executor.spawn(pool(), task).unwrap().join().unwrap());
    stop(executor);
}

/// One of two workers waits for a job. The other runs that job, and is too deep in joins to help with what its task
/// waits for. It returns the error, and does not wait for the first worker.
#[test]
fn too_deep_beside_a_worker_that_waits_for_a_job() {
    let executor = threads(2, quiet().nesting(1));
    let pool = pool();
    let stolen = AtomicBool::new(false);
    let spawn = move |task: fn() -> u32| executor.spawn(pool, async move { task() }).unwrap();
    let task = async move {
        let inner = || {
            stolen.store(true, SeqCst);
            // Gives the other worker time to begin its wait, if it does.
            (0..100).for_each(|_| thread::yield_now());
            let outer = executor.spawn(pool, async move {
                match spawn(|| 3).join() {
                    Ok(n) => n,
                    Err(JoinError::TooDeep) => 3,
                    Err(error) => panic!("{error}"),
                }
            });
            outer.unwrap().join().unwrap()
        };
        let wait = |fork: Fork<'_>| {
            while !stolen.load(SeqCst) {
                // The other worker may have gone to sleep since.
                fork.is_wanted();
                thread::yield_now();
            }
        };
        executor.fork(|fork| fork.join(wait, |_| inner()).1).ok().expect("a worker")
    };
    assert_eq!(executor.spawn(pool, task).unwrap().join().unwrap(), 3);
    stop(executor);
}

/// Runs a part of a loop of 100 calls, 100 us each, in a task on worker 0, while worker 1 sleeps. Returns whether some
/// of the loop was left.
fn is_cut(sim: &'static Mine<Sim>, before: impl Future<Output = ()> + Send + 'static) -> bool {
    sim.on(1, |worker| assert!(worker.begin_park().is_some()));
    let task = sim.executor.spawner().spawn_pinned(pool(), id(0), async move {
        before.await;
        let call = |_| sim.executor.platform().advance(Duration::from_micros(100));
        let run = sim.executor.fork(|fork| fork.map_reduce_slice(0..100, call, |(), ()| ()));
        !run.ok().expect("a worker").1.is_empty()
    });
    let mut task = task.unwrap();
    while !task.is_finished() {
        assert_eq!(sim.step(0), Step::Polled);
    }
    sim.on(1, |worker| worker.end_park());
    sim.settle();
    task.join().unwrap()
}

fn leak(sim: Sim) -> &'static Mine<Sim> {
    common::forever(Box::new(Mine::new(sim)))
}

/// Without stealing, no other worker takes what waits in the ring. Without a watchdog, no other worker fires the
/// timers.
#[test]
fn a_loop_gives_way_to_what_only_its_worker_sees_to() {
    let sim = leak(Sim::with(2, quiet().stealing(false).lifo_cap(0)));
    assert!(!is_cut(sim, async {}), "nothing waits");
    let spawn = async {
        let other = sim.executor.spawn(pool(), async {});
        drop(other.unwrap());
    };
    assert!(is_cut(sim, spawn), "a task waits in the ring");
    drop(sim.executor.spawner().spawn_pinned(pool(), id(0), sim.executor.sleep(MS)).unwrap());
    assert_eq!(sim.step(0), Step::Polled);
    assert!(is_cut(sim, async {}), "a timer is overdue");
    sim.close();
}

const MS: Duration = Duration::from_millis(1);

/// No worker has the watchdog role, since all sleep. Then a worker that has a timer is woken for a job.
#[test]
fn a_worker_that_turns_to_a_job_has_another_watch() {
    let sim = leak(Sim::with(3, quiet().watchdog(Some((MS, 4 * MS)))));
    drop(sim.executor.spawner().spawn_pinned(pool(), id(1), sim.executor.sleep(9 * MS)).unwrap());
    assert_eq!(sim.step(1), Step::Polled);
    let sleep = |worker| sim.on(worker, |worker| assert!(worker.begin_park().is_some()));
    [2, 1, 0].into_iter().for_each(sleep);
    // The watchdog finds all workers asleep, and gives up its role.
    for _ in 0..2 {
        sim.on(2, |worker| worker.end_park());
        sleep(2);
        sim.executor.platform().advance(4 * MS);
    }
    sim.on(2, |worker| worker.end_park());
    sleep(2);
    let parked = || sim.executor.metrics().totals().parked;
    let run = sim.on(0, |worker| {
        worker.end_park();
        sim.executor.fork(|fork| {
            fork.join(
                |_| {
                    assert_eq!(parked(), 1);
                    sim.on(1, |worker| {
                        worker.end_park();
                        assert_eq!(worker.step(), Step::Polled);
                    });
                },
                |_| assert_eq!(parked(), 0, "another is woken to watch"),
            )
        })
    });
    assert!(run.is_ok());
    sim.executor.platform().advance(9 * MS);
    sim.settle();
    sim.close();
}

/// A worker sleeps for its job, too deep to help, and takes part in a broadcast there. What the closure queues goes to the others.
#[test]
fn what_a_broadcast_queues_on_a_blocked_worker_goes_to_the_others() {
    let _watchdog = watchdog();
    let executor = threads(4, quiet().nesting(0));
    let (stolen, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (steals, runs) = (Arc::clone(&stolen), Arc::clone(&ran));
    let forks = executor.spawner().spawn_pinned(pool(), id(0), async move {
        let run = executor.fork(|fork| {
            fork.join(
                |fork| {
                    until(|| {
                        fork.is_wanted();
                        steals.load(SeqCst)
                    });
                },
                |_| {
                    steals.store(true, SeqCst);
                    until(|| runs.load(SeqCst));
                },
            )
        });
        run.is_ok()
    });
    until(|| stolen.load(SeqCst) && executor.platform().sleeps(0) == Sleeps::Waits);
    let broadcasts = executor.spawn(pool(), async move {
        let queues = |worker| {
            if worker == id(0) {
                let ran = Arc::clone(&ran);
                executor.spawn(pool(), async move { ran.store(true, SeqCst) }).unwrap().detach();
            }
        };
        assert!(executor.broadcast(queues).is_ok());
    });
    broadcasts.unwrap().join().unwrap();
    assert!(forks.unwrap().join().unwrap());
    stop(executor);
}
