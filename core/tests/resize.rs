//! Workers that are asked to leave and to come back. No task, timer or job is left behind.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{sync::Arc, thread};

use common::{
    Flag, Sim, Threads, at_leave, id, output, parked, pool, quiet, shared, until, watchdog,
};
use filch::{
    Executor, Instant, JoinError, ResizeError, SpawnErrorKind, StartError, Step, TaskPool,
    yield_now,
};

fn online(sim: &Sim) -> Vec<usize> {
    let metrics = sim.executor.metrics();
    metrics.workers().filter(|(_, worker)| worker.online).map(|(id, _)| id.index()).collect()
}

/// Worker `worker` leaves at its next step.
fn leaves(sim: &Sim, worker: u16) {
    assert_eq!(sim.step(worker), Step::Stopped);
    sim.detach(worker);
}

#[test]
fn idle_workers_leave_and_the_others_go_on() {
    let sim = Sim::new(4);
    assert_eq!(sim.executor.active(), 4);
    assert_eq!(sim.executor.resize(2), Ok(()));
    assert_eq!(sim.executor.active(), 2);
    leaves(&sim, 3);
    leaves(&sim, 2);
    assert_eq!(online(&sim), [0, 1]);
    let mut task = sim.executor.spawn(pool(), async { 7 }).unwrap();
    assert_eq!(sim.run(1), 1);
    assert_eq!(output(&mut task).unwrap(), 7);
    assert_eq!((sim.step(0), sim.step(1)), (Step::Idle, Step::Idle));
    // This platform starts no worker.
    assert_eq!(sim.executor.resize(3), Err(ResizeError::Start(StartError::Unsupported)));
    assert_eq!(sim.executor.active(), 3);
    sim.attach(2);
    assert_eq!(sim.step(2), Step::Idle);
}

#[test]
fn absurd_numbers_change_nothing() {
    let sim = Sim::new(2);
    assert_eq!(sim.executor.resize(0), Err(ResizeError::ZeroWorkers));
    assert_eq!(sim.executor.resize(3), Err(ResizeError::TooManyWorkers(2)));
    assert_eq!(sim.executor.resize(usize::MAX), Err(ResizeError::TooManyWorkers(2)));
    assert_eq!((sim.executor.active(), sim.step(0), sim.step(1)), (2, Step::Idle, Step::Idle));
}

#[test]
fn a_sleeper_is_woken_to_leave() {
    let sim = Sim::new(2);
    sim.on(1, |worker| assert_eq!(worker.begin_park(), Some(None)));
    sim.executor.resize(1).unwrap();
    assert_eq!(sim.executor.platform().woken(), [1]);
    leaves(&sim, 1);
}

#[test]
fn a_busy_worker_leaves_at_the_end_of_a_tick() {
    let sim = Sim::new(2);
    let polls = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let polls = Arc::clone(&polls);
            let task = async move {
                loop {
                    polls.fetch_add(1, SeqCst);
                    yield_now().await;
                }
            };
            sim.executor.spawn(pool(), task).unwrap()
        })
        .collect();
    assert_eq!(sim.on(1, |worker| worker.run_for(100)), 100);
    sim.executor.resize(1).unwrap();
    let more = sim.on(1, |worker| worker.run_for(1_000));
    assert!(more < 300, "{more} polls after it was asked to leave");
    assert_eq!(sim.step(1), Step::Stopped);
    sim.detach(1);
    // The tasks went to the other worker.
    let before = polls.load(SeqCst);
    assert_eq!(sim.on(0, |worker| worker.run_for(100)), 100);
    assert_eq!(polls.load(SeqCst), before + 100);
    drop(tasks);
}

#[test]
fn a_pinned_task_keeps_its_worker_to_its_end() {
    type End = fn(&Sim, &Flag, &filch::JoinHandle<()>);
    let ends: [(End, bool); 3] = [
        (|_, flag, _| flag.set(), false),
        (|_, _, task| task.abort(), true),
        (
            |sim, flag, task| {
                task.abort();
                flag.set();
                sim.executor.resize(1).unwrap();
            },
            true,
        ),
    ];
    for (end, cancelled) in ends {
        let sim = Sim::new(2);
        let flag = Flag::new();
        let waits = flag.wait();
        let spawner = sim.executor.spawner();
        let mut task = spawner.spawn_pinned(pool(), id(1), waits).unwrap();
        assert_eq!(sim.run(1), 1);
        sim.executor.resize(1).unwrap();
        assert_eq!(sim.step(1), Step::Idle, "its task lives");
        // It takes no new one, but tasks for all.
        let late = spawner.spawn_pinned(pool(), id(1), async {}).unwrap_err();
        assert_eq!(late.kind, SpawnErrorKind::NoSuchWorker);
        sim.executor.spawn(pool(), async {}).unwrap().detach();
        assert_eq!(sim.run(1), 1);
        end(&sim, &flag, &task);
        assert_eq!(sim.step(1), Step::Polled);
        let ended = output(&mut task);
        assert_eq!(matches!(ended, Err(JoinError::Cancelled)), cancelled, "{ended:?}");
        leaves(&sim, 1);
    }
}

