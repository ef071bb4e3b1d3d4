//! Stages with channels between them.

use super::{channel::Channel, collect, work};
use crate::simulate::{
    env::{Env, Task},
    world::fail,
};

pub(super) fn start(env: Env, n: u32) -> Vec<Task<()>> {
    let lines = (n / 6).max(1);
    collect((0..lines).flat_map(|_| {
        let channels: Vec<_> = (1..5).map(|i| Channel::new(2 * i)).collect();
        let stages: Vec<_> = channels
            .windows(2)
            .map(|pair| env.spawn(stage(env, pair[0].clone(), pair[1].clone())))
            .collect();
        if stages.iter().any(Option::is_none) {
            // There is no memory for all stages.
            channels.iter().for_each(Channel::close);
            return stages;
        }
        let source = env.spawn(source(env, channels[0].clone()));
        if source.is_none() {
            channels[0].close();
        }
        let last = channels[channels.len() - 1].clone();
        let sink = env.spawn(sink(env, last.clone()));
        if sink.is_none() {
            last.close();
        }
        stages.into_iter().chain([source, sink]).collect()
    }))
}

async fn source(env: Env, to: Channel<u64>) {
    let mut rng = env.rng();
    let mut next = 0;
    while !env.is_over() && to.send(next).await.is_ok() {
        next += 1;
        work(&mut rng);
        if rng.u8(..64) == 0 {
            env.nap(super::time(&mut rng)).await;
        }
    }
    // The number of items, after them.
    let _ = to.send(u64::MAX - next).await;
    to.close();
}

async fn stage(env: Env, from: Channel<u64>, to: Channel<u64>) {
    let mut rng = env.rng();
    while let Some(item) = from.receive().await {
        work(&mut rng);
        if to.send(item).await.is_err() {
            break;
        }
    }
    from.close();
    to.close();
}

async fn sink(env: Env, from: Channel<u64>) {
    let mut rng = env.rng();
    let mut seen = 0;
    while let Some(item) = from.receive().await {
        work(&mut rng);
        if item != seen && item != u64::MAX - seen {
            fail(format!("item {item} comes as the {seen}th"));
        }
        seen += 1;
    }
}
