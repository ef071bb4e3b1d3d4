//! Every async function spends the budget of its poll: a loop over calls that are ready at once, in success or in failure, gives way. So a
//! timeout beside the loop fires, and a runtime whose tasks loop ends.

mod table;

use core::{
    future::{Future, poll_fn},
    panic::AssertUnwindSafe,
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

use filch_test_support::{Flag, until, watchdog_of};
use filch_tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};
use futures_util::FutureExt;
use table::{Call, Setup, table};

/// How long a loop that does not give way is waited for, before it is stopped and counted as a failure.
const PATIENCE: Duration = Duration::from_secs(20);
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
            // Some panic after the end of their runtime, as in tokio.
            let panicked = AssertUnwindSafe((self.call)()).catch_unwind().await.is_err();
            if panicked {
                return;
            }
            self.done.fetch_add(1, SeqCst);
        }
    }

    /// The largest number of calls that are over in one poll of the loop.
    async fn most_in_one_poll(&self) -> usize {
        let mut most = 0;
        let mut all = pin!(timeout(Duration::from_millis(15), self.repeat(BUDGET * PARTS * 2)));
        poll_fn(|cx| {
            let before = self.done.load(SeqCst);
            let polled = all.as_mut().poll(cx);
            most = most.max(self.done.load(SeqCst) - before);
            polled.map(drop)
        })
        .await;
        most
    }
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
        let in_task =
            runtime.spawn(async move { Calls::new(setup().await).most_in_one_poll().await });
        let in_task = runtime.block_on(in_task).unwrap();
        let in_root =
            runtime.block_on(async { Calls::new(setup().await).most_in_one_poll().await });
        in_task <= most && in_root <= most
    });
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
    let _watchdog = watchdog_of(LIMIT);
    each(&KINDS, |runtime, setup, _| {
        let calls = Calls::new(runtime.block_on(setup()));
        let loops = Arc::clone(&calls);
        ends(&calls, || {
            let timed = async move {
                timeout(Duration::from_millis(1), loops.repeat(usize::MAX)).await.unwrap_err();
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
            loops.repeat(usize::MAX).await;
        });
        begun.block();
        ends(&calls, || drop(runtime))
    });
}

#[test]
fn calls_after_the_end_of_their_runtime_spend_the_budget_of_another() {
    let _watchdog = watchdog_of(LIMIT);
    each(&KINDS, |runtime, setup, most| {
        let calls = Calls::new(runtime.block_on(setup()));
        drop(runtime);
        let other = threaded(2);
        other.block_on(other.spawn(async move { calls.most_in_one_poll().await })).unwrap() <= most
    });
}

/// The names of the async functions in the sources below a folder, but for those that macros name; and of those that poll.
fn async_functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            async_functions(&path, found);
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines() {
            let line = line.trim_start();
            let name = line
                .strip_prefix("pub async fn ")
                .or_else(|| line.strip_prefix("pub fn ").filter(|rest| rest.starts_with("poll_")));
            if let Some(name) = name.and_then(|rest| rest.split(['(', '<']).next()) {
                found.insert(name.to_owned());
            }
        }
    }
}

#[test]
fn the_table_has_all_async_functions() {
    /// Macros name some functions; and one is for a stopped clock, and gives way.
    const HIDDEN: [&str; 2] = ["$name", "advance"];
    let mut missing = BTreeSet::new();
    async_functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut missing);
    assert!(missing.len() > 60, "{missing:?}");
    for (name, _) in table() {
        let function = name.split([' ', ',']).next().unwrap();
        missing.remove(function.rsplit("::").next().unwrap());
    }
    HIDDEN.iter().for_each(|name| assert!(missing.remove(*name), "{name}"));
    assert!(missing.is_empty(), "not in the table: {missing:?}");
}
