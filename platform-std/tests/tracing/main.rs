//! What a subscriber of `tracing` is told: each task, its polls, and what is done with its wakers.

mod record;

use core::{
    future::{Future, pending, poll_fn},
    pin::pin,
    task::Poll,
};

use filch_std::{
    Handle, Runtime, TaskOptions,
    runtime::WorkerId,
    task::{Class, JoinSet, shield, yield_now},
};
use filch_test_support::{Flag, watchdog};
use record::{named, record, spawned_at};

fn runtime(workers: usize) -> Runtime {
    record();
    Runtime::builder().workers(workers).build().unwrap()
}

fn options(name: &'static str) -> TaskOptions {
    TaskOptions::new().name(name)
}

async fn yields(times: usize) {
    for _ in 0..times {
        yield_now().await;
    }
}

/// Waits for the end of the first poll of the task of that name.
fn until_polled(runtime: &Runtime, name: &str) {
    while named(name).exits == 0 {
        runtime.block_on(yield_now());
    }
}

/// Ready in the second poll; the first one leaves a clone of the waker for nobody.
fn loses_its_waker() -> impl Future<Output = ()> + Send {
    let mut polled = false;
    poll_fn(move |cx| {
        if core::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        drop(cx.waker().clone());
        Poll::Pending
    })
}

#[test]
fn a_task_that_yields_wakes_itself() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    let task = runtime.handle().spawn_with(options("yields"), yields(3)).unwrap();
    runtime.block_on(task).unwrap();
    let task = named("yields");
    assert_eq!((task.polls, task.exits, task.closed), (4, 4, true));
    assert_eq!(task.wakers(), [0, 0, 0, 3, 3]);
    assert_eq!(task.field("kind"), "task");
    assert!(task.field("task.id").parse::<u64>().is_ok());
    assert!(task.field("size.bytes").parse::<usize>().unwrap() > 0);
    assert!(!task.has_parent);
}

#[test]
fn a_wake_from_elsewhere_is_no_self_wake() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let flag = Flag::new();
    let task = runtime.handle().spawn_with(options("waits"), flag.wait()).unwrap();
    until_polled(&runtime, "waits");
    let waits = named("waits");
    assert_eq!((waits.polls, waits.closed), (1, false));
    assert_eq!(waits.wakers(), [1, 0, 0, 0, 0]);
    flag.set();
    runtime.block_on(task).unwrap();
    let done = named("waits");
    assert_eq!((done.polls, done.exits, done.closed), (2, 2, true));
    assert_eq!(done.wakers(), [1, 0, 1, 0, 0]);
}

#[test]
fn a_lost_waker_shows_in_the_counts() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    // Without its handle the task would end: nothing could wake it.
    let task = runtime.handle().spawn_with(options("loses"), loses_its_waker()).unwrap();
    until_polled(&runtime, "loses");
    let lost = named("loses");
    assert_eq!((lost.polls, lost.exits, lost.closed), (1, 1, false));
    assert_eq!(lost.wakers(), [1, 1, 0, 0, 0]);
    task.abort();
    assert!(runtime.block_on(task).is_err());
    assert!(named("loses").closed);
}

