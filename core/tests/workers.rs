//! Workers that come and go, full rings, many workers, and sleep. No task is ever left behind.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::Waker,
    time::Duration,
};
use std::sync::Arc;

use common::{Flag, NAP, Sim, id, output, pool, quiet, shared, watchdog};
use filch::{Instant, Step, TaskPool};

/// Has worker 0 spawn `n` tasks in one poll. Each task counts itself.
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
    // Pinned, so that it wakes no other worker.
    executor.spawner().spawn_pinned(pool, id(0), parent).unwrap().detach();
    assert_eq!(sim.step(0), Step::Polled);
    ran
}

static MANY: TaskPool<160, 1_050> = TaskPool::new();

#[test]
fn a_worker_that_leaves_gives_its_tasks_away() {
    for tasks in [1, 2, 10, 256, 257, 258, 1_000] {
        static POOL: TaskPool<160, 1_001> = TaskPool::new();
        // One pool serves one executor, so the executor stays and its workers change.
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
        // The same, but the other worker comes later.
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
    // Worker 0 may stay in its poll for long, and any worker may take the injector's tasks.
    assert_eq!(sim.executor.metrics().totals().parked, 0, "worker 1 was woken");
    sim.on(1, filch::Worker::end_park);
}

/// As above, with a timer that wakes more tasks than there is room for.
#[test]
fn what_overflows_out_of_wakers_wakes_somebody() {
    static POOL: TaskPool<256, 32> = TaskPool::new();
    let sim = Sim::<4>::build(2, quiet().stealing(false));
    for _ in 0..12 {
        sim.executor.spawn(&POOL, sim.executor.sleep(NAP)).unwrap().detach();
        assert_eq!(sim.step(0), Step::Polled);
    }
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(None));
    // From a sleep, so that the worker does not search.
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
    // With more workers than bits in a word the bitmap has two levels; 130 workers are three groups, or five.
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
        // Work for any worker wakes one worker after the other, until all are awake.
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
    // The only thread would sleep for ever if the sleep had not ended before it began.
    sim.executor.unpark_worker(id(0));
    sim.on(0, filch::Worker::park);
    // There is no worker with this id.
    sim.executor.unpark_worker(id(9));
    let totals = sim.executor.metrics().totals();
    assert_eq!((totals.parked, totals.searching), (0, 0));
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
    // The task is only in the LIFO slot: worker 1 sees nothing, and sleeps.
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

/// A worker that sees work on its way to sleep may be the searcher that the pusher has relied on. If it then turns to a
/// task of its own, another worker must be notified of that work.
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
        // The second task moves the first to the ring, and claims worker 0 for it.
        executor.spawn(pool, async {}).unwrap().detach();
        executor.spawn(pool, async {}).unwrap().detach();
        assert_eq!(parked(&shared), 1);
        // Worker 0 wakes, searches, and is about to sleep again when it sees the ring.
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

/// Six workers in clusters of two. The last one steals from its neighbour first, then from the cluster beside, whatever the seed.
#[test]
fn a_thief_looks_at_near_workers_first() {
    for seed in 0..20 {
        let sim = Sim::with(6, quiet().lifo_cap(0).seed(seed));
        sim.executor.platform().cluster.store(2, SeqCst);
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        for worker in [0, 2, 4] {
            let (order, executor) = (Arc::clone(&order), sim.executor);
            let spawns = async move {
                let child = async move { order.lock().unwrap().push(worker) };
                executor.spawn(pool(), child).unwrap().detach();
            };
            let parent = sim.executor.spawner().spawn_pinned(pool(), id(worker), spawns);
            parent.unwrap().detach();
            assert_eq!(sim.step(worker), Step::Polled);
        }
        assert_eq!(sim.run(5), 3);
        assert_eq!(*order.lock().unwrap(), [4, 2, 0], "seed {seed}");
    }
}
