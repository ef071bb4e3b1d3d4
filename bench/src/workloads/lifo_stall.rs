//! A task wakes another one and then computes for 50 ms, while other workers are idle. When does
//! the other task run?

use core::time::Duration;
use std::{thread, time::Instant};

use futures_channel::oneshot;

use super::{Gate, Run};
use crate::{
    meter::{Figure, percentile},
    peers::Join,
};

const COMPUTE: Duration = Duration::from_millis(50);

pub(crate) fn run<P: Join>(run: Run) -> Vec<Figure> {
    let peer = P::start(run.workers);
    let mut delays: Vec<f64> = (0..run.effort.scale(30).max(3)).map(|_| delay(&peer)).collect();
    vec![Figure::new("delay", "us", percentile(&mut delays, 50.0) / 1e3)]
}

fn delay<P: Join>(peer: &P) -> f64 {
    let gate = Gate::new(1);
    let end = gate.clone();
    let (wake, woken) = oneshot::channel::<Instant>();
    let (tell, told) = std::sync::mpsc::channel();
    peer.submit(async move {
        let begun = woken.await.expect("the other task sends");
        tell.send(begun.elapsed().as_nanos() as f64).expect("it is waited for");
    });
    // The first task waits, and all workers sleep.
    thread::sleep(Duration::from_millis(2));
    peer.submit(async move {
        let begin = Instant::now();
        wake.send(begin).expect("the other task waits");
        while begin.elapsed() < COMPUTE {}
        end.done();
    });
    gate.wait();
    told.recv().expect("the task ran")
}
