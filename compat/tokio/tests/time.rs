//! Timers: which win, and durations without end.

use core::{
    future::{Future, pending, poll_fn},
    pin::Pin,
    task::Poll,
    time::Duration,
};

use filch_test_support::watchdog;
use filch_tokio::{
    runtime::{Builder, Runtime},
    select,
    sync::oneshot,
    task::{self, LocalSet},
    time::{
        self, Instant, MissedTickBehavior, interval, interval_at, sleep, sleep_until, timeout,
        timeout_at,
    },
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
/// A name, and what makes a future.
type Named = (&'static str, fn() -> Boxed);

/// What is over at once, or soon after.
fn short() -> Vec<Named> {
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
fn long() -> Vec<Named> {
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

fn durations() -> [Duration; 6] {
    let most = Duration::MAX;
    [
        Duration::ZERO,
        Duration::from_nanos(1),
        MS,
        Duration::from_secs(u64::MAX),
        most - Duration::from_nanos(1),
        most,
    ]
}

/// Times from the first to the last that there are.
fn instants() -> Vec<Instant> {
    let now = Instant::now();
    durations().into_iter().flat_map(|by| [now - by, now + by]).collect()
}

/// One poll, with a whole budget.
async fn once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    task::yield_now().await;
    poll_fn(|cx| {
        Poll::Ready(match Pin::new(&mut future).poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Every function of timers with every extreme: none panics, what is past is over soon, what is far ahead is not.
async fn extremes() {
    let now = Instant::now();
    let is_far = |by: Duration| by > Duration::from_secs(3_600);
    for by in durations() {
        let mut sleeps = Box::pin(sleep(by));
        match is_far(by) {
            true => assert!(once(&mut sleeps).await.is_none() && !sleeps.is_elapsed()),
            false => sleeps.as_mut().await,
        }
        assert!(sleeps.deadline() >= now);
        let waits = timeout(by, pending::<()>());
        match is_far(by) {
            true => assert!(once(Box::pin(waits)).await.is_none()),
            false => assert!(waits.await.is_err()),
        }
        assert_eq!(timeout(by, async { 7 }).await, Ok(7));
    }
    for at in instants() {
        let is_far = at > now && is_far(at - now);
        let mut sleeps = Box::pin(sleep_until(at));
        let waits = timeout_at(at, pending::<()>());
        match is_far {
            true => {
                assert!(once(&mut sleeps).await.is_none());
                assert!(once(Box::pin(waits)).await.is_none());
            }
            false => {
                sleeps.as_mut().await;
                assert!(waits.await.is_err());
            }
        }
        // From each to each.
        for next in instants() {
            sleeps.as_mut().reset(next);
            assert_eq!(sleeps.deadline(), next);
            let _ = once(&mut sleeps).await;
        }
    }
}

async fn extremes_of_intervals() {
    use MissedTickBehavior::{Burst, Delay, Skip};
    for period in durations().into_iter().filter(|period| !period.is_zero()) {
        assert!(once(Box::pin(interval(period).tick())).await.is_some());
        for start in instants() {
            for missed in [Burst, Delay, Skip] {
                let mut ticks = interval_at(start, period);
                assert_eq!(ticks.period(), period);
                ticks.set_missed_tick_behavior(missed);
                assert_eq!(ticks.missed_tick_behavior(), missed);
                for _ in 0..3 {
                    let before = Instant::now();
                    let tick = once(Box::pin(ticks.tick())).await;
                    assert!(tick.is_none_or(|tick| tick <= Instant::now() && tick <= before + MS));
                }
                ticks.reset();
                let _ = once(Box::pin(ticks.tick())).await;
                ticks.reset_immediately();
                ticks.tick().await;
                for by in durations() {
                    ticks.reset_after(by);
                    let _ = once(Box::pin(ticks.tick())).await;
                }
                for at in instants() {
                    ticks.reset_at(at);
                    let _ = once(Box::pin(ticks.tick())).await;
                }
            }
        }
    }
}

#[test]
fn timers_with_extreme_times() {
    everywhere(extremes);
}

#[test]
fn intervals_with_extreme_times() {
    everywhere(extremes_of_intervals);
}

#[test]
fn a_stopped_clock_with_extreme_times() {
    let _watchdog = watchdog();
    let stopped = || Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    stopped().block_on(async {
        extremes().await;
        extremes_of_intervals().await;
    });
    for by in durations() {
        for again in durations() {
            stopped().block_on(async {
                let sleeps = task::spawn(sleep(by));
                let last = task::spawn(sleep(Duration::MAX));
                time::advance(by).await;
                sleeps.await.unwrap();
                time::advance(again).await;
                time::advance(by).await;
                time::resume();
                assert!(Instant::now() - again <= Instant::now());
                time::pause();
                time::advance(Duration::MAX).await;
                last.await.unwrap();
                // At the last time that there is, all is over.
                for by in durations() {
                    sleep(by).await;
                    assert!(timeout(by, pending::<()>()).await.is_err());
                    interval_at(Instant::now() + by, MS).tick().await;
                }
            });
        }
    }
}

#[test]
fn times_that_there_are_not_are_the_last_and_the_first() {
    for a in instants() {
        assert_eq!(Instant::from_std(a.into_std()), a);
        for b in instants() {
            assert_eq!(a - b, a.duration_since(b));
            assert_eq!(a - b, a.saturating_duration_since(b));
            assert_eq!(a.checked_duration_since(b), (a >= b).then(|| a - b));
        }
        for by in durations() {
            let (mut later, mut earlier) = (a, a);
            later += by;
            earlier -= by;
            assert_eq!((later, earlier), (a + by, a - by));
            assert!(earlier <= a && a <= later);
            assert!(a.checked_add(by).is_none_or(|there| there == later));
            assert!(a.checked_sub(by).is_none_or(|there| there == earlier));
            // Nothing is later than the last one.
            assert!(later - Duration::from_nanos(1) < later || by.is_zero());
            assert_eq!(later + Duration::MAX, a + Duration::MAX);
            assert_eq!(earlier - Duration::MAX, a - Duration::MAX);
        }
        let _ = a.elapsed();
    }
}
