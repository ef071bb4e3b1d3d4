//! Tasks whose closures block their workers, beside others that sleep, wait and compute.

use fastrand::Rng;
use filch::{JoinError, TaskOptions};

use super::{busy_until_over, collect, rest, time, work};
use crate::simulate::{
    env::{Env, Task},
    world::pause_for,
};

pub(super) fn start(env: Env, n: u32) -> Vec<Task<()>> {
    collect((0..n.max(6)).map(|i| match i % 6 {
        0 => env.spawn(blocks(env)),
        1 => {
            let pinned = TaskOptions::new().pinned(env.worker(&mut env.rng()));
            env.spawn_with(pinned, blocks(env))
        }
        2 => env.spawn(waits(env)),
        3 => env.spawn(sleeps(env)),
        4 => env.spawn(busy_until_over(env)),
        _ => env.spawn(waits_for_pinned(env)),
    }))
}

/// Calls a closure that blocks for some time, at times for long.
fn block(env: Env, rng: &mut Rng, f: impl FnOnce(&mut Rng)) {
    let long = if rng.u8(..8) == 0 { 20_000 } else { 300 };
    let f = || {
        pause_for(long);
        f(rng);
    };
    match env.0.machine {
        Some(machine) => machine.block_in_place(f),
        None => f(),
    }
}

async fn blocks(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        block(env, &mut rng, work);
        // The task goes on, on a worker or outside of all.
        if let Some(child) = env.spawn(sleeps_once(env)) {
            env.settle(child.await);
        }
        env.ring(rng.usize(..));
        rest(env, &mut rng).await;
    }
}

/// Waits in sync code for a task of its own, also inside a closure that blocks.
async fn waits(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        let (Some(mut first), Some(mut second)) = (env.spawn(leaf(env)), env.spawn(leaf(env)))
        else {
            rest(env, &mut rng).await;
            continue;
        };
        let (mut inside, mut outside) = (None, None);
        block(env, &mut rng, |_| inside = Some(first.join()));
        outside.replace(second.join());
        for (outcome, task) in [(inside, first), (outside, second)] {
            match outcome {
                Some(Err(JoinError::TooDeep)) | None => drop(env.settle(task.await)),
                Some(outcome) => drop(env.settle(outcome)),
            }
        }
        rest(env, &mut rng).await;
    }
}

/// Waits in sync code for a task that only one worker can poll, and that blocks or takes long.
async fn waits_for_pinned(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        let worker = env.worker(&mut rng);
        let pinned = env.spawn_pinned(worker, async move {
            let mut rng = env.rng();
            if rng.bool() {
                block(env, &mut rng, work);
            } else {
                pause_for(2_000);
            }
        });
        if let Some(mut pinned) = pinned {
            match pinned.join() {
                Err(JoinError::TooDeep) => drop(env.settle(pinned.await)),
                outcome => drop(env.settle(outcome)),
            }
        }
        rest(env, &mut rng).await;
    }
}

async fn leaf(env: Env) {
    let mut rng = env.rng();
    work(&mut rng);
    if rng.bool() {
        filch::yield_now().await;
    }
}

async fn sleeps_once(env: Env) {
    env.nap(time(&mut env.rng())).await;
}

async fn sleeps(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        env.nap(time(&mut rng)).await;
        work(&mut rng);
    }
}
