//! Fork-join jobs, and what else their workers are there for.

mod common;

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use common::{pool, quiet, stop, threads};

/// A worker that is not to help waits for its job in the midst of a task's poll, and gives its queues away.
#[test]
fn a_task_that_waits_for_a_job_too_deep_to_help() {
    let executor = threads(2, quiet().nesting(0));
    let stolen = AtomicBool::new(false);
    let task = async move {
        let run = executor.fork(|fork| {
            fork.join(
                |fork| {
                    while !stolen.load(SeqCst) {
                        fork.is_wanted();
                        thread::yield_now();
                    }
                },
                |_| {
                    stolen.store(true, SeqCst);
                    // For the other to come to its wait.
                    (0..1_000).for_each(|_| thread::yield_now());
                },
            )
        });
        run.is_ok()
    };
    assert!(executor.spawn(pool(), task).unwrap().join().unwrap());
    stop(executor);
}
