//! Sleeps, timeouts and intervals on executors whose clock the test moves, and on threads.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{Future, pending, poll_fn, ready},
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    sync::{Arc, Mutex},
    task::Wake,
    thread,
};

use common::{Flag, Log, Sim, output, pool, quiet, threads, until};
use filch::{Config, Instant, JoinHandle, MissedTick, Sleep, Step, TaskPool, Timers, yield_now};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(d: Duration) -> Instant {
    Instant::ZERO + d
}

impl Sim {
    fn timers(&self) -> Timers {
        self.executor.timers()
    }

    /// The clock stands at `t` from now on.
    fn set_clock(&self, t: Instant) {
        self.executor.platform().advance(t - self.timers().now());
        assert_eq!(self.timers().now(), t);
    }

    /// How long a worker that goes to sleep now would sleep.
    fn sleeps_until(&self, worker: u16) -> Option<Instant> {
        self.on(worker, |worker| {
            // A notice of the past ends the first attempt.
            let deadline = worker.begin_park().or_else(|| worker.begin_park());
            let deadline = deadline.expect("there is no task");
            worker.end_park();
            deadline
        })
    }
}

/// Counts wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

fn poll_with<F: Future>(future: Pin<&mut F>, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(wakes));
    future.poll(&mut Context::from_waker(&waker))
}

#[test]
fn a_sleep_ends_at_its_deadline_to_the_nanosecond() {
    let sim = Sim::new(1);
    let handle = sim.executor.spawn(pool(), sim.executor.sleep(ms(5))).unwrap();
    sim.run(0);
    assert_eq!(sim.sleeps_until(0), Some(at(ms(5))));
    sim.set_clock(Instant::from_nanos(4_999_999));
    sim.run(0);
    assert!(!handle.is_finished());
    sim.set_clock(Instant::from_nanos(5_000_000));
    sim.run(0);
    assert!(handle.is_finished());
    assert_eq!(sim.sleeps_until(0), None);
}

#[test]
fn a_worker_sleeps_until_the_earliest_of_its_deadlines() {
    let sim = Sim::new(2);
    for (i, n) in [70, 3, 3_600_000, 4].into_iter().enumerate() {
        sim.executor.spawn(pool(), sim.executor.sleep(ms(n))).unwrap().detach();
        sim.run((i % 2) as u16);
    }
    assert_eq!(sim.sleeps_until(0), Some(at(ms(70))));
    assert_eq!(sim.sleeps_until(1), Some(at(ms(3))));
    // The platform's clock advances to the deadline.
    sim.on(1, |worker| worker.park());
    assert_eq!(sim.timers().now(), at(ms(3)));
    sim.run(1);
    assert_eq!(sim.sleeps_until(1), Some(at(ms(4))));
}

/// Polls a sleep for the first time on worker `on`.
fn begin(sim: &Sim, on: u16, mut sleep: Pin<Box<Sleep>>) -> Pin<Box<Sleep>> {
    let mut handle = sim
        .executor
        .spawn(pool(), async move {
            assert!(poll_with(sleep.as_mut(), &Arc::default()).is_pending());
            Some(sleep)
        })
        .unwrap();
    sim.run(on);
    output(&mut handle).unwrap().unwrap()
}

#[test]
fn a_sleep_is_cancelled_and_reset_from_anywhere() {
    let sim = Sim::new(2);
    let timers = sim.timers();
    // On another worker.
    let sleep = begin(&sim, 0, Box::pin(timers.sleep(ms(10))));
    assert_eq!(sim.sleeps_until(0), Some(at(ms(10))));
    let mut moved = begin(&sim, 0, Box::pin(timers.sleep(ms(20))));
    let task = async move {
        drop(sleep);
        moved.as_mut().reset(at(ms(7)));
        Some(moved)
    };
    let mut handle = sim.executor.spawn(pool(), task).unwrap();
    sim.run(1);
    let mut moved = output(&mut handle).unwrap().unwrap();
    // Worker 0 has been told that a deadline came closer. It checks its wheel again before it sleeps.
    assert_eq!(sim.sleeps_until(0), Some(at(ms(7))));
    // On a thread that is no worker.
    thread::scope(|scope| {
        scope.spawn(|| moved.as_mut().reset(at(ms(9))));
    });
    assert_eq!(sim.sleeps_until(0), Some(at(ms(9))));
    thread::scope(|scope| {
        scope.spawn(move || drop(moved));
    });
    assert_eq!(sim.sleeps_until(0), None);
}

#[test]
fn a_worker_in_its_sleep_hears_of_an_earlier_deadline() {
    let executor = threads(1, quiet());
    let timers = executor.timers();
    let wakes = Arc::<Wakes>::default();
    let mut late = pin!(timers.sleep(Duration::from_secs(3_600)));
    assert!(poll_with(late.as_mut(), &wakes).is_pending());
    let mut soon = pin!(timers.sleep(ms(1)));
    assert!(poll_with(soon.as_mut(), &wakes).is_pending());
    // If the worker slept for the hour, this would hang.
    while wakes.count() == 0 {
        thread::yield_now();
    }
    assert!(soon.is_elapsed() && !late.is_elapsed());
    common::stop(executor);
}

