//! Detached tasks: kept until they end or the runtime does, with what they guard.

mod common;

use core::{
    future::{Future, pending},
    time::Duration,
};

use common::{runtime, watchdog};
use filch_linux::{LocalRuntime, TaskOptions, runtime::Turn};
use filch_test_support::{Drops, until};

fn local() -> LocalRuntime {
    filch_linux::Builder::new().build_local().expect("a runtime")
}

/// A common idiom: a task keeps a guard until the runtime ends.
fn keep(drops: &Drops) -> impl Future<Output = ()> + Send + 'static {
    let guard = drops.tally();
    async move {
        let _guard = guard;
        pending::<()>().await;
    }
}

#[test]
fn detached_tasks_that_nothing_can_wake_are_kept_until_the_runtime_ends() {
    let _watchdog = watchdog();
    let (rt, drops) = (runtime(2), Drops::new());
    rt.spawn(keep(&drops)).detach();
    let late = rt.spawn(keep(&drops));
    let named = TaskOptions::new().name("keeps");
    rt.handle().spawn_with(named, keep(&drops)).unwrap().detach();
    until(|| rt.tasks().iter().all(|task| !task.scheduled));
    drop(late);
    assert_eq!((rt.tasks().len(), drops.count()), (3, 0));
    // They survive a shutdown's patience, and are cancelled.
    assert_eq!(rt.shutdown(Duration::ZERO).len(), 3);
    assert_eq!(drops.count(), 3);
}

#[test]
fn a_task_ends_when_nothing_can_wake_it_if_its_spawn_says_so() {
    let _watchdog = watchdog();
    let (rt, drops) = (runtime(2), Drops::new());
    let ends = TaskOptions::new().end_unreachable();
    rt.handle().spawn_with(ends, keep(&drops)).unwrap().detach();
    until(|| drops.count() == 1);
}

#[test]
fn local_tasks_that_nothing_can_wake_are_kept_until_the_runtime_ends() {
    let _watchdog = watchdog();
    let (rt, drops) = (local(), Drops::new());
    rt.spawn_local(keep(&drops)).unwrap().detach();
    let late = rt.spawn_local(keep(&drops)).unwrap();
    rt.spawn(keep(&drops)).detach();
    while rt.turn(16) == Turn::Again {}
    drop(late);
    while rt.turn(16) == Turn::Again {}
    assert_eq!((rt.handle().tasks().len(), drops.count()), (3, 0));
    drop(rt);
    assert_eq!(drops.count(), 3);
}
