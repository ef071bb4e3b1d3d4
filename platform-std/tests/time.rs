//! Time in a runtime: with any waker and combinator, and with the clock stopped.

mod common;

use core::{
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{sync::Arc, thread, time};

use common::{until, watchdog};
use filch_std::{
    Runtime, TaskOptions,
    runtime::{Host, Pausable, RuntimeOn, WorkerId},
    spawn,
    time::{MissedTick, advance, interval, now, pause, resume, sleep, sleep_until, timeout},
};
use futures_util::{
    FutureExt, StreamExt,
    future::{Either, join_all, select},
    poll,
    stream::FuturesUnordered,
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// A runtime whose clock can be stopped.
fn pausable(workers: usize) -> RuntimeOn<Pausable> {
    Runtime::builder().workers(workers).build_pausable().unwrap()
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const HOUR: Duration = Duration::from_secs(3_600);

/// By the operating system's clock too.
#[test]
fn sleeps_are_never_early() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    let sleeps = (0..300_u64).map(|i| {
        runtime.spawn(async move {
            let (begin, host, length) =
                (now(), time::Instant::now(), Duration::from_micros(i * 97));
            sleep(length).await;
            assert!(now() - begin >= length && host.elapsed() >= length, "{length:?}");
        })
    });
    let sleeps: Vec<_> = sleeps.collect();
    for mut sleep in sleeps {
        sleep.join().unwrap();
    }
}

#[test]
fn sleeps_work_in_combinators() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    runtime.block_on(async {
        join_all((0..100).map(|i| sleep(ms(i % 10)))).await;
        let (short, long) = (pin!(sleep(ms(1))), pin!(sleep(HOUR)));
        assert!(matches!(select(short, long).await, Either::Left(_)));
        let mut any: FuturesUnordered<_> =
            [HOUR, ms(2), HOUR].map(|d| sleep(d).map(move |()| d)).into_iter().collect();
        assert_eq!(any.next().await, Some(ms(2)));
    });
}

/// The waker is a plain thread's.
#[test]
fn sleeps_work_under_a_foreign_executor() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let timers = runtime.handle().timers();
    let begin = timers.now();
    futures_executor::block_on(async {
        timers.sleep(ms(3)).await;
        assert!(timers.timeout(ms(1), core::future::pending::<()>()).await.is_err());
    });
    assert!(timers.now() - begin >= ms(4));
}

#[test]
#[should_panic(expected = "no filch runtime")]
fn outside_of_a_runtime_there_is_no_time() {
    drop(sleep(ms(1)));
}

#[test]
#[should_panic(expected = "clock cannot be stopped")]
fn the_clock_of_the_operating_system_is_not_stopped() {
    let _watchdog = watchdog();
    runtime(1).block_on(async {
        resume();
        assert!(!advance(HOUR));
        pause();
    });
}

/// With the clock of the standard library, and back.
#[filch_std::test(workers = 1)]
async fn the_standard_librarys_times_are_converted() {
    use filch_std::time::{from_std, to_std};
    let (before, here, after) = (time::Instant::now(), now(), time::Instant::now());
    let there = to_std(here).unwrap();
    let slack = ms(1_000);
    assert!(there + slack >= before && there <= after + slack);
    let back = from_std(there + HOUR);
    assert!(back + slack >= here + HOUR && back <= here + HOUR + slack);
    // A time before the clock's origin is that.
    let Some(old) = time::Instant::now().checked_sub(now() - filch_std::time::Instant::ZERO + HOUR)
    else {
        return;
    };
    assert_eq!(from_std(old), filch_std::time::Instant::ZERO);
}

#[filch_std::test(workers = 1, paused)]
async fn ticks_are_a_stream() {
    let ticks = filch_std::time::ticks(interval(HOUR)).take(3).collect::<Vec<_>>().await;
    assert_eq!((ticks.len(), ticks[2] - ticks[0]), (3, 2 * HOUR));
}

