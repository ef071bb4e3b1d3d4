//! The sentry: how long it sleeps, what it sees to, and what others leave to it.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{Future, poll_fn},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    sync::{Arc, Mutex},
    task::Wake,
};

use common::{NAP, Shared, Sim, id, output, pool, quiet, shared};
use filch::{Config, Instant, Step};

/// What worker 1 can do while worker 0 is stuck in a poll with a task in its LIFO slot.
fn behind_a_stuck_poll(config: Config, f: impl FnOnce(&Sim, &Arc<AtomicUsize>) + Send + 'static) {
    let (sim, for_tasks) = shared(Sim::with(3, config));
    let pool = pool();
    let executor = sim.executor;
    let stuck = async move {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let behind = async move {
            count.fetch_add(1, SeqCst);
        };
        executor.spawn(pool, behind).unwrap().detach();
        // This poll ends only when `f` has.
        f(&for_tasks, &ran);
        drop(for_tasks);
    };
    let mut handle = executor.spawn(pool, stuck).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    output(&mut handle).unwrap();
}

#[test]
fn the_sentry_takes_the_task_behind_a_stuck_poll() {
    let config = quiet().sentry(Some((NAP, 20 * NAP)));
    behind_a_stuck_poll(config, |sim, ran| {
        assert_eq!(sim.step(1), Step::Idle, "the LIFO slot is no thief's");
        for sweep in 0..2 {
            assert_eq!(ran.load(SeqCst), 0);
            let deadline = sim.on(1, filch::Worker::begin_park).expect("nothing to do");
            let now = filch::Platform::now(sim.executor.platform());
            // The first sweep sees the poll, the second, as soon, that it is still the same.
            assert_eq!(deadline, Some(now + NAP), "sweep {sweep}");
            // There is one sentry; the other sleeps for good.
            assert_eq!(sim.on(2, filch::Worker::begin_park), Some(None));
            sim.executor.platform().advance(NAP);
            sim.on(1, filch::Worker::end_park);
            sim.on(2, filch::Worker::end_park);
        }
        assert_eq!(sim.step(1), Step::Polled);
        assert_eq!(ran.load(SeqCst), 1);
        let (_, worker) = sim.executor.metrics().workers().nth(1).unwrap();
        assert_eq!((worker.sweeps, worker.rescues), (2, 1));
    });
}

#[test]
fn a_poll_over_the_limit_is_reported_once() {
    let config = quiet().sentry(Some((NAP, NAP))).poll_limit(Some(2 * NAP));
    behind_a_stuck_poll(config, |sim, _| {
        let platform = sim.executor.platform();
        let sweep = || {
            sim.run(1);
            let deadline = sim.on(1, filch::Worker::begin_park).expect("nothing to do");
            assert_eq!(deadline, Some(filch::Platform::now(platform) + NAP));
            platform.advance(NAP);
            sim.on(1, filch::Worker::end_park);
        };
        // The first sees the poll, the second that it is still the same, and the time counts from there.
        (0..3).for_each(|_| sweep());
        assert_eq!(platform.long_polls(), []);
        (0..3).for_each(|_| sweep());
        assert_eq!(platform.long_polls(), [(0, 2 * NAP.as_nanos() as u64)]);
    });
}

#[test]
fn a_sentry_with_a_park_timeout_sleeps_for_the_shorter_one() {
    for (timeout, sleep) in [(NAP / 2, NAP / 2), (2 * NAP, NAP)] {
        let config = quiet().sentry(Some((NAP, 4 * NAP))).park_timeout(Some(timeout));
        let sim = Sim::with(2, config);
        let deadline = sim.on(0, filch::Worker::begin_park).expect("nothing to do");
        assert_eq!(deadline, Some(Instant::ZERO + sleep));
        sim.on(0, filch::Worker::end_park);
    }
}

