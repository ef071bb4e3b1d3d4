//! With the feature `log`, what the scheduler does is in the program's log.

mod common;

use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{sync::Mutex, thread};

use log::{Level, LevelFilter, Log, Metadata, Record};

static RECORDS: Mutex<Vec<(Level, String, String)>> = Mutex::new(Vec::new());

struct Keeper;

impl Log for Keeper {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        let line = (record.level(), record.target().into(), record.args().to_string());
        RECORDS.lock().unwrap().push(line);
    }
    fn flush(&self) {}
}

fn has(level: Level, text: &str) -> bool {
    let records = RECORDS.lock().unwrap();
    records.iter().any(|(l, target, line)| *l == level && target == "filch" && line.contains(text))
}

#[test]
fn a_poll_and_a_long_poll_are_logged() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let _watchdog = common::watchdog();
    log::set_logger(&Keeper).unwrap();
    log::set_max_level(LevelFilter::Trace);
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
