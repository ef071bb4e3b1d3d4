//! Models of the watchdog role: neither a watcher nor a searcher that turns to work leaves another worker without a watcher.

use core::time::Duration;

use loom::{
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
    thread,
};

use super::models_whole::Model;
use crate::{Config, WorkerId, atomic::model::check};

const MS: Duration = Duration::from_millis(1);

/// Worker 0 watches, wakes, and turns to work. Worker 1 goes to sleep at some time meanwhile: it must watch, or be woken.
///
/// Seen to catch: `watch_lost`.
#[test]
fn models_watch_is_kept_or_handed_over() {
    check(3, || {
        let model = Model::<2>::with(|config: Config| config.watchdog(Some((MS, MS))));
        let executor = model.executor;
        let (here, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        loom::stop_exploring();
        let first = executor.worker(WorkerId::new(0)).unwrap();
        let second = thread::spawn({
            let (here, go) = (Arc::clone(&here), Arc::clone(&go));
            move || {
                let second = executor.worker(WorkerId::new(1)).unwrap();
                // It has slept before.
                second.slot().local.is_second.set(false);
                here.store(true, Release);
                while !go.load(Acquire) {
                    thread::yield_now();
                }
                let asleep = second.begin_park();
                core::mem::forget(second);
                asleep
            }
        });
        while !here.load(Acquire) {
            thread::yield_now();
        }
        first.slot().local.is_second.set(false);
        assert!(first.begin_park().flatten().is_some(), "the other is awake");
        loom::explore();
        go.store(true, Release);
        first.end_park();
        // As before a poll.
        let _ = first.leave_loop();
        let asleep = second.join().unwrap();
        let told = executor.idle.parked(executor) == 0;
        assert!(told || asleep.flatten().is_some(), "it sleeps without a timeout");
        core::mem::forget(first);
    });
}

/// Worker 0, in a poll, puts a task into its LIFO slot. Worker 1 searches, and leaves its loop without a sleep in which it would
/// watch. Worker 2 sleeps, and does not watch: it must be woken.
///
/// Seen to catch: `watch_search`.
#[test]
fn models_watch_of_a_searcher_that_turns_to_work() {
    check(3, || {
        let model = Model::<3>::with(|config: Config| config.watchdog(Some((MS, MS))).lifo_cap(3));
        let executor = model.executor;
        loom::stop_exploring();
        let sleeper = thread::spawn(move || {
            let sleeper = executor.worker(WorkerId::new(2)).unwrap();
            assert!(sleeper.begin_park().is_some());
            core::mem::forget(sleeper);
        });
        sleeper.join().unwrap();
        let (here, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let searcher = thread::spawn({
            let (here, go) = (Arc::clone(&here), Arc::clone(&go));
            move || {
                let searcher = executor.worker(WorkerId::new(1)).unwrap();
                executor.idle.search_on();
                let _ = searcher.slot().local.duties.begin_search();
                here.store(true, Release);
                while !go.load(Acquire) {
                    thread::yield_now();
                }
                let _ = searcher.leave_loop();
                core::mem::forget(searcher);
            }
        });
        while !here.load(Acquire) {
            thread::yield_now();
        }
        let worker = executor.worker(WorkerId::new(0)).unwrap();
        // As long ago as worker 2 went to sleep.
        if executor.watchdog.is_on() {
            executor.watchdog.end();
        }
        let lifo = &worker.slot().lifo;
        lifo.count_poll();
        lifo.set_in_user_code(true);
        loom::explore();
        go.store(true, Release);
        model.spawn(|| {});
        lifo.set_in_user_code(false);
        searcher.join().unwrap();
        assert!(!lifo.is_empty());
        assert_eq!(executor.idle.parked(executor), 0, "it sleeps, and none watches");
        core::mem::forget(worker);
    });
}
