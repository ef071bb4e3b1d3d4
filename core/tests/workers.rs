//! Workers that come and go, full rings, many workers, sleep and the sentry: no task is ever left behind.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{Future, poll_fn},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    rc::Rc,
    sync::{Arc, Mutex},
    task::Wake,
};

use common::{Flag, Mine, Sim, id, output, pool, quiet, watchdog};
use filch::{Config, Instant, Step, TaskPool};

type Shared<const RING: usize> = Arc<Mine<Rc<Sim<RING>>>>;

/// A sim that its own tasks can use.
fn shared<const RING: usize>(sim: Sim<RING>) -> (Rc<Sim<RING>>, Shared<RING>) {
    let sim = Rc::new(sim);
    let for_tasks = Arc::new(Mine::new(Rc::clone(&sim)));
    (sim, for_tasks)
}

/// Has worker 0 spawn `n` tasks in one poll, which count themselves.
fn fill<const RING: usize, const SLOT: usize, const N: usize>(
    sim: &Sim<RING>,
    pool: &'static TaskPool<SLOT, N>,
    n: usize,
) -> Arc<AtomicUsize> {
    let ran = Arc::new(AtomicUsize::new(0));
    let (count, executor) = (Arc::clone(&ran), sim.executor);
    let parent = async move {
        for _ in 0..n {
            let count = Arc::clone(&count);
            let child = async move {
                count.fetch_add(1, SeqCst);
            };
            executor.spawn(pool, child).unwrap().detach();
        }
    };
    // Pinned, so that it wakes nobody else.
    executor.spawner().spawn_pinned(pool, id(0), parent).unwrap().detach();
    assert_eq!(sim.step(0), Step::Polled);
    ran
}

static MANY: TaskPool<160, 1_050> = TaskPool::new();

#[test]
fn a_worker_that_leaves_gives_its_tasks_away() {
    for tasks in [1, 2, 10, 256, 257, 258, 1_000] {
        static POOL: TaskPool<160, 1_001> = TaskPool::new();
        // One pool serves one executor: the workers go, the executor stays.
        static EXECUTORS: std::sync::OnceLock<&'static common::ManualExecutor> =
            std::sync::OnceLock::new();
        let executor = EXECUTORS.get_or_init(|| Sim::leak_offline(3, quiet()));
        let sim = Sim::over(executor, 3);
        sim.attach(0);
        sim.attach(1);
        let ran = fill(&sim, &POOL, tasks);
        sim.detach(0);
        assert_eq!(ran.load(SeqCst), 0);
        assert_eq!(sim.run(1), tasks, "of {tasks}");
        assert_eq!(ran.load(SeqCst), tasks);
        // The same, and the other worker comes later.
        sim.detach(1);
        sim.attach(0);
        let ran = fill(&sim, &POOL, tasks);
        sim.detach(0);
        sim.attach(2);
        assert_eq!(sim.run(2), tasks);
        assert_eq!(ran.load(SeqCst), tasks);
        sim.detach(2);
    }
}

#[test]
fn work_waits_for_the_first_worker() {
    let sim = Sim::offline(2, quiet());
    let handles: Vec<_> =
        (0..10).map(|i| sim.executor.spawn(pool(), async move { i }).unwrap()).collect();
    assert_eq!(sim.executor.metrics().totals().injector_depth, 10);
    sim.attach(1);
    assert_eq!(sim.run(1), 10);
    let outputs: Vec<_> = handles.into_iter().map(|mut h| output(&mut h).unwrap()).collect();
    assert_eq!(outputs, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_ring_of_four_overflows_and_loses_nothing() {
    static POOL: TaskPool<256, 128> = TaskPool::new();
    let sim = Sim::<4>::build(2, quiet());
    let ran = fill(&sim, &POOL, 100);
    let workers: Vec<_> = sim.executor.metrics().workers().map(|(_, w)| w).collect();
    assert!(workers[0].overflows > 0);
    assert!(workers[0].queue_depth <= 5, "four in the ring, one in the LIFO slot");
    assert!(sim.run(1) > 90, "what overflowed is there for all");
    sim.run(0);
    assert_eq!(ran.load(SeqCst), 100);
}

#[test]
fn a_ring_of_two_works() {
    static POOL: TaskPool<256, 128> = TaskPool::new();
    let sim = Sim::<2>::build(3, quiet());
    let ran = fill(&sim, &POOL, 100);
    for round in 0.. {
        if (0..3).all(|i| sim.step((i + round) % 3) == Step::Idle) {
            break;
        }
    }
    assert_eq!(ran.load(SeqCst), 100);
}

#[test]
fn a_full_ring_of_256_overflows_as_one_chain() {
    let sim = Sim::new(2);
    let ran = fill(&sim, &MANY, 300);
    let totals = sim.executor.metrics().totals();
    assert_eq!(totals.injector_depth, 129, "half the ring, and the task that did not fit");
    let workers: Vec<_> = sim.executor.metrics().workers().map(|(_, w)| w).collect();
    assert_eq!(workers[0].overflows, 1);
    assert_eq!(sim.settle(), 300);
    assert_eq!(ran.load(SeqCst), 300);
}

#[test]
fn what_overflows_without_stealing_wakes_somebody() {
    static POOL: TaskPool<256, 128> = TaskPool::new();
    let sim = Sim::<4>::build(2, quiet().stealing(false));
    assert_eq!(sim.step(1), Step::Idle);
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(None));
    fill(&sim, &POOL, 20);
    // Worker 0 may stay in its poll for long: the injector's tasks are anybody's.
    assert_eq!(sim.executor.metrics().totals().parked, 0, "worker 1 was woken");
    sim.on(1, filch::Worker::end_park);
}

/// As above, with a timer that wakes more than there is room for.
#[test]
fn what_overflows_out_of_wakers_wakes_somebody() {
    static POOL: TaskPool<256, 32> = TaskPool::new();
    let sim = Sim::<4>::build(2, quiet().stealing(false));
    for _ in 0..12 {
        sim.executor.spawn(&POOL, sim.executor.sleep(NAP)).unwrap().detach();
        assert_eq!(sim.step(0), Step::Polled);
    }
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(None));
    // From a sleep, so that it does not search.
    sim.on(0, filch::Worker::park);
    sim.executor.platform().advance(NAP);
    assert_eq!(sim.step(0), Step::Polled);
    let totals = sim.executor.metrics().totals();
    assert!(totals.injector_depth > 0, "{totals:?}");
    assert_eq!(totals.parked, 0, "worker 1 was woken");
    sim.on(1, filch::Worker::end_park);
    sim.settle();
}

