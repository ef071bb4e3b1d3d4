//! A task wakes twenty others and then computes for two seconds, while the other worker is busy with a task that yields for
//! ever. When do the twenty run?

use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{sync::Arc, thread, time::Instant};

use futures_channel::oneshot;
use futures_lite::future::yield_now;

use super::{Gate, Run};
use crate::{
    meter::{Figure, percentile},
    peers::Join,
};

const COMPUTE: Duration = Duration::from_secs(2);
const TASKS: usize = 20;

pub(crate) fn run<P: Join>(run: Run) -> Vec<Figure> {
    let peer = P::start(run.workers);
    let over = Arc::new(AtomicBool::new(false));
    for _ in 1..run.workers {
        let over = Arc::clone(&over);
        peer.submit(async move {
            while !over.load(Ordering::Relaxed) {
                yield_now().await;
            }
        });
    }
    let compute = if run.effort.scale(10) < 10 { COMPUTE / 10 } else { COMPUTE };
    let first = delay(&peer, compute);
    let mut again: Vec<f64> = (0..3).map(|_| delay(&peer, compute)).collect();
    over.store(true, Ordering::Relaxed);
    vec![
        Figure::new("first", "us", first / 1e3),
        Figure::new("again", "us", percentile(&mut again, 50.0) / 1e3),
    ]
}

/// Until the last of them runs.
fn delay<P: Join>(peer: &P, compute: Duration) -> f64 {
    let gate = Gate::new(1);
    let end = gate.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let wakes: Vec<_> = (0..TASKS)
        .map(|_| {
            let (wake, woken) = oneshot::channel::<Instant>();
            let tell = tell.clone();
            peer.submit(async move {
                let begun = woken.await.expect("the other task sends");
                tell.send(begun.elapsed().as_nanos() as f64).expect("it is waited for");
            });
            wake
        })
        .collect();
    // They wait.
    thread::sleep(Duration::from_millis(20));
    peer.submit(async move {
        let begin = Instant::now();
        for wake in wakes {
            wake.send(begin).expect("the other task waits");
        }
        while begin.elapsed() < compute {}
        end.done();
    });
    gate.wait();
    (0..TASKS).map(|_| told.recv().expect("the task ran")).fold(0.0, f64::max)
}
