//! A thousand pairs of tasks that send each other one message through the oneshots of `futures`. An
//! operation is a pair: two spawns, two oneshots, two messages.

use futures_channel::oneshot;

use super::{Gate, Run};
use crate::{
    meter::{Figure, passes},
    peers::Peer,
};

const PAIRS: usize = 1_000;

pub(crate) fn run<P: Peer>(run: Run) -> Vec<Figure> {
    let mut peer = P::start(run.workers);
    passes(run.effort, PAIRS, || {
        let gate = Gate::new(PAIRS);
        let ends = gate.clone();
        peer.within(move |here| {
            for _ in 0..PAIRS {
                let end = ends.clone();
                let (ping, pinged) = oneshot::channel::<()>();
                let (pong, ponged) = oneshot::channel::<()>();
                P::detach(here, async move {
                    ping.send(()).expect("the other task lives");
                    ponged.await.expect("the other task answers");
                    end.done();
                });
                P::detach(here, async move {
                    pinged.await.expect("the other task begins");
                    pong.send(()).expect("the other task waits");
                });
            }
        });
        gate.wait();
    })
}