#[test]
fn without_a_sentry_the_task_waits_for_the_end_of_the_poll() {
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

#[test]
fn the_sentry_sleeps_longer_while_polls_turn_over() {
    let sim = Sim::with(2, quiet().sentry(Some((NAP, 4 * NAP))));
    let restless = poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    sim.executor.spawner().spawn_pinned(pool(), id(0), restless).unwrap().detach();
    let naps: Vec<_> = (0..5)
        .map(|_| {
            assert_eq!(sim.step(0), Step::Polled);
            assert_eq!(sim.step(1), Step::Idle);
            let now = filch::Platform::now(sim.executor.platform());
            let deadline = sim.on(1, filch::Worker::begin_park).unwrap().unwrap();
            sim.executor.platform().advance(deadline - now);
            sim.on(1, filch::Worker::end_park);
            (deadline - now).as_micros() / NAP.as_micros()
        })
        .collect();
    assert_eq!(naps, [1, 2, 4, 4, 4]);
}

#[test]
fn the_sentry_does_not_sleep_long_while_tasks_go_through_lifo_slots() {
    let sim = Sim::with(2, quiet().sentry(Some((NAP, 100 * NAP))));
    let (pool, executor) = (pool(), sim.executor);
    let mut nap = |spawning: bool| {
        let parent = async move {
            if spawning {
                executor.spawn(pool, async {}).unwrap().detach();
            }
        };
        executor.spawner().spawn_pinned(pool, id(0), parent).unwrap().detach();
        sim.run(0);
        let now = filch::Platform::now(sim.executor.platform());
        let deadline = sim.on(1, filch::Worker::begin_park).unwrap().unwrap();
        sim.executor.platform().advance(deadline - now);
        sim.on(1, filch::Worker::end_park);
        (deadline - now).as_micros() / NAP.as_micros()
    };
    assert_eq!([true; 5].map(&mut nap), [1, 2, 2, 2, 2]);
    assert_eq!([false; 4].map(&mut nap), [2, 4, 8, 16]);
}

/// Worker 0 has a task that is polled whenever it steps, and worker 1 keeps watch; by how many of the shortest naps worker 1 puts
/// its getting up off, at the end of each.
fn naps(sim: &Sim, mut meanwhile: impl FnMut()) -> Vec<u128> {
    let (platform, begun) =
        (sim.executor.platform(), filch::Platform::now(sim.executor.platform()));
    let mut deadline = sim.on(1, filch::Worker::begin_park).expect("nothing to do");
    assert_eq!(deadline, Some(begun + NAP));
    let mut naps = Vec::new();
    loop {
        let now = filch::Platform::now(platform);
        platform.advance(deadline.unwrap() - now);
        meanwhile();
        let now = filch::Platform::now(platform);
        deadline = sim.on(1, |worker| worker.nap_on(deadline));
        let Some(next) = deadline else { break };
        assert_eq!(sim.executor.metrics().totals().parked, 1, "it counts as asleep {naps:?}");
        naps.push((next - now).as_micros() / NAP.as_micros());
    }
    sim.on(1, filch::Worker::end_park);
    naps
}

fn restless(sim: &Sim) {
    let restless = poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    sim.executor.spawner().spawn_pinned(pool(), id(0), restless).unwrap().detach();
    assert_eq!(sim.step(0), Step::Polled);
}

#[test]
fn a_sentry_naps_on_while_others_poll() {
    let sim = Sim::with(2, quiet().sentry(Some((NAP, 100 * NAP))));
    restless(&sim);
    let polling = naps(&sim, || assert_eq!(sim.step(0), Step::Polled));
    assert_eq!(polling, [2], "a longer one begins on its feet");
    let idle = naps(&Sim::with(2, quiet().sentry(Some((NAP, NAP)))), || {});
    assert_eq!(idle, [], "there is nobody to watch");
    for (longest, wanted) in [(1, [1; 8]), (2, [2; 8])] {
        let sim = Sim::with(2, quiet().sentry(Some((NAP, longest * NAP))));
        restless(&sim);
        assert_eq!(naps(&sim, || assert_eq!(sim.step(0), Step::Polled)), wanted, "the longest");
    }
    let sim = Sim::with(2, quiet().sentry(Some((NAP, NAP))).park_timeout(Some(NAP)));
    restless(&sim);
    let timeout = naps(&sim, || assert_eq!(sim.step(0), Step::Polled));
    assert_eq!(timeout, [], "nobody sleeps for longer than the timeout");
}

#[test]
fn a_sentry_gets_up_in_the_end() {
    let sim = Sim::with(2, quiet().sentry(Some((NAP, 100 * NAP))));
    let (pool, executor) = (pool(), sim.executor);
    let family = || {
        let parent = async move { executor.spawn(pool, async {}).unwrap().detach() };
        executor.spawner().spawn_pinned(pool, id(0), parent).unwrap().detach();
        sim.run(0);
    };
    // With tasks in the LIFO slot naps never become long.
    let naps = naps(&sim, family);
    assert_eq!(naps, [2; 8]);
}

#[test]
fn a_sentry_gets_up_for_its_timers_and_for_what_ends_its_nap() {
    let sim = Sim::with(2, quiet().sentry(Some((NAP, 100 * NAP))));
    restless(&sim);
    let platform = sim.executor.platform();
    let sleeper = sim.executor.sleep(NAP + NAP / 2);
    sim.executor.spawner().spawn_pinned(pool(), id(1), sleeper).unwrap().detach();
    sim.run(1);
    let nap = sim.on(1, filch::Worker::begin_park).unwrap();
    platform.advance(NAP - Duration::from_nanos(1));
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(sim.on(1, |worker| worker.nap_on(nap)), None, "before its end");
    platform.advance(Duration::from_nanos(1));
    let timer = sim.on(1, |worker| worker.nap_on(nap));
    assert_eq!(timer, Some(Instant::ZERO + NAP + NAP / 2), "until the timer");
    platform.advance(NAP / 2);
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(sim.on(1, |worker| worker.nap_on(timer)), None);
    sim.on(1, filch::Worker::end_park);
    assert_eq!(sim.step(1), Step::Polled, "the sleeper");
}

#[test]
fn a_sentry_that_naps_on_gets_up_for_a_stuck_poll() {
    let config = quiet().sentry(Some((NAP, 20 * NAP)));
    behind_a_stuck_poll(config, |sim, ran| {
        let naps = naps(sim, || assert_eq!(ran.load(SeqCst), 0));
        assert_eq!(naps, [1], "it has seen the poll, and then that it is still the same");
        assert_eq!(sim.step(1), Step::Polled);
        assert_eq!(ran.load(SeqCst), 1);
        let (_, worker) = sim.executor.metrics().workers().nth(1).unwrap();
        assert_eq!((worker.sweeps, worker.rescues), (2, 1));
    });
}

/// Worker 1 keeps watch, if somebody does; timers wake `n` tasks of worker 0, which polls the first of them. Whether worker 1 has been
/// woken by then, and when its sleep ends otherwise.
fn woken_by_timers<const RING: usize>(sim: &Sim<RING>, n: usize) -> (bool, Option<Instant>) {
    for _ in 0..n {
        sim.executor.spawn(pool(), sim.executor.sleep(NAP / 2)).unwrap().detach();
        assert_eq!(sim.step(0), Step::Polled);
    }
    let deadline = sim.on(1, filch::Worker::begin_park).expect("nothing to do");
    // From a sleep, so that it does not search.
    sim.on(0, filch::Worker::park);
    assert_eq!(sim.step(0), Step::Polled);
    let metrics = sim.executor.metrics();
    let (_, worker) = metrics.workers().next().unwrap();
    assert_eq!(worker.timers, n);
    assert_eq!(worker.queue_depth + metrics.totals().injector_depth, n - 1);
    (metrics.totals().parked == 0, deadline)
}

/// A poll takes 45 us, for all that a worker knows here.
#[test]
fn a_worker_that_wakes_a_few_tasks_wakes_nobody_for_them() {
    let watched = quiet().sentry(Some((NAP, NAP)));
    let sim = Sim::with(2, watched);
    let begun = filch::Platform::now(sim.executor.platform());
    let (told, deadline) = woken_by_timers(&sim, 4);
    assert!(!told, "they will soon be done");
    assert_eq!(deadline, Some(begun + NAP));
    // They are not: the sentry's nap ends, and it takes half of them.
    sim.executor.platform().advance(NAP / 2);
    assert_eq!(sim.on(1, |worker| worker.nap_on(deadline)), None);
    sim.on(1, filch::Worker::end_park);
    assert_eq!(sim.step(1), Step::Polled);
    let (_, worker) = sim.executor.metrics().workers().nth(1).unwrap();
    assert_eq!((worker.steals, worker.stolen), (1, 2));

    // It learns how short its polls are.
    let sim = Sim::with(2, watched);
    for _ in 0..40 {
        sim.executor.spawner().spawn_pinned(pool(), id(0), async {}).unwrap().detach();
        assert_eq!(sim.run(0), 1);
    }
    assert!(!woken_by_timers(&sim, 40).0, "they will soon be done, too");
}

#[test]
fn a_worker_that_wakes_many_tasks_or_is_not_watched_wakes_another() {
    let told = |config, n| woken_by_timers(&Sim::with(2, config), n).0;
    let watched = quiet().sentry(Some((NAP, NAP)));
    assert!(told(watched, 8), "they will take a while");
    assert!(told(quiet(), 4), "nobody keeps watch");
    assert!(told(quiet().sentry(Some((3 * NAP, 3 * NAP))), 4), "nobody keeps a close watch");
    let sim = Sim::with(2, quiet().sentry(Some((NAP, 100 * NAP))));
    (0..2).for_each(|_| sim.on(1, filch::Worker::park));
    assert!(woken_by_timers(&sim, 4).0, "the sentry's naps are long");
    let sim = Sim::<2>::build(2, watched);
    assert!(woken_by_timers(&sim, 4).0, "some are in the injector, for all");
}

/// All are asleep then, one of them in a waker that its own sweep has called.
#[test]
fn a_sentry_that_sleeps_in_a_waker_keeps_watch_and_leaves_it_once() {
    struct Call(Shared<256>, Mutex<Vec<Option<Instant>>>);
    impl Wake for Call {
        fn wake(self: Arc<Self>) {
            let park = |worker| self.0.on(worker, filch::Worker::begin_park).flatten();
            self.1.lock().unwrap().extend([park(0), park(2), park(1)]);
            (0..3).for_each(|worker| self.0.on(worker, filch::Worker::end_park));
            // Somebody else has the role now.
            self.1.lock().unwrap().push(park(0));
        }
    }
    let (sim, for_waker) = shared(Sim::with(3, quiet().sentry(Some((NAP, NAP)))));
    let call = Arc::new(Call(for_waker, Mutex::default()));
    let (waker, executor) = (Waker::from(Arc::clone(&call)), sim.executor);
    let sleeper = async move {
        let mut sleep = core::pin::pin!(executor.sleep(NAP));
        poll_fn(|_| sleep.as_mut().poll(&mut Context::from_waker(&waker)).map(drop)).await;
    };
    // The only one that knows of it: the timer has another waker.
    let _handle = executor.spawner().spawn_pinned(pool(), id(0), sleeper).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    sim.on(1, filch::Worker::begin_park).expect("nothing to do");
    // Late enough for another worker to see to the timer.
    executor.platform().advance(10 * NAP);
    sim.on(1, filch::Worker::end_park);
    let now = filch::Platform::now(executor.platform());
    let nap = Some(now + NAP);
    assert_eq!(*call.1.lock().unwrap(), [None, None, nap, nap]);
    // It is still that one's, and worker 2 is awake: who sleeps now need not wake.
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(None));
    (0..2).for_each(|worker| sim.on(worker, filch::Worker::end_park));
}

