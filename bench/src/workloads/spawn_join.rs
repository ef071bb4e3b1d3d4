//! An empty task is spawned and waited for, one after the other.

use core::hint::black_box;

use super::{Gate, Run};
use crate::{
    meter::{Figure, passes},
    peers::Join,
};

/// From a task.
pub(crate) fn inside<P: Join>(run: Run) -> Vec<Figure> {
    const TASKS: usize = 10_000;
    let peer = P::start(run.workers);
    passes(run.effort, TASKS, || {
        let gate = Gate::new(1);
        let end = gate.clone();
        peer.submit(async move {
            for i in 0..TASKS {
                assert_eq!(P::spawn(async move { black_box(i) }).await, i);
            }
            end.done();
        });
        gate.wait();
    })
}

/// From a thread outside of the executor.
pub(crate) fn outside<P: Join>(run: Run) -> Vec<Figure> {
    const TASKS: usize = 1_000;
    let peer = P::start(run.workers);
    passes(run.effort, TASKS, || {
        peer.block_on(async {
            for i in 0..TASKS {
                assert_eq!(peer.spawn_from_outside(async move { black_box(i) }).await, i);
            }
        });
    })
}
