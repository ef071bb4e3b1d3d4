//! What spans cost: a yield among 1,000 tasks, and a spawn and a join in a task, on one worker; the best of ten rounds.
//!
//!     cargo run --release --example cost --no-default-features     without the feature
//!     cargo run --release --example cost                           with it; no subscriber
//!     cargo run --release --example cost console                   console-subscriber

use core::{future::Future, time::Duration};
use std::{env, time::Instant};

use filch_linux::{Runtime, task::yield_now};

const ROUNDS: usize = 10;
const TASKS: u32 = 1000;
const YIELDS: u32 = 200;
const SPAWNS: u32 = 100_000;

fn best<F: Future<Output = ()>>(runtime: &Runtime, round: impl Fn() -> F) -> Duration {
    let time = |_| {
        let begin = Instant::now();
        runtime.block_on(round());
        begin.elapsed()
    };
    (0..ROUNDS).map(time).min().unwrap_or_default()
}

async fn yield_many() {
    let yields = || async {
        for _ in 0..YIELDS {
            yield_now().await;
        }
    };
    let tasks: Vec<_> = (0..TASKS).map(|_| filch_linux::spawn(yields())).collect();
    for task in tasks {
        task.await.expect("it only yields");
    }
}

async fn spawn_join() {
    let joins = async {
        for _ in 0..SPAWNS {
            filch_linux::spawn(async {}).await.expect("it does nothing");
        }
    };
    filch_linux::spawn(joins).await.expect("they do nothing");
}

fn main() {
    if env::args().nth(1).as_deref() == Some("console") {
        // Not the port of a console that is in use.
        console_subscriber::ConsoleLayer::builder().server_addr(([127, 0, 0, 1], 0)).init();
    }
    let runtime: Runtime =
        filch_linux::Builder::new().workers(1).build().expect("a thread can start");
    let yields = best(&runtime, yield_many) / (TASKS * YIELDS);
    println!("yield: {yields:?}");
    println!("spawn and join: {:?}", best(&runtime, spawn_join) / SPAWNS);
}
