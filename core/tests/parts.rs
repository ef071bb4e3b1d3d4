//! Executors that have a few of the parts.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{pending, poll_fn},
    task::{Poll, Waker},
    time::Duration,
};
use std::sync::{Arc, Mutex};

use common::{Manual, Room, id, pool, slots};
use filch::{
    BuildError, Config, JoinError, Scheduler, Step, WorkerSlot,
    parts::{
        All, Broadcasts, Cores, FewTimers, Forks, Io, Metrics, Parts, Shutdown, Timers, Waits,
        Watchdog,
    },
    yield_now,
};

type Few<F> = Scheduler<Manual, Room<8, F>, 8>;

fn single<F: Parts>() -> &'static Few<F> {
    let executor = Scheduler::over(Manual::new(), Config::new(), slots(1));
    Box::leak(Box::new(executor.unwrap()))
}

fn size<F: Parts>() -> usize {
    size_of::<WorkerSlot<8, F>>()
}

#[test]
fn each_part_takes_its_own_memory_and_no_other() {
    let none = size::<()>();
    assert!(size::<Timers>() > none + 3_000, "a wheel of 6 levels with 64 slots");
    assert!(size::<FewTimers>() > none && size::<FewTimers>() < none + 800);
    assert!(size::<Forks>() > none + 500, "a deque of jobs");
    assert!(size::<Metrics>() > none && size::<Watchdog>() > none && size::<Cores>() > none);
    assert_eq!(size::<(Timers, Timers)>(), size::<Timers>());
    assert_eq!(size::<(FewTimers, Timers)>(), size::<Timers>());
    type Most = (Cores, Timers, Forks, Waits, Watchdog, Shutdown, Metrics, (Broadcasts, Io));
    #[cfg(feature = "classes")]
    type Each = (Most, filch::parts::Classes);
    #[cfg(not(feature = "classes"))]
    type Each = Most;
    assert_eq!(size::<Each>(), size::<All>(), "a set of sets is their union");
    #[cfg(feature = "classes")]
    assert!(size::<Each>() > size::<Most>(), "a ring for background tasks");
}

#[test]
fn a_single_worker_without_parts_polls_what_is_spawned_and_woken() {
    let executor = single::<()>();
    let worker = executor.worker(id(0)).unwrap();
    let (seen, waker) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None::<Waker>)));
    let (log, slot) = (Arc::clone(&seen), Arc::clone(&waker));
    let mut polls = 0;
    let task = executor.spawn(
        pool(),
        poll_fn(move |cx| {
            polls += 1;
            log.lock().unwrap().push(polls);
            *slot.lock().unwrap() = Some(cx.waker().clone());
            if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
        }),
    );
    for polls in 1..=3 {
        assert_eq!(worker.run_for(100), 1, "one wake, one poll");
        assert_eq!(seen.lock().unwrap().len(), polls);
        waker.lock().unwrap().take().unwrap().wake();
    }
    assert_eq!(worker.step(), Step::Idle);
    assert!(task.unwrap().is_finished());
}

/// It has no ring, whatever the parameter says.
#[test]
fn a_single_worker_without_parts_polls_more_tasks_than_a_ring_would_hold() {
    let executor = single::<()>();
    let worker = executor.worker(id(0)).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for i in 0..100 {
        let seen = Arc::clone(&seen);
        let task = executor.spawn(pool(), async move {
            yield_now().await;
            seen.lock().unwrap().push(i);
        });
        task.unwrap().detach();
    }
    assert_eq!(worker.run_for(1_000), 200);
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..100), "each ran once");
}

#[test]
fn a_join_on_a_worker_without_waits_is_refused_and_the_handle_stays_valid() {
    let executor = single::<Shutdown>();
    let worker = executor.worker(id(0)).unwrap();
    let mut task = executor.spawn(pool(), async { 7 }).unwrap();
    assert!(matches!(task.join(), Err(JoinError::MustNotWait)));
    assert_eq!(worker.run_for(10), 1);
    assert_eq!(task.join().unwrap(), 7, "a task that has ended is joined anywhere");
}

#[test]
fn an_executor_of_several_workers_needs_cores() {
    let refused = |result: Result<Few<Timers>, _>| result.err();
    let build = |n| refused(Scheduler::over(Manual::new(), Config::new(), slots(n)));
    assert_eq!(build(2), Some(BuildError::TooManyWorkers(1)));
    assert_eq!(build(0), Some(BuildError::ZeroWorkers));
    assert_eq!(build(1), None);
    let two = Few::<Cores>::over(Manual::new(), Config::new(), slots(2));
    assert!(two.is_ok());
}

