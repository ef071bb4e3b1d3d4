//! Trees of tasks, whose leaves are summed up.

use core::{future::Future, pin::Pin};

use filch::JoinError;

use super::{collect, work};
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
        // All is being cancelled, or the leaves agree.
        if let Some(sum) = tree(env, leaves, sync).await {
            if sum != leaves {
                fail(format!("{leaves} tasks were spawned, and {sum} were summed up"));
            }
        }
        filch::yield_now().await;
    }
}

/// How many leaves there are.
fn tree(env: Env, leaves: u64, sync: bool) -> Pin<Box<dyn Future<Output = Option<u64>> + Send>> {
    Box::pin(async move {
        let mut rng = env.rng();
        work(&mut rng);
        if leaves <= 1 {
            if rng.bool() {
                filch::yield_now().await;
            }
            return Some(leaves);
        }
        let parts = rng.u64(2..=leaves.min(12));
        let mut children = Vec::new();
        let mut sum = 0;
        for i in 0..parts {
            let part = leaves / parts + u64::from(i < leaves % parts);
            match env.spawn(tree(env, part, sync)) {
                Some(child) => children.push(child),
                // There is no memory for a task.
                None => sum += part,
            }
        }
        for mut child in children {
            let output = if sync { child.join() } else { (&mut child).await };
            let output = match output {
                // The handle is still good.
                Err(JoinError::TooDeep | JoinError::OnItself) => child.await,
                output => output,
            };
            sum += env.settle(output)??;
        }
        Some(sum)
    })
}
