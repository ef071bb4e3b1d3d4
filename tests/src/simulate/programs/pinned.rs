//! Tasks that stay on their workers.

use std::rc::Rc;

use super::{channel::Channel, collect, work};
use crate::simulate::{
    env::{Env, Task},
    world::{fail, world},
};

pub(super) fn start(env: Env, n: u32) -> Vec<Task<()>> {
    collect((0..(n / 4).max(1)).flat_map(|_| {
        let mut rng = env.rng();
        let (to, from) = (Channel::new(1), Channel::new(1));
        let (a, b) = (env.worker(&mut rng), env.worker(&mut rng));
        let left = env.spawn_pinned(a, turns(env, a.index(), to.clone(), from.clone()));
        let right = env.spawn_pinned(b, turns(env, b.index(), from.clone(), to.clone()));
        let first = to.clone();
        let begin = async move {
            let _ = first.send(0).await;
        };
        // There may be no memory for all three.
        if left.is_none() || right.is_none() || env.spawn(begin).is_none() {
            to.close();
            from.close();
        }
        [left, right]
    }))
}

/// Takes turns with the other task, sometimes through a local task.
async fn turns(env: Env, on: usize, from: Channel<u32>, to: Channel<u32>) {
    let mut rng = env.rng();
    while let Some(turn) = from.receive().await {
        check(on);
        work(&mut rng);
        if rng.u8(..8) == 0 {
            let mark = Rc::new(());
            let local = env.spawn_local(async move {
                check(on);
                filch::yield_now().await;
                check(on);
                drop(mark);
            });
            if let Some(local) = local {
                // It may be cancelled: its worker may leave.
                let _ = local.await;
            }
        }
        if env.is_over() || to.send(turn + 1).await.is_err() {
            break;
        }
    }
    from.close();
    to.close();
}

fn check(on: usize) {
    let here = world(|w| w.me().and_then(|me| me.worker));
    if here.is_some_and(|here| usize::from(here) != on) {
        fail(format!("a task pinned to worker {on} is polled on worker {here:?}"));
    }
}
