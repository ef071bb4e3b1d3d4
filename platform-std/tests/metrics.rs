//! What a runtime says it has done.

mod common;

use core::{future::poll_fn, pin::pin};
use std::{sync::mpsc, thread};

use common::{runtime, until, watchdog};
use filch_std::{
    Handle, Runtime, spawn, spawn_blocking,
    task::{consume_budget, yield_now},
};

const TASKS: usize = 50;
/// The units that a poll may spend.
const BUDGET: usize = 128;

/// Once each task that is over is counted, which is a little after its output is there.
fn at_rest(handle: &Handle) -> filch_std::runtime::Metrics {
    until(|| handle.metrics().totals().live == 0);
    handle.metrics()
}

fn work(runtime: &Runtime) {
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS).map(|_| spawn(yield_now())).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let jobs: Vec<_> = (0..TASKS).map(|i| spawn_blocking(move || i)).collect();
        for (i, job) in jobs.into_iter().enumerate() {
            assert_eq!(job.await.unwrap(), i);
        }
    });
}

#[test]
fn values_add_up() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    work(&runtime);
    let metrics = at_rest(runtime.handle());
    let totals = metrics.totals();
    assert_eq!((totals.spawned, totals.completed, totals.live), (2 * TASKS, 2 * TASKS, 0));
    let all = metrics.all_workers();
    // Each that yields is polled twice, each that waits for a closure once or twice.
    assert!((3 * TASKS..=4 * TASKS).contains(&all.polls), "{all:?}");
    assert_eq!(all.polls, metrics.workers().map(|(_, worker)| worker.polls).sum::<usize>());
    assert_eq!(all.queue_depth, 0);
    let blocking = metrics.blocking;
    assert_eq!((blocking.done, blocking.queued), (TASKS, 0));
    assert!((1..=TASKS).contains(&blocking.threads));
    assert_eq!(metrics.io, None, "there is none");

    let before = metrics;
    work(&runtime);
    let between = at_rest(runtime.handle()).since(&before);
    assert_eq!((between.totals().spawned, between.blocking.done), (2 * TASKS, TASKS));
    assert!((3 * TASKS..=4 * TASKS).contains(&between.all_workers().polls));
}

#[test]
fn a_task_that_is_made_to_give_way_is_counted() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let forced = || runtime.metrics().all_workers().forced_yields;
    let spend = |units| runtime.block_on(runtime.spawn(spend(units)));
    spend(BUDGET).unwrap();
    assert_eq!(forced(), 0);
    spend(10 * BUDGET).unwrap();
    assert_eq!(forced(), 9);
    // A future of the caller's own is of no worker.
    runtime.block_on(async {
        for _ in 0..10 * BUDGET {
            consume_budget().await;
        }
    });
    assert_eq!(forced(), 9);
}

async fn spend(units: usize) {
    for _ in 0..units {
        consume_budget().await;
    }
}

#[test]
fn forced_yields_follow_the_budget_of_the_builder() {
    let _watchdog = watchdog();
    for budget in [1, 10, 1_000] {
        let builder = Runtime::builder().workers(1).budget(budget);
        let units = 4 * usize::from(budget);
        let runtime = builder.clone().build().unwrap();
        runtime.block_on(runtime.spawn(spend(units))).unwrap();
        assert_eq!(runtime.metrics().all_workers().forced_yields, 3, "budget {budget}");
        let local = builder.build_local().unwrap();
        local.block_on(local.spawn_local(spend(units)).unwrap()).unwrap();
        assert_eq!(local.handle().metrics().all_workers().forced_yields, 3, "budget {budget}");
    }
}

/// The future of a `block_on` too, which is of no worker and counts nowhere.
#[test]
fn a_root_future_gives_way_by_the_budget_of_the_builder() {
    let _watchdog = watchdog();
    for budget in [1, 10] {
        let runtime = Runtime::builder().workers(1).budget(budget).build().unwrap();
        let mut polls = 0;
        let mut spending = pin!(spend(4 * usize::from(budget)));
        runtime.block_on(poll_fn(|cx| {
            polls += 1;
            spending.as_mut().poll(cx)
        }));
        assert_eq!(polls, 4, "budget {budget}");
    }
}

