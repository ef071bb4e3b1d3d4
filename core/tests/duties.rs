//! What a worker owes the other workers when it leaves its loop, for user code or for a sleep inside user code.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::sync::{Arc, Mutex};

use common::{
    Sim, Sleeps, ThreadExecutor, id, parked, pool, quiet, shared, stop, threads, until, watchdog,
};
use filch::{BuildError, Config, Platform as _, Step, yield_now};
use filch_test_support::on_wake;

/// An executor of two workers on threads of their own.
fn pair() -> &'static ThreadExecutor {
    let executor = parked(2, quiet());
    (0..2).for_each(|i| executor.start(id(i)).unwrap());
    until(|| (0..2).all(|i| executor.platform().sleeps(i) != Sleeps::Awake));
    executor
}

/// Forks until another worker has taken the other side. That worker does so as soon as it has asked.
fn until_stolen(fork: filch::Fork<'_>, stolen: &AtomicBool) {
    until(|| {
        fork.join(|_| (), |_| ());
        stolen.load(SeqCst)
    });
}

/// How worker 0 sleeps while it waits for worker 1. Worker 1 continues once it has seen worker 0 asleep.
fn sleeper(executor: &ThreadExecutor) -> Sleeps {
    until(|| executor.platform().sleeps(0) != Sleeps::Awake);
    executor.platform().sleeps(0)
}

#[test]
fn a_worker_that_waits_for_a_stolen_job_does_not_listen() {
    let _watchdog = watchdog();
    let executor = pair();
    let run = executor.spawner().spawn_pinned(pool(), id(0), async move {
        let stolen = AtomicBool::new(false);
        let run = executor.fork(|fork| {
            let a = |fork: filch::Fork<'_>| until_stolen(fork, &stolen);
            let b = |_: filch::Fork<'_>| {
                stolen.store(true, SeqCst);
                sleeper(executor)
            };
            fork.join(a, b).1
        });
        run.ok()
    });
    let mut run = run.unwrap();
    let slept = run.join().unwrap();
    assert_eq!(slept, Some(Sleeps::Waits), "it listens, and user code comes next");
    stop(executor);
}

#[test]
fn a_worker_that_waits_for_a_broadcast_does_not_listen() {
    let _watchdog = watchdog();
    let executor = pair();
    let run = executor.spawner().spawn_pinned(pool(), id(0), async move {
        let slept = std::sync::Mutex::new(Sleeps::Awake);
        let workers = executor.broadcast(|worker| {
            if worker == id(1) {
                *slept.lock().unwrap() = sleeper(executor);
            }
        });
        (workers.ok(), slept.into_inner().unwrap())
    });
    let mut run = run.unwrap();
    assert_eq!(run.join().unwrap(), (Some(2), Sleeps::Waits));
    stop(executor);
}

#[test]
fn a_worker_that_is_idle_listens() {
    let _watchdog = watchdog();
    // `pair` waits until both workers sleep.
    stop(pair());
}

/// On worker 0: a poll that pushes two tasks when `go` is set, and ends when one of them has run elsewhere.
fn pushes(executor: &'static ThreadExecutor, go: &Arc<AtomicBool>, ran: &Arc<AtomicUsize>) {
    let (go, ran) = (Arc::clone(go), Arc::clone(ran));
    let begun = Arc::new(AtomicBool::new(false));
    let has_begun = Arc::clone(&begun);
    let memory = pool();
    let task = executor.spawner().spawn_pinned(memory, id(0), async move {
        begun.store(true, SeqCst);
        until(|| go.load(SeqCst));
        for _ in 0..2 {
            let ran = Arc::clone(&ran);
            let count = async move {
                ran.fetch_add(1, SeqCst);
            };
            executor.spawn(memory, count).unwrap().detach();
        }
        until(|| ran.load(SeqCst) > 0);
    });
    task.unwrap().detach();
    until(|| has_begun.load(SeqCst));
}

