//! One process computes and serves: 64 tasks that compute in each of their polls, and an echo server.
//!
//! By name: filch with classes (the server is urgent, the computation in the background) and without; tokio with one runtime, with
//! two of as many threads each, the same with `nice 10` for the one that computes, and tokio beside rayon.

use core::{
    hint::black_box,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use std::net::TcpListener;

use filch_linux::{TaskOptions, task::Class};
use futures_lite::future::yield_now;
use tokio::runtime::{Builder, Handle};

use super::{filch, tokio as tokio_net};
use crate::peers::FILCH;

pub(super) const NAMES: &[&str] = &["mixed_100us", "mixed_1ms"];
/// filch without classes.
const ALIKE: &str = "filch-alike";
const PEERS: &[&str] = &[FILCH, ALIKE, "tokio", "tokio-two", "tokio-nice", "tokio-rayon"];

pub(super) const CONNECTIONS: usize = 32;
const TASKS: usize = 64;
/// Steps of the computation that take about a microsecond.
const STEPS: u64 = 950;

/// Polls of computing tasks so far.
static COMPUTED: AtomicU64 = AtomicU64::new(0);

pub(super) fn is_mixed(workload: &str) -> bool {
    NAMES.contains(&workload)
}

pub(super) fn peers() -> Vec<&'static str> {
    PEERS.to_vec()
}

pub(super) fn computed() -> u64 {
    COMPUTED.load(Relaxed)
}

/// One poll.
fn compute(steps: u64) {
    let mut state = 1_u64;
    for _ in 0..steps {
        // Each step needs the one before.
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    COMPUTED.fetch_add(1, Relaxed);
}

async fn computes(steps: u64) {
    loop {
        compute(steps);
        yield_now().await;
    }
}

/// Starts both, in this process.
pub(super) fn start(workload: &str, peer: &str, workers: usize, listener: TcpListener) {
    let steps = STEPS * if workload == NAMES[0] { 100 } else { 1_000 };
    match peer {
        FILCH | ALIKE => on_filch(workers, steps, listener, peer == FILCH),
        "tokio-rayon" => {
            tokio_net::echo(runtime(workers, 0), listener);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
            let pool = Box::leak(Box::new(pool.expect("the pool starts")));
            (0..TASKS).for_each(|_| on_rayon(pool, steps));
        }
        _ => {
            let server = runtime(workers, 0);
            let computer = match peer {
                "tokio-two" => runtime(workers, 0),
                "tokio-nice" => runtime(workers, 10),
                _ => server.clone(),
            };
            tokio_net::echo(server, listener);
            (0..TASKS).for_each(|_| drop(computer.spawn(computes(steps))));
        }
    }
}

fn on_filch(workers: usize, steps: u64, listener: TcpListener, classes: bool) {
    let runtime = filch_linux::Builder::new().workers(workers).classes(classes).build();
    let runtime = runtime.expect("the runtime starts");
    let urgent = TaskOptions::new().class(Class::Urgent);
    // The tasks that serve are its children.
    let server = runtime.handle().spawn_with(urgent, filch::accept_echo(listener));
    server.expect("the runtime lives").detach();
    for _ in 0..TASKS {
        let bulk = TaskOptions::new().class(Class::Background);
        let task = runtime.handle().spawn_with(bulk, computes(steps));
        task.expect("the runtime lives").detach();
    }
    // It serves until the process ends.
    core::mem::forget(runtime);
}

/// A job that begins the next one.
fn on_rayon(pool: &'static rayon::ThreadPool, steps: u64) {
    pool.spawn_fifo(move || {
        compute(steps);
        on_rayon(pool, steps);
    });
}

/// A runtime whose threads are this nice.
fn runtime(workers: usize, nice: i32) -> Handle {
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .on_thread_start(move || {
            if nice != 0 {
                // SAFETY: a plain system call, for the calling thread.
                unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
            }
        })
        .build()
        .expect("the runtime starts");
    let handle = runtime.handle().clone();
    core::mem::forget(runtime);
    handle
}
