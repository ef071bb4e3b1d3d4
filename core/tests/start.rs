//! Executors in a `static`, and how contexts become workers of them.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};
use std::thread;

use common::{Flag, Manual, Sim, Threads, id, output, parked, pool, quiet, slots, stop, watchdog};
use filch::{
    BuildError, Config, Executor, Instant, Platform, RunError, Scheduler, Step, TaskPool, WorkerId,
    atomic::AtomicU32,
};

static POOL: TaskPool<256, 16> = TaskPool::new();
static BY_HAND: Executor<Manual, 4> = Executor::new(Manual::new());

#[test]
fn a_static_executor_is_stepped_by_hand() {
    let mut handle = BY_HAND.spawn(&POOL, async { 6 * 7 }).unwrap();
    let worker = BY_HAND.worker(id(2)).unwrap();
    assert_eq!(worker.id(), id(2));
    assert_eq!(worker.step(), Step::Polled);
    assert_eq!(output(&mut handle).unwrap(), 42);
    assert_eq!(worker.step(), Step::Idle);

    let handles: Vec<_> = (0..5).map(|i| BY_HAND.spawn(&POOL, async move { i }).unwrap()).collect();
    assert_eq!(worker.run_for(2), 2);
    assert_eq!(handles.iter().filter(|h| h.is_finished()).count(), 2);
    assert_eq!(worker.run_for(100), 3);
    assert_eq!(worker.run_for(100), 0);
    drop(worker);

    BY_HAND.begin_shutdown();
    assert!(!BY_HAND.is_stopped(), "nobody has looked yet");
    // `run` returns at once, since no task is left.
    BY_HAND.run(id(0)).unwrap();
    assert!(BY_HAND.is_stopped());
    assert_eq!(BY_HAND.run(id(0)), Err(RunError::Stopped));
    let results: Vec<_> = handles.into_iter().map(|mut h| output(&mut h).unwrap()).collect();
    assert_eq!(results, [0, 1, 2, 3, 4]);
}

static THREADS: Executor<Threads, 2> = Executor::new(Threads::new());

#[test]
fn a_static_executor_runs_on_threads() {
    static POOL: TaskPool<256, 4> = TaskPool::new();
    let _watchdog = watchdog();
    let workers: Vec<_> =
        (0..2).map(|i| thread::spawn(move || THREADS.run(WorkerId::new(i)))).collect();
    let flag = Flag::new();
    let waits = flag.wait();
    let mut handle = THREADS
        .spawn(&POOL, async move {
            waits.await;
            "done"
        })
        .unwrap();
    common::until(|| flag.is_awaited());
    flag.set();
    assert_eq!(handle.join().unwrap(), "done");
    // A context that comes after the end would be refused.
    common::until(|| THREADS.metrics().workers().all(|(_, w)| w.online));
    assert_eq!(THREADS.shutdown(Instant::MAX, |_| {}), Ok(0));
    workers.into_iter().for_each(|worker| assert_eq!(worker.join().unwrap(), Ok(())));
}

#[test]
fn an_executor_needs_a_fair_number_of_workers() {
    let most = usize::from(WorkerId::MAX) + 1;
    let over = |n| {
        Scheduler::over(Manual::new(), Config::new(), slots::<2, filch::parts::All>(n)).map(|_| ())
    };
    assert_eq!(over(0), Err(BuildError::ZeroWorkers));
    assert_eq!(over(1), Ok(()));
    assert_eq!(over(most), Ok(()));
    assert_eq!(over(most + 1), Err(BuildError::TooManyWorkers(most)));
    let spares = Config::new().spare_slots(3);
    let over = |n| {
        Scheduler::over(Manual::new(), spares, slots::<2, filch::parts::All>(n))
            .map(|e| e.workers())
    };
    assert_eq!(over(3), Err(BuildError::ZeroWorkers));
    assert_eq!(over(4), Ok(1));
}

#[test]
fn a_context_becomes_a_worker_once_and_a_worker_has_one_context() {
    let sim = Sim::offline(2, quiet());
    let executor = sim.executor;
    let worker = executor.worker(id(0)).unwrap();
    assert_eq!(executor.worker(id(1)).unwrap_err(), RunError::AlreadyWorker);
    assert_eq!(executor.run(id(0)), Err(RunError::AlreadyWorker));
    assert_eq!(executor.worker(id(2)).unwrap_err(), RunError::NoSuchWorker(2));
    let elsewhere = || {
        assert_eq!(executor.run(id(0)), Err(RunError::AlreadyRunning));
        assert_eq!(executor.worker(id(2)).unwrap_err(), RunError::NoSuchWorker(2));
        // Another id is free.
        drop(executor.worker(id(1)).unwrap());
    };
    thread::scope(|s| s.spawn(elsewhere).join()).unwrap();
    drop(worker);
    drop(executor.worker(id(0)).expect("it was left"));
}

