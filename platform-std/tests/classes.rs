//! Scheduling classes in a runtime, by the free functions.

mod common;

use std::{
    collections::BTreeSet,
    sync::{Mutex, mpsc},
};

use common::watchdog;
use filch_std::{
    Runtime, TaskOptions,
    parallel::{self, ForkOptions},
    runtime::{WorkerId, WorkerSet},
    spawn, spawn_with,
    task::{
        Class, JoinSet, SpawnErrorKind, class, set_class, set_deadline, should_yield, yield_now,
    },
    time,
};

fn of(class: Class) -> TaskOptions {
    TaskOptions::new().class(class)
}

#[test]
fn a_task_has_the_class_of_its_spawner_or_its_own() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let seen = runtime.block_on(async {
        let parent = spawn_with(of(Class::Urgent), async {
            let (own, child) = (class(), spawn(async { class() }).await.unwrap());
            assert!(set_class(Class::Background) && !should_yield());
            yield_now().await;
            (own, child, class())
        });
        parent.unwrap().await.unwrap()
    });
    assert_eq!(seen, (Some(Class::Urgent), Some(Class::Urgent), Some(Class::Background)));
}

#[test]
fn outside_of_tasks_there_is_no_class() {
    let _watchdog = watchdog();
    assert_eq!(class(), None);
    assert!(!set_class(Class::Urgent) && !set_deadline(None) && !should_yield());
    let refused = spawn_with(of(Class::Urgent), async {}).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::NoRuntime);
}

#[test]
fn a_set_takes_tasks_with_options() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let classes = runtime.block_on(async {
        let mut set = JoinSet::new();
        for class_of in [Class::Background, Class::Urgent] {
            set.insert(spawn_with(of(class_of), async { class() }).unwrap());
        }
        let mut seen = Vec::new();
        while let Some(class) = set.join_next().await {
            seen.push(class.unwrap());
        }
        seen
    });
    assert!(classes.contains(&Some(Class::Urgent)), "{classes:?}");
}

/// One worker, which computes without end: an urgent task from outside comes between two of its polls.
#[test]
fn an_urgent_task_does_not_wait_for_those_that_compute() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).background_share(0).build().unwrap();
    let handle = *runtime.handle();
    let (tell, told) = mpsc::channel();
    for name in 0..8 {
        let tell = tell.clone();
        let computes = async move {
            loop {
                tell.send(name).unwrap();
                yield_now().await;
            }
        };
        handle.spawn_with(of(Class::Background), computes).unwrap().detach();
    }
    // They have begun.
    told.recv().unwrap();
    let urgent = handle.spawn_with(of(Class::Urgent), async { time::now() }).unwrap();
    assert!(runtime.block_on(urgent).is_ok());
    // What is left runs until the end, which cancels it: the receiver must live until then.
    drop(runtime);
}

#[test]
fn without_classes_all_tasks_are_normal() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).classes(false).build().unwrap();
    let task = runtime.handle().spawn_with(of(Class::Urgent), async { class() }).unwrap();
    assert_eq!(runtime.block_on(task).unwrap(), Some(Class::Normal));
}

fn set(workers: &[u16]) -> WorkerSet {
    let workers: Vec<_> = workers.iter().map(|i| WorkerId::new(*i)).collect();
    WorkerSet::new(&workers).unwrap()
}

/// Begun by a worker of the set, by another worker, by a thread.
#[test]
fn a_run_that_is_held_to_workers_is_on_these() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(3).build().unwrap();
    let handle = *runtime.handle();
    let threads = handle.broadcast(|worker| (std::thread::current().id(), worker.index()));
    let here = move || {
        let me = std::thread::current().id();
        threads.iter().find(|(thread, _)| *thread == me).map(|(_, worker)| *worker)
    };
    let here: &'static _ = Box::leak(Box::new(here));
    let held = ForkOptions::new().workers(set(&[1, 2])).class(Class::Background);
    let run = move || {
        let seen = Mutex::new(BTreeSet::new());
        let sum = handle.fork_with(held, |fork| {
            let add = |i: usize| {
                seen.lock().unwrap().insert(here());
                i
            };
            fork.map_reduce(0..1_000, add, |a, b| a + b)
        });
        assert_eq!(sum, Some(499_500));
        let seen = seen.into_inner().unwrap();
        assert!(seen.iter().all(|at| *at == Some(1) || *at == Some(2)), "{seen:?}");
    };
    run();
    for worker in 0..3 {
        let task = handle
            .spawn_with(TaskOptions::new().pinned(WorkerId::new(worker)), async move { run() })
            .unwrap();
        runtime.block_on(task).unwrap();
    }
    let task = runtime.block_on(async move {
        let sum = parallel::offload_with(held, move |_| here()).unwrap();
        sum.await.unwrap()
    });
    assert!(task == Some(1) || task == Some(2));
    let refused = runtime.block_on(async {
        let no_such = ForkOptions::new().workers(set(&[2, 3]));
        parallel::offload_with(no_such, |_| ()).map(drop).map_err(|error| error.kind)
    });
    assert_eq!(refused, Err(SpawnErrorKind::NoSuchWorker));
}

