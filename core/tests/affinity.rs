//! Tasks with an affinity.
#![cfg(all(feature = "classes", not(any(filch_loom, filch_shuttle, filch_weakmem))))]

mod common;

use std::sync::{Arc, Mutex};

use common::{Flag, Log, Manual, Sim, id, parked, pool, quiet, shared, stop, threads};
use filch::{
    Class, Executor, Instant, JoinHandle, SpawnErrorKind, Step, TaskOptions, TaskPool, WorkerSet,
    parts::Cores, yield_now,
};

fn set(workers: &[u16]) -> WorkerSet {
    let workers: Vec<_> = workers.iter().map(|i| id(*i)).collect();
    WorkerSet::new(&workers).unwrap()
}

fn affine(workers: &[u16]) -> TaskOptions {
    TaskOptions::new().workers(set(workers))
}

type Where = Log<Option<usize>>;

/// A task that writes on which worker it is, at each of its polls.
fn walks(sim: &Sim, log: &Where, options: TaskOptions, polls: u32) -> JoinHandle<()> {
    let (executor, log) = (sim.executor, log.clone());
    let task = async move {
        for i in 0..polls {
            if i > 0 {
                yield_now().await;
            }
            log.push(filch::Platform::current_worker(executor.platform()).map(|w| w.index()));
        }
    };
    executor.spawner().spawn_with(options, pool(), task).unwrap()
}

#[test]
fn only_workers_of_the_set_poll_the_task() {
    let (sim, log) = (Sim::new(4), Where::new());
    walks(&sim, &log, affine(&[1, 3]), 4).detach();
    for other in [0, 2, 0, 2] {
        assert_eq!(sim.step(other), Step::Idle);
    }
    for worker in [3, 1, 1, 3] {
        assert_eq!(sim.step(0), Step::Idle);
        assert_eq!(sim.step(worker), Step::Polled, "{worker}");
    }
    assert_eq!(log.take(), [Some(3), Some(1), Some(1), Some(3)]);
    assert_eq!(sim.settle(), 0);
}

#[test]
fn a_wake_by_another_worker_brings_it_back_to_the_set() {
    let (sim, mine) = shared(Sim::new(3));
    let (log, flag) = (Where::new(), Flag::default());
    let (executor, log_in, waits) = (sim.executor, log.clone(), flag.clone());
    let task = async move {
        waits.wait().await;
        log_in.push(filch::Platform::current_worker(executor.platform()).map(|w| w.index()));
    };
    executor.spawner().spawn_with(affine(&[0, 1]), pool(), task).unwrap().detach();
    assert_eq!(sim.run(1), 1);
    let wakes = async move {
        flag.set();
        drop(mine);
    };
    executor
        .spawner()
        .spawn_with(TaskOptions::new().pinned(id(2)), pool(), wakes)
        .unwrap()
        .detach();
    assert_eq!(sim.run(2), 1);
    assert_eq!((sim.run(2), sim.run(0)), (0, 1));
    assert_eq!(log.take(), [Some(0)]);
}

/// Two tasks are queued, for sets that overlap; a third is for another. Each worker finds its own, the oldest first, by classes.
#[test]
fn each_worker_finds_its_own() {
    let (sim, log) = (Sim::new(4), Log::<&str>::new());
    let write = |options: TaskOptions, name: &'static str| {
        let log = log.clone();
        let task = async move { log.push(name) };
        sim.executor.spawner().spawn_with(options, pool(), task).unwrap().detach();
    };
    write(affine(&[0, 1]).class(Class::Background), "background");
    write(affine(&[0, 1]), "a");
    write(affine(&[1, 2]), "b");
    write(affine(&[2, 3]), "other");
    write(affine(&[0, 1]), "c");
    let now = Instant::from_nanos(1_000_000_000);
    write(affine(&[0, 1]).class(Class::Urgent), "urgent");
    write(affine(&[0, 1]).class(Class::Urgent).deadline(now), "later");
    write(affine(&[0, 1]).class(Class::Urgent).deadline(Instant::from_nanos(9)), "sooner");
    write(TaskOptions::new().class(Class::Background), "any");
    assert_eq!(sim.run(1), 8);
    assert_eq!(log.take()[..7], ["sooner", "later", "urgent", "a", "b", "c", "background"]);
    assert_eq!((sim.run(0), sim.run(3)), (0, 1));
    assert_eq!(log.take(), ["other"]);
}

