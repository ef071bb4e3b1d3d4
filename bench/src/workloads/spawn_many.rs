//! Ten thousand tasks are spawned that each count down once; the last one ends the pass.

use super::{Gate, Run};
use crate::{
    meter::{Figure, passes},
    peers::Peer,
};

const TASKS: usize = 10_000;

/// From one task.
pub(crate) fn local<P: Peer>(run: Run) -> Vec<Figure> {
    let mut peer = P::start(run.workers);
    passes(run.effort, TASKS, || {
        let gate = Gate::new(TASKS);
        let ends = gate.clone();
        peer.within(move |here| {
            for _ in 0..TASKS {
                let end = ends.clone();
                P::detach(here, async move { end.done() });
            }
        });
        gate.wait();
    })
}

/// From a thread outside of the executor.
pub(crate) fn remote<P: Peer>(run: Run) -> Vec<Figure> {
    let mut peer = P::start(run.workers);
    passes(run.effort, TASKS, || {
        let gate = Gate::new(TASKS);
        for _ in 0..TASKS {
            let end = gate.clone();
            peer.submit(async move { end.done() });
        }
        peer.drive();
        gate.wait();
    })
}
