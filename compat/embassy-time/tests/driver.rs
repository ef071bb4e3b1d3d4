//! The driver by itself, under wakers that the test counts, on an executor whose clock the test moves.
#![cfg(not(filch_weakmem))]

#[path = "../../../core/tests/common/mod.rs"]
mod common;

use core::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Waker},
    time::Duration,
};
use std::{sync::Arc, task::Wake, thread};

use common::{Drops, Sim, Tally, forever, pool, threads, watchdog};
use embassy_time_driver::{Driver as _, TICK_HZ};
use filch::Instant;
use filch_embassy_time::Driver;

/// So many microseconds in embassy's ticks.
fn us(n: u64) -> u64 {
    n * TICK_HZ / 1_000_000
}

/// Counts wakes.
struct Wakes {
    count: AtomicUsize,
    _tally: Option<Tally>,
}

impl Wakes {
    fn new() -> Arc<Self> {
        Arc::new(Self { count: AtomicUsize::new(0), _tally: None })
    }
    fn count(&self) -> usize {
        self.count.load(SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, SeqCst);
    }
}

/// An executor with a registered driver.
struct Bench<const N: usize> {
    sim: Sim,
    driver: &'static Driver<N>,
}

impl<const N: usize> Bench<N> {
    fn new() -> Self {
        let bench = Self::unregistered();
        bench.register();
        bench
    }

    fn unregistered() -> Self {
        Self { sim: Sim::new(1), driver: forever(Box::new(Driver::new())) }
    }

    fn register(&self) {
        let keeper = self.driver.register(self.sim.executor.timers()).expect("the first time");
        self.sim.executor.spawn(pool(), keeper).expect("room").detach();
        self.sim.settle();
    }

    fn schedule(&self, at: u64, wakes: &Arc<Wakes>) {
        self.driver.schedule_wake(at, &Waker::from(Arc::clone(wakes)));
        self.sim.settle();
    }

    fn advance(&self, by: Duration) {
        self.sim.executor.platform().advance(by);
        self.sim.settle();
    }

    /// How long the worker sleeps if it goes to sleep now.
    fn sleeps_until(&self) -> Option<Instant> {
        self.sim.on(0, |worker| {
            let deadline = worker.begin_park().expect("there is no task");
            worker.end_park();
            deadline.filter(|end| *end < Instant::MAX)
        })
    }
}

const fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn at(n: u64) -> Option<Instant> {
    Some(Instant::ZERO + micros(n))
}

#[test]
fn a_wake_comes_at_its_time_and_not_before() {
    let bench = Bench::<4>::new();
    let (early, late) = (Wakes::new(), Wakes::new());
    bench.schedule(us(900), &late);
    assert_eq!(bench.sleeps_until(), at(900));
    bench.schedule(us(500), &early);
    assert_eq!(bench.sleeps_until(), at(500));
    bench.advance(micros(500) - Duration::from_nanos(1));
    assert_eq!((early.count(), late.count()), (0, 0));
    bench.advance(Duration::from_nanos(1));
    assert_eq!((early.count(), late.count()), (1, 0));
    assert_eq!(bench.sleeps_until(), at(900));
    bench.advance(micros(10_000));
    assert_eq!((early.count(), late.count()), (1, 1));
    // Nothing is left to wait for.
    assert_eq!(bench.sleeps_until(), None);
}

#[test]
fn a_time_that_has_passed_wakes_at_once() {
    let bench = Bench::<1>::new();
    bench.advance(micros(100));
    let wakes = Wakes::new();
    for (i, at) in [0, us(50), us(100)].into_iter().enumerate() {
        bench.schedule(at, &wakes);
        assert_eq!(wakes.count(), i + 1);
    }
    assert_eq!(bench.driver.evictions(), 0);
}

#[test]
fn a_later_wake_does_not_wake_the_keeper() {
    let bench = Bench::<8>::new();
    let polls = || bench.sim.executor.metrics().workers().map(|(_, w)| w.polls).sum::<usize>();
    bench.schedule(us(5_000), &Wakes::new());
    let before = polls();
    for i in 0..4 {
        bench.schedule(us(20_000 + i), &Wakes::new());
    }
    assert_eq!(polls(), before);
    bench.schedule(us(4_000), &Wakes::new());
    assert_eq!(polls(), before + 1);
}