#[test]
fn a_context_becomes_no_worker_but_its_own() {
    let sim = Sim::offline(2, quiet());
    let executor = sim.executor;
    executor.platform().pose(1, || {
        assert_eq!(executor.worker(id(0)).unwrap_err(), RunError::WrongContext);
        assert_eq!(executor.run(id(0)), Err(RunError::WrongContext));
        drop(executor.worker(id(1)).expect("it is its own"));
    });
    drop(executor.worker(id(0)).expect("nothing is left of the attempts"));
}

/// The smallest possible platform. Its clock advances with each read.
struct Bare(AtomicU64);

// SAFETY: it has no workers; only `block` is called.
unsafe impl Platform for Bare {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.fetch_add(1, SeqCst))
    }
    fn current_worker(&self) -> Option<WorkerId> {
        None
    }
    unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}
    fn wake(&self, _: WorkerId, _: &AtomicU32) {}
}

#[test]
fn a_platform_that_cannot_block_spins_until_the_word_changes_or_the_deadline() {
    let (bare, word) = (Bare(AtomicU64::new(0)), AtomicU32::new(7));
    bare.block(&word, 6, None);
    bare.block(&word, 6, Some(Instant::from_nanos(50)));
    assert_eq!(bare.0.load(SeqCst), 0, "the word had changed: nobody looked at the clock");
    bare.block(&word, 7, Some(Instant::from_nanos(50)));
    assert_eq!(bare.0.load(SeqCst), 51, "it looked until the deadline, and no longer");
    thread::scope(|s| {
        s.spawn(|| word.store(8, SeqCst));
        bare.block(&word, 7, None);
    });
}

#[test]
fn spare_slots_are_no_workers_for_everybody() {
    let sim = Sim::offline(3, quiet().spare_slots(2));
    assert_eq!(sim.executor.workers(), 1);
    assert_eq!(sim.executor.run(id(1)), Err(RunError::NoSuchWorker(1)));
}

#[test]
fn a_platform_that_starts_nothing_says_so() {
    let sim = Sim::offline(1, quiet());
    assert_eq!(sim.executor.start(id(0)), Err(filch::StartError::Unsupported));
    let executor = parked(1, Config::new());
    executor.platform().limit_starts(0);
    assert_eq!(executor.start(id(0)), Err(filch::StartError::Refused(11)));
}

#[test]
fn two_executors_side_by_side_share_nothing() {
    let (a, b) = (Sim::new(1), Sim::new(1));
    // Distinct executors on one thread, which is a worker of both at once.
    let (flag, at_b) = (Flag::new(), b.executor);
    let inner = flag.wait();
    let memory = pool();
    let mut handle = a
        .executor
        .spawn(pool(), async move {
            let inner = at_b.spawn(memory, inner).unwrap();
            inner.await.unwrap();
            "both"
        })
        .unwrap();
    assert_eq!(a.run(0), 1);
    assert!(!handle.is_finished());
    assert_eq!(a.run(0), 0, "its task waits for the other executor");
    flag.set();
    assert_eq!(b.run(0), 1);
    assert_eq!(a.run(0), 1);
    assert_eq!(output(&mut handle).unwrap(), "both");
    assert_eq!(a.executor.metrics().totals().spawned, 1);
    assert_eq!(b.executor.metrics().totals().spawned, 1);
    a.close();
    assert_eq!(b.step(0), Step::Idle, "the end of one is not the end of the other");
}

#[test]
fn a_worker_of_one_executor_can_become_one_of_another() {
    let _watchdog = watchdog();
    let (a, b) = (parked(1, Config::new()), parked(1, Config::new()));
    let outer = a.worker(id(0)).unwrap();
    let inner = b.worker(id(0)).unwrap();
    let handle = b.spawn(pool(), async { 1 }).unwrap();
    assert_eq!(inner.run_for(10), 1);
    assert_eq!(outer.step(), Step::Idle);
    assert!(handle.is_finished());
    drop((inner, outer));
    stop(a);
    stop(b);
}

#[test]
fn instants_saturate() {
    let second = Duration::from_secs(1);
    let t = Instant::from_nanos(1_500);
    assert_eq!((t + Duration::from_nanos(500)).as_nanos(), 2_000);
    assert_eq!(t + second - t, second);
    assert_eq!(t - (t + second), Duration::ZERO);
    assert_eq!(Instant::ZERO + Duration::MAX, Instant::MAX);
    assert_eq!(Instant::MAX + second, Instant::MAX);
    assert_eq!(Instant::MAX.after_nanos(1), Instant::MAX);
    assert_eq!(Instant::from_nanos(u64::MAX - 1).after_nanos(1), Instant::MAX);
    assert_eq!(Instant::MAX.nanos_since(Instant::ZERO), u64::MAX);
    assert!(t < t + Duration::from_nanos(1));
    assert_eq!(Instant::default(), Instant::ZERO);
}
