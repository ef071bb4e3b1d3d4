//! The cost of an idle executor, per second.

use core::time::Duration;
use std::thread;

use super::{Gate, Run};
use crate::{
    meter::{Figure, cpu_time, switches},
    peers::Join,
};

pub(crate) fn run<P: Join>(run: Run) -> Vec<Figure> {
    let peer = P::start(run.workers);
    let gate = Gate::new(1);
    let end = gate.clone();
    // It has worked, and then has time to go to sleep.
    peer.submit(async move { end.done() });
    gate.wait();
    thread::sleep(Duration::from_millis(100));
    let time = Duration::from_millis(run.effort.scale(5_000) as u64);
    let (cpu, slept) = (cpu_time(), switches());
    thread::sleep(time);
    // One switch is this thread's own.
    let slept = (switches() - slept).saturating_sub(1) as f64;
    let cpu = (cpu_time() - cpu).as_nanos() as f64 / 1e3;
    vec![
        Figure::new("switches", "1/s", slept / time.as_secs_f64()),
        Figure::new("cpu", "us/s", cpu / time.as_secs_f64()),
    ]
}