#[filch_std::test(workers = 2, paused)]
async fn a_test_may_begin_on_a_stopped_clock() {
    let (begin, host) = (now(), time::Instant::now());
    spawn(sleep(HOUR)).await.unwrap();
    assert!(now() - begin >= HOUR && host.elapsed() < HOUR);
}

#[test]
fn a_stopped_clock_moves_to_the_next_deadline_when_nothing_is_runnable() {
    let _watchdog = watchdog();
    for workers in [1, 2, 4] {
        let runtime = pausable(workers);
        let host = time::Instant::now();
        runtime.block_on(async {
            pause();
            let begin = now();
            let tasks: Vec<_> = (1..=100_u32)
                .map(|i| {
                    spawn(async move {
                        let before = now();
                        sleep(i * HOUR).await;
                        now() - before
                    })
                })
                .collect();
            for (i, task) in (1_u32..).zip(tasks) {
                assert_eq!(task.await.unwrap(), i * HOUR, "{workers} workers");
            }
            // Spawning took no time, and the clock did not move past the last deadline, except for
            // the watchdog's timeouts.
            assert!(now() - begin < 100 * HOUR + ms(1_000));
        });
        assert!(host.elapsed() < HOUR);
    }
}

#[test]
fn a_stopped_clock_stands_while_something_runs() {
    let _watchdog = watchdog();
    let runtime = pausable(2);
    runtime.block_on(async {
        pause();
        let late = spawn(sleep(ms(1)));
        // A thread in `block_on` that does not wait.
        let begin = now();
        thread::sleep(ms(20));
        assert_eq!(now(), begin);
        assert!(!late.is_finished());
        // A worker in a poll.
        let still = spawn(async {
            let begin = now();
            thread::sleep(ms(20));
            now() == begin
        });
        assert!(still.await.unwrap());
        late.await.unwrap();
        // A closure that blocks.
        let begin = now();
        let blocked = timeout(HOUR, filch_std::spawn_blocking(|| thread::sleep(ms(20))));
        blocked.await.expect("the hour has not passed").unwrap();
        assert_eq!(now(), begin);
    });
}

/// The thread in `block_on` slept when the clock was stopped.
#[test]
fn a_clock_is_stopped_by_a_task_while_all_else_sleeps() {
    let _watchdog = watchdog();
    let runtime = pausable(2);
    let far = runtime.spawn(runtime.handle().timers().sleep(HOUR));
    runtime
        .block_on(runtime.spawn(async {
            thread::sleep(ms(20));
            pause();
            let begin = now();
            sleep(2 * HOUR).await;
            assert_eq!(now() - begin, 2 * HOUR);
        }))
        .unwrap();
    assert!(far.is_finished());
}

#[test]
fn a_stopped_clock_is_moved_by_hand_and_goes_on() {
    let _watchdog = watchdog();
    let runtime = pausable(2);
    runtime.block_on(async {
        assert!(!advance(HOUR), "it is not stopped");
        pause();
        let begin = now();
        let done = spawn(sleep_until(begin + HOUR));
        assert!(advance(2 * HOUR));
        assert_eq!(now() - begin, 2 * HOUR);
        done.await.unwrap();
        resume();
        // The clock goes on from where it stood: never backwards, and no longer in leaps.
        assert!(now() - begin >= 2 * HOUR);
        let (before, host) = (now(), time::Instant::now());
        sleep(ms(5)).await;
        assert!(now() - before >= ms(5) && host.elapsed() >= ms(5));
        assert!(now() - begin < 3 * HOUR);
    });
}

#[test]
fn the_clock_of_a_new_runtime_goes() {
    let _watchdog = watchdog();
    // In the memory of a runtime whose clock was stopped.
    for _ in 0..3 {
        let runtime = pausable(3);
        runtime.block_on(async {
            let host = time::Instant::now();
            sleep(ms(3)).await;
            assert!(host.elapsed() >= ms(3));
            pause();
            sleep(HOUR).await;
        });
    }
}

