//! A closure that each worker runs once. The test steps each worker by hand.
#![cfg(not(any(filch_loom, filch_shuttle)))]

mod common;

use core::{
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{panic::catch_unwind, sync::Mutex};

use common::{Mine, Sim, id, pool};
use filch::{Platform, Step, TaskPool, WorkerId, yield_now};

/// Worker 0 broadcasts.
fn broadcast(sim: &Sim, f: impl Fn(WorkerId) + Sync) -> usize {
    sim.on(0, |_| match sim.executor.broadcast(f) {
        Ok(workers) => workers,
        Err(_) => panic!("worker 0 is a worker"),
    })
}

#[test]
fn each_worker_that_is_online_runs_it_once() {
    let sim = Mine::new(Sim::new(4));
    sim.detach(2);
    let ran = Mutex::new(vec![]);
    let workers = broadcast(&sim, |worker| {
        assert_eq!(sim.executor.platform().current_worker(), Some(worker));
        ran.lock().unwrap().push(worker);
        if worker == id(0) {
            // The other workers have been woken by now.
            assert_eq!(sim.step(3), Step::Polled);
            assert_eq!(sim.step(1), Step::Polled);
            assert_eq!(sim.step(1), Step::Idle, "once");
        }
    });
    assert_eq!(workers, 3);
    assert_eq!(*ran.lock().unwrap(), [id(0), id(3), id(1)]);
    sim.attach(2);
    assert_eq!(sim.step(2), Step::Idle, "who comes later has missed it");
}

/// The closure may take long, so a context that queues a task meanwhile must not rely on that worker.
#[test]
fn a_worker_that_runs_it_does_not_search() {
    let sim = Mine::new(Sim::new(3));
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(None));
    let workers = broadcast(&sim, |worker| match worker.index() {
        0 => {
            // Worker 1 is woken for a task, and another worker takes the task.
            sim.executor.spawn(pool(), async {}).unwrap().detach();
            assert_eq!(sim.step(2), Step::Polled);
            while sim.step(2) == Step::Polled {}
            assert_eq!(sim.step(1), Step::Polled);
        }
        1 => assert_eq!(sim.executor.metrics().totals().searching, 0),
        _ => {}
    });
    assert_eq!(workers, 3);
}

#[test]
fn a_worker_that_leaves_meanwhile_is_left_out() {
    let sim = Mine::new(Sim::new(3));
    let workers = broadcast(&sim, |worker| match worker.index() {
        0 => {
            sim.detach(1);
            assert_eq!(sim.step(2), Step::Polled);
        }
        2 => {}
        _ => panic!("worker 1 has left"),
    });
    assert_eq!(workers, 2);
}

#[test]
fn a_worker_that_always_has_tasks_comes_to_it_at_the_end_of_a_tick() {
    let pool: &'static TaskPool<1024, 64> = pool();
    let sim = Mine::new(Sim::new(2));
    let spawner = sim.executor.spawner();
    let task = async {
        loop {
            yield_now().await;
        }
    };
    let task = spawner.spawn_pinned(pool, id(1), task).unwrap();
    let polls = AtomicUsize::new(0);
    broadcast(&sim, |worker| {
        if worker == id(0) {
            polls.store(sim.on(1, |worker| worker.run_for(1_000)), Ordering::Relaxed);
        } else {
            assert_eq!(polls.load(Ordering::Relaxed), 0, "within those polls");
        }
    });
    assert_eq!(polls.into_inner(), 1_000);
    drop(task);
}

#[test]
fn one_in_another_is_refused_and_so_is_who_is_no_worker() {
    let sim = Mine::new(Sim::new(1));
    let refused = AtomicUsize::new(0);
    broadcast(&sim, |_| {
        refused.fetch_add(usize::from(sim.executor.broadcast(|_| {}).is_err()), Ordering::Relaxed);
    });
    assert_eq!(refused.into_inner(), 1);
    let Err(f) = sim.executor.broadcast(|worker: WorkerId| assert_eq!(worker, id(0))) else {
        panic!("this thread is no worker")
    };
    f(id(0));
    assert_eq!(broadcast(&sim, |_| {}), 1, "the next is welcome");
}

#[test]
fn a_panic_reaches_the_caller_when_all_have_run() {
    let sim = Mine::new(Sim::new(2));
    let ran = AtomicUsize::new(0);
    let run = || {
        broadcast(&sim, |worker| {
            ran.fetch_add(1, Ordering::Relaxed);
            if worker == id(0) {
                assert_eq!(sim.step(1), Step::Polled);
            } else {
                panic!("on worker 1");
            }
        })
    };
    let at = core::ptr::from_ref(sim.executor.platform());
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    common::forget_context(at);
    assert_eq!(ran.into_inner(), 2);
    let again = |worker| {
        if worker == id(0) {
            assert_eq!(sim.step(1), Step::Polled);
        }
    };
    assert_eq!(broadcast(&sim, again), 2, "both are good for more");
}
