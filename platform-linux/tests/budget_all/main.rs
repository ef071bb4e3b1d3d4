//! Every async function of the three crates spends the budget of its poll: a loop over calls that are ready at once, in success or in
//! failure, gives way. So a timeout beside the loop fires, and a runtime whose tasks loop ends.

#[path = "../fs_common/mod.rs"]
mod fs_common;
#[path = "../os_common/mod.rs"]
mod os_common;
mod table;

use core::{
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, mpsc},
    thread,
};

use filch_test_support::{Flag, until, watchdog};
use table::{Call, Setup, table};

/// How long a loop that does not give way is waited for, before it is stopped and counted as a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// Calls the operation again and again, until it is stopped.
struct Calls {
    call: Call,
    stop: AtomicBool,
    done: AtomicUsize,
}

impl Calls {
    fn new(call: Call) -> Arc<Self> {
        Arc::new(Self { call, stop: AtomicBool::new(false), done: AtomicUsize::new(0) })
    }

    async fn repeat(&self, most: usize) {
        while !self.stop.load(SeqCst) && self.done.load(SeqCst) < most {
            (self.call)().await;
            self.done.fetch_add(1, SeqCst);
        }
    }
}

/// The largest number of calls that are over in one poll of the loop.
async fn most_in_one_poll(calls: &Calls) -> usize {
    let mut most = 0;
    let mut all = pin!(filch_linux::timeout(Duration::from_millis(50), calls.repeat(1_000)));
    poll_fn(|cx| {
        let before = calls.done.load(SeqCst);
        let polled = all.as_mut().poll(cx);
        most = most.max(calls.done.load(SeqCst) - before);
        polled.map(drop)
    })
    .await;
    most
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

/// Whether `f` ends, on a thread of its own. If it does not, the loop is stopped.
fn ends(calls: &Calls, f: impl FnOnce() + Send) -> bool {
    let (over, end) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            f();
            over.send(())
        });
        let in_time = end.recv_timeout(PATIENCE).is_ok();
        calls.stop.store(true, SeqCst);
        in_time
    })
}

#[test]
fn a_timeout_beside_a_loop_fires() {
    let _watchdog = watchdog();
    let failed = each(|rt, setup| {
        let calls = Calls::new(rt.block_on(rt.spawn(setup())).unwrap());
        let loops = Arc::clone(&calls);
        ends(&calls, || {
            let timed = async move {
                let limit = Duration::from_millis(1);
                filch_linux::timeout(limit, loops.repeat(usize::MAX)).await.unwrap_err()
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
            until(|| filch_linux::try_spawn(async {}).is_err());
            loops.repeat(usize::MAX).await;
        })
        .detach();
        begun.block();
        ends(&calls, || drop(rt))
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
        let other = filch_linux::builder().workers(2).build().unwrap();
        let loops = Arc::clone(&calls);
        let most = other.block_on(other.spawn(async move { most_in_one_poll(&loops).await }));
        most.unwrap() <= filch::BUDGET as usize
    });
    assert_eq!(failed, [""; 0]);
}

/// The names of the async functions in the sources below a folder, but for those that macros name.
fn async_functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            async_functions(&path, found);
        } else {
            for line in fs::read_to_string(&path).unwrap().lines() {
                if let Some(rest) = line.trim_start().strip_prefix("pub async fn ") {
                    found.insert(rest.split(['(', '<']).next().unwrap().to_owned());
                }
            }
        }
    }
}

#[test]
fn the_table_has_all_async_functions() {
    /// Macros name some functions, and others are not for users.
    const HIDDEN: [&str; 2] = ["$name", "moved"];
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut missing = BTreeSet::new();
    for source in ["../platform-std/src", "../platform-io/src", "src"] {
        async_functions(&here.join(source), &mut missing);
    }
    assert!(missing.len() > 50, "{missing:?}");
    for (name, _) in table() {
        let function = name.split([' ', ',']).next().unwrap();
        missing.remove(function.rsplit("::").next().unwrap());
    }
    HIDDEN.iter().for_each(|name| assert!(missing.remove(*name), "{name}"));
    #[cfg(not(all(feature = "observe", feature = "udp-offload", feature = "hyper")))]
    for behind_features in ["dump_tasks", "serve", "serve_until", "serve_with"] {
        missing.remove(behind_features);
    }
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}
