//! Where tasks wait, as a dump says.

use core::{
    future::pending,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::Duration,
};
use std::{io::ErrorKind, sync::mpsc};

use filch_std::{
    Runtime,
    dump::TaskDump,
    spawn_blocking,
    task::{TaskId, yield_now},
    time::sleep,
};
use filch_test_support::{Flag, watchdog};

const PATIENCE: Duration = Duration::from_secs(60);

/// Of the futures below.
static LINES: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

#[inline(never)]
async fn leaf(flag: Flag) {
    // In the next line.
    LINES[0].store(line!() + 1, SeqCst);
    flag.wait().await;
}

#[inline(never)]
async fn branch(flag: Flag) {
    LINES[1].store(line!() + 1, SeqCst);
    leaf(flag).await;
}

fn find(dump: &[TaskDump], id: Option<TaskId>) -> &TaskDump {
    dump.iter().find(|dump| Some(dump.task.id) == id).expect("it lives")
}

#[test]
fn each_wait_has_its_kind_and_its_stack() {
    let _watchdog = watchdog();
    filch_test_support::alone("each_wait_has_its_kind_and_its_stack", || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let flag = Flag::new();
        let foreign = runtime.spawn(branch(flag.clone()));
        let sleeps = runtime.spawn(async { sleep(PATIENCE * 60).await });
        let (tell, told) = mpsc::channel::<()>();
        let blocks = runtime.spawn(async { spawn_blocking(move || told.recv()).await });
        let two = runtime.spawn(async {
            futures_util::future::select(core::pin::pin!(sleep(PATIENCE * 60)), pending::<()>())
                .await;
        });
        let ids = [foreign.id(), sleeps.id(), blocks.id(), two.id()];
        let joins = runtime.spawn(async move { foreign.await.is_ok() });
        let joiner = joins.id();
        let dump = runtime.block_on(runtime.handle().dump_tasks(PATIENCE)).unwrap();
        let text = |id| find(&dump, id).to_string();

        assert!(dump.iter().all(|dump| dump.waiting), "{dump:?}");
        let foreign = text(ids[0]);
        let line = |line: &AtomicU32| format!("tests/dump.rs:{})", line.load(SeqCst));
        let places = [0, 1].map(|i| foreign.find(&line(&LINES[i])).expect("a line"));
        assert!(places[0] < places[1], "{foreign}");
        assert!(!foreign.contains("task/cell.rs") && !foreign.contains("Waker"), "{foreign}");
        assert!(text(ids[1]).contains("sleeping until") && text(ids[1]).contains("tests/dump.rs:"));
        assert!(text(ids[2]).contains("joining"));
        assert!(dump.iter().any(|dump| dump.to_string().contains("in `spawn_blocking`")));
        assert!(text(ids[3]).contains("sleeping until") && text(ids[3]).contains("select.rs"));
        let expected = format!("joining {:?}", ids[0].unwrap());
        assert!(text(joiner).contains(&expected), "{}", text(joiner));

        // They wait on as before.
        flag.set();
        assert!(runtime.block_on(joins).unwrap());
        tell.send(()).unwrap();
        assert!(runtime.block_on(blocks).unwrap().is_ok());
    });
}

#[test]
fn a_task_in_a_poll_is_told_from_one_that_waits() {
    let _watchdog = watchdog();
    filch_test_support::alone("a_task_in_a_poll_is_told_from_one_that_waits", || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let (tell, told) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel::<()>();
        let stuck = runtime.spawn(async move {
            begins.send(()).unwrap();
            told.recv().unwrap();
        });
        begun.recv().unwrap();
        let id = stuck.id();
        let dump = runtime.handle().dump_tasks(Duration::from_millis(20));
        let dump = runtime.block_on(dump).unwrap();
        let stuck_dump = find(&dump, id);
        assert!(!stuck_dump.waiting && stuck_dump.waits.is_empty());
        assert!(stuck_dump.to_string().contains("in a poll"));
        tell.send(()).unwrap();
        runtime.block_on(stuck).unwrap();
    });
}

#[test]
fn a_dump_by_a_task_ends_when_all_were_polled() {
    let _watchdog = watchdog();
    filch_test_support::alone("a_dump_by_a_task_ends_when_all_were_polled", || {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let handle = *runtime.handle();
        let waits = runtime.spawn(pending::<()>());
        // Always queued, or in a poll.
        let yields = runtime.spawn(async {
            loop {
                yield_now().await;
            }
        });
        let calls = runtime.spawn(async move { handle.dump_tasks(PATIENCE * 60).await.unwrap() });
        let ids = [waits.id(), yields.id(), calls.id()];
        let dump = runtime.block_on(calls).unwrap();
        assert!(find(&dump, ids[0]).waiting);
        assert!(!find(&dump, ids[2]).waiting, "it runs");
        assert!(dump.iter().any(|dump| Some(dump.task.id) == ids[1]));
    });
}

#[test]
fn a_stopped_clock_does_not_stop_a_dump() {
    let _watchdog = watchdog();
    filch_test_support::alone("a_stopped_clock_does_not_stop_a_dump", || {
        let runtime = Runtime::builder().workers(1).build_pausable().unwrap();
        let (tell, told) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel();
        runtime.block_on(async { filch_std::time::pause() });
        let stuck = runtime.spawn(async move {
            let polls = Flag::new();
            let sleeps = filch_std::spawn({
                let polls = polls.clone();
                async move {
                    polls.set();
                    sleep(Duration::from_secs(3_600)).await;
                }
            });
            // From here on there is always a task to run, or the clock would move.
            polls.wait().await;
            begins.send(sleeps).unwrap();
            told.recv().unwrap();
        });
        let sleeps = begun.recv().unwrap();
        let dump = runtime.handle().dump_tasks(Duration::from_millis(20));
        let dump = runtime.block_on(dump).unwrap();
        assert!(!find(&dump, stuck.id()).waiting);
        assert!(!sleeps.is_finished(), "the clock has moved");
        tell.send(()).unwrap();
        runtime.block_on(stuck).unwrap();
    });
}

#[test]
fn one_dump_at_a_time() {
    let _watchdog = watchdog();
    filch_test_support::alone("one_dump_at_a_time", || {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let handle = *runtime.handle();
        runtime.block_on(async {
            // The one worker is busy, so that the first dump must wait.
            let (tell, told) = mpsc::channel::<()>();
            let stuck = runtime.spawn(async move { told.recv().unwrap() });
            let mut first = core::pin::pin!(handle.dump_tasks(PATIENCE));
            assert!(futures_util::poll!(&mut first).is_pending());
            let error = handle.dump_tasks(PATIENCE).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ResourceBusy);
            tell.send(()).unwrap();
            stuck.await.unwrap();
        });
        let dump = runtime.block_on(handle.dump_tasks(PATIENCE)).unwrap();
        assert!(dump.iter().all(|dump| dump.waiting));
    });
}
