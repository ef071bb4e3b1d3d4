//! Sleeps, timeouts, intervals.

use core::{
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    task::Poll,
};

use super::{collect, time, work};
use crate::simulate::{
    env::{Env, Task},
    world::fail,
};

pub(super) fn start(env: Env, n: u32) -> Vec<Task<()>> {
    collect((0..n).map(|i| match i % 4 {
        0 => env.spawn(sleeper(env)),
        1 => env.spawn(in_time(env)),
        2 => env.spawn(ticker(env)),
        _ => env.spawn(fickle(env)),
    }))
}

async fn sleeper(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        env.nap(time(&mut rng)).await;
        work(&mut rng);
    }
}

/// A sleep with a timeout: either may end first.
async fn in_time(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        let (sleep, limit) = (time(&mut rng), time(&mut rng));
        let timers = env.0.timers;
        let end = timers.now() + limit;
        let outcome = timers.timeout_at(end, env.nap(sleep)).await;
        if outcome.is_err() && timers.now() < end {
            fail("a timeout comes early");
        }
        if timers.timeout(time(&mut rng), pending::<()>()).await.is_ok() {
            fail("what never ends has ended in time");
        }
        work(&mut rng);
    }
}

async fn ticker(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        let period = time(&mut rng);
        let mut interval = env.0.timers.interval(period);
        let mut last = None;
        for _ in 0..rng.u32(1..10) {
            let due = interval.tick().await;
            if env.0.timers.now() < due || last.is_some_and(|last| due < last) {
                fail("a tick comes early");
            }
            last = Some(due);
        }
        // A period of zero ticks at once.
        filch::yield_now().await;
    }
}

/// Changes its deadline, when woken and when not.
async fn fickle(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        let mut nap = env.nap(time(&mut rng));
        let mut changes = rng.u32(..4);
        let mut yielding = pin!(filch::yield_now());
        poll_fn(|cx| {
            if Pin::new(&mut nap).poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if changes > 0 {
                changes -= 1;
                nap.reset(env.0.timers.now() + time(&mut rng));
                cx.waker().wake_by_ref();
            } else if yielding.as_mut().poll(cx).is_ready() {
                // One more poll without a reason.
            }
            Poll::Pending
        })
        .await;
    }
}