#[test]
fn nobody_goes_to_sleep_while_work_waits() {
    let sim = Sim::new(2);
    let begin = |i| sim.on(i, filch::Worker::begin_park);
    let pool = pool();
    sim.executor.spawn(pool, async {}).unwrap().detach();
    assert_eq!(begin(0), None, "the injector has a task");
    assert_eq!(sim.run(0), 1);
    fill(&sim, pool, 3);
    assert_eq!(begin(0), None, "its own queues have tasks");
    assert_eq!(begin(1), None, "so has another's ring");
    assert_eq!(sim.settle(), 3);
    sim.executor.spawner().spawn_pinned(pool, id(1), async {}).unwrap().detach();
    assert_eq!(begin(1), None, "its inbox has a task");
    assert_eq!(begin(0), Some(None), "which is nothing to others");
    sim.on(0, filch::Worker::end_park);
    assert_eq!(sim.run(1), 1);
    assert_eq!(begin(0), Some(None));
    assert_eq!(begin(1), Some(None));
    assert_eq!(sim.executor.metrics().totals().parked, 2);
    // One task wakes one.
    sim.executor.spawn(pool, async {}).unwrap().detach();
    let totals = sim.executor.metrics().totals();
    assert_eq!((totals.parked, totals.searching), (1, 1));
    for i in 0..2 {
        sim.on(i, filch::Worker::end_park);
    }
    sim.executor.spawn(pool, async {}).unwrap().detach();
    assert_eq!(sim.settle(), 2);
}

#[test]
fn a_park_timeout_is_kept() {
    let timeout = Duration::from_millis(3);
    let sim = Sim::with(1, quiet().park_timeout(Some(timeout)));
    sim.executor.platform().advance(Duration::from_secs(1));
    assert_eq!(sim.step(0), Step::Idle);
    sim.on(0, filch::Worker::park);
    assert_eq!(
        filch::Platform::now(sim.executor.platform()),
        Instant::ZERO + Duration::from_secs(1) + timeout
    );
}

#[test]
fn a_wake_reaches_each_of_many_workers() {
    // Above one word of workers the bitmap has two levels; 130 are three groups, or five.
    for n in [63, 64, 65, 130, 1_024] {
        let sim = Sim::<2>::build(n, quiet());
        let pool = pool();
        for i in 0..n {
            assert_eq!(sim.on(i, filch::Worker::begin_park), Some(None));
        }
        assert_eq!(sim.executor.metrics().totals().parked, usize::from(n));
        let order: Vec<u16> = (0..n).map(|i| (i * 7 + 3) % n).collect();
        for worker in order.into_iter().filter(|w| *w % 7 != 1 || n > 200).take(200) {
            let before = sim.executor.metrics().totals().parked;
            let mut handle =
                sim.executor.spawner().spawn_pinned(pool, id(worker), async { 1 }).unwrap();
            let parked = sim.executor.metrics().totals().parked;
            assert_eq!(parked, before - 1, "worker {worker} of {n} is awake");
            sim.on(worker, |w| {
                w.end_park();
                assert_eq!(w.run_for(10), 1);
            });
            assert_eq!(output(&mut handle).unwrap(), 1);
            assert_eq!(sim.on(worker, filch::Worker::begin_park), Some(None));
        }
        // Work for anybody wakes one after the other, all of them in the end.
        for asleep in (0..n).rev() {
            let wakers = sim.executor.spawn(pool, async {}).unwrap();
            let totals = sim.executor.metrics().totals();
            assert_eq!(totals.parked, usize::from(asleep), "of {n}");
            let worker = n - 1 - asleep;
            sim.on(worker, |w| {
                w.end_park();
                assert_eq!(w.step(), Step::Polled, "worker {worker} of {n} was the one");
            });
            assert!(wakers.is_finished());
        }
    }
}

