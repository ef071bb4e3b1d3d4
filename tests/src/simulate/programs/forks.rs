//! Fork-join runs in tasks.

use filch::Fork;

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
        let body =
            move |fork: Fork<'_>| if scoped { scope(env, fork, n) } else { sum(env, fork, n) };
        let outcome = match env.0.machine {
            Some(machine) => machine.fork(body).unwrap_or_else(|body| body(Fork::alone())),
            None => body(Fork::alone()),
        };
        if outcome != n {
            fail(format!("{n} jobs were forked, and {outcome} were joined"));
        }
        rest(env, &mut rng).await;
    }
}

/// Counts the leaves, by halves.
fn sum(env: Env, fork: Fork<'_>, n: u32) -> u32 {
    work(&mut env.rng());
    if n <= 1 {
        return n;
    }
    let (a, b) =
        fork.join(move |fork| sum(env, fork, n / 2), move |fork| sum(env, fork, n - n / 2));
    a + b
}

/// The same, in a scope.
fn scope(env: Env, fork: Fork<'_>, n: u32) -> u32 {
    let mut counts = vec![0; n as usize];
    fork.scope(|scope| {
        for count in &mut counts {
            scope.spawn(move |_| {
                work(&mut env.rng());
                *count = 1;
            });
        }
    });
    counts.iter().sum()
}
