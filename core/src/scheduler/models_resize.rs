//! Models of workers that are asked to leave, and to come back.

use loom::thread;

use super::{
    core::{faces::Lifecycle, slot::OFFLINE},
    models_whole::Model,
};
use crate::{
    Step, WorkerId,
    atomic::model::{check, check_large},
    platform::WorkerSet,
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
/// Seen to catch: `retire_count`, `retire_wake`.
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

/// A worker is asked to retire, and sleeps for a task that another context ends, or does not spawn after all: it is told.
///
/// Seen to catch: `retire_told`.
#[test]
fn the_last_task_ends_elsewhere() {
    check(3, || {
        let model = Model::<2>::new();
        let worker = work(model);
        let spawner = thread::spawn(move || {
            if model.executor.admit_affine(WorkerSet::only(SECOND)) {
                model.executor.dismiss_affine(SECOND);
            }
        });
        shrink(model);
        spawner.join().unwrap();
        worker.join().unwrap();
    });
}

/// The calling thread is worker 1, if no other is, and looks once whether it is to leave. Whether it stays or is to come back.
fn looks_once(model: Model<2>) -> bool {
    let Ok(worker) = model.executor.attach(SECOND, OFFLINE) else { return false };
    let leaves = model.executor.try_retire(worker.slot());
    if leaves {
        drop(worker);
    } else {
        core::mem::forget(worker);
    }
    !leaves || model.executor.is_wanted(SECOND)
}

/// A worker that has decided to leave is asked back: it sees that, or the one that asks sees that it is gone.
///
/// Seen to catch: `retire_glance`.
#[test]
fn a_worker_is_asked_back_as_it_leaves() {
    check(3, || {
        let model = Model::<2>::new();
        // It stays.
        let first = model.executor.worker(WorkerId::new(0)).unwrap();
        shrink(model);
        let worker = thread::spawn(move || looks_once(model));
        let start_was_asked = model.executor.resize(2).is_err();
        assert!(worker.join().unwrap() || start_was_asked);
        core::mem::forget(first);
    });
}

/// It is asked back for a moment, in which a task comes that it alone can run.
///
/// Seen to catch: `retire_kept`.
#[test]
fn a_worker_is_asked_back_for_a_task() {
    check(3, || {
        let model = Model::<2>::new();
        let first = model.executor.worker(WorkerId::new(0)).unwrap();
        shrink(model);
        let worker = thread::spawn(move || looks_once(model));
        let mut start_was_asked = model.executor.resize(2).is_err();
        assert!(model.executor.admit_affine(WorkerSet::only(SECOND)));
        start_was_asked |= model.executor.resize(1).is_err();
        assert!(worker.join().unwrap() || start_was_asked);
        core::mem::forget(first);
    });
}

/// The same with an offline worker, which one context asks to retire and another to stay.
///
/// Seen to catch: `retire_brief`.
#[test]
fn a_task_comes_while_a_worker_may_stay() {
    check(3, || {
        let model = Model::<2>::new();
        let first = model.executor.worker(WorkerId::new(0)).unwrap();
        let _ = model.executor.resize(1);
        let opens = thread::spawn(move || model.executor.resize(2).is_err());
        let spawns = thread::spawn(move || model.executor.admit_affine(WorkerSet::only(SECOND)));
        let start_was_asked = model.executor.resize(1).is_err();
        let (opened, spawned) = (opens.join().unwrap(), spawns.join().unwrap());
        assert!(!spawned || start_was_asked || opened);
        core::mem::forget(first);
    });
}

/// A worker leaves as a context comes that was started for it before and finds its place taken, and is asked back.
///
/// Seen to catch: `retire_call`.
#[test]
fn a_start_that_comes_too_early() {
    check(3, || {
        let model = Model::<2>::new();
        let first = model.executor.worker(WorkerId::new(0)).unwrap();
        shrink(model);
        model.executor.slot_of(SECOND).shared.retiring.get().unwrap().mark_started();
        model.executor.census.await_start();
        let worker = thread::spawn(move || looks_once(model));
        let other = thread::spawn(move || {
            let worker = model.executor.arrive(SECOND, crate::platform::worker::Place::Free);
            worker.map(core::mem::forget).is_some()
        });
        let start_was_asked = model.executor.resize(2).is_err();
        let (stays, comes) = (worker.join().unwrap(), other.join().unwrap());
        assert!(stays || comes || start_was_asked);
        core::mem::forget(first);
    });
}

/// Two contexts resize at once: in the end, each worker is asked what the last number says.
///
/// Seen to catch: `retire_once`, `retire_order`.
#[test]
fn two_numbers_at_once() {
    check(3, || {
        let model = Model::<2>::new();
        let other = thread::spawn(move || shrink(model));
        let _ = model.executor.resize(2);
        other.join().unwrap();
        let retiring = model.executor.slot_of(SECOND).shared.retiring.get().unwrap();
        assert_eq!(!retiring.may_retire(), model.executor.active() == 2);
    });
}
