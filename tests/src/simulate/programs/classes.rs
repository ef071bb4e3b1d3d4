//! Tasks of all classes, which change theirs, wait for each other, and come from everywhere.

use core::{
    future::{Future, poll_fn},
    pin::pin,
    time::Duration,
};

use fastrand::Rng;
use filch::{Class, TaskOptions, WorkerSet};

use super::{collect, rest, time, work};
use crate::simulate::{
    env::{Env, Task},
    world::fail,
};

pub(super) fn start(env: Env, n: u32) -> Vec<Task<()>> {
    let mut rng = env.rng();
    collect((0..n).map(|i| match i % 4 {
        0 => env.spawn_with(of(Class::Background), compute(env)),
        1 => env.spawn_with(of(class(&mut rng)), change(env)),
        2 => env.spawn_with(of(Class::Urgent), control(env)),
        _ => env.spawn(parent(env)),
    }))
}

fn of(class: Class) -> TaskOptions {
    TaskOptions::new().class(class)
}

fn class(rng: &mut Rng) -> Class {
    [Class::Urgent, Class::Normal, Class::Background][rng.usize(..3)]
}

/// Some have a class, some a deadline, some a worker. Those that are pinned must not wait for time: their worker may have left.
fn options(env: Env, rng: &mut Rng) -> TaskOptions {
    let mut options = TaskOptions::new();
    if rng.u8(..4) != 0 {
        options = options.class(class(rng));
    }
    if rng.bool() {
        options = options.deadline(env.0.timers.now() + time(rng));
    }
    if rng.u8(..4) == 0 {
        options = options.pinned(env.worker(rng));
    }
    options
}

/// It spends its budget, and gives way, in its poll or by the end of it.
async fn compute(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        for _ in 0..rng.u32(..200) {
            filch::consume_budget().await;
        }
        work(&mut rng);
        if let Some(machine) = env.0.machine.filter(|_| rng.bool()) {
            machine.give_way();
            work(&mut rng);
        }
        filch::yield_now().await;
    }
}

/// It waits for bells and timers.
async fn control(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        env.0.spawner.set_deadline(rng.bool().then(|| env.0.timers.now() + time(&mut rng)));
        if rng.bool() {
            env.wait_for_bell(rng.usize(..)).await;
        } else {
            env.nap(time(&mut rng) + Duration::from_nanos(1)).await;
        }
        env.ring(rng.usize(..));
    }
}

/// It is busy for so many polls, each of them on one of these workers.
async fn held(env: Env, set: Option<WorkerSet>, polls: u32) {
    let mut task = pin!(super::busy(env, polls));
    poll_fn(move |cx| {
        if let (Some(set), Some(here)) = (set, env.here()) {
            if !set.contains(here) {
                fail(format!("{here:?} polls a task that has an affinity to {set:?}"));
            }
        }
        task.as_mut().poll(cx)
    })
    .await;
}

/// Its class is another in each round.
async fn change(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        env.0.spawner.set_class(class(&mut rng));
        work(&mut rng);
        env.ring(rng.usize(..));
        rest(env, &mut rng).await;
    }
}

/// It waits for children of all classes, which it may have changed its mind about.
async fn parent(env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        let children: Vec<_> = (0..rng.u32(1..6))
            .filter_map(|_| {
                let (mut options, polls) = (options(env, &mut rng), rng.u32(..4));
                let set = (rng.u8(..4) == 0).then(|| env.set(&mut rng));
                if let Some(set) = set {
                    options = options.workers(set);
                }
                env.spawn_with(options, held(env, set, polls))
            })
            .collect();
        env.0.spawner.set_class(class(&mut rng));
        for child in children {
            match rng.u8(..4) {
                // Its handle is dropped.
                0 => {}
                1 => drop(env.0.timers.timeout(time(&mut rng), child).await),
                _ => drop(child.await),
            }
        }
        env.0.spawner.set_class(Class::Normal);
        rest(env, &mut rng).await;
    }
}
