//! What fibers and threads do.

use core::{sync::atomic::Ordering::Relaxed, time::Duration};

use fastrand::Rng;
use filch::{Instant, Platform, RunError, Step, WorkerId, atomic::AtomicU32};

use super::{
    env::Env,
    machine::{Machine, On},
    programs::{self, Program},
    world::{fail, pause_for},
};

/// A worker's fiber: it runs to the end, or leaves and returns, by itself or as it was asked to.
pub(super) fn be_worker(executor: &'static Machine, id: WorkerId, may_leave: bool, mut rng: Rng) {
    loop {
        match executor.worker(id) {
            Err(RunError::Stopped) => return,
            // The thread that shuts down acts for it.
            Err(_) => pause_for(100),
            Ok(worker) if may_leave && rng.u8(..4) != 0 => {
                let mut idle = 0;
                let steps = [10, 100, 2_000][rng.usize(..3)];
                for _ in 0..rng.u32(1..steps) {
                    match worker.step() {
                        Step::Stopped => break,
                        Step::Polled => idle = 0,
                        Step::Idle => idle += 1,
                    }
                    if idle > rng.u32(..4) {
                        worker.park();
                    }
                }
                drop(worker);
                pause_for(rng.u64(1..5_000));
            }
            Ok(worker) => {
                worker.run();
                pause_for(rng.u64(1..5_000));
            }
        }
    }
}

/// The thread that resizes the executor, until the program ends.
pub(super) fn be_keeper(executor: &'static Machine, env: Env) {
    let mut rng = env.rng();
    while !env.is_over() {
        pause_for(rng.u64(1..20_000));
        // Workers come back by themselves too, whether the platform starts them or not.
        let _ = executor.resize(rng.usize(1..=executor.workers()));
    }
}

/// The thread that starts the program, acts on it from outside now and then, and shuts it down: in
/// its own way when it is asked to, or in order after so many rounds.
pub(super) fn be_main<P: Platform>(
    executor: &'static On<P>,
    env: Env,
    program: Program,
    rounds: Option<u32>,
) {
    let mut rng = env.rng();
    let (mut roots, mut alarms) = (program.start(env), Vec::new());
    for round in 0.. {
        if env.is_over() || rounds.is_some_and(|rounds| round >= rounds) {
            break;
        }
        programs::from_outside(env, &mut rng, &mut alarms);
        let time = rng.u64(..200);
        if rounds.is_some() {
            // In a record and its replay it is a call of the platform.
            let end = executor.timers().now() + Duration::from_micros(time);
            executor.platform().block(&AtomicU32::new(0), 0, Some(end));
        } else {
            pause_for(time);
        }
    }
    drop(alarms);
    env.0.over.store(true, Relaxed);
    env.ring_all();
    let graceful = rounds.is_some() || rng.bool();
    if graceful {
        programs::join_all(&mut roots);
    } else {
        env.0.ledger.close();
    }
    drop(roots);
    let deadline = if graceful { Instant::MAX } else { executor.timers().now() };
    let shut = executor.shutdown(deadline, |_| {});
    if graceful && shut != Ok(0) {
        fail(format!("tasks have survived a shutdown that waits: {shut:?}"));
    }
}
