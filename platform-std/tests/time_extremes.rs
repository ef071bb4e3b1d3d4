//! Each function of time with each extreme: of durations, of points in time, of the clock.

mod common;

use core::{
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};
use std::time::Instant as StdInstant;

use common::watchdog;
use filch_std::{
    LocalRuntime, Runtime,
    runtime::{Pausable, RuntimeOn},
    time::{self, Instant, MissedTick},
};
use futures_util::StreamExt;

const MAX: Duration = Duration::MAX;
const NANO: Duration = Duration::from_nanos(1);
const EXTREMES: [Duration; 7] = [
    Duration::ZERO,
    NANO,
    Duration::from_nanos(u64::MAX / 2 + 1),
    Duration::from_nanos(u64::MAX),
    Duration::from_secs(u64::MAX),
    MAX.saturating_sub(NANO),
    MAX,
];

fn times() -> [Instant; 6] {
    let (now, last) = (time::now(), Instant::from_nanos(u64::MAX - 1));
    [Instant::ZERO, Instant::from_nanos(1), now, now + NANO, last, Instant::MAX]
}

async fn once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Whether it ends, if it is polled again and again for a while that is long for a worker.
async fn ends<F: Future>(future: F) -> bool {
    let mut future = pin!(future);
    for _ in 0..200 {
        if once(future.as_mut()).await.is_ready() {
            return true;
        }
        filch_std::task::yield_now().await;
        std::thread::yield_now();
    }
    false
}

/// All functions, whatever the clock shows. A deadline of a year or more does not come.
async fn all_functions() {
    let year = Duration::from_secs(365 * 24 * 3_600);
    for d in EXTREMES {
        let is_far = time::now() + d > time::now() + year && d > year;
        for ends in [
            ends(time::sleep(d)).await,
            ends(time::timeout(d, pending::<()>())).await,
            ends(filch_std::time::sleep(d)).await,
            ends(filch_std::time::timeout(d, pending::<()>())).await,
        ] {
            assert!(!ends || !is_far, "{d:?}");
        }
        for policy in [MissedTick::Burst, MissedTick::Delay, MissedTick::Skip] {
            let mut interval = time::interval(d).missed_tick(policy);
            let begin = interval.tick().await;
            assert!(begin <= time::now());
            let is_next = ends(interval.tick()).await;
            assert!(!is_next || !is_far, "{d:?}");
            interval.reset();
            let _ = once(pin!(interval.tick())).await;
            for t in times() {
                interval.reset_at(t);
                let tick = once(pin!(interval.tick())).await;
                assert!(tick.is_pending() || t <= time::now());
                let mut later = time::interval_at(t, d).missed_tick(policy);
                let tick = once(pin!(later.tick())).await;
                assert!(tick.is_pending() || t <= time::now());
            }
        }
        let mut ticks = pin!(time::ticks(filch_std::time::interval(d)));
        assert!(ticks.next().await.is_some_and(|tick| tick <= time::now()));
        let _ = once(pin!(ticks.next())).await;
    }
    for t in times() {
        assert!(ends(time::sleep_until(t)).await || t > time::now() || t == Instant::MAX);
        assert!(
            ends(time::timeout_at(t, pending::<()>())).await
                || t > time::now()
                || t == Instant::MAX
        );
        if let Some(std) = time::to_std(t) {
            // There and back, but for the time in between.
            let back = time::from_std(std);
            let apart = (back - t).max(t - back);
            assert!(apart < Duration::from_secs(60), "{t:?} {back:?}");
        }
    }
    for d in EXTREMES {
        let now = StdInstant::now();
        for std in [now.checked_sub(d), now.checked_add(d)].into_iter().flatten() {
            let _ = once(pin!(filch_std::time::sleep_until(time::from_std(std)))).await;
        }
    }
}

#[test]
fn a_clock_that_goes() {
    let _watchdog = watchdog();
    Runtime::builder().workers(1).build().unwrap().block_on(all_functions());
    LocalRuntime::new().unwrap().block_on(all_functions());
}

fn pausable() -> RuntimeOn<Pausable> {
    Runtime::builder().workers(1).build_pausable().unwrap()
}

#[test]
fn a_clock_that_was_moved() {
    let _watchdog = watchdog();
    for by in EXTREMES {
        for goes_on in [false, true] {
            pausable().block_on(async {
                time::pause();
                let before = time::now();
                assert!(time::advance(by));
                assert_eq!(time::now(), before + by, "{by:?}");
                let moved = time::now();
                if goes_on {
                    time::resume();
                    for _ in 0..100 {
                        assert!(time::now() >= moved, "it went back: {by:?}");
                    }
                    time::pause();
                    assert!(time::now() >= moved, "it went back: {by:?}");
                    time::resume();
                }
                let begin = time::now();
                // What is due at once ends.
                time::sleep(Duration::ZERO).await;
                time::sleep_until(Instant::ZERO).await;
                time::timeout_at(begin, pending::<()>()).await.unwrap_err();
                assert!(time::now() >= begin);
                if !goes_on {
                    assert!(time::advance(MAX));
                    assert_eq!(time::now(), Instant::MAX);
                    time::sleep(NANO).await;
                    time::sleep(MAX).await;
                }
            });
        }
    }
}

/// A stopped clock comes to a far deadline by itself, and goes on from there.
#[test]
fn a_clock_that_moves_by_itself() {
    let _watchdog = watchdog();
    for d in [Duration::from_nanos(u64::MAX / 2), Duration::from_nanos(u64::MAX / 4 * 3)] {
        pausable().block_on(async {
            time::pause();
            let end = time::now() + d;
            time::sleep(d).await;
            assert_eq!(time::now(), end);
            time::resume();
            let begin = time::now();
            assert!(begin >= end);
            time::sleep(Duration::from_millis(2)).await;
            assert!(time::now() - begin >= Duration::from_millis(2));
        });
    }
}

/// The clock was stopped while the system's went on.
#[test]
fn a_clock_that_is_behind() {
    let _watchdog = watchdog();
    pausable().block_on(async {
        time::pause();
        let stands = time::now();
        let begin = StdInstant::now();
        while begin.elapsed() < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        assert_eq!(time::now(), stands);
        time::resume();
        let now = time::now();
        assert!(now >= stands && now - stands <= begin.elapsed(), "it has not gone meanwhile");
        time::sleep(Duration::from_millis(2)).await;
        assert!(time::now() - now >= Duration::from_millis(2));
    });
}

#[test]
fn options_and_ends_bear_all_durations() {
    let _watchdog = watchdog();
    for d in EXTREMES {
        let positive = d.max(Duration::from_millis(1));
        let options = || {
            Runtime::builder()
                .workers(1)
                .park_timeout(Some(positive))
                .poll_limit(Some(positive))
                .watchdog(Some((positive, positive)))
                .job_slice(d)
                .blocking_keep_alive(d)
        };
        let rt = options().build().unwrap();
        assert_eq!(rt.block_on(rt.handle().spawn_blocking(|| 7)).unwrap(), 7);
        rt.block_on(rt.spawn(async { time::sleep(Duration::from_millis(1)).await })).unwrap();
        let waits = rt.spawn(pending::<()>());
        if d > Duration::from_secs(1) {
            // It waits for all tasks: one ends it.
            waits.abort();
        }
        assert!(rt.shutdown(d).len() <= 1);
        let local = options().build_local().unwrap();
        let task = local.spawn_local(async {}).unwrap();
        while !task.is_finished() {
            let _ = local.turn_for(d);
        }
    }
}