#[test]
fn a_watch_that_begins_anew_is_a_close_one() {
    let sim = Sim::with(2, quiet().sentry(Some((NAP, 100 * NAP))));
    let park = |worker| sim.on(worker, filch::Worker::begin_park).expect("nothing to do");
    let nap = || {
        let now = filch::Platform::now(sim.executor.platform());
        let deadline = park(1).expect("it keeps watch");
        sim.executor.platform().advance(deadline - now);
        sim.on(1, filch::Worker::end_park);
        (deadline - now).as_micros() / NAP.as_micros()
    };
    for _ in 0..2 {
        assert_eq!([nap(), nap(), nap()], [1, 2, 4]);
        // Nobody is left to be watched.
        assert!(park(0).is_some());
        assert_eq!(park(1), None);
        (0..2).for_each(|worker| sim.on(worker, filch::Worker::end_park));
    }
}

#[test]
fn a_push_into_a_lifo_slot_ends_a_long_sleep_of_the_sentry_once() {
    let (sim, for_task) = shared(Sim::with(2, quiet().sentry(Some((NAP, 100 * NAP)))));
    let now = |sim: &Sim| filch::Platform::now(sim.executor.platform());
    // How long the next sleep of worker 1 is.
    let sleep = move |sim: &Sim| {
        let begun = now(sim);
        sim.on(1, filch::Worker::park);
        (now(sim) - begun).as_micros() / NAP.as_micros()
    };
    assert_eq!([sleep(&sim), sleep(&sim)], [1, 2]);
    let deadline = sim.on(1, filch::Worker::begin_park).flatten();
    assert_eq!(deadline, Some(now(&sim) + 4 * NAP));
    let (pool, executor) = (pool(), sim.executor);
    let task = async move {
        let sim = for_task;
        executor.spawn(pool, async {}).unwrap().detach();
        // Its sleep has ended: so does the next, which has not begun.
        sim.on(1, filch::Worker::end_park);
        assert_eq!(sleep(&sim), 0);
        assert_eq!(sim.step(1), Step::Polled, "two sweeps have found the same poll");
        // It sleeps for a short time now, which is not disturbed.
        let deadline = sim.on(1, filch::Worker::begin_park).flatten();
        assert_eq!(deadline, Some(now(&sim) + NAP));
        executor.spawn(pool, async {}).unwrap().detach();
        sim.on(1, filch::Worker::end_park);
        assert_eq!(sim.step(1), Step::Polled);
        assert_eq!(sleep(&sim), 1);
        drop(sim);
    };
    // Nobody else is told of it.
    let mut handle = executor.spawner().spawn_pinned(pool, id(0), task).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    output(&mut handle).unwrap();
}

#[test]
fn an_idle_executor_has_no_sentry() {
    let sim = Sim::with(2, quiet().sentry(Some((NAP, 4 * NAP))));
    // The first to sleep watches the second; the second has nobody to watch.
    assert!(sim.on(0, filch::Worker::begin_park).unwrap().is_some());
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(None));
    sim.on(0, filch::Worker::end_park);
    sim.on(1, filch::Worker::end_park);
}
