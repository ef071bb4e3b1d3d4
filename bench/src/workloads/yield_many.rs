//! A thousand tasks that yield two hundred times each. An operation is a yield.

use futures_lite::future::yield_now;

use super::{Gate, Run};
use crate::{
    meter::{Figure, passes},
    peers::Peer,
};

const TASKS: usize = 1_000;
const YIELDS: usize = 200;

pub(crate) fn run<P: Peer>(run: Run) -> Vec<Figure> {
    let mut peer = P::start(run.workers);
    passes(run.effort, TASKS * YIELDS, || {
        let gate = Gate::new(TASKS);
        let ends = gate.clone();
        peer.within(move |here| {
            for _ in 0..TASKS {
                let end = ends.clone();
                P::detach(here, async move {
                    for _ in 0..YIELDS {
                        yield_now().await;
                    }
                    end.done();
                });
            }
        });
        gate.wait();
    })
}
