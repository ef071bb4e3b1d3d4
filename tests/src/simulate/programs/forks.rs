//! Fork-join runs in tasks.

use fastrand::Rng;
use filch::{Class, Fork, ForkOptions, WorkerSet};

use super::{collect, rest, work};
use crate::simulate::{
    env::{Env, Task},
    world::fail,
};

pub(super) fn start(env: Env, n: u32) -> Vec<Task<()>> {
    collect((0..(n / 8).max(1)).map(|i| match i % 3 {
        2 => env.spawn(super::busy_until_over(env)),
        _ => env.spawn(runs(env)),
    }))
}

async fn runs(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        let n = rng.u32(1..64);
        let scoped = rng.bool();
        let set = rng.bool().then(|| env.set(&mut rng));
        let outcome = match (env.0.machine, rng.bool()) {
            (Some(machine), true) => machine.fork(body(env, n, scoped, None)),
            (Some(machine), false) => {
                machine.fork_with(options(&mut rng, set), body(env, n, scoped, set))
            }
            (None, _) => Ok(body(env, n, scoped, None)(Fork::alone())),
        };
        // The set is one of other workers.
        let outcome = outcome.unwrap_or_else(|_| body(env, n, scoped, None)(Fork::alone()));
        if outcome != n {
            fail(format!("{n} jobs were forked, and {outcome} were joined"));
        }
        rest(env, &mut rng).await;
    }
}

fn options(rng: &mut Rng, set: Option<WorkerSet>) -> ForkOptions {
    let class = [Class::Urgent, Class::Normal, Class::Background][rng.usize(..3)];
    let options = ForkOptions::new().class(class);
    set.map_or(options, |set| options.workers(set))
}

/// A run of `n` leaves, each on one of these workers.
fn body(
    env: Env,
    n: u32,
    scoped: bool,
    set: Option<WorkerSet>,
) -> impl FnOnce(Fork<'_>) -> u32 + Copy {
    move |fork| if scoped { scope(env, fork, n, set) } else { sum(env, fork, n, set) }
}

fn leaf(env: Env, set: Option<WorkerSet>) {
    if let (Some(set), Some(here)) = (set, env.here()) {
        if !set.contains(here) {
            fail(format!("{here:?} has a piece of a run that has an affinity to {set:?}"));
        }
    }
    work(&mut env.rng());
}

/// Counts the leaves, by halves.
fn sum(env: Env, fork: Fork<'_>, n: u32, set: Option<WorkerSet>) -> u32 {
    leaf(env, set);
    if n <= 1 {
        return n;
    }
    let (a, b) = fork
        .join(move |fork| sum(env, fork, n / 2, set), move |fork| sum(env, fork, n - n / 2, set));
    a + b
}

/// The same, in a scope.
fn scope(env: Env, fork: Fork<'_>, n: u32, set: Option<WorkerSet>) -> u32 {
    let mut counts = vec![0; n as usize];
    fork.scope(|scope| {
        for count in &mut counts {
            scope.spawn(move |_| {
                leaf(env, set);
                *count = 1;
            });
        }
    });
    counts.iter().sum()
}