#[test]
fn a_sleep_can_be_used_again() {
    let sim = Sim::new(1);
    let wakes = Arc::<Wakes>::default();
    let mut sleep = pin!(sim.executor.sleep(ms(1)));
    for round in 1..=3 {
        assert!(poll_with(sleep.as_mut(), &wakes).is_pending());
        sim.set_clock(at(ms(round)));
        sim.run(0);
        assert!(sleep.is_elapsed());
        assert_eq!(wakes.count() as u64, round);
        assert!(poll_with(sleep.as_mut(), &wakes).is_ready());
        sleep.as_mut().reset(at(ms(round + 1)));
        assert!(!sleep.is_elapsed());
    }
}

#[test]
fn a_sleep_wakes_the_last_that_asked() {
    let sim = Sim::new(1);
    let (first, second) = (Arc::<Wakes>::default(), Arc::<Wakes>::default());
    let mut sleep = pin!(sim.executor.sleep(ms(1)));
    for wakes in [&first, &first, &second, &first, &second] {
        assert!(poll_with(sleep.as_mut(), wakes).is_pending());
    }
    assert_eq!(Arc::strong_count(&first), 1, "the wakers that were replaced are dropped");
    sim.set_clock(at(ms(1)));
    sim.run(0);
    assert_eq!((first.count(), second.count()), (0, 1));
    assert_eq!(Arc::strong_count(&second), 1);
}

#[test]
fn timers_of_a_worker_that_leaves_are_fired_by_another() {
    let sim = Sim::new(2);
    let handle = sim.executor.spawn(pool(), sim.executor.sleep(ms(5))).unwrap();
    sim.run(0);
    assert_eq!(sim.sleeps_until(1), None);
    sim.detach(0);
    assert_eq!(sim.sleeps_until(1), Some(at(ms(5))));
    sim.set_clock(at(ms(5)));
    sim.run(1);
    assert!(handle.is_finished());
    // If no worker is there, the next worker that attaches fires the timers.
    let handle = sim.executor.spawn(pool(), sim.executor.sleep(ms(5))).unwrap();
    sim.run(1);
    sim.detach(1);
    sim.set_clock(at(ms(10)));
    sim.attach(0);
    assert_eq!(sim.sleeps_until(0), Some(at(ms(10))));
    sim.run(0);
    assert!(handle.is_finished());
}

/// A worker that never finds its queues empty checks its wheel all the same.
#[test]
fn a_busy_worker_fires_its_timers() {
    let sim = Sim::new(1);
    let (executor, handle) =
        (sim.executor, sim.executor.spawn(pool(), sim.executor.sleep(ms(5))).unwrap());
    sim.run(0);
    let busy = async move {
        loop {
            executor.platform().advance(Duration::from_micros(10));
            yield_now().await;
        }
    };
    executor.spawn(pool(), busy).unwrap().detach();
    let mut late = None;
    for _ in 0..2_000 {
        assert_eq!(sim.step(0), Step::Polled);
        late = late.or_else(|| handle.is_finished().then(|| sim.timers().now()));
    }
    let late = late.expect("fired") - at(ms(5));
    assert!(late <= ms(3), "{late:?} late");
}

/// The other worker is stuck in a poll that ends only when a timer of its own wheel has fired.
#[test]
fn timers_of_a_stuck_worker_are_fired_by_the_watchdog() {
    let executor = threads(2, Config::new());
    let fired = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&fired);
    let stuck = async move {
        let wakes = Arc::<Wakes>::default();
        let mut sleep = pin!(executor.sleep(ms(1)));
        poll_fn(|_| {
            assert!(poll_with(sleep.as_mut(), &wakes).is_pending());
            while wakes.count() == 0 {
                thread::yield_now();
            }
            Poll::Ready(())
        })
        .await;
        seen.store(true, SeqCst);
    };
    executor.spawn(pool(), stuck).unwrap().join().unwrap();
    assert!(fired.load(SeqCst));
    common::stop(executor);
}

