//! Trees of tasks, whose leaves are summed up.

use core::{future::Future, pin::Pin};

use fastrand::Rng;
use filch::JoinError;

use super::{collect, rest, work};
use crate::simulate::{
    env::{Env, Task},
    world::fail,
};

pub(super) fn start(env: Env, n: u32, sync: bool) -> Vec<Task<()>> {
    let roots = (n / 8).max(1);
    collect((0..roots).map(|_| env.spawn(root(env, n, sync))))
}

async fn root(env: Env, n: u32, sync: bool) {
    let mut rng = env.rng();
    while !env.is_over() {
        let leaves = rng.u64(1..=2 * u64::from(n));
        let sum = if sync { sync_fan(env, leaves).await } else { tree(env, leaves).await };
        // Either all tasks are being cancelled, or the sum is right.
        if let Some(sum) = sum {
            if sum != leaves {
                fail(format!("{leaves} tasks were spawned, and {sum} were summed up"));
            }
        }
        rest(env, &mut rng).await;
    }
}

/// How many leaves there are.
fn tree(env: Env, leaves: u64) -> Pin<Box<dyn Future<Output = Option<u64>> + Send>> {
    Box::pin(async move {
        let mut rng = env.rng();
        work(&mut rng);
        if leaves <= 1 {
            return Some(leaf(rng, leaves).await);
        }
        let parts = rng.u64(2..=leaves.min(12));
        let mut children = Vec::new();
        let mut sum = 0;
        for i in 0..parts {
            let part = leaves / parts + u64::from(i < leaves % parts);
            match env.spawn(tree(env, part)) {
                Some(child) => children.push(child),
                // There is no memory for a task.
                None => sum += part,
            }
        }
        for child in children {
            sum += env.settle(child.await)??;
        }
        Some(sum)
    })
}

async fn leaf(mut rng: Rng, value: u64) -> u64 {
    work(&mut rng);
    if rng.bool() {
        filch::yield_now().await;
    }
    value
}

/// The same with sync joins, of tasks that join none themselves. Two tasks that wait for each
/// other's children, each on top of the other's parent, would wait for ever.
async fn sync_fan(env: Env, leaves: u64) -> Option<u64> {
    let children: Vec<_> = (0..leaves).map(|_| env.spawn(leaf(env.rng(), 1))).collect();
    let mut sum = 0;
    for child in children {
        let Some(mut child) = child else {
            // There was no memory for a task.
            sum += 1;
            continue;
        };
        let output = match child.join() {
            // The handle is still valid.
            Err(JoinError::TooDeep) => child.await,
            output => output,
        };
        sum += env.settle(output)?;
    }
    Some(sum)
}