/// Deadlines from microseconds to days, against the levels of the small wheel.
#[test]
fn few_timers_fire_in_order_and_never_early() {
    let executor = single::<FewTimers>();
    let worker = executor.worker(id(0)).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let spans: Vec<u64> = (0..40).map(|i| i * 23 % 40).map(|i| 700 << i.min(36) | i).collect();
    for &nanos in &spans {
        let seen = Arc::clone(&seen);
        let task = executor.spawn(pool(), async move {
            executor.sleep(Duration::from_nanos(nanos)).await;
            seen.lock().unwrap().push((nanos, executor.timers().now().as_nanos()));
        });
        task.unwrap().detach();
    }
    while seen.lock().unwrap().len() < spans.len() {
        if worker.step() == Step::Idle {
            worker.park();
        }
    }
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|(deadline, at)| at >= deadline), "early: {seen:?}");
    let late = seen.iter().map(|(deadline, at)| at - deadline).max();
    assert!(late < Some(1_000_000), "late by {late:?}");
    assert!(seen.is_sorted_by_key(|(deadline, _)| *deadline));
}

#[test]
fn counters_and_the_end_are_parts() {
    let executor = single::<(Metrics, Shutdown)>();
    let worker = executor.worker(id(0)).unwrap();
    executor.spawn(pool(), async {}).unwrap().detach();
    let forever = executor.spawn(pool(), pending::<()>()).unwrap();
    worker.run_for(10);
    let totals = executor.metrics().totals();
    assert_eq!((totals.spawned, totals.completed, totals.live), (2, 1, 1));
    executor.begin_shutdown();
    assert_eq!(worker.run_for(10), 1);
    assert_eq!(worker.step(), Step::Stopped);
    assert!(forever.is_finished() && executor.is_stopped());
    assert!(executor.spawn(pool(), async {}).is_err());
}

/// A worker that is never idle fires the timers that another one has left, with and without a part that looks for them.
#[test]
fn timers_of_a_worker_that_has_left_fire_without_the_watchdog() {
    fn fires<F: Parts<Timers = filch::parts::On>>() -> bool {
        let executor = Scheduler::over(Manual::new(), common::quiet(), slots(2)).unwrap();
        let executor: &'static Few<F> = common::forever(Box::new(executor));
        let platform = executor.platform();
        let leaver = platform.pose(1, || {
            let leaver = executor.worker(id(1)).unwrap();
            let task = executor.spawn(pool(), executor.sleep(Duration::from_millis(3)));
            assert_eq!(leaver.step(), Step::Polled);
            drop(leaver);
            task.unwrap()
        });
        let stays = executor.worker(id(0)).unwrap();
        executor
            .spawn(pool(), async {
                loop {
                    yield_now().await;
                }
            })
            .unwrap()
            .detach();
        platform.advance(Duration::from_secs(10));
        for _ in 0..1_000 {
            assert_eq!(stays.step(), Step::Polled);
            platform.advance(Duration::from_micros(100));
        }
        core::mem::forget(stays);
        leaver.is_finished()
    }
    assert!(fires::<All>());
    assert!(fires::<(Cores, Timers, Watchdog)>());
    assert!(fires::<(Cores, Timers)>());
}

/// A watcher that sees others poll goes on watching though all sleep at this moment: it counts polls without [`Metrics`] too.
#[test]
fn the_watchdog_counts_polls_without_metrics() {
    fn goes_on<F: Parts>() -> bool {
        let executor = Scheduler::over(Manual::new(), Config::new().spin_rounds(0), slots(2));
        let executor: &'static Few<F> = common::forever(Box::new(executor.unwrap()));
        let platform = executor.platform();
        let workers = [0, 1].map(|i| platform.pose(i, || executor.worker(id(i)).unwrap()));
        let at = |i: u16, f: &mut dyn FnMut(&filch::Worker<_, _, 8>)| {
            platform.pose(i, || f(&workers[usize::from(i)]));
        };
        let polls = |i| {
            executor.spawner().spawn_pinned(pool(), id(i), async {}).unwrap().detach();
            at(i, &mut |worker| assert_eq!(worker.step(), Step::Polled));
        };
        let watches = |then: &mut dyn FnMut()| {
            at(1, &mut |worker| assert!(worker.begin_park().is_some()));
            then();
            // The watch ends by itself: a scan.
            platform.advance(Duration::from_millis(11));
            at(1, &mut |worker| worker.end_park());
        };
        for _ in 0..3 {
            watches(&mut || polls(0));
        }
        // Worker 1 polls, so that it has not rested.
        polls(1);
        watches(&mut || polls(0));
        at(0, &mut |worker| assert!(worker.begin_park().is_some()));
        let mut until = None;
        at(1, &mut |worker| until = worker.begin_park());
        at(0, &mut |worker| worker.end_park());
        core::mem::forget(workers);
        matches!(until, Some(Some(_)))
    }
    assert!(goes_on::<(Cores, Watchdog, Metrics)>());
    assert!(goes_on::<(Cores, Watchdog)>());
}