#[test]
fn the_place_is_the_callers() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let handle = *runtime.handle();
    let spawns = async move {
        let mut lines = Vec::new();
        let mut wait = Vec::new();
        lines.push((line!() + 1, "task"));
        wait.push(filch_std::spawn(async {}));
        lines.push((line!() + 1, "task"));
        wait.push(filch_std::spawn_with(TaskOptions::new(), async {}).unwrap());
        lines.push((line!() + 1, "task"));
        wait.push(handle.spawn(async {}));
        lines.push((line!() + 1, "task"));
        wait.push(handle.spawn_with(TaskOptions::new(), async {}).unwrap());
        let pinned = |options: TaskOptions| options.pinned(WorkerId::new(0));
        lines.push((line!() + 1, "task"));
        wait.push(filch_std::spawn_with(pinned(TaskOptions::new()), async {}).unwrap());
        lines.push((line!() + 1, "task"));
        wait.push(handle.spawn_with(pinned(TaskOptions::new()), async {}).unwrap());
        lines.push((line!() + 1, "local"));
        wait.push(filch_std::spawn_local(async {}).unwrap());
        lines.push((line!() + 1, "local"));
        wait.push(handle.spawn_local(async {}).unwrap());
        lines.push((line!() + 1, "task"));
        wait.push(filch_std::spawn_with(TaskOptions::new(), async {}).unwrap());
        lines.push((line!() + 1, "blocking"));
        wait.push(filch_std::spawn_blocking(|| ()));
        lines.push((line!() + 1, "blocking"));
        wait.push(handle.spawn_blocking(|| ()));
        lines.push((line!() + 1, "blocking"));
        wait.push(handle.spawn_blocking_with(TaskOptions::new(), || ()).unwrap());
        let mut set = JoinSet::new();
        lines.push((line!() + 1, "task"));
        set.spawn(async {});
        set.join_next().await.unwrap().unwrap();
        lines.push((line!() + 1, "block_on"));
        handle.block_on(async {});
        lines.push((line!() + 1, "block_on"));
        filch_std::block_on(async {});
        for task in wait {
            task.await.unwrap();
        }
        lines
    };
    let lines =
        runtime.handle().spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), spawns).unwrap();
    let lines = runtime.block_on(lines).unwrap();
    assert_eq!(lines.len(), 15);
    for (line, kind) in lines {
        let task = spawned_at(line);
        assert_eq!((task.field("kind"), task.polls, task.closed), (kind, 1, true), "line {line}");
    }
    let line = line!() + 1;
    let task = runtime.spawn(async {});
    runtime.block_on(task).unwrap();
    assert_eq!(spawned_at(line).field("kind"), "task");
}

#[test]
fn a_refused_future_comes_back_and_its_span_closes() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let refused = runtime
        .handle()
        .spawn_with(options("refused").pinned(WorkerId::new(9)), async { 7 })
        .unwrap_err();
    assert_eq!((named("refused").polls, named("refused").closed), (0, true));
    assert_eq!(runtime.block_on(refused.future), 7);
}

#[test]
fn a_blocking_closure_is_one_poll() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let closure = || 7;
    let name = core::any::type_name_of_val(&closure);
    let seven = runtime.handle().spawn_blocking_with(options("computes"), closure).unwrap();
    assert_eq!(runtime.block_on(seven).unwrap(), 7);
    let task = named("computes");
    assert_eq!((task.polls, task.exits, task.closed), (1, 1, true));
    assert_eq!((task.field("kind"), task.field("fn")), ("blocking", name));
    assert_eq!(task.wakers(), [0; 5]);

    let fails = || -> () { panic!("as planned") };
    let fails = runtime.handle().spawn_blocking_with(options("fails"), fails).unwrap();
    assert!(runtime.block_on(fails).is_err());
    let task = named("fails");
    assert_eq!((task.polls, task.exits, task.closed), (1, 1, true));
}

#[test]
fn a_root_future_has_polls_and_wakers() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let flag = Flag::new();
    let sets = flag.clone();
    let line = line!() + 1;
    runtime.block_on(async {
        yield_now().await;
        let sets = async move {
            while !sets.is_awaited() {
                yield_now().await;
            }
            sets.set();
        };
        filch_std::spawn(sets).detach();
        flag.wait().await;
        drop(poll_fn(|cx| Poll::Ready(cx.waker().clone())).await);
    });
    let root = spawned_at(line);
    assert_eq!((root.field("kind"), root.closed), ("block_on", true));
    assert_eq!((root.polls, root.exits), (3, 3));
    assert_eq!(root.wakers(), [2, 1, 1, 1, 1]);
}

