//! A thousand tasks of very uneven cost, all spawned by one task. The figure is the work's share of
//! the time of all workers.

use core::{hint::black_box, time::Duration};
use std::time::Instant;

use super::{Gate, Run};
use crate::{
    meter::{Figure, percentile},
    peers::Join,
};

const TASKS: usize = 1_000;

pub(crate) fn run<P: Join>(run: Run) -> Vec<Figure> {
    let mut peer = P::start(run.workers);
    let costs = costs();
    let mut efficiencies = Vec::new();
    let rounds = run.effort.scale(50).max(3);
    // The first is a warm-up.
    for round in 0..=rounds {
        let alone = Instant::now();
        costs.iter().for_each(|cost| work(*cost));
        let alone = alone.elapsed();
        let together = time::<P>(&mut peer, costs.clone());
        if round > 0 {
            let whole = together.as_secs_f64() * run.workers as f64;
            efficiencies.push(alone.as_secs_f64() / whole * 100.0);
        }
    }
    vec![Figure::new("efficiency", "%", percentile(&mut efficiencies, 50.0))]
}

fn time<P: Join>(peer: &mut P, costs: Vec<u32>) -> Duration {
    let gate = Gate::new(costs.len());
    let ends = gate.clone();
    let begin = Instant::now();
    peer.within(move |here| {
        for cost in costs {
            let end = ends.clone();
            P::detach(here, async move {
                work(cost);
                end.done();
            });
        }
    });
    gate.wait();
    begin.elapsed()
}

/// The rounds of work of each task: most are short, one in a thousand is a thousand times as long
/// (Pareto, exponent 1, in a fixed order that looks random).
fn costs() -> Vec<u32> {
    let rank = |i: usize| i * 617 % TASKS + 1;
    (0..TASKS).map(|i| (TASKS / rank(i)).min(100) as u32 * 500).collect()
}

fn work(rounds: u32) {
    let mut x = 1_u64;
    for i in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(i)));
    }
}
