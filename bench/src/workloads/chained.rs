//! A chain of a thousand tasks, each of which spawns the next.

use core::{future::Future, pin::Pin};
use std::sync::Arc;

use super::{Gate, Run};
use crate::{
    meter::{Figure, passes},
    peers::Join,
};

const LINKS: usize = 1_000;
/// Chains in a pass, one after the other.
const CHAINS: usize = 10;

pub(crate) fn run<P: Join>(run: Run) -> Vec<Figure> {
    let peer = P::start(run.workers);
    passes(run.effort, LINKS * CHAINS, || {
        for _ in 0..CHAINS {
            let gate = Gate::new(1);
            peer.submit(Link::<P>::new(LINKS, gate.clone()));
            gate.wait();
        }
    })
}

/// A named future, since it spawns its own type.
struct Link<P> {
    left: usize,
    end: Arc<Gate>,
    peer: core::marker::PhantomData<fn(P)>,
}

impl<P> Link<P> {
    fn new(left: usize, end: Arc<Gate>) -> Self {
        Self { left, end, peer: core::marker::PhantomData }
    }
}

impl<P: Join> Future for Link<P> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut core::task::Context<'_>) -> core::task::Poll<()> {
        match self.left {
            0 => self.end.done(),
            left => P::detach(&(), Self::new(left - 1, self.end.clone())),
        }
        core::task::Poll::Ready(())
    }
}