#[test]
fn a_task_that_panics_or_was_never_spawned_keeps_no_worker() {
    static SMALL: TaskPool<256, 1> = TaskPool::new();
    let sim = Sim::new(2);
    let spawner = sim.executor.spawner();
    let mut panics = spawner.spawn_pinned(&SMALL, id(1), async { panic!("as planned") }).unwrap();
    let full = spawner.spawn_pinned(&SMALL, id(1), async {}).unwrap_err();
    assert_eq!(full.kind, SpawnErrorKind::Full);
    sim.executor.resize(1).unwrap();
    assert_eq!(sim.step(1), Step::Polled);
    assert!(matches!(output(&mut panics), Err(JoinError::Panicked(_))));
    leaves(&sim, 1);
}

#[test]
fn local_tasks_keep_their_worker() {
    let sim = Sim::new(2);
    let (flag, spawner) = (Flag::new(), sim.executor.spawner());
    let waits = flag.wait();
    let parent = async move {
        spawner.spawn_local(pool(), waits).unwrap().detach();
    };
    spawner.spawn_pinned(pool(), id(1), parent).unwrap().detach();
    assert_eq!(sim.run(1), 2);
    sim.executor.resize(1).unwrap();
    assert_eq!(sim.step(1), Step::Idle, "the local task is not cancelled");
    flag.set();
    assert_eq!(sim.step(1), Step::Polled);
    leaves(&sim, 1);
}

#[cfg(feature = "classes")]
#[test]
fn a_set_keeps_its_first_worker() {
    use filch::{TaskOptions, WorkerSet};
    let sim = Sim::new(4);
    let flag = Flag::new();
    let set = |first, last| WorkerSet::new(&[id(first), id(last)]).unwrap();
    let spawn = |set| {
        let options = TaskOptions::new().workers(set);
        sim.executor.spawner().spawn_with(options, pool(), flag.wait())
    };
    let mut task = spawn(set(1, 3)).unwrap();
    assert_eq!(sim.run(3), 1);
    sim.executor.resize(1).unwrap();
    leaves(&sim, 3);
    leaves(&sim, 2);
    assert_eq!(sim.step(1), Step::Idle);
    assert_eq!(spawn(set(1, 2)).unwrap_err().kind, SpawnErrorKind::NoSuchWorker);
    let mut first = spawn(set(0, 3)).unwrap();
    flag.set();
    assert_eq!((sim.run(1), sim.run(0)), (1, 1));
    output(&mut task).unwrap();
    output(&mut first).unwrap();
    leaves(&sim, 1);
}

/// The first worker of a set stays for a task of it, and sleeps while another one ends that.
#[cfg(feature = "classes")]
#[test]
fn a_sleeper_leaves_as_another_worker_ends_its_last_task() {
    use filch::{TaskOptions, WorkerSet};
    let (sim, for_task) = shared(Sim::new(3));
    let held = async move {
        let sim = &for_task;
        sim.executor.resize(1).unwrap();
        for parked in [None, Some(None)] {
            assert_eq!(sim.step(1), Step::Idle, "the task lives");
            sim.on(1, |worker| assert_eq!(worker.begin_park(), parked, "one notice has come"));
        }
        sim.executor.platform().woken();
    };
    let options = TaskOptions::new().workers(WorkerSet::new(&[id(1), id(2)]).unwrap());
    let mut held = sim.executor.spawner().spawn_with(options, pool(), held).unwrap();
    assert_eq!(sim.step(2), Step::Polled);
    output(&mut held).unwrap();
    assert_eq!(sim.executor.platform().woken(), [1]);
    leaves(&sim, 1);
}

#[test]
fn a_task_that_came_while_its_worker_left_has_it_started() {
    let sim = Sim::new(2);
    sim.executor.resize(1).unwrap();
    assert_eq!(sim.step(1), Step::Stopped);
    // It is about to go, and is asked back for a moment.
    sim.executor.resize(2).unwrap();
    let mut task = sim.executor.spawner().spawn_pinned(pool(), id(1), async { 7 }).unwrap();
    sim.executor.resize(1).unwrap();
    sim.detach(1);
    assert_eq!(sim.executor.resize(1), Err(ResizeError::Start(StartError::Unsupported)));
    sim.attach(1);
    assert_eq!(sim.run(1), 1);
    assert_eq!(output(&mut task).unwrap(), 7);
    leaves(&sim, 1);
    assert_eq!(sim.executor.resize(1), Ok(()));
}

#[test]
fn timers_of_a_worker_that_left_fire() {
    let sim = Sim::new(2);
    let sleep = sim.executor.sleep(Duration::from_millis(5));
    let task = sim.executor.spawner().spawn(pool(), sleep).unwrap();
    assert_eq!(sim.run(1), 1);
    sim.executor.resize(1).unwrap();
    leaves(&sim, 1);
    sim.on(0, |worker| worker.park());
    assert_eq!(sim.run(0), 1);
    assert!(task.is_finished());
}

