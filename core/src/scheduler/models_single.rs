//! Models of an executor of one worker, without the part that several share: its sleep has no idle bitmap, and the park word alone
//! keeps what comes on its way there. And of one that another loop drives by its wake callback.

use core::cell::Cell;
use std::{boxed::Box, vec::Vec};

use loom::{
    sync::{Condvar, Mutex},
    thread,
};

use super::models_whole::{Board, join};
use crate::{
    Config, Instant, Platform, Scheduler, Step, TaskPool, WorkerId, WorkerSlot,
    atomic::{
        AtomicU32,
        model::{check, leak},
    },
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

loom::thread_local! {
    static DRIVEN: Cell<Option<WorkerId>> = Cell::new(None);
}

/// Another loop: it calls the worker again as soon as `wake` has asked for that.
struct Loop {
    asked: Mutex<bool>,
    news: Condvar,
}

impl Loop {
    fn wait_until_asked(&self) {
        let mut asked = self.asked.lock().unwrap();
        while !core::mem::take(&mut *asked) {
            asked = self.news.wait(asked).unwrap();
        }
    }
}

// SAFETY: a context is the worker that it entered.
unsafe impl Platform for Loop {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn current_worker(&self) -> Option<WorkerId> {
        DRIVEN.with(Cell::get)
    }
    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        DRIVEN.with(|me| me.set(worker));
    }
    unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {
        unreachable!("the loop never calls `park`");
    }
    fn wake(&self, _: WorkerId, _: &AtomicU32) {
        *self.asked.lock().unwrap() = true;
        self.news.notify_all();
    }
}

/// Two tasks come as the driven worker goes to rest; with the idle bitmap, or without.
///
/// Seen to catch: `park_unarmed`.
fn drive<F: crate::parts::Parts>() {
    let slots: Vec<_> = (0..1).map(|_| WorkerSlot::<4, F>::new()).collect();
    let platform = Loop { asked: Mutex::new(false), news: Condvar::new() };
    let config = Config::new().lifo_cap(0).watchdog(None);
    let executor: &'static Scheduler<_, _, 4> =
        leak(Scheduler::over(platform, config, slots.into_boxed_slice()).unwrap());
    let pool = leak(Pool::new());
    let driver = thread::spawn(move || {
        let worker = executor.worker(WorkerId::new(0)).unwrap();
        let mut polled = 0;
        while polled < 2 {
            polled += worker.run_for(usize::MAX);
            if polled < 2 && worker.begin_park().is_some() {
                executor.platform().wait_until_asked();
                worker.end_park();
            }
        }
        core::mem::forget(worker);
    });
    for _ in 0..2 {
        core::mem::forget(executor.spawn(pool, async {}).unwrap());
    }
    join(vec![driver]);
}

#[test]
fn a_worker_that_is_driven_by_its_wake_callback() {
    check(2, drive::<()>);
}

#[test]
fn a_worker_with_all_parts_that_is_driven_by_its_wake_callback() {
    check(2, drive::<crate::parts::All>);
}