/// A worker that is woken for the first of many tasks would find only that one, and would take the core of the worker
/// that wakes it.
#[test]
fn others_hear_of_tasks_that_are_woken_in_a_row_when_all_are() {
    struct Look(&'static common::ManualExecutor, AtomicUsize, AtomicUsize);
    impl Wake for Look {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, SeqCst);
            self.2.fetch_min(self.0.metrics().totals().parked, SeqCst);
        }
    }
    // Without a watchdog there is no such batch.
    let hour = Duration::from_secs(3_600);
    let sim = Sim::with(3, quiet().watchdog(Some((hour, hour))));
    let executor = sim.executor;
    let look = Arc::new(Look(executor, AtomicUsize::new(0), AtomicUsize::new(usize::MAX)));
    let looker = || {
        let look = Waker::from(Arc::clone(&look));
        async move {
            let mut sleep = pin!(executor.sleep(ms(1)));
            poll_fn(|_| sleep.as_mut().poll(&mut Context::from_waker(&look)).map(drop)).await;
        }
    };
    // Before, between and after the others, in whatever order they fire.
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(executor.spawn(pool(), looker()).unwrap());
        for _ in 0..4 {
            executor.spawn(pool(), executor.sleep(ms(1))).unwrap().detach();
        }
    }
    while sim.step(0) == Step::Polled {}
    assert!((1..3).all(|worker| sim.on(worker, filch::Worker::begin_park).is_some()));
    // The worker comes from a sleep, so it does not search.
    sim.on(0, filch::Worker::park);
    executor.platform().advance(ms(1));
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(
        (look.1.load(SeqCst), look.2.load(SeqCst)),
        (3, 2),
        "nobody was woken before the end"
    );
    assert_eq!(executor.metrics().totals().parked, 1, "one was then");
    (1..3).for_each(|worker| sim.on(worker, filch::Worker::end_park));
    waiting.iter().for_each(JoinHandle::abort);
    sim.settle();
}

/// All workers slept, so that none had the watchdog role. Then one polls, and the poll is to be reported if it is long.
#[test]
fn a_poll_that_is_to_be_reported_has_another_watch() {
    let config = quiet().watchdog(Some((ms(1), ms(10)))).poll_limit(Some(ms(5)));
    let sim = Sim::with(3, config);
    let executor = sim.executor;
    let parked = || executor.metrics().totals().parked;
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(Some(at(ms(1)))));
    (0..3).step_by(2).for_each(|i| assert!(sim.on(i, filch::Worker::begin_park).is_some()));
    for i in 0..2 {
        sim.on(i, filch::Worker::end_park);
        assert_eq!(sim.on(i, filch::Worker::begin_park), Some(None), "there is none to watch");
    }
    let mut handle = executor.spawn(pool(), async move { parked() }).unwrap();
    sim.on(0, filch::Worker::end_park);
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(output(&mut handle).unwrap(), 1, "another keeps watch");
    (1..3).for_each(|worker| sim.on(worker, filch::Worker::end_park));
    sim.settle();
}

/// All workers slept, so that none had the watchdog role. Then a poll arms the first timer, and may get stuck before it
/// ends.
#[test]
fn a_timer_armed_in_a_poll_has_another_watch() {
    let sim = Sim::with(3, quiet().watchdog(Some((ms(1), ms(10)))));
    let executor = sim.executor;
    let parked = || executor.metrics().totals().parked;
    assert_eq!(sim.on(1, filch::Worker::begin_park), Some(Some(at(ms(1)))));
    (0..3).step_by(2).for_each(|i| assert!(sim.on(i, filch::Worker::begin_park).is_some()));
    for i in 0..2 {
        sim.on(i, filch::Worker::end_park);
        assert_eq!(sim.on(i, filch::Worker::begin_park), Some(None), "there is none to watch");
    }
    let arming = async move {
        let mut sleep = pin!(executor.sleep(ms(1)));
        let wakes = Arc::<Wakes>::default();
        assert_eq!(parked(), 2);
        assert!(poll_with(sleep.as_mut(), &wakes).is_pending());
        assert_eq!(parked(), 1, "another keeps watch");
        // The worker is woken once, not once for each timer.
        let mut sooner = pin!(executor.sleep(Duration::from_micros(500)));
        assert!(poll_with(sooner.as_mut(), &wakes).is_pending());
        assert_eq!(parked(), 1);
    };
    let mut handle = executor.spawn(pool(), arming).unwrap();
    sim.on(0, filch::Worker::end_park);
    assert_eq!(sim.step(0), Step::Polled);
    output(&mut handle).unwrap();
    (1..3).for_each(|i| sim.on(i, filch::Worker::end_park));
    sim.settle();
}