#[test]
fn a_panic_comes_out_of_a_run_on_other_workers() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let handle = *runtime.handle();
    let held = ForkOptions::new().workers(set(&[1]));
    let task = async move { handle.fork_with(held, |_| panic!("out of the run")) };
    let outcome = runtime
        .block_on(handle.spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), task).unwrap());
    let outcome: Result<(), _> = outcome;
    assert!(outcome.unwrap_err().is_panic());
}

/// One thread, which is taken: of those that wait, the urgent one is next.
#[test]
fn closures_that_block_begin_in_the_order_of_their_classes() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    let (begun, has_begun) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let order = std::sync::Arc::new(Mutex::new(Vec::new()));
    let handle = runtime.handle();
    let first = handle.spawn_blocking(move || {
        begun.send(()).unwrap();
        gone.recv().unwrap();
    });
    has_begun.recv().unwrap();
    let write = |class_of: Class| {
        let order = std::sync::Arc::clone(&order);
        let write = move || order.lock().unwrap().push(class_of);
        handle.spawn_blocking_with(of(class_of), write).unwrap()
    };
    let tasks = [Class::Background, Class::Normal, Class::Urgent].map(write);
    while handle.blocking_metrics().queued < 3 {
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    runtime.block_on(async {
        first.await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*order.lock().unwrap(), [Class::Urgent, Class::Normal, Class::Background]);
}

/// One thread, which is taken, then runs what was queued, in which order.
fn order_of(classes: &[Class], awaited: usize) -> Vec<usize> {
    let runtime = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    let (begun, has_begun) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let order = std::sync::Arc::new(Mutex::new(Vec::new()));
    let handle = *runtime.handle();
    let first = handle.spawn_blocking(move || {
        begun.send(()).unwrap();
        gone.recv().unwrap();
    });
    has_begun.recv().unwrap();
    let mut tasks = Vec::new();
    for (i, class_of) in classes.iter().enumerate() {
        let order = std::sync::Arc::clone(&order);
        let write = move || order.lock().unwrap().push(i);
        tasks.push(handle.spawn_blocking_with(of(*class_of), write).unwrap());
        while handle.blocking_metrics().queued <= i {
            std::thread::yield_now();
        }
    }
    let task = tasks.remove(awaited);
    let waits = handle.spawn_with(of(Class::Urgent), task).unwrap();
    // The closure of the task that it waits for is there twice.
    let twice = classes[awaited] != Class::Urgent;
    while handle.blocking_metrics().queued < classes.len() + usize::from(twice) {
        std::thread::yield_now();
    }
    go.send(()).unwrap();
    runtime.block_on(async {
        first.await.unwrap();
        waits.await.unwrap().unwrap();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let order = order.lock().unwrap();
    order.clone()
}

#[test]
fn a_closure_that_an_urgent_task_waits_for_is_next() {
    let _watchdog = watchdog();
    let order = order_of(&[Class::Normal, Class::Normal, Class::Background], 2);
    assert_eq!(order, [2, 0, 1]);
}

#[test]
fn closures_of_the_last_class_are_not_starved() {
    let _watchdog = watchdog();
    let mut classes = vec![Class::Normal; 40];
    classes[0] = Class::Urgent;
    classes[39] = Class::Background;
    let place = order_of(&classes, 0).iter().position(|i| *i == 39);
    assert!(place.is_some_and(|place| place <= 16), "{place:?}");
}

#[test]
fn a_closure_comes_back_from_a_runtime_that_has_ended() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let handle = *runtime.handle();
    let nowhere = TaskOptions::new().pinned(WorkerId::new(7));
    let error = handle.spawn_blocking_with(nowhere, || 7).unwrap_err();
    assert_eq!((error.future)(), 7);
    drop(runtime.shutdown(core::time::Duration::ZERO));
    let error = handle.spawn_blocking_with(TaskOptions::new(), || 8).unwrap_err();
    assert_eq!((error.kind, (error.future)()), (SpawnErrorKind::Shutdown, 8));
}
