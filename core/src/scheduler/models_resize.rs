//! Models of workers that are asked to leave, and to come back.

use loom::thread;

use super::{models_whole::Model, slot::OFFLINE};
use crate::{
    Step, WorkerId,
    atomic::model::{check, check_large},
};

const SECOND: WorkerId = WorkerId::new(1);

/// Worker 1, in a thread of its own, until it is to leave.
fn work(model: Model<2>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let worker = model.executor.attach(SECOND, OFFLINE).unwrap();
        loop {
            match worker.step() {
                Step::Stopped => return,
                Step::Polled => {}
                Step::Idle => worker.park(),
            }
        }
    })
}

/// Asks worker 1 to leave. This platform starts no worker, so that worker 0 stays away.
fn shrink(model: Model<2>) {
    let _ = model.executor.resize(1);
}

/// A task that is spawned as its worker is asked to leave is refused, or runs before the worker is gone. The worker may sleep.
///
/// Seen to catch: `door_count`, `door_wake`.
#[test]
fn a_pinned_task_against_a_worker_that_retires() {
    check_large(2, || {
        let model = Model::<2>::new();
        let worker = work(model);
        let spawner = thread::spawn(move || {
            model.executor.spawner().spawn_pinned(model.pool, SECOND, async {}).ok()
        });
        shrink(model);
        let task = spawner.join().unwrap();
        worker.join().unwrap();
        assert!(task.is_none_or(|task| task.is_finished()));
    });
}

/// A worker that has decided to leave is asked back: it sees that, or the one that asks sees that it is gone.
///
/// Seen to catch: `door_fence`.
#[test]
fn a_worker_is_asked_back_as_it_leaves() {
    check(3, || {
        let model = Model::<2>::new();
        // It stays.
        let first = model.executor.worker(WorkerId::new(0)).unwrap();
        shrink(model);
        let worker = thread::spawn(move || {
            let worker = model.executor.attach(SECOND, OFFLINE).unwrap();
            if worker.retires() {
                drop(worker);
                model.executor.is_wanted(SECOND)
            } else {
                core::mem::forget(worker);
                true
            }
        });
        let start_was_asked = model.executor.resize(2).is_err();
        assert!(worker.join().unwrap() || start_was_asked);
        core::mem::forget(first);
    });
}

/// Two contexts resize at once: in the end, the doors are as the last number says.
///
/// Seen to catch: `door_once`, `door_order`.
#[test]
fn two_numbers_at_once() {
    check(3, || {
        let model = Model::<2>::new();
        let other = thread::spawn(move || shrink(model));
        let _ = model.executor.resize(2);
        other.join().unwrap();
        let door = model.executor.slot_of(SECOND).shared.door.get().unwrap();
        assert_eq!(door.is_open(), model.executor.active() == 2);
    });
}