#[test]
fn a_closure_that_panics_is_done_and_one_that_never_ran_is_not() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    let handle = *runtime.handle();
    let (begun, has_begun) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let holds = handle.spawn_blocking(move || {
        begun.send(()).unwrap();
        gone.recv().unwrap();
        panic!("on purpose");
    });
    has_begun.recv().unwrap();
    let never = handle.spawn_blocking(|| ());
    until(|| handle.metrics().blocking.queued == 1);
    assert_eq!((handle.metrics().blocking.done, handle.metrics().blocking.threads), (0, 1));
    never.abort();
    assert!(runtime.block_on(never).unwrap_err().is_cancelled());
    go.send(()).unwrap();
    assert!(runtime.block_on(holds).unwrap_err().is_panic());
    until(|| handle.metrics().blocking.idle == 1);
    assert_eq!(handle.metrics().blocking.done, 1);
}

/// In the memory of the one before, whose executor counts on.
#[test]
fn a_second_runtime_begins_at_zero() {
    let _watchdog = watchdog();
    // A number of workers that no other test has, so that it is this memory that is used again.
    let first = runtime(5);
    let old = *first.handle();
    work(&first);
    let done = at_rest(&old).totals();
    assert_eq!(done.spawned, 2 * TASKS);
    drop(first);
    assert_eq!(old.metrics().totals().spawned, done.spawned, "they stay");

    let second = runtime(5);
    let metrics = second.metrics();
    assert_eq!((metrics.totals().spawned, metrics.totals().completed), (0, 0));
    assert_eq!(metrics.all_workers().polls, 0);
    assert_eq!(metrics.blocking, filch_std::runtime::BlockingMetrics::default());
    (0..2).for_each(|_| work(&second));
    let metrics = at_rest(second.handle());
    assert_eq!((metrics.totals().spawned, metrics.blocking.done), (4 * TASKS, 2 * TASKS));
    assert_eq!(at_rest(&old).totals().spawned, 4 * TASKS, "it is the same memory");
}

/// Snapshots are taken while the figures change: no counter goes back, and no task is completed before it was spawned.
#[test]
fn counters_never_go_back() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    let handle = *runtime.handle();
    thread::scope(|scope| {
        let worker = scope.spawn(|| (0..20).for_each(|_| work(&runtime)));
        let mut before = handle.metrics();
        while !worker.is_finished() {
            let now = handle.metrics();
            let (then, totals) = (before.totals(), now.totals());
            assert!(totals.spawned >= then.spawned && totals.completed >= then.completed);
            assert!(totals.completed <= totals.spawned, "{totals:?}");
            assert!(now.all_workers().polls >= before.all_workers().polls);
            assert!(now.blocking.done >= before.blocking.done);
            before = now;
        }
    });
    assert_eq!(at_rest(&handle).totals().spawned, 20 * 2 * TASKS);
}

#[cfg(feature = "observe")]
#[test]
fn the_classes_are_there_if_they_are_timed() {
    let _watchdog = watchdog();
    assert!(runtime(2).metrics().classes.is_none());
    let timed = Runtime::builder().workers(2).class_metrics(true).build().unwrap();
    work(&timed);
    let polls = |metrics: &filch_std::runtime::Metrics| {
        metrics.classes.as_ref().map(|all| all.iter().map(|class| class.poll_times.count()).sum())
    };
    until(|| polls(&timed.metrics()) == Some(timed.metrics().all_workers().polls as u64));
    let [urgent, normal, background] = timed.metrics().classes.unwrap();
    assert_eq!((urgent.polls, background.polls), (0, 0));
    assert_eq!(normal.poll_times.count(), normal.polls);
    assert_eq!(normal, timed.handle().class_metrics(filch_std::task::Class::Normal));
}
