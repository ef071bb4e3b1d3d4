//! Every async function of the three crates spends the budget of its poll: a loop over calls that are ready at once, in success or in
//! failure, gives way. So a timeout beside the loop fires, and a runtime whose tasks loop ends.

#[path = "../fs_common/mod.rs"]
mod fs_common;
#[path = "../os_common/mod.rs"]
mod os_common;
mod table;

use core::time::Duration;
use std::{path::Path, sync::Arc};

use filch_linux::{TaskOptions, time::timeout};
use filch_test_support::{
    Flag,
    budgets::{Calls, Setup, not_in_table},
    until, watchdog,
};
use table::table;

/// Returns the largest number of calls that complete in one poll of a loop.
async fn most_in_one_poll(calls: &Calls) -> usize {
    calls.most_in_one_poll(timeout(Duration::from_millis(50), calls.repeat(1_000))).await
}

/// Tries each operation of the table, on a runtime of its own; returns the names of those that fail.
fn each(check: impl Fn(filch_linux::Runtime, Setup) -> bool) -> Vec<&'static str> {
    let mut failed = Vec::new();
    for way in fs_common::ways() {
        for (name, setup) in table() {
            println!("{name} {way:?}");
            if !check(fs_common::builder(way).workers(1).nesting(0).build().unwrap(), setup) {
                failed.push(name);
            }
        }
    }
    failed
}

#[test]
fn no_poll_of_a_task_ends_more_calls_than_its_budget() {
    let _watchdog = watchdog();
    let failed = each(|rt, setup| {
        let calls = rt.block_on(rt.spawn(async move {
            let calls = Calls::new(setup().await);
            most_in_one_poll(&calls).await
        }));
        calls.unwrap() <= filch::BUDGET as usize
    });
    assert_eq!(failed, [""; 0]);
}

#[test]
fn no_poll_of_a_root_future_ends_more_calls_than_its_budget() {
    let _watchdog = watchdog();
    let mut failed = each(|rt, setup| {
        let most = rt.block_on(async { most_in_one_poll(&Calls::new(setup().await)).await });
        most <= filch::BUDGET as usize
    });
    // Neither the handle nor the waker knows an executor any more.
    failed.retain(|name| *name != "JoinHandle, joined");
    assert_eq!(failed, [""; 0]);
}

#[test]
fn a_timeout_beside_a_loop_fires() {
    let _watchdog = watchdog();
    let failed = each(|rt, setup| {
        let calls = Calls::new(rt.block_on(rt.spawn(setup())).unwrap());
        let loops = Arc::clone(&calls);
        calls.ends(|| {
            let timed = async move {
                let limit = Duration::from_millis(1);
                timeout(limit, loops.repeat(usize::MAX)).await.unwrap_err()
            };
            rt.block_on(rt.spawn(timed)).unwrap();
        })
    });
    assert_eq!(failed, [""; 0]);
}

#[test]
fn a_runtime_whose_task_loops_ends() {
    let _watchdog = watchdog();
    let failed = each(|rt, setup| {
        let calls = Calls::new(rt.block_on(rt.spawn(setup())).unwrap());
        let (loops, begun) = (Arc::clone(&calls), Flag::new());
        let begins = begun.clone();
        rt.spawn(async move {
            begins.set();
            // The calls are made after the end has begun, in a poll that goes on.
            until(|| filch_linux::spawn_with(TaskOptions::new(), async {}).is_err());
            loops.repeat(usize::MAX).await;
        })
        .detach();
        begun.block();
        calls.ends(|| drop(rt))
    });
    assert_eq!(failed, [""; 0]);
}

/// The end of the runtime does not change that.
#[test]
fn calls_after_the_end_of_their_runtime_spend_the_budget_of_another() {
    let _watchdog = watchdog();
    let failed = each(|rt, setup| {
        let calls = Calls::new(rt.block_on(rt.spawn(setup())).unwrap());
        drop(rt);
        // Not the same memory, or it would be the same runtime again.
        let other = filch_linux::Builder::new().workers(2).build().unwrap();
        let loops = Arc::clone(&calls);
        let most = other.block_on(other.spawn(async move { most_in_one_poll(&loops).await }));
        most.unwrap() <= filch::BUDGET as usize
    });
    assert_eq!(failed, [""; 0]);
}

#[test]
fn the_table_has_all_async_functions() {
    /// Macros name some functions, and others are not for users.
    const HIDDEN: [&str; 2] = ["$name", "moved"];
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["../platform-std/src", "../platform-io/src", "src"].map(|src| here.join(src));
    let table = table();
    let names = table.iter().map(|(name, _)| *name);
    let mut missing = not_in_table(folders, &["pub async fn "], 50, names);
    HIDDEN.iter().for_each(|name| assert!(missing.remove(*name), "{name}"));
    #[cfg(not(all(feature = "observe", feature = "udp-offload", feature = "hyper")))]
    for behind_features in ["dump_tasks", "serve", "serve_until", "serve_with"] {
        missing.remove(behind_features);
    }
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}
