//! The cost of an end grows with the number of what it ends, and not with its square.

use core::{future::Future, time::Duration};

use filch_test_support::{ends_in_linear_time, watchdog};
use filch_tokio::{
    runtime::{Builder, LocalOptions, Runtime},
    sync::{Semaphore, oneshot},
    task::{self, JoinSet, LocalSet},
    time::sleep,
};

/// A task that waits, and whose waker is kept.
async fn waits() {
    static NEVER: Semaphore = Semaphore::const_new(0);
    let _ = NEVER.acquire().await;
}

async fn sleeps() {
    sleep(Duration::from_secs(1_000)).await;
}

/// Waits until each task that was spawned before is waiting.
async fn settle() {
    for _ in 0..2 {
        let (send, receive) = oneshot::channel();
        task::spawn(async { send.send(()).unwrap() });
        receive.await.unwrap();
    }
}

fn threaded() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn runtimes<F: Future<Output = ()> + Send + 'static>(task: fn() -> F) {
    for new in [current, threaded] {
        ends_in_linear_time(|n| {
            let runtime = new();
            (0..n).for_each(|_| drop(runtime.spawn(task())));
            runtime.block_on(settle());
            runtime
        });
    }
}

#[test]
fn a_runtime_with_tasks_that_wait() {
    let _watchdog = watchdog();
    runtimes(waits);
}

#[test]
fn a_runtime_with_timers() {
    let _watchdog = watchdog();
    runtimes(sleeps);
}

#[test]
fn a_set_of_local_tasks_and_a_runtime_of_its_own() {
    let _watchdog = watchdog();
    let runtime = current();
    ends_in_linear_time(|n| {
        let set = LocalSet::new();
        (0..n).for_each(|_| drop(set.spawn_local(waits())));
        runtime.block_on(set.run_until(settle()));
        set
    });
    ends_in_linear_time(|n| {
        let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).unwrap();
        (0..n).for_each(|_| drop(runtime.spawn_local(waits())));
        runtime.block_on(settle());
        runtime
    });
}

/// Aborts the tasks of a set, and joins them, as it is dropped.
struct Joins<'a>(JoinSet<()>, &'a Runtime);

impl Drop for Joins<'_> {
    fn drop(&mut self) {
        self.1.block_on(self.0.shutdown());
    }
}

#[test]
fn a_set_of_handles() {
    let _watchdog = watchdog();
    for runtime in [&current(), &threaded()] {
        ends_in_linear_time(|n| {
            let mut set = JoinSet::new();
            (0..n).for_each(|_| drop(set.spawn_on(waits(), runtime.handle())));
            runtime.block_on(settle());
            Joins(set, runtime)
        });
    }
}
