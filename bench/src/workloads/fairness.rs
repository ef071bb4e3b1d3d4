//! All workers are busy with tasks that yield to each other. How long does a task wait that a
//! thread spawns?

use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use futures_lite::future::yield_now;

use super::Run;
use crate::{
    meter::{Figure, latencies},
    peers::Join,
};

/// Busy tasks per worker.
const BUSY: usize = 8;
/// How long each of their polls takes.
const POLL: Duration = Duration::from_micros(1);
const REST: Duration = Duration::from_micros(300);

pub(crate) fn run<P: Join>(run: Run) -> Vec<Figure> {
    let peer = P::start(run.workers);
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..BUSY * run.workers {
        let stop = Arc::clone(&stop);
        peer.submit(async move {
            // Ordering: Relaxed; nothing else is passed.
            while !stop.load(Ordering::Relaxed) {
                let begin = Instant::now();
                while begin.elapsed() < POLL {}
                yield_now().await;
            }
        });
    }
    let spawns = run.effort.scale(2_000);
    let (tell, told) = mpsc::channel();
    let mut delays = Vec::with_capacity(spawns);
    for _ in 0..spawns {
        thread::sleep(REST);
        let tell = tell.clone();
        let begin = Instant::now();
        peer.submit(async move {
            let delay = begin.elapsed().as_nanos() as f64;
            tell.send(delay).expect("it is waited for");
        });
        delays.push(told.recv().expect("the task sends"));
    }
    // Ordering: Relaxed; see above.
    stop.store(true, Ordering::Relaxed);
    latencies(&mut delays)
}
