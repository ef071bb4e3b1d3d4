//! Every async function spends the budget of its poll: a loop over calls that are ready at once, in success or in failure, gives way. So a
//! timeout beside the loop fires, and a runtime whose tasks loop ends.

mod table;

use core::time::Duration;
use std::{path::Path, sync::Arc};

use filch_test_support::{
    Flag,
    budgets::{Calls, Setup, not_in_table},
    until, watchdog_of,
};
use filch_tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};
use table::table;

/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(600);
/// What tokio's `block_on` gives a root future; a task has one less.
const BUDGET: usize = 128;
/// How many waits without an attempt are one unit.
const PARTS: usize = 64;

/// How many calls one poll may have.
fn most(name: &str) -> usize {
    let function = name.rsplit("::").next().unwrap_or_default();
    let is_wait = ["ready", "readable", "writable"].contains(&function.trim_end_matches("_mut"));
    if is_wait { (BUDGET + 1) * PARTS } else { BUDGET }
}

fn threaded(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns the largest number of calls that complete in one poll of a loop. Some calls panic after the end of their runtime, as in tokio.
async fn most_in_one_poll(calls: &Calls) -> usize {
    let repeat = calls.repeat_until_panic(BUDGET * PARTS * 2);
    calls.most_in_one_poll(timeout(Duration::from_millis(15), repeat)).await
}

/// Tries each operation of the table, on runtimes of their own. The names of those that fail.
fn each(kinds: &[fn() -> Runtime], check: impl Fn(Runtime, Setup, usize) -> bool) {
    let mut failed = Vec::new();
    for kind in kinds {
        for (name, setup) in table() {
            println!("{name}");
            if !check(kind(), setup, most(name)) {
                failed.push(name);
            }
        }
    }
    assert_eq!(failed, [""; 0]);
}

const KINDS: [fn() -> Runtime; 2] = [current, || threaded(1)];

#[test]
fn no_poll_ends_more_calls_than_its_budget() {
    let _watchdog = watchdog_of(LIMIT);
    each(&KINDS, |runtime, setup, most| {
        let count = move || async move { most_in_one_poll(&Calls::new(setup().await)).await };
        let in_task = runtime.block_on(runtime.spawn(count())).unwrap();
        let in_root = runtime.block_on(count());
        in_task <= most && in_root <= most
    });
}

#[test]
fn a_timeout_beside_a_loop_fires() {
    let _watchdog = watchdog_of(LIMIT);
    each(&KINDS, |runtime, setup, _| {
        let calls = Calls::new(runtime.block_on(setup()));
        let loops = Arc::clone(&calls);
        calls.ends(|| {
            let timed = async move {
                timeout(Duration::from_millis(1), loops.repeat_until_panic(usize::MAX))
                    .await
                    .unwrap_err();
            };
            runtime.block_on(runtime.spawn(timed)).unwrap();
        })
    });
}

#[test]
fn a_runtime_whose_task_loops_ends() {
    let _watchdog = watchdog_of(LIMIT);
    each(&[|| threaded(1)], |runtime, setup, _| {
        let calls = Calls::new(runtime.block_on(setup()));
        let (loops, begun) = (Arc::clone(&calls), Flag::new());
        let begins = begun.clone();
        let handle = runtime.handle().clone();
        runtime.spawn(async move {
            begins.set();
            // The calls are made after the end has begun, in a poll that goes on.
            until(|| handle.spawn(async {}).is_finished());
            loops.repeat_until_panic(usize::MAX).await;
        });
        begun.block();
        calls.ends(|| drop(runtime))
    });
}

#[test]
fn calls_after_the_end_of_their_runtime_spend_the_budget_of_another() {
    let _watchdog = watchdog_of(LIMIT);
    each(&KINDS, |runtime, setup, most| {
        let calls = Calls::new(runtime.block_on(setup()));
        drop(runtime);
        let other = threaded(2);
        other.block_on(other.spawn(async move { most_in_one_poll(&calls).await })).unwrap() <= most
    });
}

#[test]
fn the_table_has_all_async_functions() {
    /// Macros name some functions; one is for a stopped clock, and gives way; those of a channel call the real tokio's.
    const HIDDEN: [&str; 7] =
        ["$name", "advance", "closed", "reserve", "reserve_many", "reserve_owned", "send_timeout"];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = table();
    let names = table.iter().map(|(name, _)| *name);
    let mut missing = not_in_table([folder], &["pub async fn ", "pub fn poll_"], 60, names);
    HIDDEN.iter().for_each(|name| assert!(missing.remove(*name), "{name}"));
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}
