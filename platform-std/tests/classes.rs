//! Scheduling classes in a runtime, by the free functions.

mod common;

use std::sync::mpsc;

use common::watchdog;
use filch_std::{
    Class, JoinSet, Runtime, SpawnErrorKind, TaskOptions, class, set_class, set_deadline,
    should_yield, spawn, spawn_with, time, yield_now,
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
            set.spawn_with(of(class_of), async { class() }).unwrap();
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
