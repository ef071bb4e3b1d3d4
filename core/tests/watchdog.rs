//! The watchdog: its timeouts, and what it does.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{Future, poll_fn},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Waker},
    time::Duration,
};
use std::{
    sync::{Arc, Mutex},
    task::Wake,
};

use common::{ManualExecutor, NAP, Shared, Sim, id, output, pool, quiet, shared};
use filch::{Config, Instant, Step};

/// Runs `f` on worker 1 while worker 0 is stuck in a poll with a task in its LIFO slot.
fn behind_a_stuck_poll(config: Config, f: impl FnOnce(&Sim, &Arc<AtomicUsize>) + Send + 'static) {
    let (sim, for_tasks) = shared(watched(3, config));
    let pool = pool();
    let executor = sim.executor;
    let stuck = async move {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let behind = async move {
            count.fetch_add(1, SeqCst);
        };
        executor.spawn(pool, behind).unwrap().detach();
        // This poll ends only when `f` has returned.
        f(&for_tasks, &ran);
        drop(for_tasks);
    };
    let mut handle = executor.spawn(pool, stuck).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    output(&mut handle).unwrap();
}

/// This many workers, each of which has slept before: the first sleep beside a single worker is a short one.
fn watched(workers: u16, config: Config) -> Sim {
    let sim = Sim::with(workers, config);
    for worker in 0..workers {
        assert!(sim.on(worker, filch::Worker::begin_park).is_some());
        sim.on(worker, filch::Worker::end_park);
    }
    sim
}

fn now(sim: &Sim) -> Instant {
    filch::Platform::now(sim.executor.platform())
}

/// A worker goes to sleep. Returns its timeout to the nearest 10 us, as it counts in units of 1,024 ns.
fn begin(sim: &Sim, worker: u16) -> Duration {
    let deadline = sim.on(worker, filch::Worker::begin_park).expect("nothing to do");
    let nanos = deadline.expect("it watches").nanos_since(now(sim));
    Duration::from_nanos((nanos + 5_000) / 10_000 * 10_000)
}

/// A worker sleeps to the end of its timeout. Returns how long that was.
fn timeout(sim: &Sim, worker: u16) -> Duration {
    let timeout = begin(sim, worker);
    sim.executor.platform().advance(timeout);
    sim.on(worker, filch::Worker::end_park);
    timeout
}

#[test]
fn the_watchdog_takes_the_task_behind_a_stuck_poll() {
    let config = quiet().watchdog(Some((NAP, 20 * NAP)));
    behind_a_stuck_poll(config, |sim, ran| {
        assert_eq!(sim.step(1), Step::Idle, "the LIFO slot is no thief's");
        for scan in 0..2 {
            assert_eq!(ran.load(SeqCst), 0);
            // The first scan sees the poll; the second sees that it is still the same.
            assert_eq!(begin(sim, 1), 20 * NAP, "scan {scan}");
            // Two workers have the watchdog role, and one of them scans.
            assert_eq!(begin(sim, 2), 20 * NAP, "scan {scan}");
            sim.executor.platform().advance(20 * NAP);
            sim.on(1, filch::Worker::end_park);
            sim.on(2, filch::Worker::end_park);
        }
        assert_eq!(sim.step(1), Step::Polled);
        assert_eq!(ran.load(SeqCst), 1);
        let (_, worker) = sim.executor.metrics().workers().nth(1).unwrap();
        assert_eq!((worker.sweeps, worker.rescues), (2, 1));
        // From now on timeouts are short, until no long poll has been seen for a while.
        (0..100).for_each(|n| assert_eq!(timeout(sim, 1), NAP, "{n}"));
    });
}

/// A worker with the watchdog role that is woken for work again and again still reaches the end of its timeout.
#[test]
fn work_does_not_put_the_scan_off() {
    let config = quiet().watchdog(Some((NAP, 20 * NAP)));
    behind_a_stuck_poll(config, |sim, ran| {
        let begun = now(sim);
        while ran.load(SeqCst) == 0 {
            let left = begin(sim, 1);
            if left > 3 * NAP {
                sim.executor.platform().advance(3 * NAP);
                let task = sim.executor.spawner().spawn_pinned(pool(), id(1), async {});
                task.unwrap().detach();
            } else {
                sim.executor.platform().advance(left);
            }
            sim.on(1, filch::Worker::end_park);
            sim.run(1);
            assert!(now(sim).nanos_since(begun) < 45 * NAP.as_nanos() as u64, "put off");
        }
    });
}

#[test]
fn a_poll_over_the_limit_is_reported_once() {
    let config = quiet().watchdog(Some((NAP, NAP))).poll_limit(Some(2 * NAP));
    behind_a_stuck_poll(config, |sim, _| {
        let platform = sim.executor.platform();
        let sweep = || {
            sim.run(1);
            assert_eq!(timeout(sim, 1), NAP);
        };
        // The time counts from the first scan.
        (0..2).for_each(|_| sweep());
        assert_eq!(platform.long_polls(), []);
        (0..4).for_each(|_| sweep());
        let [(0, nanos)] = platform.long_polls()[..] else { panic!("one poll") };
        // In units of 1,024 ns.
        assert!(
            nanos.abs_diff(2 * NAP.as_nanos() as u64) < NAP.as_nanos() as u64 + 2_048,
            "{nanos}"
        );
    });
}