#[test]
fn a_waker_of_a_root_future_outlives_it() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let waker = runtime.block_on(poll_fn(|cx| Poll::Ready(cx.waker().clone())));
    let other = waker.clone();
    assert!(waker.will_wake(&other));
    waker.wake_by_ref();
    waker.wake();
    drop(other);
    // Those of the next one tell of that.
    let line = line!() + 1;
    runtime.block_on(yield_now());
    assert_eq!(spawned_at(line).wakers(), [0, 0, 0, 1, 1]);
}

#[test]
fn a_poll_that_panics_leaves_the_span() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let task = async {
        yield_now().await;
        panic!("as planned");
    };
    let task = runtime.handle().spawn_with(options("panics"), task).unwrap();
    assert!(runtime.block_on(task).is_err());
    let task = named("panics");
    assert_eq!((task.polls, task.exits, task.closed), (2, 2, true));

    let line = line!() + 2;
    let root = std::panic::catch_unwind(|| {
        runtime.block_on(async { panic!("as planned") });
    });
    assert!(root.is_err());
    let root = spawned_at(line);
    assert_eq!((root.polls, root.exits, root.closed), (1, 1, true));
}

#[test]
fn tasks_in_tasks_have_spans_of_their_own() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let outer = async {
        let inner = filch_std::spawn_with(options("inner"), yields(1)).unwrap();
        // On top of this poll.
        filch_std::block_on(inner).unwrap();
        yield_now().await;
    };
    let outer = runtime.handle().spawn_with(options("outer"), outer).unwrap();
    runtime.block_on(outer).unwrap();
    for name in ["inner", "outer"] {
        let task = named(name);
        assert_eq!((task.polls, task.exits, task.closed), (2, 2, true), "{name}");
        assert_eq!(task.wakers(), [0, 0, 0, 1, 1], "{name}");
        assert!(!task.has_parent);
    }
}

#[test]
fn what_knows_a_tasks_waker_knows_that_of_a_traced_one() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    // A shield: the abort comes while it is up.
    let flag = Flag::new();
    let waits = flag.wait();
    let task = runtime.handle().spawn_with(options("shielded"), async { shield(waits).await });
    let task = task.unwrap();
    until_polled(&runtime, "shielded");
    task.abort();
    // The abort has it polled.
    while named("shielded").exits == 1 {
        runtime.block_on(yield_now());
    }
    assert!(!named("shielded").closed);
    flag.set();
    runtime.block_on(task).unwrap();

    // A join: the class of the one that waits is lent.
    let bulk = options("bulk").class(Class::Background);
    let bulk = runtime.handle().spawn_with(bulk, pending::<()>()).unwrap();
    let id = bulk.id().unwrap();
    let abort = bulk.abort_handle().unwrap();
    let urgent = options("urgent").class(Class::Urgent);
    let urgent = runtime.handle().spawn_with(urgent, async { drop(bulk.await) }).unwrap();
    until_polled(&runtime, "urgent");
    let class = |handle: &Handle| handle.tasks().iter().find(|task| task.id == id).unwrap().class;
    assert_eq!(class(runtime.handle()), Class::Urgent);
    assert_eq!(named("bulk").wakers(), [0; 5]);
    assert_eq!(named("urgent").wakers(), [1, 0, 0, 0, 0]);
    abort.abort();
    runtime.block_on(urgent).unwrap();
    assert_eq!(named("urgent").wakers(), [1, 0, 1, 0, 0]);
}

#[test]
fn a_future_that_no_subscriber_wants_is_polled_as_ever() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let output =
        tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::new(), || {
            let task = runtime.handle().spawn_with(options("unwanted"), async {
                yields(2).await;
                7
            });
            runtime.block_on(pin!(task.unwrap()))
        });
    assert_eq!(output.unwrap(), 7);
    assert!(std::panic::catch_unwind(|| named("unwanted")).is_err(), "there is no span");
}
