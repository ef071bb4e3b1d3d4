//! What each task has done.

mod common;

use core::{future::poll_fn, task::Poll, time::Duration};
use std::sync::{Arc, Mutex, mpsc};

use common::{Flag, until, watchdog};
use filch_std::{
    Runtime, spawn,
    task::{Task, TaskId, WokenBy, yield_now},
    time::sleep,
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).task_metrics(64).build().unwrap()
}

fn find(runtime: &Runtime, id: Option<TaskId>) -> Task {
    runtime.tasks().into_iter().find(|task| Some(task.id) == id).expect("it lives")
}

#[test]
fn polls_and_wakes_are_counted_by_task() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    let flag = Flag::new();
    let waits = flag.wait();
    let yields = runtime.spawn(async move {
        for _ in 0..10 {
            yield_now().await;
        }
        waits.await;
    });
    let its = || find(&runtime, yields.id());
    until(|| its().activity.unwrap().polls == 11 && !its().scheduled);
    let activity = its().activity.unwrap();
    assert_eq!((activity.wakes, activity.self_wakes), (10, 10), "{activity:?}");
    assert_eq!(activity.last_wake.unwrap().by, WokenBy::Itself);
    assert!(activity.busy >= activity.longest_poll && activity.longest_poll > Duration::ZERO);
    assert!(activity.age >= activity.busy + activity.waited, "{activity:?}");
    assert!(activity.polled.is_none() && activity.waits.is_none(), "{activity:?}");
    flag.set();
    runtime.block_on(yields).unwrap();
}

#[test]
fn what_woke_a_task_is_told() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let by = |task: &Task| task.activity.unwrap().last_wake.map(|wake| wake.by);

    // By a thread that is no worker, as it is that which sets the flag.
    let (outer, inner) = (Flag::new(), Flag::new());
    let waits = outer.wait();
    let then = inner.wait();
    let first = runtime.spawn(async move {
        waits.await;
        then.await;
    });
    until(|| !find(&runtime, first.id()).scheduled);
    assert_eq!(by(&find(&runtime, first.id())), None);
    std::thread::scope(|scope| _ = scope.spawn(|| outer.set()));
    until(|| find(&runtime, first.id()).activity.unwrap().polls == 2);
    assert_eq!(by(&find(&runtime, first.id())), Some(WokenBy::Outside));

    // By another task.
    let waker = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&waker);
    let woken = runtime.spawn(poll_fn(move |cx| {
        *kept.lock().unwrap() = Some(cx.waker().clone());
        Poll::<()>::Pending
    }));
    until(|| waker.lock().unwrap().is_some() && !find(&runtime, woken.id()).scheduled);
    let wakes = runtime.spawn(async move {
        waker.lock().unwrap().take().unwrap().wake();
        core::future::pending::<()>().await;
    });
    until(|| by(&find(&runtime, woken.id())).is_some());
    assert_eq!(by(&find(&runtime, woken.id())), wakes.id().map(WokenBy::Task));

    // By a timer.
    let sleeps = runtime.spawn(async {
        sleep(Duration::from_millis(1)).await;
        core::future::pending::<()>().await;
    });
    until(|| by(&find(&runtime, sleeps.id())).is_some());
    assert!(matches!(by(&find(&runtime, sleeps.id())), Some(WokenBy::Worker(_))));
    inner.set();
    runtime.block_on(first).unwrap();
}

#[test]
fn a_poll_under_way_and_a_wait_for_a_worker_are_seen() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let (tell, told) = mpsc::channel::<()>();
    let (begins, begun) = mpsc::channel();
    let stuck = runtime.spawn(async move {
        begins.send(()).unwrap();
        told.recv().unwrap();
        core::future::pending::<()>().await;
    });
    begun.recv().unwrap();
    let starved = runtime.spawn(core::future::pending::<()>());
    let of = |id| find(&runtime, id).activity.unwrap();
    let (stuck, starved) = (stuck.id(), starved.id());
    assert!(of(stuck).polled.is_some() && of(stuck).waits.is_none());
    assert!(of(starved).waits.is_some() && of(starved).polls == 0);
    // All its time so far, as it is polled for the first time.
    let polled = of(stuck).polled.unwrap();
    until(|| of(stuck).polled.unwrap() > polled);
    tell.send(()).unwrap();
    until(|| of(starved).polls == 1 && of(starved).waits.is_none());
    assert!(of(stuck).longest_poll >= polled && of(stuck).polled.is_none());
    assert!(of(starved).waited > Duration::ZERO);
}

#[test]
fn a_poll_on_top_of_another_counts_for_its_own_task() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let (begins, begun) = mpsc::channel();
    let (tell, told) = mpsc::channel::<()>();
    let lower = runtime.spawn(async move {
        let upper = spawn(async move {
            begins.send(()).unwrap();
            told.recv().unwrap();
        });
        filch_std::block_on(upper).unwrap();
        core::future::pending::<()>().await;
    });
    begun.recv().unwrap();
    let upper = runtime.tasks().into_iter().find(|task| Some(task.id) != lower.id()).unwrap();
    let began = upper.activity.unwrap().polled.unwrap();
    let long = Duration::from_millis(20);
    until(|| find(&runtime, Some(upper.id)).activity.unwrap().polled.unwrap() > began + long);
    tell.send(()).unwrap();
    until(|| !find(&runtime, lower.id()).scheduled);
    let lower = find(&runtime, lower.id()).activity.unwrap();
    assert!(lower.busy + long <= lower.age, "{lower:?}");
}

#[test]
fn the_next_runtime_begins_anew_and_without_room_there_is_none() {
    let _watchdog = watchdog();
    for _ in 0..3 {
        let runtime = runtime(1);
        let waits = runtime.spawn(core::future::pending::<()>());
        until(|| !find(&runtime, waits.id()).scheduled);
        assert_eq!(find(&runtime, waits.id()).activity.unwrap().polls, 1);
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let waits = runtime.spawn(core::future::pending::<()>());
    assert!(find(&runtime, waits.id()).activity.is_none());

    // The entries of tasks that are over are used again, by tasks in their places.
    let runtime = self::runtime(1);
    for _ in 0..1_000 {
        runtime.block_on(runtime.spawn(yield_now())).unwrap();
    }
    let waits = runtime.spawn(core::future::pending::<()>());
    assert!(find(&runtime, waits.id()).activity.unwrap().polls <= 1);
}