#[test]
fn a_watcher_with_a_park_timeout_sleeps_for_the_shorter_one() {
    for (timeout, sleep) in [(NAP / 2, NAP / 2), (8 * NAP, 4 * NAP)] {
        let config = quiet().watchdog(Some((NAP, 4 * NAP))).park_timeout(Some(timeout));
        let sim = Sim::with(2, config);
        let deadline = sim.on(0, filch::Worker::begin_park).expect("nothing to do");
        assert_eq!(deadline, Some(Instant::ZERO + sleep));
        sim.on(0, filch::Worker::end_park);
    }
}

#[test]
fn without_a_watchdog_the_task_waits_for_the_end_of_the_poll() {
    behind_a_stuck_poll(quiet(), |sim, ran| {
        for _ in 0..10 {
            assert_eq!(sim.step(1), Step::Idle);
            assert_eq!(sim.on(1, filch::Worker::begin_park), Some(None));
            sim.executor.platform().advance(NAP);
            sim.on(1, filch::Worker::end_park);
        }
        assert_eq!(ran.load(SeqCst), 0);
    });
}

/// Worker 1 sleeps. Timers wake `n` tasks of worker 0, which polls the first of them. Returns whether worker 1 has been
/// woken by then.
fn woken_by_timers<const RING: usize>(sim: &Sim<RING>, n: usize) -> bool {
    for _ in 0..n {
        sim.executor.spawn(pool(), sim.executor.sleep(NAP / 2)).unwrap().detach();
        assert_eq!(sim.step(0), Step::Polled);
    }
    sim.on(1, filch::Worker::begin_park).expect("nothing to do");
    // From a sleep, so that the worker does not search.
    sim.on(0, filch::Worker::park);
    assert_eq!(sim.step(0), Step::Polled);
    let metrics = sim.executor.metrics();
    let (_, worker) = metrics.workers().next().unwrap();
    assert_eq!(worker.timers, n);
    assert_eq!(worker.queue_depth + metrics.totals().injector_depth, n - 1);
    metrics.totals().parked == 0
}

/// All workers are asleep, one of them in a waker that its own scan has called.
#[test]
fn a_worker_that_sleeps_in_a_waker_of_its_scan_watches_once() {
    struct Call(Shared<256>, Mutex<Vec<Option<Instant>>>);
    impl Wake for Call {
        fn wake(self: Arc<Self>) {
            let park = |worker| self.0.on(worker, filch::Worker::begin_park).flatten();
            self.1.lock().unwrap().extend([park(0), park(2), park(1)]);
            (0..3).for_each(|worker| self.0.on(worker, filch::Worker::end_park));
            // The scan continues behind a sleeper with the watchdog role.
            self.1.lock().unwrap().push(park(0));
        }
    }
    let (sim, for_waker) = shared(Sim::with(3, quiet().watchdog(Some((NAP, NAP)))));
    let call = Arc::new(Call(for_waker, Mutex::default()));
    let (waker, executor) = (Waker::from(Arc::clone(&call)), sim.executor);
    let sleeper = async move {
        let mut sleep = core::pin::pin!(executor.sleep(NAP));
        poll_fn(|_| sleep.as_mut().poll(&mut Context::from_waker(&waker)).map(drop)).await;
    };
    // Only this task knows of the timer, which has another waker.
    let _handle = executor.spawner().spawn_pinned(pool(), id(0), sleeper).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    sim.on(1, filch::Worker::begin_park).expect("nothing to do");
    // Late enough for another worker to fire the timer.
    executor.platform().advance(10 * NAP);
    sim.on(1, filch::Worker::end_park);
    let now = filch::Platform::now(executor.platform());
    let nap = Some(now + NAP);
    assert_eq!(*call.1.lock().unwrap(), [nap, nap, None, nap]);
    // Worker 0 has the watchdog role, and worker 2 is awake.
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(nap));
    assert_eq!(sim.on(2, filch::Worker::begin_park), Some(None));
    (0..3).for_each(|worker| sim.on(worker, filch::Worker::end_park));
}

#[test]
fn short_polls_keep_timeouts_long() {
    let sim = watched(2, quiet().watchdog(Some((NAP, 4 * NAP))));
    let (pool, executor) = (pool(), sim.executor);
    for _ in 0..5 {
        // Through the LIFO slot, too.
        let parent = async move { executor.spawn(pool, async {}).unwrap().detach() };
        executor.spawner().spawn_pinned(pool, id(0), parent).unwrap().detach();
        sim.run(0);
        assert_eq!(timeout(&sim, 1), 4 * NAP);
    }
}