/// A worker that has left had a timer. The one that sleeps until its deadline is woken for a poll, which may be long: another one sleeps
/// until then.
#[test]
fn timers_of_a_worker_that_left_have_another_watch() {
    let sim = Sim::with(3, quiet().watchdog(Some((ms(1), ms(10)))));
    let executor = sim.executor;
    let parked = || executor.metrics().totals().parked;
    let timer = executor.spawn(pool(), executor.sleep(ms(50))).unwrap();
    sim.run(2);
    assert!(sim.on(1, filch::Worker::begin_park).is_some());
    sim.detach(2);
    sim.on(1, filch::Worker::end_park);
    // Both sleep, in the end, and none watches.
    for i in [0, 1, 0, 1] {
        sim.on(i, filch::Worker::end_park);
        assert!(sim.on(i, filch::Worker::begin_park).is_some());
    }
    for i in [0, 1] {
        sim.on(i, filch::Worker::end_park);
        assert_eq!(sim.on(i, filch::Worker::begin_park), Some(Some(at(ms(50)))), "none watches");
    }
    let mut polls = executor.spawn(pool(), async move { parked() }).unwrap();
    sim.on(0, filch::Worker::end_park);
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(output(&mut polls).unwrap(), 0, "another is woken, to watch");
    sim.on(1, filch::Worker::end_park);
    sim.set_clock(at(ms(50)));
    sim.settle();
    assert!(timer.is_finished());
}

/// A waker blocks the worker that runs it. The other timers that were due are fired by another worker; had they been taken out of the wheel
/// with that one, they would wait for it.
#[test]
fn a_waker_that_blocks_holds_up_no_other_timer() {
    struct Blocks(Flag);
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            until(|| self.0.is_set());
        }
    }
    let executor = threads(2, Config::new());
    let (others, wakes) = (Flag::new(), Arc::<Wakes>::default());
    let blocks = Waker::from(Arc::new(Blocks(others.clone())));
    let counts = Waker::from(Arc::clone(&wakes));
    let mut timers: Vec<_> = (0..12).map(|_| Box::pin(executor.sleep(ms(1)))).collect();
    let begin = async move {
        for (i, timer) in timers.iter_mut().enumerate() {
            let waker = if i == 4 { &blocks } else { &counts };
            assert!(timer.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
        }
        timers
    };
    let timers = executor.spawn(pool(), begin).unwrap().join().unwrap();
    until(|| wakes.count() == 11);
    others.set();
    drop(timers);
    common::stop(executor);
}

/// However many timers are due at once, an urgent task waits for a few of them only.
#[cfg(feature = "classes")]
#[test]
fn many_timers_at_once_hold_up_no_urgent_task() {
    use filch::{Class, TaskOptions};

    let sim = Sim::new(1);
    let executor = sim.executor;
    let wakes = Arc::<Wakes>::default();
    let mut timers: Vec<_> = (0..10_000).map(|_| Box::pin(executor.sleep(ms(1)))).collect();
    for timer in &mut timers {
        assert!(poll_with(timer.as_mut(), &wakes).is_pending());
    }
    let fired = Arc::clone(&wakes);
    let options = TaskOptions::new().class(Class::Urgent);
    let urgent = async move {
        executor.sleep(ms(1)).await;
        fired.count()
    };
    let mut urgent = executor.spawner().spawn_with(options, pool(), urgent).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    sim.set_clock(at(ms(1)));
    while wakes.count() < 10_000 {
        sim.run(0);
    }
    let before = output(&mut urgent).unwrap();
    assert!(before < 10_000, "the urgent task was polled after {before} of them");
}

/// No worker sleeps, so none has the watchdog role. Another busy worker fires the timers of the stuck one.
#[test]
fn timers_of_a_stuck_worker_are_fired_by_busy_ones() {
    let sim = Sim::new(2);
    let handle = sim.executor.spawn(pool(), sim.executor.sleep(ms(5))).unwrap();
    sim.run(0);
    let executor = sim.executor;
    let busy = async move {
        loop {
            executor.platform().advance(Duration::from_micros(10));
            yield_now().await;
        }
    };
    executor.spawn(pool(), busy).unwrap().detach();
    // Worker 0 does nothing from here on.
    for _ in 0..2_000 {
        assert_eq!(sim.step(1), Step::Polled);
    }
    assert!(handle.is_finished());
}

#[test]
fn what_a_timer_wakes_stays_on_its_worker() {
    let sim = Sim::new(2);
    let handle = sim.executor.spawn(pool(), sim.executor.sleep(ms(1))).unwrap();
    sim.run(0);
    sim.set_clock(at(ms(1)));
    sim.on(0, |worker| worker.park());
    assert_eq!(sim.step(0), Step::Polled);
    assert!(handle.is_finished());
    let metrics: Vec<_> = sim.executor.metrics().workers().map(|(_, m)| m).collect();
    assert_eq!((metrics[0].timers, metrics[0].lifo_hits), (1, 1), "{metrics:?}");
}

#[test]
fn a_waker_that_panics_takes_no_other_timer_with_it() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            std::panic::panic_any("a waker that panics");
        }
    }
    let sim = Sim::new(1);
    let wakes = Arc::<Wakes>::default();
    let mut sleeps: Vec<_> = (0..40).map(|_| Box::pin(sim.executor.sleep(ms(1)))).collect();
    for (i, sleep) in sleeps.iter_mut().enumerate() {
        let waker =
            if i % 3 == 0 { Waker::from(Arc::new(Bomb)) } else { Arc::clone(&wakes).into() };
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    sim.set_clock(at(ms(1)));
    sim.run(0);
    assert_eq!(wakes.count(), 26);
    assert!(sleeps.iter().all(|sleep| sleep.is_elapsed()));
}