/// A program of several tasks has the same times in each run on a stopped clock.
#[test]
fn programs_of_timers_are_reproducible() {
    let _watchdog = watchdog();
    let run = || {
        let runtime = Runtime::builder().workers(2).watchdog(None).build_pausable().unwrap();
        runtime.block_on(async {
            pause();
            let begin = now();
            let ticks = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&ticks);
            let ticker = spawn(async move {
                let mut interval = interval(ms(100)).missed_tick(MissedTick::Skip);
                loop {
                    interval.tick().await;
                    seen.fetch_add(1, SeqCst);
                }
            });
            let slow = timeout(ms(1_050), core::future::pending::<()>()).await;
            assert!(slow.is_err());
            let ticked = ticks.load(SeqCst);
            ticker.abort();
            assert!(ticker.await.is_err());
            (ticked, now() - begin)
        })
    };
    for _ in 0..20 {
        assert_eq!(run(), (11, ms(1_050)));
    }
}

/// The threads of an idle runtime.
fn rest<H: Host>(runtime: &RuntimeOn<H>, workers: usize) {
    until(|| runtime.metrics().totals().parked == workers);
}

/// All workers slept, and one is woken for a poll that ends only when a timer of its own wheel has
/// fired. Another worker must be woken to take the watchdog role, since all others sleep without a
/// timeout.
#[test]
fn timers_of_a_worker_that_is_stuck_after_an_idle_moment_are_fired() {
    let _watchdog = watchdog();
    for worker in [0, 1].map(WorkerId::new) {
        let runtime = runtime(2);
        let timers = runtime.handle().timers();
        let begun = runtime.handle().spawn_with(TaskOptions::new().pinned(worker), async move {
            let mut sleep = Box::pin(timers.sleep(ms(50)));
            assert!(poll!(&mut sleep).is_pending());
            Some(sleep)
        });
        let sleep = runtime.block_on(begun.unwrap()).unwrap().unwrap();
        rest(&runtime, 2);
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let stuck = runtime.handle().spawn_with(TaskOptions::new().pinned(worker), async move {
            while !seen.load(SeqCst) {
                thread::yield_now();
            }
        });
        futures_executor::block_on(sleep);
        over.store(true, SeqCst);
        stuck.unwrap().join().unwrap();
    }
}

#[test]
fn a_stopped_clock_knows_a_thread_once_however_it_waits() {
    let _watchdog = watchdog();
    let runtime = pausable(1);
    runtime.block_on(async {
        pause();
        let begin = now();
        filch_std::block_on(async { sleep(HOUR).await });
        spawn(sleep(HOUR)).join().unwrap();
        assert!(now() - begin >= 2 * HOUR && now() - begin < 3 * HOUR);
    });
}

#[test]
fn patience_is_real_time() {
    let _watchdog = watchdog();
    let runtime = pausable(1);
    runtime.block_on(async { pause() });
    let forever = runtime.spawn(core::future::pending::<()>());
    assert_eq!(runtime.shutdown(ms(20)).len(), 1);
    assert!(forever.is_finished());
}

/// The compensation worker for a worker that waits too deep has not started yet, and will find a task.
#[test]
fn a_stopped_clock_waits_for_threads_that_are_about_to_work() {
    let _watchdog = watchdog();
    for _ in 0..10 {
        let runtime = Runtime::builder().workers(1).nesting(0).build_pausable().unwrap();
        runtime.block_on(async {
            pause();
            let begin = now();
            let outer = spawn(async move {
                let task = spawn(async move { now() - begin });
                filch_std::block_on(sleep(HOUR));
                task.await.unwrap()
            });
            assert!(outer.await.unwrap() < HOUR);
        });
    }
}