#[test]
fn timeouts_are_long_again_after_a_while_without_long_polls() {
    let (sim, for_task) = shared(watched(2, quiet().watchdog(Some((NAP, 4 * NAP)))));
    let (pool, executor) = (pool(), sim.executor);
    let stuck = async move {
        assert_eq!([0, 0, 0].map(|_| timeout(&for_task, 1)), [4 * NAP, 4 * NAP, NAP]);
        drop(for_task);
    };
    let mut handle = executor.spawner().spawn_pinned(pool, id(0), stuck).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    output(&mut handle).unwrap();
    let short = (0..1_000).take_while(|_| timeout(&sim, 1) == NAP).count();
    assert!((250..260).contains(&short), "{short}");
    assert_eq!(timeout(&sim, 1), 4 * NAP);
}

#[test]
fn an_idle_executor_has_no_timeouts() {
    let sim = watched(2, quiet().watchdog(Some((NAP, 4 * NAP))));
    let park = |worker| sim.on(worker, filch::Worker::begin_park).expect("nothing to do");
    let both_up = || (0..2).for_each(|worker| sim.on(worker, filch::Worker::end_park));
    // The first worker to sleep watches the second; the second has none to watch.
    assert!(park(0).is_some());
    assert_eq!(park(1), None);
    both_up();
    // After work a worker sleeps with a timeout once. Where workers sleep and wake by turns, none must be woken to
    // watch.
    sim.executor.spawner().spawn_pinned(pool(), id(1), async {}).unwrap().detach();
    sim.run(1);
    assert!(park(0).is_some());
    assert_eq!(begin(&sim, 1), 4 * NAP);
    sim.executor.platform().advance(4 * NAP);
    both_up();
    assert!(park(0).is_some());
    sim.executor.platform().advance(4 * NAP);
    sim.on(0, filch::Worker::end_park);
    assert!(park(0).is_some(), "the second is awake");
    assert!(park(1).is_some(), "the first has scanned for both");
    sim.executor.platform().advance(4 * NAP);
    sim.on(1, filch::Worker::end_park);
    assert_eq!(park(1), None);
}

/// All sleep, and none watches. Worker 1 is woken for a task, which worker 0 takes: so worker 1 counts as a searcher when `f` leaves
/// something behind its poll, and no other is woken. Then `turns` has worker 1 turn to something else, and returns which workers were woken: another must watch.
fn beside_a_searcher(
    f: impl FnOnce(&'static ManualExecutor) + Send + 'static,
    turns: impl FnOnce(&Sim) -> Vec<u16> + Send + 'static,
) {
    let (sim, inside) = shared(watched(3, quiet().watchdog(Some((NAP, 4 * NAP)))));
    let park = |worker| sim.on(worker, filch::Worker::begin_park).expect("nothing to do");
    let again = |worker| {
        sim.on(worker, filch::Worker::end_park);
        park(worker)
    };
    for worker in 0..3 {
        let _ = park(worker);
    }
    while (0..3).any(|worker| again(worker).is_some()) {
        sim.executor.platform().advance(4 * NAP);
    }
    sim.on(0, filch::Worker::end_park);
    let executor = sim.executor;
    let task = executor.spawn(pool(), async move {
        f(executor);
        assert_eq!(executor.platform().woken(), [0_u16; 0], "one searches");
        assert_eq!(turns(&inside), [2], "it will watch");
        drop(inside);
    });
    assert_eq!(executor.platform().woken(), [1]);
    assert_eq!(sim.step(0), Step::Polled);
    output(&mut task.unwrap()).unwrap();
    sim.on(2, filch::Worker::end_park);
}

fn to_the_lifo_slot(executor: &'static ManualExecutor) {
    executor.spawn(pool(), async {}).unwrap().detach();
}

#[test]
fn a_searcher_that_leaves_has_another_watch() {
    beside_a_searcher(to_the_lifo_slot, |sim| {
        sim.detach(1);
        sim.executor.platform().woken()
    });
}

/// A task of its own comes before it sleeps.
#[test]
fn a_searcher_that_polls_has_another_watch() {
    beside_a_searcher(to_the_lifo_slot, |sim| {
        let executor = sim.executor;
        let own = async move { executor.platform().woken() };
        let mut own = executor.spawner().spawn_pinned(pool(), id(1), own).unwrap();
        assert_eq!(sim.step(1), Step::Polled);
        // Before its poll.
        output(&mut own).unwrap()
    });
}

#[test]
fn tasks_that_timers_wake_are_told_of_once() {
    for config in [quiet(), quiet().watchdog(Some((NAP, NAP)))] {
        for n in [4, 8] {
            assert!(woken_by_timers(&Sim::with(2, config), n), "{n} tasks");
        }
    }
    let sim = Sim::<2>::build(2, quiet());
    assert!(woken_by_timers(&sim, 4), "some are in the injector");
}
