//! Four jobs of very uneven length, split finely, on four workers: 100, 100, 200 and 350 ms, in
//! pieces of 1 ms. The work sleeps, so that a machine with fewer cores has four workers all the
//! same.
//!
//! A static partition takes as long as the longest job, 350 ms. The lower bound is a fourth of all
//! 750 ms, 187.5 ms. The figure `efficiency` is the bound's share of the time: 95 % and more, if
//! the jobs are spread well.

use core::time::Duration;
use std::{thread, time::Instant};

use super::Fork;
use crate::{
    meter::{Figure, percentile},
    workloads::Run,
};

const WORKERS: usize = 4;
const JOBS: [usize; 4] = [100, 100, 200, 350];
const PIECE: Duration = Duration::from_millis(1);

pub(crate) fn run<F: Fork>(run: Run) -> Vec<Figure> {
    let pool = F::start(WORKERS);
    let rounds = run.effort.scale(20).max(3);
    // The real length of a piece: sleeps end late.
    let begin = Instant::now();
    (0..100).for_each(|_| thread::sleep(PIECE));
    let piece = begin.elapsed().as_secs_f64() / 100.0;
    let bound = piece * JOBS.iter().sum::<usize>() as f64 / WORKERS as f64;
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            pool.jobs(&JOBS, || thread::sleep(PIECE));
            begin.elapsed().as_secs_f64()
        })
        .collect();
    let time = percentile(&mut times, 50.0);
    vec![
        Figure::new("time", "ms", time * 1e3),
        Figure::new("efficiency", "%", bound / time * 100.0),
    ]
}
