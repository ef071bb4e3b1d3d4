//! Timers: which win, and durations without end.

use core::{
    future::{Future, pending},
    pin::Pin,
    time::Duration,
};

use filch_test_support::watchdog;
use filch_tokio::{
    runtime::{Builder, Runtime},
    select,
    sync::oneshot,
    task::{self, LocalSet},
    time::{Instant, interval, interval_at, sleep, sleep_until, timeout, timeout_at},
};

const MS: Duration = Duration::from_millis(1);

fn threaded() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// In a root future, a task and a local task, of a runtime of each kind.
fn everywhere<F: Future<Output = ()> + Send + 'static>(test: fn() -> F) {
    let _watchdog = watchdog();
    for runtime in [current(), threaded()] {
        runtime.block_on(test());

        runtime.block_on(runtime.spawn(test())).unwrap();
        runtime.block_on(
            LocalSet::new().run_until(async { task::spawn_local(test()).await.unwrap() }),
        );
    }
}

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is over at once, or soon after.
fn short() -> Vec<(&'static str, fn() -> Boxed)> {
    vec![
        ("sleep", || Box::pin(sleep(Duration::ZERO))),
        ("sleep_until", || Box::pin(sleep_until(Instant::now() - MS))),
        ("interval", || Box::pin(async { _ = interval(MS).tick().await })),
        ("timeout", || Box::pin(async { drop(timeout(Duration::ZERO, pending::<()>()).await) })),
        ("timeout_at", || {
            Box::pin(async { drop(timeout_at(Instant::now() - MS, pending::<()>()).await) })
        }),
        ("yield_now", || Box::pin(task::yield_now())),
        ("consume_budget", || Box::pin(task::consume_budget())),
        ("advance of a channel", || {
            Box::pin(async {
                let (send, receive) = oneshot::channel();
                send.send(()).unwrap();
                receive.await.unwrap();
            })
        }),
    ]
}

/// What is over later.
fn long() -> Vec<(&'static str, fn() -> Boxed)> {
    const SOON: Duration = Duration::from_millis(3);
    vec![
        ("sleep", || Box::pin(sleep(SOON))),
        ("sleep of no time", || Box::pin(sleep(Duration::ZERO))),
        ("sleep_until", || Box::pin(sleep_until(Instant::now() + SOON))),
        ("interval", || {
            Box::pin(async { _ = interval_at(Instant::now() + SOON, MS).tick().await })
        }),
        ("timeout", || Box::pin(async { drop(timeout(SOON, pending::<()>()).await) })),
        ("timeout_at", || {
            Box::pin(async { drop(timeout_at(Instant::now() + SOON, pending::<()>()).await) })
        }),
    ]
}

#[test]
fn a_loop_of_what_is_over_at_once_keeps_no_timer_from_its_end() {
    everywhere(|| async {
        for (name, short) in short() {
            let again = || async {
                loop {
                    short().await;
                }
            };
            for (other, long) in long() {
                println!("{name} beside {other}");
                select! {
                    biased;
                    () = again() => unreachable!(),
                    () = long() => {}
                }
            }
            println!("{name} in a timeout");
            assert!(timeout(3 * MS, again()).await.is_err());
            assert!(timeout_at(Instant::now(), again()).await.is_err());
        }
    });
}
