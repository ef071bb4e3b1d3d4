//! Models of a broadcast on the whole scheduler.
//!
//! As in `models_whole`, a worker stalls for ever after the first thing that it has done. Loom reports a caller that waits for a
//! worker which does not come as a deadlock.

use loom::thread;

use super::{
    models_jobs::{Flag, Outcome, asleep},
    models_whole::{Model, join},
};
use crate::{
    WorkerId,
    atomic::model::{check, check_large},
};

/// Worker 0 broadcasts, in a thread of its own. It sees what worker 1 has done if that one took part.
fn broadcast(model: Model<2>, wanted: usize) -> thread::JoinHandle<()> {
    let outcome = Outcome::leak();
    thread::spawn(move || {
        let worker = model.executor.worker(WorkerId::new(0)).unwrap();
        let each = |worker: WorkerId| {
            if worker.index() == 1 {
                outcome.set();
            }
        };
        assert_eq!(model.executor.broadcast(each).ok(), Some(wanted));
        if wanted == 2 {
            outcome.assert_set();
        }
        core::mem::forget(worker);
    })
}

/// Seen to catch: `call_done`.
#[test]
fn a_broadcast_against_a_sleeper() {
    check_large(2, || {
        let model = Model::<2>::new();
        let other = asleep(model);
        join(vec![broadcast(model, 2)]);
        join(other);
    });
}

/// A worker leaves while it is called: the broadcast goes on without it.
///
/// Seen to catch: `call_leave`.
#[test]
fn a_broadcast_against_a_worker_that_leaves() {
    check(2, || {
        let model = Model::<2>::new();
        let (online, go) = (Flag::leak(), Flag::leak());
        loom::stop_exploring();
        let other = thread::spawn(move || {
            let worker = model.executor.worker(WorkerId::new(1)).unwrap();
            online.set();
            go.wait();
            drop(worker);
        });
        online.wait();
        loom::explore();
        go.set();
        join(vec![broadcast(model, 1), other]);
    });
}
