//! With the feature `log`, what the scheduler does is in the program's log.

mod common;

use core::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{
    sync::{Mutex, Once},
    thread,
};

use filch_std::{Handle, LocalRuntime, TaskOptions, task::Class};
use log::{Level, LevelFilter, Log, Metadata, Record};

thread_local! {
    /// What the logger does first on this thread, but not inside itself.
    static HOOK: Cell<Option<fn(&Record<'_>)>> = const { Cell::new(None) };
    /// A runtime that the logger drops.
    static LOCAL: RefCell<Option<LocalRuntime>> = const { RefCell::new(None) };
}

static RECORDS: Mutex<Vec<(Level, String, String)>> = Mutex::new(Vec::new());

struct Keeper;

impl Log for Keeper {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        if let Some(hook) = HOOK.take() {
            hook(record);
            HOOK.set(Some(hook));
        }
        let line = (record.level(), record.target().into(), record.args().to_string());
        RECORDS.lock().unwrap().push(line);
    }
    fn flush(&self) {}
}

fn has(level: Level, text: &str) -> bool {
    let records = RECORDS.lock().unwrap();
    records.iter().any(|(l, target, line)| *l == level && target == "filch" && line.contains(text))
}

fn keep_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Keeper).unwrap();
        log::set_max_level(LevelFilter::Trace);
    });
}

/// An urgent task with a deadline, and one that is polled in its slot after it.
#[test]
fn a_logger_is_in_no_task() {
    let _watchdog = common::watchdog();
    keep_all();
    let runtime = filch_std::Runtime::builder().build_local().unwrap();
    HOOK.set(Some(|record| {
        let text = record.args().to_string();
        if !text.contains("Spawn") && !text.contains("Wake") {
            assert!(!filch_std::task::set_deadline(Some(filch_std::time::Instant::ZERO)), "{text}");
            assert!(!filch_std::task::set_class(Class::Urgent), "{text}");
        }
        panic!("on purpose: a panic of a logger goes no further");
    }));
    runtime.block_on(async {
        for _ in 0..8 {
            let options = TaskOptions::new().class(Class::Urgent);
            let first = runtime.handle().spawn_with(options, async { [1_u64; 8] }).unwrap();
            assert_eq!(first.await.unwrap(), [1; 8]);
        }
    });
    HOOK.set(None);
}

#[test]
fn a_logger_drops_the_runtime() {
    let _watchdog = common::watchdog();
    keep_all();
    let calls: [fn(&Handle); 3] = [
        |handle| handle.spawn(async {}).detach(),
        |_| {
            filch_std::parallel::join(|| (), || ());
        },
        |handle| drop(handle.broadcast(|_| ())),
    ];
    for (i, call) in calls.into_iter().enumerate() {
        let runtime = filch_std::Runtime::builder().build_local().unwrap();
        let handle = *runtime.handle();
        // It rests, so that the next call ends that.
        while runtime.turn(8) == filch_std::runtime::Turn::Again {}
        LOCAL.set(Some(runtime));
        HOOK.set(Some(|_| drop(LOCAL.take())));
        call(&handle);
        HOOK.set(None);
        assert!(LOCAL.take().is_none(), "call {i}");
        assert!(handle.spawn_with(TaskOptions::new(), async {}).is_err());
    }
}

#[test]
fn a_poll_and_a_long_poll_are_logged() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let _watchdog = common::watchdog();
    keep_all();
    let runtime = filch_std::Runtime::builder()
        .workers(2)
        .poll_limit(Some(Duration::from_millis(5)))
        .on_long_poll(|_| REPORTED.store(true, Ordering::Release))
        .build()
        .unwrap();
    let stuck = runtime.spawn(async {
        while !REPORTED.load(Ordering::Acquire) {
            thread::yield_now();
        }
    });
    runtime.block_on(stuck).unwrap();
    drop(runtime);
    for text in ["Spawn(", "worker ", "PollStart(", "PollEnd(", "Park"] {
        assert!(has(Level::Trace, text), "{text}");
    }
    assert!(has(Level::Warn, "LongPoll"), "the poll was reported, so it is in the log");
}
