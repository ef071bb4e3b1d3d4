//! Models of an executor of one worker, without the part that several share: its sleep has no idle bitmap, and the park word alone
//! keeps what comes on its way there.

use std::{boxed::Box, vec::Vec};

use loom::thread;

use super::models_whole::{Board, join};
use crate::{
    Config, Scheduler, Step, TaskPool, WorkerId, WorkerSlot,
    atomic::model::{check, leak},
};

type Single = Scheduler<Board, Box<[WorkerSlot<4, ()>]>, 4>;
type Pool = TaskPool<640, 4>;

fn single() -> (&'static Single, &'static Pool) {
    let slots: Vec<_> = (0..1).map(|_| WorkerSlot::new()).collect();
    let executor = Scheduler::over(Board::new(), Config::new().lifo_cap(0), slots.into()).unwrap();
    (leak(executor), leak(Pool::new()))
}

/// Works until it has polled so many tasks.
fn work(executor: &'static Single, tasks: usize) {
    let worker = executor.worker(WorkerId::new(0)).unwrap();
    let mut polled = 0;
    while polled < tasks {
        match worker.step() {
            Step::Polled => polled += 1,
            _ => worker.park(),
        }
    }
    core::mem::forget(worker);
}

/// A task comes through the injector as the worker goes to sleep.
///
/// Seen to catch: `single_glance`.
#[test]
fn a_task_for_a_single_worker_that_goes_to_sleep() {
    check(3, || {
        let (executor, pool) = single();
        let worker = thread::spawn(move || work(executor, 1));
        core::mem::forget(executor.spawn(pool, async {}).unwrap());
        join(vec![worker]);
    });
}

/// The same with two contexts that spawn, one of them by way of the inbox.
#[test]
fn two_tasks_for_a_single_worker_that_goes_to_sleep() {
    check(2, || {
        let (executor, pool) = single();
        let worker = thread::spawn(move || work(executor, 2));
        let other = thread::spawn(move || {
            let task = executor.spawner().spawn_pinned(pool, WorkerId::new(0), async {});
            core::mem::forget(task.unwrap());
        });
        core::mem::forget(executor.spawn(pool, async {}).unwrap());
        join(vec![worker, other]);
    });
}