#[test]
fn a_timeout_gives_the_output_or_the_time() {
    let sim = Sim::new(1);
    let timers = sim.timers();
    let both = async move {
        let ready = timers.timeout(Duration::ZERO, ready(7)).await;
        let late = timers.timeout(ms(2), pending::<()>()).await;
        let in_time = timers.timeout(ms(5), timers.sleep(ms(4))).await;
        (ready, late.is_err(), in_time, timers.now())
    };
    let mut handle = sim.executor.spawn(pool(), both).unwrap();
    for t in [2, 5, 6] {
        sim.run(0);
        sim.set_clock(at(ms(t)));
    }
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap(), (Ok(7), true, Ok(()), at(ms(6))));
}

#[test]
fn a_timeout_can_be_given_another_deadline() {
    let sim = Sim::new(1);
    let mut timeout = pin!(sim.timers().timeout(ms(5), pending::<()>()));
    let wakes = Arc::default();
    assert_eq!(timeout.deadline(), at(ms(5)));
    assert!(poll_with(timeout.as_mut(), &wakes).is_pending());
    timeout.as_mut().reset(at(ms(9)));
    assert_eq!(timeout.deadline(), at(ms(9)));
    sim.set_clock(at(ms(5)));
    sim.run(0);
    assert!(poll_with(timeout.as_mut(), &wakes).is_pending());
    sim.set_clock(at(ms(9)));
    sim.run(0);
    assert_eq!(wakes.count(), 1, "for the later deadline alone");
    assert!(matches!(poll_with(timeout, &wakes), Poll::Ready(Err(_))));
}

