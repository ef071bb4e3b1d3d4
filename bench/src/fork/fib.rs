//! Fibonacci's numbers the naive way: almost nothing but joins.

use core::hint::black_box;

use super::{Fork, figures};
use crate::{
    meter::{Figure, passes},
    workloads::Run,
};

pub(crate) fn run<F: Fork>(run: Run) -> Vec<Figure> {
    let n = if run.effort.quick { 24 } else { 32 };
    let pool = F::start(run.workers);
    let plain = passes(run.effort, 1, || assert!(plain(black_box(n)) > 0))[0].value;
    let forked = passes(run.effort, 1, || {
        assert!(pool.fib(black_box(n)) > 0);
    });
    // As many as there are additions.
    let joins = plain_sum(n + 1) - 1;
    figures(run.workers, joins as usize, plain, forked[0].value)
}

/// The n-th number, by addition.
fn plain_sum(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

fn plain(n: u32) -> u64 {
    if n < 2 { u64::from(n) } else { plain(n - 1) + plain(n - 2) }
}