/// Neither tasks of the worker's own, nor pinned ones, nor urgent ones of other queues starve them.
#[test]
fn tasks_that_never_end_starve_no_affine_task() {
    for class in [Class::Normal, Class::Urgent] {
        let (sim, log) = (Sim::new(2), Where::new());
        let options = [TaskOptions::new(), TaskOptions::new().pinned(id(0))];
        for options in options.map(|options| options.class(class)) {
            for _ in 0..3 {
                walks(&sim, &Where::new(), options, u32::MAX).detach();
            }
        }
        walks(&sim, &log, affine(&[0, 1]).class(class), 3).detach();
        let polls = (0..200).take_while(|_| log.clone().take().is_empty()).map(|_| sim.step(0));
        assert!(polls.count() < 100, "{class:?}");
        drop(sim);
    }
}

#[test]
fn a_sleeper_of_the_set_is_woken_whether_others_search_or_not() {
    let sim = Sim::new(4);
    for worker in 0..4 {
        sim.on(worker, |worker| assert_eq!(worker.begin_park(), Some(None)));
    }
    sim.executor.platform().woken();
    // A searcher, by a task for any.
    sim.executor.spawn(pool(), async {}).unwrap().detach();
    assert_eq!(sim.executor.platform().woken(), [0]);
    let log = Where::new();
    walks(&sim, &log, affine(&[2, 3]), 1).detach();
    assert_eq!(sim.executor.platform().woken(), [2]);
    walks(&sim, &log, affine(&[0, 2, 3]), 1).detach();
    assert_eq!(sim.executor.platform().woken(), [3]);
    walks(&sim, &log, affine(&[2, 3]), 1).detach();
    assert_eq!(sim.executor.platform().woken(), [], "the set is awake");
    for worker in 0..4 {
        sim.on(worker, |worker| worker.end_park());
    }
    assert_eq!(sim.settle(), 4);
    assert!(log.take().iter().all(|at| *at != Some(1)));
}

#[test]
fn a_worker_does_not_sleep_while_a_task_waits_that_is_for_it() {
    let sim = Sim::new(3);
    walks(&sim, &Where::new(), affine(&[1, 2]), 1).detach();
    sim.on(0, |worker| assert_eq!(worker.begin_park(), Some(None)));
    sim.on(0, |worker| worker.end_park());
    sim.on(1, |worker| assert_eq!(worker.begin_park(), None));
    assert_eq!(sim.run(1), 1);
    assert_eq!(sim.settle(), 0);
}

/// A task that waits for one with an affinity boosts it.
#[test]
fn an_affine_task_is_boosted() {
    let (sim, log) = (Sim::new(2), Log::<&str>::new());
    let write = |options: TaskOptions, name: &'static str| {
        let log = log.clone();
        let task = async move { log.push(name) };
        sim.executor.spawner().spawn_with(options, pool(), task).unwrap()
    };
    let (flag, log_in) = (Flag::new(), log.clone());
    let wait = flag.clone();
    let options = affine(&[0, 1]).class(Class::Background);
    let boosted = async move {
        wait.wait().await;
        log_in.push("boosted");
    };
    let boosted = sim.executor.spawner().spawn_with(options, pool(), boosted).unwrap();
    let waits = async move {
        boosted.await.unwrap();
    };
    let urgent = TaskOptions::new().class(Class::Urgent);
    sim.executor.spawner().spawn_with(urgent, pool(), waits).unwrap().detach();
    sim.settle();
    write(affine(&[0, 1]), "before").detach();
    flag.set();
    sim.settle();
    assert_eq!(log.take(), ["boosted", "before"]);
}

