//! How long tasks wait and are polled, by class.

mod common;

use core::time::Duration;
use std::{sync::mpsc, thread, time::Instant};

use common::{until, watchdog};
use filch_std::{
    Runtime, TaskOptions, spawn_with,
    task::{Class, yield_now},
};

const CLASSES: [Class; 3] = [Class::Urgent, Class::Normal, Class::Background];

fn of(class: Class) -> TaskOptions {
    TaskOptions::new().class(class)
}

#[test]
fn every_poll_is_counted_for_its_class_and_every_wait_timed() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(2).class_metrics(true).build().unwrap();
    let handle = *runtime.handle();
    let before = CLASSES.map(|class| handle.class_metrics(class));
    for (class, tasks, yields) in
        [(Class::Urgent, 3, 4), (Class::Normal, 5, 1), (Class::Background, 2, 9)]
    {
        for _ in 0..tasks {
            let task = async move {
                for _ in 0..yields {
                    yield_now().await;
                }
            };
            runtime.block_on(handle.spawn_with(of(class), task).unwrap()).unwrap();
        }
    }
    // A task is over a little before its last poll.
    let ended =
        || CLASSES.map(|class| handle.class_metrics(class).poll_times.count()).iter().sum::<u64>();
    until(|| ended() == 15 + 10 + 20 + before.iter().map(|class| class.polls).sum::<u64>());
    let seen = CLASSES.map(|class| handle.class_metrics(class));
    for (i, polls) in [3 * 5, 5 * 2, 2 * 10].into_iter().enumerate() {
        let metrics = seen[i].since(&before[i]);
        assert_eq!((metrics.polls, metrics.queued, metrics.late), (polls, 0, 0), "{metrics:?}");
        // Two tasks may share a place in the table, but none lives beside another here.
        assert_eq!(metrics.waits.count(), polls, "{metrics:?}");
        assert!(metrics.busy > Duration::ZERO, "{metrics:?}");
        assert_eq!((metrics.poll_times.count(), metrics.poll_times.sum()), (polls, metrics.busy));
        for times in [metrics.waits, metrics.poll_times] {
            assert!(times.quantile(0.5) <= times.quantile(1.0));
            assert!(times.quantile(1.0) <= times.longest());
        }
    }
}

#[test]
fn a_wait_is_as_long_as_the_poll_that_it_waits_for() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).class_metrics(true).build().unwrap();
    let handle = *runtime.handle();
    let (begun, has_begun) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let long = handle.spawn(async move {
        begun.send(()).unwrap();
        gone.recv().unwrap();
    });
    has_begun.recv().unwrap();
    let tasks: Vec<_> =
        (0..5).map(|_| handle.spawn_with(of(Class::Urgent), async {}).unwrap()).collect();
    let since = Instant::now();
    assert_eq!(handle.class_metrics(Class::Urgent).queued, 5);
    while since.elapsed() < Duration::from_millis(20) {
        thread::yield_now();
    }
    let waited = since.elapsed();
    go.send(()).unwrap();
    runtime.block_on(async {
        long.await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let urgent = handle.class_metrics(Class::Urgent);
    assert_eq!((urgent.polls, urgent.queued), (5, 0));
    assert!(urgent.waits.longest() >= waited, "{urgent:?}");
    assert!(urgent.waits.count() > 0 && urgent.waits.quantile(0.0) >= waited, "{urgent:?}");
    assert!(handle.class_metrics(Class::Normal).busy >= waited);
    assert!(urgent.busy < waited, "{urgent:?}");
}

/// A poll on top of another one, which waits in sync code.
#[test]
fn time_in_a_nested_poll_counts_for_its_class_alone() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).class_metrics(true).build().unwrap();
    let handle = *runtime.handle();
    let spin = |time: Duration| {
        let since = Instant::now();
        while since.elapsed() < time {
            core::hint::spin_loop();
        }
    };
    let long = Duration::from_millis(20);
    let outer = async move {
        let bulk = spawn_with(of(Class::Background), async move { spin(long) });
        bulk.unwrap().join().unwrap();
    };
    runtime.block_on(handle.spawn(outer)).unwrap();
    let look = || [Class::Normal, Class::Background].map(|class| handle.class_metrics(class));
    until(|| look().iter().map(|class| class.poll_times.count()).sum::<u64>() == 2);
    let [normal, background] = look();
    // A task that is awaited by a normal one is normal.
    assert!(normal.busy + background.busy >= long, "{normal:?} {background:?}");
    assert_eq!(normal.polls + background.polls, 2);
    // Each of them alone, or they would be longer together than the time that passed.
    assert_eq!(
        normal.poll_times.sum() + background.poll_times.sum(),
        normal.busy + background.busy
    );
}

#[test]
fn without_the_times_there_are_none() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime.block_on(runtime.handle().spawn(async {})).unwrap();
    let normal = runtime.handle().class_metrics(Class::Normal);
    assert_eq!((normal.polls, normal.waits.count()), (0, 0));
}

#[test]
fn polls_after_their_deadlines_are_counted() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).class_metrics(true).build().unwrap();
    let handle = *runtime.handle();
    let past = of(Class::Urgent).deadline(filch_std::time::Instant::ZERO);
    let far = of(Class::Urgent).deadline(filch_std::time::Instant::MAX);
    for options in [past, far, past] {
        runtime.block_on(handle.spawn_with(options, async {}).unwrap()).unwrap();
    }
    assert_eq!(CLASSES.map(|class| handle.class_metrics(class).late), [2, 0, 0]);
}
