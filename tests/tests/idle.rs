//! An idle runtime does nothing at all: its workers make no context switch.
#![cfg(target_os = "linux")]

use core::time::Duration;
use std::{collections::BTreeMap, fs, thread, time::Instant};

use filch_std::{Runtime, TaskOptions, runtime::WorkerId, task::yield_now};

const NAME: &str = "idler";

/// Voluntary context switches of each worker's thread.
fn switches() -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").unwrap() {
        // A thread may end between the listing and the read.
        let Ok(status) = fs::read_to_string(entry.unwrap().path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
                .unwrap()
        };
        let thread = field("Name");
        if thread.starts_with(NAME) {
            let count = field("voluntary_ctxt_switches").parse().unwrap();
            found.insert(thread.to_owned(), count);
        }
    }
    found
}

/// Waits until all workers sleep, and have slept for a while.
fn settle(runtime: &Runtime) -> BTreeMap<String, u64> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let before = switches();
        thread::sleep(Duration::from_millis(100));
        if runtime.metrics().totals().parked == 2 && switches() == before {
            return before;
        }
        assert!(Instant::now() < end, "the workers do not settle: {:?}", runtime.metrics());
    }
}

#[test]
fn an_idle_runtime_makes_no_context_switch() {
    // The defaults, with the watchdog.
    let runtime = Runtime::builder().workers(2).name(NAME).build().unwrap();
    let tasks: Vec<_> = (0..1_000)
        .map(|i| {
            runtime.spawn(async move {
                for _ in 0..i % 10 {
                    yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
    // Two waiting tasks, so that idle is not the same as empty.
    let waiting = [(); 2].map(|()| runtime.spawn(core::future::pending::<()>()));

    let before = settle(&runtime);
    assert_eq!(before.len(), 2, "{before:?}");
    thread::sleep(Duration::from_secs(5));
    assert_eq!(switches(), before, "somebody woke up");

    // The workers only sleep: one runs a task.
    let task = runtime
        .handle()
        .spawn_with(TaskOptions::new().pinned(WorkerId::new(1)), async { 7 })
        .unwrap();
    assert_eq!(runtime.block_on(task).unwrap(), 7);
    assert_ne!(settle(&runtime), before, "the count counts");
    drop(waiting);
}