/// A future that is ready for something in every poll uses up the budget. Its deadline is noticed all the same.
#[test]
fn a_timeout_ends_a_future_that_uses_up_its_budget() {
    let sim = Sim::new(1);
    let executor = sim.executor;
    let hog = poll_fn(move |cx| {
        executor.platform().advance(ms(1));
        while executor.spend_budget() {}
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    let mut handle = executor.spawn(pool(), executor.timeout(ms(10), hog)).unwrap();
    assert!(sim.on(0, |worker| worker.run_for(1_000)) < 1_000);
    assert!(output(&mut handle).unwrap().is_err());
}

/// So is the end of a sleep beside such a future, and a deadline that has passed when the timeout is made.
#[test]
fn a_sleep_beside_a_future_that_uses_up_its_budget_ends() {
    let sim = Sim::new(1);
    let executor = sim.executor;
    let timers = sim.timers();
    let task = async move {
        let mut sleep = pin!(timers.sleep(ms(10)));
        let mut late = pin!(timers.timeout_at(Instant::ZERO, pending::<()>()));
        let (mut sleeps, mut waits) = (true, true);
        poll_fn(|cx| {
            executor.platform().advance(ms(1));
            while executor.spend_budget() {}
            cx.waker().wake_by_ref();
            waits = waits && late.as_mut().poll(cx).is_pending();
            sleeps = sleeps && sleep.as_mut().poll(cx).is_pending();
            if sleeps || waits { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    };
    let handle = executor.spawn(pool(), task).unwrap();
    assert!(sim.on(0, |worker| worker.run_for(1_000)) < 1_000);
    assert!(handle.is_finished());
}

#[test]
fn deadlines_that_have_passed_spend_budget() {
    let sim = Sim::new(1);
    let timers = sim.timers();
    let polls = Arc::new(AtomicUsize::new(0));
    let (seen, count) = (Arc::clone(&polls), 1_000_usize);
    let task = async move {
        let mut all = pin!(async {
            for _ in 0..count {
                timers.timeout_at(Instant::ZERO, pending::<()>()).await.unwrap_err();
            }
        });
        poll_fn(|cx| {
            seen.fetch_add(1, SeqCst);
            all.as_mut().poll(cx)
        })
        .await;
    };
    let handle = sim.executor.spawn(pool(), task).unwrap();
    sim.run(0);
    assert!(handle.is_finished());
    assert_eq!(polls.load(SeqCst), count.div_ceil(filch::BUDGET as usize));
}

#[test]
fn ended_sleeps_spend_budget() {
    let sim = Sim::new(1);
    let timers = sim.timers();
    let (polls, count) = (Arc::new(AtomicUsize::new(0)), 1_000_usize);
    let seen = Arc::clone(&polls);
    let mut sleeps: Vec<_> = (0..count).map(|_| Box::pin(timers.sleep(ms(1)))).collect();
    let wakes = Arc::default();
    for sleep in &mut sleeps {
        assert!(poll_with(sleep.as_mut(), &wakes).is_pending());
    }
    sim.set_clock(at(ms(1)));
    sim.run(0);
    let task = async move {
        let mut all = pin!(async {
            for sleep in sleeps {
                sleep.await;
            }
        });
        poll_fn(|cx| {
            seen.fetch_add(1, SeqCst);
            all.as_mut().poll(cx)
        })
        .await;
    };
    let handle = sim.executor.spawn(pool(), task).unwrap();
    sim.run(0);
    assert!(handle.is_finished());
    assert_eq!(polls.load(SeqCst), count.div_ceil(filch::BUDGET as usize));
}

/// Ticks every 10 ms. The task is polled at each of `visits` and takes the ticks that are due. Returns them.
fn ticks(policy: MissedTick, visits: &[u64]) -> Vec<u64> {
    let sim = Sim::new(1);
    let timers = sim.timers();
    let log = Log::new();
    let seen = log.clone();
    let task = async move {
        let mut interval = timers.interval(ms(10)).missed_tick(policy);
        loop {
            seen.push(interval.tick().await.as_nanos() / 1_000_000);
        }
    };
    sim.executor.spawn(pool(), task).unwrap().detach();
    for visit in visits {
        sim.set_clock(at(ms(*visit)));
        sim.run(0);
    }
    log.take()
}

#[test]
fn intervals_keep_their_policy() {
    let visits = [0, 10, 45, 50, 55, 60];
    assert_eq!(ticks(MissedTick::Burst, &visits), [0, 10, 20, 30, 40, 50, 60]);
    assert_eq!(ticks(MissedTick::Delay, &visits), [0, 10, 20, 55]);
    assert_eq!(ticks(MissedTick::Skip, &visits), [0, 10, 20, 50, 60]);
    // A tick that is late by less than a period is not missed.
    let visits = [0, 10, 21, 30, 45];
    for policy in [MissedTick::Burst, MissedTick::Delay, MissedTick::Skip] {
        assert_eq!(ticks(policy, &visits), [0, 10, 20, 30, 40]);
    }
}

#[test]
fn an_interval_loses_no_tick_that_was_not_taken() {
    let sim = Sim::new(1);
    let mut interval = sim.timers().interval_at(at(ms(10)), ms(10));
    let wakes = Arc::default();
    for _ in 0..3 {
        assert!(poll_with(pin!(interval.tick()), &wakes).is_pending());
    }
    sim.set_clock(at(ms(10)));
    assert_eq!(poll_with(pin!(interval.tick()), &wakes), Poll::Ready(at(ms(10))));
    assert!(poll_with(pin!(interval.tick()), &wakes).is_pending());
    interval.reset();
    assert!(poll_with(pin!(interval.tick()), &wakes).is_pending());
    assert_eq!(sim.sleeps_until(0), None, "no tick is awaited");
}

#[test]
fn what_is_overdue_is_ready_at_its_first_poll() {
    let sim = Sim::new(1);
    let wakes = Arc::default();
    sim.set_clock(at(ms(10)));
    for due in [ms(0), ms(3), ms(10)] {
        let mut sleep = pin!(sim.timers().sleep_until(at(due)));
        assert_eq!(poll_with(sleep.as_mut(), &wakes), Poll::Ready(()));
        assert!(sleep.is_elapsed());
    }
    let late = sim.timers().timeout_at(at(ms(9)), pending::<()>());
    assert!(matches!(poll_with(pin!(late), &wakes), Poll::Ready(Err(_))));
    let mut interval = sim.timers().interval(ms(1));
    assert_eq!(poll_with(pin!(interval.tick()), &wakes), Poll::Ready(at(ms(10))));
    assert_eq!(sim.sleeps_until(0), None, "no timer is left");
    // One sleep is reset to a time that has passed; another has ended and begins anew.
    let mut sleep = pin!(sim.timers().sleep_until(at(ms(20))));
    assert!(poll_with(sleep.as_mut(), &wakes).is_pending());
    sim.set_clock(at(ms(20)));
    sim.run(0);
    assert_eq!(poll_with(sleep.as_mut(), &wakes), Poll::Ready(()));
    sleep.as_mut().reset(at(ms(15)));
    assert_eq!(poll_with(sleep.as_mut(), &wakes), Poll::Ready(()));
    sleep.as_mut().reset(at(ms(25)));
    assert!(poll_with(sleep, &wakes).is_pending());
}

#[test]
fn a_timer_made_anew_in_each_round_wins_at_last() {
    let sim = Sim::new(1);
    let executor = sim.executor;
    let timers = sim.timers();
    let rounds = async move {
        let end = at(ms(100));
        let mut interval = timers.interval_at(at(ms(10)), ms(10));
        let (mut ticks, mut rounds) = (0, 0);
        loop {
            executor.platform().advance(ms(1));
            let mut tick = pin!(interval.tick());
            let mut sleep = pin!(timers.sleep_until(end));
            // What `select!` does with a branch that is always ready.
            let over = poll_fn(|cx| {
                if sleep.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                ticks += usize::from(tick.as_mut().poll(cx).is_ready());
                Poll::Ready(false)
            });
            rounds += 1;
            if over.await || rounds == 1_000 {
                return (ticks, rounds);
            }
        }
    };
    let mut handle = executor.spawn(pool(), rounds).unwrap();
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap(), (9, 100));
}

#[test]
fn an_interval_goes_on_from_where_it_is_set_to() {
    let sim = Sim::new(1);
    let mut interval = sim.timers().interval_at(at(ms(10)), ms(10));
    let wakes = Arc::default();
    assert_eq!(interval.period(), ms(10));
    interval.reset_at(at(ms(3)));
    for tick in [3, 13, 23] {
        let mut next = pin!(interval.tick());
        assert!(poll_with(next.as_mut(), &wakes).is_pending());
        sim.set_clock(at(ms(tick)));
        sim.run(0);
        assert_eq!(poll_with(next, &wakes), Poll::Ready(at(ms(tick))));
    }
}

#[test]
fn far_deadlines_saturate() {
    let sim = Sim::new(1);
    let wakes = Arc::default();
    let mut forever = pin!(sim.executor.sleep(Duration::MAX));
    assert_eq!(forever.deadline(), Instant::MAX);
    assert!(poll_with(forever.as_mut(), &wakes).is_pending());
    assert_eq!(sim.sleeps_until(0), None);
    let mut interval = sim.timers().interval_at(Instant::MAX, Duration::MAX);
    assert!(poll_with(pin!(interval.tick()), &wakes).is_pending());
}

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// Sleeps of random lengths on three workers, reset and dropped at random. None ends early, and all that stay end.
#[test]
fn random_sleeps_are_never_early() {
    let seed = 0xF11C;
    println!("seed {seed:#x}");
    let mut random = random(seed);
    let sim = Sim::new(3);
    static MEMORY: TaskPool<512, 4096> = TaskPool::new();
    let timers = sim.timers();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (mut handles, mut live) = (Vec::new(), 0);
    for i in 0..3_000 {
        let deadline = timers.now().after_nanos(random(50_000_000));
        let (log, again) = (Arc::clone(&log), random(4) == 0);
        let task = async move {
            let mut sleep = pin!(timers.sleep_until(deadline));
            let mut last = deadline;
            sleep.as_mut().await;
            if again {
                last = last.after_nanos(1_000_000);
                sleep.as_mut().reset(last);
                sleep.await;
            }
            log.lock().unwrap().push(timers.now().nanos_since(last));
            assert!(timers.now() >= last);
        };
        let handle = sim.executor.spawn(&MEMORY, task).unwrap();
        if random(5) == 0 {
            handles.push(handle)
        } else {
            live += 1;
            handle.detach()
        }
        sim.on(random(3) as u16, |worker| worker.run_for(3));
        sim.executor.platform().advance(Duration::from_nanos(random(40_000)));
        if i % 7 == 0 {
            if let Some(handle) = handles.pop() {
                handle.abort();
            }
        }
    }
    sim.settle();
    handles.iter().for_each(filch::JoinHandle::abort);
    sim.settle();
    let mut vain = 0;
    while let Some(next) = (0..3).filter_map(|i| sim.sleeps_until(i)).min() {
        sim.set_clock(next.max(timers.now()));
        vain += u32::from(sim.settle() == 0);
    }
    // A slot with many distant timers is spread when its time comes.
    assert!(vain < 10, "workers were woken {vain} times for nothing");
    let late = log.lock().unwrap();
    assert!(late.len() >= live, "{} of {live} ended", late.len());
}

/// Nothing, a nanosecond, and the ends of what a `Duration` and the clock can hold.
const EXTREMES: [Duration; 8] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_secs(1),
    Duration::from_nanos(u64::MAX - 1),
    Duration::from_nanos(u64::MAX),
    Duration::from_secs(u64::MAX),
    Duration::MAX.saturating_sub(Duration::from_nanos(1)),
    Duration::MAX,
];

/// Points in time from the begin of the clock to its end.
fn times(now: Instant) -> [Instant; 7] {
    let mid = Instant::from_nanos(u64::MAX / 2);
    let (last, end) = (Instant::from_nanos(u64::MAX - 1), Instant::MAX);
    [Instant::ZERO, Instant::from_nanos(1), now, now + Duration::from_nanos(1), mid, last, end]
}

/// By numbers with room for all.
fn sum(t: Instant, d: Duration) -> Instant {
    let nanos = u128::from(t.as_nanos()).saturating_add(d.as_nanos());
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[test]
fn instants_saturate() {
    for t in times(at(ms(7))) {
        for d in EXTREMES {
            assert_eq!(t + d, sum(t, d));
            let nanos = u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
            assert_eq!(t.after_nanos(nanos), sum(t, d));
        }
        for other in times(at(ms(7))) {
            let apart = t.as_nanos().saturating_sub(other.as_nanos());
            assert_eq!(t.nanos_since(other), apart);
            assert_eq!(t - other, Duration::from_nanos(apart));
        }
    }
}

/// Each function of time, with each duration, at each time of the clock: none panics, none fires early, and what is due fires.
#[test]
fn timers_bear_all_durations_at_all_times() {
    for tick in [Duration::ZERO, Duration::from_nanos(1), ms(1), Duration::MAX] {
        for now in times(at(ms(7))) {
            for d in EXTREMES {
                let sim = Sim::with(1, quiet().timer_resolution(tick));
                let timers = sim.timers();
                if now > timers.now() {
                    sim.set_clock(now);
                }
                let now = timers.now();
                let wakes = Arc::default();
                let fires = |deadline: Instant| deadline <= now;
                let mut sleep = pin!(timers.sleep(d));
                let mut timeout = pin!(timers.timeout(d, pending::<()>()));
                let mut of_executor = pin!(sim.executor.sleep(d));
                assert_eq!(sleep.deadline(), sum(now, d));
                for round in 0..3 {
                    let ends = [
                        poll_with(sleep.as_mut(), &wakes).is_ready(),
                        poll_with(timeout.as_mut(), &wakes).is_ready(),
                        poll_with(of_executor.as_mut(), &wakes).is_ready(),
                    ];
                    // The first poll of such a sleep gives way, but not at the end of time.
                    let expected = fires(now + d) && (round > 0 || now == Instant::MAX);
                    let case = format!("{d:?} at {now:?}, tick {tick:?}, round {round}");
                    assert_eq!(ends, [expected; 3], "{case}");
                    sim.run(0);
                }
                for other in times(now) {
                    let mut until = pin!(timers.sleep_until(other));
                    let mut timed = pin!(timers.timeout_at(other, pending::<()>()));
                    assert_eq!(poll_with(until.as_mut(), &wakes).is_ready(), fires(other));
                    assert_eq!(poll_with(timed.as_mut(), &wakes).is_ready(), fires(other));
                    until.as_mut().reset(sum(now, d));
                    timed.as_mut().reset(sum(now, d));
                    assert_eq!(until.deadline(), now + d);
                    sim.run(0);
                    assert_eq!(poll_with(until, &wakes).is_ready(), fires(now + d));
                    assert_eq!(poll_with(timed, &wakes).is_ready(), fires(now + d));
                }
            }
        }
    }
}

/// A tick that is taken late, with each policy: it is the one that was due, and the next one is no earlier.
#[test]
fn intervals_bear_all_periods_at_all_times() {
    for policy in [MissedTick::Burst, MissedTick::Delay, MissedTick::Skip] {
        for period in EXTREMES {
            for late in times(at(ms(7))) {
                let sim = Sim::new(1);
                let wakes = Arc::default();
                let mut interval = sim.timers().interval(period).missed_tick(policy);
                assert_eq!(interval.period(), period);
                let first = poll_with(pin!(interval.tick()), &wakes);
                assert_eq!(first, Poll::Ready(Instant::ZERO));
                sim.set_clock(late.max(sim.timers().now()));
                let now = sim.timers().now();
                let mut last = Instant::ZERO;
                for _ in 0..3 {
                    sim.run(0);
                    match poll_with(pin!(interval.tick()), &wakes) {
                        Poll::Ready(due) => {
                            assert!(due <= now && due >= last, "{policy:?} {period:?} {late:?}");
                            last = due;
                        }
                        Poll::Pending => break,
                    }
                }
                interval.reset();
                let next = sum(now, period);
                assert_eq!(poll_with(pin!(interval.tick()), &wakes).is_ready(), next <= now);
                for other in times(now) {
                    interval.reset_at(other);
                    assert_eq!(poll_with(pin!(interval.tick()), &wakes).is_ready(), other <= now);
                    let mut at = sim.timers().interval_at(other, period).missed_tick(policy);
                    assert_eq!(poll_with(pin!(at.tick()), &wakes).is_ready(), other <= now);
                }
            }
        }
    }
}

#[test]
fn configurations_bear_all_durations() {
    for d in EXTREMES {
        let config = Config::new().park_timeout(Some(d)).poll_limit(Some(d)).job_slice(d);
        let sim =
            Sim::with(1, config.timer_resolution(d).watchdog(Some((d.max(ms(1)), d.max(ms(1))))));
        let mut sleep = Box::pin(sim.timers().sleep(ms(5)));
        assert!(poll_with(sleep.as_mut(), &Arc::default()).is_pending());
        sim.set_clock(at(ms(5)));
        sim.run(0);
        assert!(poll_with(sleep.as_mut(), &Arc::default()).is_ready());
    }
}
