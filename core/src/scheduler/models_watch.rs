//! A model of the watchdog role: a watcher that turns to work leaves no other worker without a watcher.

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