/// All spare slots are in use, so the last worker has no compensation worker.
#[test]
fn a_worker_that_waits_too_deep_without_a_stand_in_fires_its_timers() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(2).nesting(0).build().unwrap();
    let waiting = Arc::new(AtomicUsize::new(0));
    let (all, seen) = (Arc::new(AtomicBool::new(false)), Arc::clone(&waiting));
    let last =
        runtime.handle().spawn_with(TaskOptions::new().pinned(WorkerId::new(1)), async move {
            while seen.load(SeqCst) < 9 {
                thread::yield_now();
            }
            filch_std::block_on(sleep(ms(5)));
        });
    let others: Vec<_> = (0..9)
        .map(|_| {
            let (waiting, all) = (Arc::clone(&waiting), Arc::clone(&all));
            runtime.spawn(async move {
                filch_std::block_on(async {
                    waiting.fetch_add(1, SeqCst);
                    while !all.load(SeqCst) {
                        sleep(ms(1)).await;
                    }
                });
            })
        })
        .collect();
    // Not with `join`: this thread would help, and could then be stuck below another task.
    let mut last = last.unwrap();
    while !last.is_finished() {
        thread::yield_now();
    }
    last.join().unwrap();
    all.store(true, SeqCst);
    others.into_iter().for_each(|mut other| other.join().unwrap());
}

#[test]
fn far_deadlines_stay_far_when_the_clock_goes_on() {
    let _watchdog = watchdog();
    let runtime = pausable(1);
    runtime.block_on(async {
        pause();
        thread::sleep(ms(5));
        resume();
    });
    let timers = runtime.handle().timers();
    let end = filch_std::time::Instant::from_nanos(u64::MAX - 1);
    runtime.spawn(async move { timers.sleep_until(end).await }).detach();
    rest(&runtime, 1);
    let parks = || runtime.metrics().workers().map(|(_, m)| m.parks).sum::<usize>();
    let before = parks();
    thread::sleep(ms(50));
    assert!(parks() - before <= 2, "{} parks while idle", parks() - before);
}

/// The worker need not check a deadline that has moved to a later time.
#[test]
fn a_reset_to_a_later_time_wakes_nobody() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    let timers = runtime.handle().timers();
    let mut sleep = Box::pin(timers.sleep(HOUR));
    futures_executor::block_on(async { assert!(poll!(&mut sleep).is_pending()) });
    rest(&runtime, 1);
    let parks = || runtime.metrics().workers().map(|(_, m)| m.parks).sum::<usize>();
    let before = parks();
    for i in 2..100 {
        sleep.as_mut().reset(timers.now() + i * HOUR);
        thread::yield_now();
    }
    assert!(parks() - before <= 2, "{} parks", parks() - before);
}

/// The thread in `block_on` is a worker for a while, and sleeps as one: the clock must not wait for
/// it a second time.
#[test]
fn a_stopped_clock_moves_while_a_thread_has_a_workers_place() {
    let _watchdog = common::watchdog();
    let runtime = pausable(2);
    let (handle, me) = (*runtime.handle(), std::thread::current().id());
    let run = |_: filch_std::parallel::Fork<'_>| {
        if std::thread::current().id() != me {
            return false;
        }
        pause();
        let begin = now();
        handle.block_on(handle.spawn(sleep(ms(3_600_000)))).unwrap();
        assert!(now() - begin >= ms(3_600_000));
        resume();
        true
    };
    // After the workers have started and gone to sleep.
    runtime.block_on(async { while !handle.fork(run) {} });
}

/// The thread in `block_on` waits for a fork-join run, which waits for a timer.
#[test]
fn a_stopped_clock_moves_while_a_thread_waits_for_a_run() {
    let _watchdog = common::watchdog();
    let runtime = pausable(2);
    let handle = *runtime.handle();
    runtime.block_on(async {
        pause();
        let begin = now();
        filch_std::parallel::join(
            || handle.block_on(handle.spawn(sleep(ms(3_600_000)))).unwrap(),
            || {},
        );
        assert!(now() - begin >= ms(3_600_000));
        resume();
    });
}