#[test]
fn wakes_of_one_waker_are_merged_into_the_earliest() {
    let bench = Bench::<2>::new();
    let wakes = Wakes::new();
    let waker = Waker::from(Arc::clone(&wakes));
    for at in [700, 300, 500, 300] {
        bench.driver.schedule_wake(us(at), &waker);
    }
    bench.sim.settle();
    // The waker has one slot, so that another has the second.
    let other = Wakes::new();
    bench.schedule(us(600), &other);
    assert_eq!(bench.driver.evictions(), 0);
    assert_eq!(bench.sleeps_until(), at(300));
    bench.advance(micros(300));
    assert_eq!(wakes.count(), 1);
    bench.advance(micros(1_000));
    assert_eq!((wakes.count(), other.count()), (1, 1));
}

#[test]
fn a_full_table_wakes_another_each_in_its_turn_and_loses_none() {
    let bench = Bench::<3>::new();
    let all: [_; 9] = core::array::from_fn(|_| Wakes::new());
    for (i, wakes) in all.iter().enumerate() {
        bench.schedule(us(1_000 + i as u64), wakes);
        assert_eq!(wakes.count(), 0, "the new one has a slot");
    }
    assert_eq!(bench.driver.evictions(), 6);
    let counts = all.each_ref().map(|wakes| wakes.count());
    assert_eq!(counts, [1, 1, 1, 1, 1, 1, 0, 0, 0]);
    bench.advance(micros(2_000));
    assert!(all.iter().all(|wakes| wakes.count() == 1));
}

#[test]
fn a_wake_holds_its_waker_until_its_time_and_no_longer() {
    let bench = Bench::<2>::new();
    let drops = Drops::new();
    let wakes = || Arc::new(Wakes { count: AtomicUsize::new(0), _tally: Some(drops.tally()) });
    bench.schedule(us(100), &wakes());
    bench.schedule(us(200), &wakes());
    assert_eq!(drops.count(), 0);
    bench.advance(micros(100));
    assert_eq!(drops.count(), 1);
    // One that must give way.
    bench.schedule(us(300), &wakes());
    bench.schedule(us(300), &wakes());
    assert_eq!(drops.count(), 2);
    bench.advance(micros(1_000));
    assert_eq!(drops.count(), 4);
}

#[test]
fn before_the_registration_the_clock_stands_and_wakes_wait() {
    let bench = Bench::<4>::unregistered();
    let wakes = Wakes::new();
    bench.advance(micros(1_000));
    assert_eq!(bench.driver.now(), 0);
    bench.schedule(us(250), &wakes);
    bench.advance(micros(1_000));
    assert_eq!((bench.driver.now(), wakes.count()), (0, 0));
    bench.register();
    assert_eq!(bench.sleeps_until(), at(2_250));
    bench.advance(micros(249));
    assert_eq!((bench.driver.now(), wakes.count()), (us(249), 0));
    bench.advance(micros(1));
    assert_eq!((bench.driver.now(), wakes.count()), (us(250), 1));
}

#[test]
fn a_second_registration_is_refused_and_changes_nothing() {
    let bench = Bench::<4>::new();
    bench.advance(micros(10));
    let other = Sim::new(1);
    let error = bench.driver.register(other.executor.timers()).expect_err("the second time");
    assert_eq!(error.to_string(), "the time driver has an executor already, and keeps it");
    assert_eq!(bench.driver.now(), us(10));
    let wakes = Wakes::new();
    bench.schedule(us(20), &wakes);
    bench.advance(micros(10));
    assert_eq!(wakes.count(), 1);
}

#[test]
fn after_the_end_of_the_executor_all_wakes_come_at_once_and_the_clock_goes_on() {
    let bench = Bench::<4>::new();
    let (before, after) = (Wakes::new(), Wakes::new());
    bench.schedule(us(500), &before);
    bench.sim.close();
    assert_eq!(before.count(), 1);
    bench.driver.schedule_wake(us(500), &Waker::from(Arc::clone(&after)));
    assert_eq!(after.count(), 1);
    let now = bench.driver.now();
    bench.sim.executor.platform().advance(micros(70));
    assert_eq!(bench.driver.now(), now + us(70));
}

