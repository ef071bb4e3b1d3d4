//! Something to look at with tokio-console: a task that ticks, one that blocks, one that only wakes itself, one whose waker is lost.
//!
//!     cargo run --example app        and in another terminal: tokio-console

use core::{
    future::{Future, poll_fn},
    task::Poll,
    time::Duration,
};
use std::thread;

use filch_linux::{
    Runtime, TaskOptions, runtime::BuildError, spawn_with, task::yield_now, time::sleep,
};

#[track_caller]
fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    spawn_with(TaskOptions::new().name(name), task).expect("the runtime goes on").detach();
}

async fn ticks() {
    loop {
        sleep(Duration::from_millis(100)).await;
    }
}

async fn blocks() {
    loop {
        thread::sleep(Duration::from_millis(50));
        sleep(Duration::from_secs(1)).await;
    }
}

async fn spins() {
    loop {
        thread::sleep(Duration::from_millis(1));
        yield_now().await;
    }
}

fn main() -> Result<(), BuildError> {
    console_subscriber::init();
    let runtime: Runtime = filch_linux::Builder::new().workers(2).build()?;
    runtime.block_on(async {
        spawn("ticks", ticks());
        spawn("blocks", blocks());
        spawn("spins", spins());
        let lost = poll_fn(|cx| {
            drop(cx.waker().clone());
            Poll::<()>::Pending
        });
        // The handle keeps it: without one it would end, as nothing could wake it.
        let lost = spawn_with(TaskOptions::new().name("lost"), lost).expect("the runtime goes on");
        drop(lost.await);
    });
    Ok(())
}