#[test]
fn unparking_a_worker_ends_one_sleep() {
    let _watchdog = watchdog();
    let sim = Sim::new(2);
    // The only thread would sleep for ever, had the sleep not ended before it began.
    sim.executor.unpark_worker(id(0));
    sim.on(0, filch::Worker::park);
    // A worker that there is not.
    sim.executor.unpark_worker(id(9));
    let totals = sim.executor.metrics().totals();
    assert_eq!((totals.parked, totals.searching), (0, 0));
}

const NAP: Duration = Duration::from_micros(500);

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

#[test]
fn a_sleeper_that_was_claimed_searches_and_passes_on() {
    let sim = Sim::new(3);
    let pool = pool();
    for i in 0..3 {
        assert_eq!(sim.on(i, filch::Worker::begin_park), Some(None));
    }
    (0..3).for_each(|_| sim.executor.spawn(pool, async {}).unwrap().detach());
    assert_eq!(sim.executor.metrics().totals().parked, 2, "one searches: it will tell the next");
    sim.on(0, filch::Worker::end_park);
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(sim.executor.metrics().totals().parked, 1);
    for i in 1..3 {
        sim.on(i, filch::Worker::end_park);
    }
    assert_eq!(sim.settle(), 2);
}

#[test]
fn a_worker_that_leaves_wakes_another_for_its_tasks() {
    let sim = Sim::new(2);
    let ran = fill(&sim, pool(), 1);
    // Only in the LIFO slot: worker 1 sees nothing, and sleeps.
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(None));
    sim.detach(0);
    assert_eq!(sim.executor.metrics().totals().parked, 0);
    sim.on(1, filch::Worker::end_park);
    assert_eq!(sim.run(1), 1);
    assert_eq!(ran.load(SeqCst), 1);
}

#[test]
fn a_searcher_that_leaves_is_counted_no_more() {
    let sim = Sim::new(2);
    assert_eq!(sim.on(0, filch::Worker::begin_park), Some(None));
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(None));
    sim.executor.spawn(pool(), async {}).unwrap().detach();
    let totals = sim.executor.metrics().totals();
    assert_eq!((totals.parked, totals.searching), (1, 1), "the first was claimed");
    sim.on(0, filch::Worker::end_park);
    sim.detach(0);
    let totals = sim.executor.metrics().totals();
    assert_eq!((totals.parked, totals.searching), (0, 1), "the other was told");
    sim.on(1, filch::Worker::end_park);
    assert_eq!(sim.run(1), 1);
}

#[test]
fn wakes_from_another_workers_poll_go_to_that_worker() {
    let sim = Sim::new(2);
    let pool = pool();
    let flag = Flag::new();
    let mut waiting = sim.executor.spawn(pool, flag.wait()).unwrap();
    assert_eq!(sim.run(0), 1);
    sim.executor
        .spawn(pool, async move { flag.take_wakers().into_iter().for_each(Waker::wake) })
        .unwrap()
        .detach();
    assert_eq!(sim.step(1), Step::Polled);
    assert_eq!(sim.run(0), 0);
    assert_eq!(sim.run(1), 1);
    waiting.abort();
    sim.settle();
    assert!(output(&mut waiting).is_err());
}

/// Who sees work on its way to sleep may be the searcher that the pusher has relied on: if it then turns to a task of its own,
/// somebody else must hear of that work.
#[test]
fn who_stays_awake_for_others_work_and_turns_to_its_own_tells_a_sleeper() {
    let (sim, shared) = shared(Sim::<256>::new(3));
    let executor = sim.executor;
    for worker in [0, 2] {
        sim.on(worker, |worker| assert_eq!(worker.begin_park(), Some(None)));
    }
    let parked = |sim: &Sim| sim.executor.metrics().totals().parked;
    let pool = pool();
    let pusher = async move {
        // The second displaces the first to the ring, and claims worker 0 for it.
        executor.spawn(pool, async {}).unwrap().detach();
        executor.spawn(pool, async {}).unwrap().detach();
        assert_eq!(parked(&shared), 1);
        // It wakes, searches, and is about to sleep again when it sees the ring.
        shared.on(0, |worker| {
            worker.end_park();
            assert_eq!(worker.begin_park(), None);
        });
        let own = Arc::clone(&shared);
        let task = async move {
            assert_eq!(parked(&own), 0, "a task waits in a ring, and worker 2 sleeps")
        };
        let mut task = executor.spawner().spawn_pinned(pool, id(0), task).unwrap();
        // The pinned task comes first, in every second pass.
        while !task.is_finished() {
            assert_eq!(shared.step(0), Step::Polled);
        }
        output(&mut task).unwrap();
    };
    let mut pusher = executor.spawner().spawn_pinned(pool, id(1), pusher).unwrap();
    sim.run(1);
    output(&mut pusher).unwrap();
    sim.settle();
}