#[test]
fn a_worker_leaves_after_a_wait_and_not_in_it() {
    let (sim, for_task) = shared(Sim::new(2));
    let executor = sim.executor;
    let waits = async move {
        let sim = &for_task;
        let mut rounds = 0;
        assert!(executor.help_until(|| {
            rounds += 1;
            if rounds == 1 {
                sim.executor.resize(1).unwrap();
            }
            rounds == 3
        }));
    };
    executor.spawner().spawn_pinned(pool(), id(1), waits).unwrap().detach();
    for _ in 0..3 {
        executor.spawn(pool(), async {}).unwrap().detach();
    }
    assert_eq!(sim.step(1), Step::Polled);
    leaves(&sim, 1);
    sim.settle();
}

#[test]
fn a_worker_is_asked_back_before_it_looks() {
    let sim = Sim::new(2);
    sim.executor.resize(1).unwrap();
    assert_eq!(sim.executor.resize(2), Ok(()), "it is online still");
    assert_eq!(sim.step(1), Step::Idle);
    sim.executor.spawner().spawn_pinned(pool(), id(1), async {}).unwrap().detach();
    assert_eq!(sim.step(1), Step::Polled);
}

#[test]
fn a_use_after_a_shutdown_begins_with_all_workers() {
    let executor = Sim::leak_offline(2, quiet());
    let sim = Sim::over(executor, 2);
    sim.attach(1);
    executor.resize(1).unwrap_err();
    leaves(&sim, 1);
    drop(sim);
    let sim = Sim::over(executor, 2);
    assert_eq!(executor.active(), 2);
    sim.attach(1);
    executor.spawner().spawn_pinned(pool(), id(1), async {}).unwrap().detach();
    assert_eq!(sim.run(1), 1);
}

#[test]
fn workers_come_and_go_while_tasks_run() {
    static EXECUTOR: Executor<Threads, 4> = Executor::new(Threads::new());
    static POOL: TaskPool<256, 64> = TaskPool::new();
    let _watchdog = common::watchdog();
    let count = || EXECUTOR.metrics().workers().filter(|(_, worker)| worker.online).count();
    EXECUTOR.resize(1).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for round in 0..200_usize {
        let workers = 1 + round * 7 % 4;
        EXECUTOR.resize(workers).unwrap();
        for pinned in [false, true] {
            let ran = Arc::clone(&ran);
            let task = async move {
                for _ in 0..round % 5 {
                    yield_now().await;
                }
                ran.fetch_add(1, SeqCst);
            };
            let spawned = if pinned {
                EXECUTOR.spawner().spawn_pinned(&POOL, id((workers - 1) as u16), task)
            } else {
                EXECUTOR.spawn(&POOL, task)
            };
            tasks.push(spawned.unwrap());
        }
        if round % 8 == 7 {
            tasks.drain(..).for_each(|mut task| task.join().unwrap());
        }
        if round % 20 == 19 {
            tasks.drain(..).for_each(|mut task| task.join().unwrap());
            until(|| count() == workers);
        }
    }
    assert_eq!(ran.load(SeqCst), 400);
    assert_eq!(EXECUTOR.shutdown(Instant::MAX, |_| {}), Ok(0));
    EXECUTOR.platform().join();
}

#[test]
fn a_platform_that_refuses_is_asked_again() {
    let executor = parked(3, quiet());
    let _watchdog = common::watchdog();
    executor.platform().limit_starts(0);
    let refused = executor.resize(3).unwrap_err();
    assert!(matches!(refused, ResizeError::Start(_)), "{refused:?}");
    executor.platform().limit_starts(usize::MAX);
    executor.resize(3).unwrap();
    until(|| executor.metrics().workers().all(|(_, worker)| worker.online));
    common::stop(executor);
}

/// A worker that runs by its handle is asked to stay after it has decided to leave, and before anybody sees that it has.
#[test]
fn a_worker_that_runs_by_its_handle_comes_back() {
    let _watchdog = watchdog();
    let executor = parked(2, quiet());
    let (asked, over) = (Flag::new(), Flag::new());
    let (asks, ends) = (asked.clone(), over.clone());
    let worker = thread::spawn(move || {
        let worker = executor.worker(id(1)).unwrap();
        at_leave(move || {
            let _ = executor.resize(2);
            asks.set();
        });
        worker.run();
        ends.set();
    });
    until(|| online_on(executor, 1));
    let first = thread::spawn(move || executor.run(id(0)));
    until(|| online_on(executor, 0));
    // Of two resizes at once, this one may see the worker offline that the other wants. No thread is to start in its place.
    executor.platform().limit_starts(0);
    let _ = executor.resize(1);
    until(|| asked.is_set());
    // It polls what is pinned to it.
    let mut task = executor.spawner().spawn_pinned(pool(), id(1), async { 7 }).unwrap();
    until(|| task.is_finished());
    assert_eq!(output(&mut task).unwrap(), 7);
    assert!(!over.is_set());
    executor.shutdown(Instant::ZERO, |_| {}).unwrap();
    worker.join().unwrap();
    first.join().unwrap().unwrap();
}

fn online_on(executor: &common::ThreadExecutor, worker: usize) -> bool {
    executor.metrics().workers().nth(worker).is_some_and(|(_, metrics)| metrics.online)
}
