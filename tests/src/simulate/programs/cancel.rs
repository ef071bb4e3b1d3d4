//! Tasks that end early.

use core::future::pending;
use std::panic::resume_unwind;

use super::{collect, rest, time, work};
use crate::simulate::{
    env::{Aborter, Env, Task},
    machine::Planned,
    world::fail,
};

pub(super) fn start(env: Env, n: u32) -> Vec<Task<()>> {
    collect((0..(n / 6).max(1)).map(|_| env.spawn(storm(env))))
}

/// Spawns some tasks, and aborts them at any point of their lives.
async fn storm(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        let mut victims: Vec<_> =
            (0..rng.u32(1..16)).filter_map(|_| victim(env, rng.u8(..5))).collect();
        for _ in 0..rng.u32(..3) {
            filch::yield_now().await;
        }
        let aborters: Vec<_> = victims.iter().filter_map(Task::aborter).collect();
        rng.shuffle(&mut victims);
        let kept = rng.usize(..=victims.len());
        for victim in victims.drain(kept..) {
            // Aborted, and its handle dropped.
            victim.abort();
            work(&mut rng);
        }
        let mut endless = !victims.is_empty();
        for victim in victims {
            if rng.bool() {
                victim.abort();
            }
            // Some never end by themselves.
            if core::mem::take(&mut endless) || rng.bool() {
                abort_all(&aborters);
            }
            if matches!(victim.await, Err(filch::JoinError::Taken)) {
                fail("an output was taken before it was waited for");
            }
        }
        abort_all(&aborters);
        rest(env, &mut rng).await;
    }
}

fn abort_all(aborters: &[Aborter]) {
    aborters.iter().for_each(Aborter::abort);
}

/// A task to be aborted.
fn victim(env: Env, kind: u8) -> Option<Task<()>> {
    match kind {
        // Forgotten unless it is aborted: its last waker is dropped.
        0 => env.spawn_mortal(pending()),
        1 => env.spawn(async move {
            let mut rng = env.rng();
            env.nap(time(&mut rng)).await;
        }),
        2 => env.spawn(super::busy(env, 6)),
        3 => env.spawn(async move {
            filch::shield(super::busy(env, 3)).await;
            filch::yield_now().await;
        }),
        _ => env.spawn_mortal(async {
            filch::yield_now().await;
            resume_unwind(Box::new(Planned));
        }),
    }
}
