//! Models of code that blocks its worker: its timers, and a worker that passes to another thread in the midst of a poll.

use core::{
    future::Future,
    task::{Context, Waker},
};
use std::{boxed::Box, sync::Arc, task::Wake};

use loom::{
    sync::{Arc as LoomArc, Notify},
    thread,
};

use super::models_whole::Model;
use crate::{
    Instant, Step, WorkerId,
    atomic::{
        AtomicBool, Ordering,
        model::{check, check_large, leak},
    },
};

/// Ends a wait of code that blocks, and has a worker end that works until then.
struct Ends(LoomArc<Notify>, &'static AtomicBool);

impl Wake for Ends {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::Release);
        self.0.notify();
    }
}

fn wait(notify: &Notify, done: &AtomicBool) {
    // Ordering: pairs with the Release in `Ends::wake`; a wait ends for no reason at times.
    while !done.load(Ordering::Acquire) {
        notify.wait();
    }
}

/// Worker 0 calls code that blocks until a timer has fired. Worker 1 goes to sleep meanwhile.
fn blocks_beside_a_sleeper(in_code: bool) {
    let model = Model::<2>::new();
    let (notify, done) = (LoomArc::new(Notify::new()), leak(AtomicBool::new(false)));
    let waker = Waker::from(Arc::new(Ends(LoomArc::clone(&notify), done)));
    let begin = move || {
        let mut sleep = Box::pin(model.executor.timers().sleep(core::time::Duration::ZERO));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sleep
    };
    let other = thread::spawn(move || {
        let worker = model.executor.worker(WorkerId::new(1)).unwrap();
        while worker.step() != Step::Idle || !done.load(Ordering::Relaxed) {
            worker.park();
        }
        core::mem::forget(worker);
    });
    let worker = model.executor.worker(WorkerId::new(0)).unwrap();
    if in_code {
        let sleep = model.executor.as_poll(|| {
            let sleep = begin();
            model.executor.block_in_place(|| wait(&notify, done));
            sleep
        });
        assert!(sleep.is_elapsed());
        other.join().unwrap();
    } else {
        // The first timer from outside goes to the first worker.
        let outside = thread::spawn(begin);
        model.executor.as_poll(|| model.executor.block_in_place(|| wait(&notify, done)));
        other.join().unwrap();
        assert!(outside.join().unwrap().is_elapsed());
    }
    core::mem::forget(worker);
}

/// The timer was there before.
///
/// Seen to catch: `in_place_told`.
#[test]
fn a_worker_that_blocks_with_a_timer_against_sleep() {
    check_large(2, || blocks_beside_a_sleeper(true));
}

/// The timer comes as the worker begins to block.
///
/// Seen to catch: `in_place_fence`.
#[test]
fn a_timer_for_a_worker_that_begins_to_block() {
    check_large(1, || blocks_beside_a_sleeper(false));
}

/// A task completes outside of the workers, as the thread that has polled it has left its worker to another one. The end of the executor,
/// which comes at that moment, is seen by one of the two.
///
/// Seen to catch: `outside_last`.
#[test]
fn the_last_task_completes_outside_of_the_workers() {
    check(2, || {
        let model = Model::<1>::that_starts();
        model.spawn(move || model.executor.block_in_place(|| ()));
        model.executor.start(WorkerId::new(0)).unwrap();
        assert_eq!(model.executor.shutdown(Instant::MAX, |_| {}), Ok(0));
    });
}

/// A task whose poll has left its worker spawns another one, as the end of the executor begins that waits for all tasks.
///
/// Seen to catch: `outside_spawn`, `outside_place`, `outside_early`.
#[test]
fn a_poll_outside_of_the_workers_spawns_against_the_end() {
    check_large(2, || {
        let model = Model::<1>::that_starts();
        model.spawn(move || {
            model.executor.block_in_place(|| ());
            model.spawn(|| ());
        });
        model.executor.start(WorkerId::new(0)).unwrap();
        assert_eq!(model.executor.shutdown(Instant::MAX, |_| {}), Ok(0));
        assert_eq!(model.executor.metrics().totals().completed, 2);
    });
}