#[test]
fn a_waker_of_a_timer_runs_outside_of_the_search() {
    let _watchdog = watchdog();
    let executor = parked(3, quiet());
    executor.start(id(0)).unwrap();
    executor.start(id(2)).unwrap();
    let (go, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    pushes(executor, &go, &ran);
    until(|| executor.platform().sleeps(2) != Sleeps::Awake);
    let worker = executor.worker(id(1)).unwrap();
    let mut sleep = pin!(executor.sleep(Duration::from_millis(1)));
    // Worker 2 must be woken for what worker 0 pushes now, because this worker is in user code.
    let wakes = Arc::clone(&ran);
    let waker = on_wake(move || {
        go.store(true, SeqCst);
        until(|| wakes.load(SeqCst) > 0);
    });
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    until(|| executor.platform().now() >= sleep.deadline());
    let _ = worker.step();
    assert!(ran.load(SeqCst) > 0);
    drop(worker);
    stop(executor);
}

#[test]
fn a_worker_that_waits_for_a_stolen_job_is_no_searcher() {
    let _watchdog = watchdog();
    let executor = parked(4, quiet());
    [0, 2, 3].into_iter().for_each(|i| executor.start(id(i)).unwrap());
    let (go, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    pushes(executor, &go, &ran);
    until(|| (2..4).all(|i| executor.platform().sleeps(i) != Sleeps::Awake));
    let worker = executor.worker(id(1)).unwrap();
    let mut sleep = pin!(executor.sleep(Duration::from_millis(1)));
    // A waker that is called after a search for tasks.
    let pushed = Arc::clone(&ran);
    let waker = on_wake(move || {
        let stolen = AtomicBool::new(false);
        let run = executor.fork(|fork| {
            let a = |fork: filch::Fork<'_>| until_stolen(fork, &stolen);
            let b = |_: filch::Fork<'_>| {
                stolen.store(true, SeqCst);
                until(|| executor.platform().sleeps(1) == Sleeps::Waits);
                // One of the two is in user code, so the other must be woken.
                go.store(true, SeqCst);
                until(|| pushed.load(SeqCst) > 0);
            };
            fork.join(a, b);
        });
        assert!(run.is_ok());
    });
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    until(|| executor.platform().now() >= sleep.deadline());
    let _ = worker.step();
    assert!(ran.load(SeqCst) > 0);
    drop(worker);
    stop(executor);
}

/// No worker sleeps, so none listens: one that runs a job after the other asks in between.
#[test]
fn a_worker_between_two_jobs_asks_for_io() {
    let _watchdog = watchdog();
    let executor = threads(2, quiet().spin_rounds(u32::MAX));
    // After short polls a worker looks at I/O at the ends of its ticks alone.
    for worker in 0..2 {
        let yields = async {
            for _ in 0..20_000 {
                filch::yield_now().await;
            }
        };
        executor.spawner().spawn_pinned(pool(), id(worker), yields).unwrap().join().unwrap();
    }
    executor.platform().asks.store(0, SeqCst);
    let run = executor.spawn(pool(), async move {
        let run = executor.fork(|fork| {
            let busy = || {
                let begin = executor.platform().now();
                while executor.platform().now() < begin + Duration::from_micros(50) {}
            };
            until(|| {
                fork.join(|_| busy(), |_| busy());
                executor.platform().asks.load(SeqCst) >= 3
            });
        });
        run.is_ok()
    });
    assert!(run.unwrap().join().unwrap());
    stop(executor);
}

/// Worker 0 calls this from the waker of a timer, and so in a batch, while worker 1 sleeps.
fn in_a_batch(f: impl Fn(&'static ThreadExecutor) + Send + Sync + 'static) {
    const HOUR: Duration = Duration::from_secs(3_600);
    let executor = parked(2, quiet().watchdog(Some((HOUR, HOUR))));
    let worker = executor.worker(id(0)).unwrap();
    executor.start(id(1)).unwrap();
    until(|| executor.platform().sleeps(1) != Sleeps::Awake);
    let called = Arc::new(AtomicBool::new(false));
    let calls = Arc::clone(&called);
    let waker = on_wake(move || {
        f(executor);
        calls.store(true, SeqCst);
    });
    let mut sleep = pin!(executor.sleep(Duration::from_millis(1)));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    until(|| executor.platform().now() >= sleep.deadline());
    let _ = worker.step();
    assert!(called.load(SeqCst));
    drop(worker);
    stop(executor);
}

/// Queues a task where worker 1 can take it, and ends when it has run.
fn queue_for_another(executor: &'static ThreadExecutor) {
    until(|| executor.platform().sleeps(1) != Sleeps::Awake);
    let (memory, ran) = (pool(), Arc::new(AtomicBool::new(false)));
    let runs = Arc::clone(&ran);
    // The second displaces the first to the ring.
    executor.spawn(memory, async move { runs.store(true, SeqCst) }).unwrap().detach();
    executor.spawn(memory, async {}).unwrap().detach();
    until(|| ran.load(SeqCst));
}

/// A waker that broadcasts: what the closure queues on its worker is made known at once.
#[test]
fn a_broadcast_in_a_waker_is_no_batch() {
    let _watchdog = watchdog();
    in_a_batch(|executor| {
        let had_its_part = AtomicBool::new(false);
        let all = executor.broadcast(|worker| {
            if worker != id(0) {
                return had_its_part.store(true, SeqCst);
            }
            until(|| had_its_part.load(SeqCst));
            queue_for_another(executor);
        });
        assert_eq!(all.ok(), Some(2));
    });
}

/// A waker that forks: the same.
#[test]
fn a_fork_in_a_waker_is_no_batch() {
    let _watchdog = watchdog();
    in_a_batch(|executor| assert!(executor.fork(|_| queue_for_another(executor)).is_ok()));
}

/// A worker that is stepped from a waker of its own is in a nested loop.
#[test]
fn a_step_in_a_waker_is_nested() {
    let (sim, mine) = shared(Sim::<256>::new(1));
    let executor = sim.executor;
    let polls = Arc::new(AtomicUsize::new(0));
    let (count, steps) = (Arc::clone(&polls), Arc::clone(&mine));
    let injected = Arc::new(AtomicUsize::new(usize::MAX));
    let outside = Arc::clone(&injected);
    let memory = pool();
    let waker = on_wake(move || {
        for _ in 0..3 {
            let count = Arc::clone(&count);
            let task = async move {
                count.fetch_add(1, SeqCst);
                // It goes to the end of the ring, which only a worker out of user code may touch.
                filch::yield_now().await;
            };
            executor.spawn(memory, task).unwrap().detach();
        }
        while steps.step(0) == Step::Polled {}
        // The batch goes on: what it wakes comes to this worker's own queues.
        executor.spawn(memory, async {}).unwrap().detach();
        outside.store(executor.metrics().totals().injector_depth, SeqCst);
    });
    let mut sleep = pin!(executor.sleep(Duration::from_millis(1)));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    executor.platform().advance(Duration::from_millis(2));
    let _ = sim.step(0);
    assert_eq!((polls.load(SeqCst), injected.load(SeqCst)), (3, 0));
    drop(waker);
    sim.settle();
}

#[test]
fn ticks_end_though_the_worker_is_idle_between_polls() {
    let _watchdog = watchdog();
    let executor = parked(1, quiet().spin_rounds(1_000));
    let polls = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let last = Arc::new(AtomicUsize::new(0));
    let waker = Arc::new(Mutex::new(None::<Waker>));
    let (count, wakes) = (Arc::clone(&polls), Arc::clone(&waker));
    // The waker is called when its worker has found nothing, before that worker sleeps.
    executor.platform().at_relax(move |_| {
        if let Some(waker) = wakes.lock().unwrap().take() {
            waker.wake();
        }
    });
    let (seen, longest) = (Arc::clone(&last), Arc::clone(&most));
    let so_far = Arc::clone(&polls);
    executor.platform().at_deliver(move |_| {
        let now = so_far.load(SeqCst);
        longest.fetch_max(now - seen.swap(now, SeqCst), SeqCst);
    });
    let task = core::future::poll_fn(move |cx| {
        *waker.lock().unwrap() = Some(cx.waker().clone());
        if count.fetch_add(1, SeqCst) == 10_000 { Poll::Ready(()) } else { Poll::Pending }
    });
    let mut task = executor.spawn(pool(), task).unwrap();
    executor.start(id(0)).unwrap();
    task.join().unwrap();
    stop(executor);
    let gap = most.load(SeqCst).max(polls.load(SeqCst) - last.load(SeqCst));
    assert!(gap <= 160, "{gap} polls without a look at I/O");
}

#[test]
fn a_worker_that_leaves_has_another_listen() {
    let _watchdog = watchdog();
    let executor = parked(2, quiet());
    let leaves = std::thread::spawn(|| {
        let worker = executor.worker(id(1)).unwrap();
        worker.park();
        drop(worker);
    });
    until(|| executor.platform().sleeps(1) == Sleeps::Listens);
    executor.start(id(0)).unwrap();
    until(|| executor.platform().sleeps(0) == Sleeps::Waits);
    executor.unpark_worker(id(1));
    until(|| executor.platform().sleeps(0) == Sleeps::Listens);
    leaves.join().unwrap();
    stop(executor);
}

#[test]
fn a_watchdog_that_never_sleeps_is_refused() {
    let never = Config::new().watchdog(Some((Duration::ZERO, Duration::from_millis(1))));
    let built = filch::Scheduler::over(
        common::Threads::new(),
        never,
        common::slots::<256, filch::parts::All>(2),
    );
    assert_eq!(built.err(), Some(BuildError::WatchdogNeverSleeps));
}

#[test]
fn the_first_sleep_beside_a_worker_that_took_itself_for_the_only_one_is_short() {
    let hour = Duration::from_secs(3_600);
    let (sim, for_tasks) = shared(Sim::offline(2, quiet().watchdog(Some((hour, hour)))));
    sim.attach(0);
    let executor = sim.executor;
    let task = async move {
        for_tasks.attach(1);
        // No worker has been notified of what worker 0 has pushed until now.
        let deadline = for_tasks.on(1, filch::Worker::begin_park).expect("nothing to do").unwrap();
        let now = executor.platform().now();
        assert!(deadline <= now + Duration::from_millis(1), "{deadline:?}");
        for_tasks.on(1, filch::Worker::end_park);
    };
    let mut handle = executor.spawn(pool(), task).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    common::output(&mut handle).unwrap();
}

#[test]
fn a_busy_worker_sees_to_one_that_is_stuck() {
    // No worker sleeps, so none has the watchdog role.
    let (sim, for_tasks) = shared(Sim::with(2, Config::new().spin_rounds(0)));
    let (executor, memory) = (sim.executor, pool());
    let busy = async {
        loop {
            executor.platform().advance(Duration::from_micros(10));
            yield_now().await;
        }
    };
    executor.spawner().spawn_pinned(memory, id(1), busy).unwrap().detach();
    let ran = Arc::new(AtomicUsize::new(0));
    let stuck = async move {
        for _ in 0..4 {
            let ran = Arc::clone(&ran);
            let count = async move {
                ran.fetch_add(1, SeqCst);
            };
            // Three in the ring, one in the LIFO slot.
            executor.spawn(memory, count).unwrap().detach();
        }
        let begin = executor.platform().now();
        while ran.load(SeqCst) < 4 {
            assert_eq!(for_tasks.step(1), Step::Polled);
            let waited = executor.platform().now() - begin;
            assert!(waited < Duration::from_millis(20), "{} of 4", ran.load(SeqCst));
        }
        drop(for_tasks);
    };
    let mut handle = executor.spawn(memory, stuck).unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    common::output(&mut handle).unwrap();
}

/// A worker sleeps in a wait that is too deep to help in, while another listens. That one gets a long poll: the blocked worker
/// listens in its place.
#[test]
fn a_blocked_worker_listens_when_the_only_other_one_polls() {
    let _watchdog = watchdog();
    let hour = Duration::from_secs(3600);
    let executor = parked(2, Config::new().nesting(0).watchdog(Some((hour, hour))));
    (0..2).for_each(|i| executor.start(id(i)).unwrap());
    let sleeps = |worker| executor.platform().sleeps(worker);
    let two_sleep = || (0..2).all(|i| sleeps(i) != Sleeps::Awake);
    until(two_sleep);
    // The one that does not listen is blocked. The other way round the watcher would be left on its word, for an hour.
    let (blocks, polls) = if sleeps(0) == Sleeps::Listens { (1, 0) } else { (0, 1) };
    let done = Arc::new(AtomicBool::new(false));
    // Both sleep now as they do later: only the poll itself tells that it has begun.
    let begun = Arc::new(AtomicBool::new(false));
    let (waits, begins) = (Arc::clone(&done), Arc::clone(&begun));
    let blocked = executor.spawner().spawn_pinned(pool(), id(blocks), async move {
        until(|| sleeps(polls) == Sleeps::Listens);
        begins.store(true, SeqCst);
        executor.help_until(|| waits.load(SeqCst))
    });
    until(|| begun.load(SeqCst));
    // If the other's first, short sleep has just ended, the blocked worker listens already.
    until(two_sleep);
    let long = executor.spawner().spawn_pinned(pool(), id(polls), async move {
        until(|| sleeps(blocks) == Sleeps::Listens);
        done.store(true, SeqCst);
        executor.unpark_worker(id(blocks));
    });
    long.unwrap().join().unwrap();
    assert!(blocked.unwrap().join().unwrap());
    stop(executor);
}

/// The condition of a wait that is too deep to help in queues a task, and no worker watches: the other worker takes it.
#[test]
fn what_the_condition_of_a_deep_wait_queues_goes_to_the_others() {
    let _watchdog = watchdog();
    for at in 0..3 {
        let executor = threads(2, quiet().nesting(0));
        let done = Arc::new(AtomicBool::new(false));
        let blocked = executor.spawner().spawn_pinned(pool(), id(0), async move {
            let mut calls = 0;
            executor.help_until(|| {
                if calls == at {
                    let ends = Arc::clone(&done);
                    let task = async move {
                        ends.store(true, SeqCst);
                        executor.unpark_worker(id(0));
                    };
                    executor.spawn(pool(), task).unwrap().detach();
                }
                calls += 1;
                // The wait begins again once, so that the condition is asked at each place.
                if calls <= at {
                    executor.unpark_worker(id(0));
                }
                done.load(SeqCst)
            })
        });
        assert!(blocked.unwrap().join().unwrap(), "in call {at}");
        stop(executor);
    }
}