#[test]
fn a_keeper_that_is_never_spawned_is_no_keeper() {
    let bench = Bench::<4>::unregistered();
    drop(bench.driver.register(bench.sim.executor.timers()).unwrap());
    let wakes = Wakes::new();
    bench.schedule(us(500), &wakes);
    assert_eq!(wakes.count(), 1);
}

#[test]
fn a_keeper_that_moves_to_another_task_polls_itself() {
    let bench = Bench::<4>::unregistered();
    let mut keeper = pin!(bench.driver.register(bench.sim.executor.timers()).unwrap());
    let (first, second) = (Wakes::new(), Wakes::new());
    let mut poll = |wakes: &Arc<Wakes>| {
        let waker = Waker::from(Arc::clone(wakes));
        assert!(keeper.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    };
    poll(&first);
    poll(&first);
    assert_eq!(first.count(), 0);
    for i in 1..4 {
        poll(&second);
        assert_eq!(second.count(), i);
    }
}

#[test]
fn deadlines_far_beyond_the_longest_sleep_come_at_their_time() {
    let bench = Bench::<4>::new();
    let day = Duration::from_secs(86_400);
    let (month, never) = (Wakes::new(), Wakes::new());
    bench.schedule(u64::MAX, &never);
    assert_eq!(bench.sleeps_until(), None);
    bench.schedule(30 * 86_400 * TICK_HZ, &month);
    for n in 1..30 {
        let next = bench.sleeps_until().expect("it looks from time to time");
        assert!(next > bench.sim.executor.timers().now());
        bench.advance(day);
        assert_eq!(month.count(), 0, "day {n}");
        // An earlier one is heard of at any distance.
        let wakes = Wakes::new();
        bench.schedule(bench.driver.now() + us(1), &wakes);
        bench.advance(micros(1));
        assert_eq!(wakes.count(), 1, "day {n}");
    }
    bench.advance(day);
    assert_eq!((month.count(), never.count()), (1, 0));
}

/// A waker that asks for the next wake itself, from inside of the keeper.
#[test]
fn a_waker_may_ask_for_a_wake() {
    struct Again(&'static Driver<1>, AtomicUsize);
    impl Wake for Again {
        fn wake(self: Arc<Self>) {
            if self.1.fetch_add(1, SeqCst) < 5 {
                self.0.schedule_wake(self.0.now() + us(10), &Waker::from(Arc::clone(&self)));
            }
        }
    }
    let bench = Bench::<1>::new();
    let again = Arc::new(Again(bench.driver, AtomicUsize::new(0)));
    bench.driver.schedule_wake(us(10), &Waker::from(Arc::clone(&again)));
    bench.sim.settle();
    for n in 1..=6 {
        bench.advance(micros(10));
        assert_eq!(again.1.load(SeqCst), n);
    }
    bench.advance(micros(100));
    assert_eq!(again.1.load(SeqCst), 6);
}

/// Threads that are no workers ask, with a table that is too small for them, while two workers keep it.
#[test]
fn threads_wait_as_they_should_beside_the_workers() {
    let _watchdog = watchdog();
    static DRIVER: Driver<3> = Driver::new();
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let executor = threads(2, common::quiet());
    let keeper = DRIVER.register(executor.timers()).unwrap();
    executor.spawn(pool(), keeper).unwrap().detach();
    thread::scope(|scope| {
        for t in 0..4_u64 {
            scope.spawn(move || {
                for i in 0..200 {
                    let end = DRIVER.now() + us(20 + 37 * t + i % 50);
                    // A waker of its own each time, as a new task has.
                    let waker = Waker::from(Arc::new(Unpark(thread::current())));
                    while DRIVER.now() < end {
                        DRIVER.schedule_wake(end, &waker);
                        // A wake that is lost is a hang.
                        thread::park();
                    }
                }
            });
        }
    });
    common::stop(executor);
}