#[test]
fn a_task_with_an_affinity_spawns_no_local_task() {
    let sim = Sim::new(2);
    let executor = sim.executor;
    let kinds = Log::new();
    for options in [affine(&[0, 1]), affine(&[1]), TaskOptions::new().pinned(id(1))] {
        let kinds = kinds.clone();
        let task = async move {
            let local = executor.spawner().spawn_local(pool(), async {});
            kinds.push(local.map(JoinHandle::detach).map_err(|error| error.kind));
        };
        executor.spawner().spawn_with(options, pool(), task).unwrap().detach();
    }
    assert_eq!(sim.run(1), 5);
    let kinds = kinds.take();
    assert_eq!(kinds.iter().filter(|kind| **kind == Err(SpawnErrorKind::NotPinned)).count(), 1);
    assert_eq!(kinds.iter().filter(|kind| kind.is_ok()).count(), 2);
}

#[test]
fn sets_that_the_executor_has_not_are_refused() {
    static EXECUTOR: Executor<Manual, 2, 16, Cores> = Executor::new(Manual::new());
    let kind = |options: TaskOptions| {
        EXECUTOR.spawner().spawn_with(options, pool(), async {}).unwrap_err().kind
    };
    assert_eq!(kind(affine(&[0, 1])), SpawnErrorKind::NoClasses);
    assert_eq!(kind(affine(&[1, 2])), SpawnErrorKind::NoSuchWorker);
    let sim = Sim::new(2);
    let spawner = sim.executor.spawner();
    let refused = spawner.spawn_with(affine(&[1, 2]), pool(), async {}).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::NoSuchWorker);
    // The last call holds.
    let names = [
        (affine(&[0, 1]).pinned(id(1)), Some(id(1)), None),
        (TaskOptions::new().pinned(id(1)).workers(set(&[0, 1])), None, Some(set(&[0, 1]))),
        (affine(&[1]), Some(id(1)), None),
    ];
    for (options, worker, workers) in names {
        spawner.spawn_with(options, pool(), async {}).unwrap().detach();
        let mut infos = Vec::new();
        sim.executor.tasks(|info| infos.push((info.worker, info.workers)));
        assert_eq!(infos, [(worker, workers)]);
        assert_eq!(sim.settle(), 1);
    }
}

/// Nobody runs the workers of the set: a shutdown ends the task all the same.
#[test]
fn a_shutdown_ends_what_has_an_affinity_to_workers_that_are_offline() {
    let sim = Sim::offline(4, quiet());
    for worker in [0, 1] {
        sim.attach(worker);
    }
    let (log, gone) = (Where::new(), Arc::new(Mutex::new(())));
    let kept = Arc::clone(&gone);
    let task = async move {
        let _kept = kept;
        core::future::pending::<()>().await;
    };
    sim.executor.spawner().spawn_with(affine(&[2, 3]), pool(), task).unwrap().detach();
    walks(&sim, &log, affine(&[2, 3]), 3).detach();
    assert_eq!(sim.settle(), 0);
    sim.close();
    assert_eq!((log.take(), Arc::strong_count(&gone)), (vec![], 1));
}

/// On threads: many tasks for two of three workers, woken from everywhere.
#[test]
fn affine_tasks_on_threads() {
    let executor = threads(3, quiet());
    let memory = common::forever(Box::new(TaskPool::<1024, 64>::new()));
    let tasks: Vec<_> = (0..60)
        .map(|i| {
            let workers: &[u16] = if i % 3 == 0 { &[0, 2] } else { &[1, 2] };
            let task = async move {
                for _ in 0..200 {
                    let at = filch::Platform::current_worker(executor.platform()).unwrap();
                    assert!(set(workers).contains(at), "{at:?} of {workers:?}");
                    yield_now().await;
                }
            };
            executor.spawner().spawn_with(affine(workers), memory, task).unwrap()
        })
        .collect();
    for mut task in tasks {
        task.join().unwrap();
    }
    stop(executor);
}

/// The only worker of the set that is online waits in a join, too deep to help: it polls the task with an affinity that it waits for.
#[test]
fn a_blocked_worker_polls_what_has_an_affinity_to_it() {
    let executor = parked(2, quiet().nesting(0));
    executor.start(id(0)).unwrap();
    let done = async move {
        let mut inner =
            executor.spawner().spawn_with(affine(&[0, 1]), pool(), async { 7 }).unwrap();
        inner.join().unwrap()
    };
    let outer = executor.spawner().spawn_with(TaskOptions::new().pinned(id(0)), pool(), done);
    assert_eq!(outer.unwrap().join().unwrap(), 7);
    stop(executor);
}
