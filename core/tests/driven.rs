//! Workers that another loop drives: stepped when there is something to do, at rest between the two halves of a park.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::Future,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::atomic::{
        AtomicBool,
        Ordering::{Relaxed, SeqCst},
    },
    task::{Context, Waker},
    time::Duration,
};
use std::{
    panic::catch_unwind,
    rc::Rc,
    sync::{Arc, Mutex},
};

use common::{
    ManualExecutor, Room, Sim, Sleeps, ThreadExecutor, id, parked, pool, shared, slots, stop,
    until, watchdog,
};
use filch::{
    Config, Scheduler, SpawnErrorKind, Step, Turn, Worker,
    parts::{Cores, Parts},
};

/// The code of the other loop that drives worker 0, while that rests: the other loop must be told of a task that comes then.
fn is_told_of_a_task(f: impl FnOnce(&'static ManualExecutor)) {
    let sim = Sim::new(1);
    assert_eq!(sim.on(0, Worker::begin_park), Some(None));
    sim.on(0, |_| f(sim.executor));
    sim.executor.spawn(pool(), async {}).unwrap().detach();
    let woken = sim.executor.platform().woken();
    sim.settle();
    assert_eq!(woken, [0], "a task is queued, and the other loop does not know");
}

#[test]
fn a_broadcast_while_it_rests_loses_no_wake() {
    is_told_of_a_task(|executor| assert_eq!(executor.broadcast(|_| ()).ok(), Some(1)));
}

#[test]
fn a_fork_while_it_rests_loses_no_wake() {
    is_told_of_a_task(|executor| {
        let run = executor.fork(|fork| fork.join(|_| 1, |_| 2));
        assert_eq!(run.ok(), Some((1, 2)));
    });
}

#[test]
fn a_wait_while_it_rests_loses_no_wake() {
    is_told_of_a_task(|executor| assert!(executor.help_until(|| true)));
}

#[test]
fn a_timer_that_its_thread_polls_while_it_rests_asks_for_it() {
    let sim = Sim::new(1);
    assert_eq!(sim.on(0, Worker::begin_park), Some(None));
    let mut sleep = pin!(sim.executor.sleep(Duration::from_millis(3)));
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(sim.on(0, |_| sleep.as_mut().poll(cx)).is_pending());
    assert_eq!(sim.executor.platform().woken(), [0], "it has no deadline, and needs one now");
}

/// The other loop may take long until its next step: no other worker is to rely on this one meanwhile.
#[test]
fn a_park_that_finds_a_task_leaves_no_duty() {
    let sim = Sim::new(2);
    assert!(sim.on(1, Worker::begin_park).is_some());
    sim.executor.spawn(pool(), async {}).unwrap().detach();
    assert_eq!(sim.executor.platform().woken(), [1]);
    assert_eq!(sim.step(1), Step::Polled);
    assert!(sim.on(1, Worker::begin_park).is_some());

    // As the worker looks before it rests, there is a task of which no sleeper has been told.
    sim.executor.unpark_worker(id(0));
    let (begun, owes) = sim.on(0, |worker| (worker.begin_park(), sim.executor.has_duties()));
    assert_eq!((begun, owes), (None, false));
    sim.executor.spawn(pool(), async {}).unwrap().detach();
    assert_eq!(sim.executor.platform().woken(), [1], "worker 0 does not search");
    sim.settle();
}

#[test]
fn a_park_in_its_own_poll_is_none() {
    let (sim, inside) = shared(Sim::<256>::new(2));
    let seen = Arc::new(Mutex::new(None));
    let log = Arc::clone(&seen);
    let task = async move {
        assert!(inside.on(1, Worker::begin_park).is_some());
        let begun = inside.on(0, Worker::begin_park);
        *log.lock().unwrap() = Some((begun, inside.executor.has_duties()));
        inside.on(1, Worker::end_park);
    };
    sim.executor.spawn(pool(), task).unwrap().detach();
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(*seen.lock().unwrap(), Some((None, false)));
    sim.settle();
}

/// What it leaves in the injector is no reason for a single worker to notify itself.
#[test]
fn a_single_worker_that_has_done_all_rests() {
    fn rests<F: Parts>() -> bool {
        type Few<F> = Scheduler<common::Manual, Room<8, F>, 8>;
        let executor = Scheduler::over(common::Manual::new(), common::quiet(), slots(1)).unwrap();
        let executor: &'static Few<F> = common::forever(Box::new(executor));
        let worker = executor.worker(id(0)).unwrap();
        assert_eq!(worker.begin_park(), Some(None));
        for _ in 0..3 {
            executor.spawn(pool(), async {}).unwrap().detach();
        }
        // The notice ends here.
        worker.end_park();
        assert_eq!(worker.run_for(100), 3);
        worker.begin_park().is_some()
    }
    assert!(rests::<Cores>());
    assert!(rests::<()>());
}

/// An executor of so many workers, of which all but worker 0 run on threads, and sleep; with the watchdog.
fn beside_threads(workers: u16) -> &'static ThreadExecutor {
    let executor = parked(workers, Config::new().spin_rounds(0));
    (1..workers).for_each(|i| executor.start(id(i)).unwrap());
    until(|| (1..workers).all(|i| executor.platform().sleeps(i) != Sleeps::Awake));
    executor
}

/// Spawns a task that says when it has run.
fn spawn(executor: &'static ThreadExecutor) -> Arc<AtomicBool> {
    let ran = Arc::new(AtomicBool::new(false));
    let runs = Arc::clone(&ran);
    executor.spawn(pool(), async move { runs.store(true, Relaxed) }).unwrap().detach();
    ran
}

#[test]
fn a_task_in_the_lifo_slot_between_two_steps_is_taken() {
    let _watchdog = watchdog();
    let executor = beside_threads(2);
    let worker = executor.worker(id(0)).unwrap();
    let ran = Arc::new(Mutex::new(None));
    let spawned = Arc::clone(&ran);
    let spawns = async move { *spawned.lock().unwrap() = Some(spawn(executor)) };
    executor.spawner().spawn_pinned(pool(), id(0), spawns).unwrap().detach();
    assert_eq!(worker.step(), Step::Polled);
    let ran = ran.lock().unwrap().take().expect("it was polled");
    // The next step does not come.
    until(|| ran.load(SeqCst));
    drop(worker);
    stop(executor);
}

#[test]
fn a_task_behind_the_closure_of_a_broadcast_is_taken() {
    let _watchdog = watchdog();
    let executor = beside_threads(3);
    let worker = executor.worker(id(0)).unwrap();
    let calls = executor.broadcast(|me| {
        if me == id(1) {
            let ran = spawn(executor);
            until(|| ran.load(SeqCst));
        }
    });
    assert_eq!(calls.ok(), Some(3));
    drop(worker);
    stop(executor);
}

/// A waker of I/O makes a broadcast, which first delivers the rest of the events: another waker, which takes long.
#[test]
fn a_task_behind_a_waker_in_a_waker_is_taken() {
    let _watchdog = watchdog();
    let executor = parked(2, Config::new().spin_rounds(0));
    let deliveries = Mutex::new(0);
    let seen = Arc::new(AtomicBool::new(false));
    let sees = Arc::clone(&seen);
    executor.platform().at_deliver(move |worker| {
        if worker != Some(id(0)) {
            return;
        }
        let delivery = {
            let mut deliveries = deliveries.lock().unwrap();
            *deliveries += 1;
            *deliveries
        };
        if delivery == 1 {
            executor.start(id(1)).unwrap();
            until(|| executor.platform().sleeps(1) != Sleeps::Awake);
            assert!(executor.broadcast(|_| ()).is_ok());
        } else if delivery == 2 {
            let ran = spawn(executor);
            until(|| ran.load(SeqCst));
            sees.store(true, Relaxed);
        }
    });
    let worker = executor.worker(id(0)).unwrap();
    let _ = worker.step();
    drop(worker);
    stop(executor);
    assert!(seen.load(Relaxed));
}

#[test]
fn a_turn_says_what_comes_next() {
    let sim = Sim::new(1);
    let turn = |polls| sim.on(0, |worker| worker.turn(polls));
    let task = sim.executor.spawn(pool(), async {
        for _ in 0..3 {
            filch::yield_now().await;
        }
    });
    let task = task.unwrap();
    assert_eq!((turn(0), turn(3)), (Turn::Again, Turn::Again));
    // The fourth poll is the last for now.
    assert_eq!(turn(64), Turn::Rests(None));
    assert!(task.is_finished());
    let task = sim.executor.spawn(pool(), sim.executor.sleep(Duration::from_millis(3))).unwrap();
    let Turn::Rests(Some(deadline)) = turn(64) else { panic!("a timer") };
    assert_eq!(deadline.as_nanos(), 3_000_000);
    sim.executor.platform().advance(Duration::from_millis(3));
    assert_eq!(turn(64), Turn::Rests(None));
    assert!(task.is_finished());
    sim.on(0, |_| sim.executor.begin_shutdown());
    assert_eq!(turn(64), Turn::Stopped);
}

/// On an only worker each task may spawn local ones, and so may the code between its steps.
#[test]
fn an_only_worker_takes_local_tasks_from_all_its_code() {
    let sim = Sim::new(1);
    let (spawner, pool, log) = (sim.executor.spawner(), pool(), common::Log::new());
    let local = |name: usize| {
        let (seen, not_send) = (log.clone(), Rc::new(name));
        async move { seen.push(*not_send) }
    };
    // A thread that is no worker, and the loop that drives the worker, are not in a poll.
    assert_eq!(spawner.spawn_local(pool, local(0)).unwrap_err().kind, SpawnErrorKind::NotPinned);
    let refused = sim.on(0, |_| spawner.spawn_local(pool, local(0)).unwrap_err());
    assert_eq!(refused.kind, SpawnErrorKind::NotPinned);
    sim.on(0, |_| sim.executor.as_poll(|| spawner.spawn_local(pool, local(1)).unwrap().detach()));
    let seen = log.clone();
    let free = async move {
        let not_send = async move { seen.push(*Rc::new(2)) };
        spawner.spawn_local(pool, not_send).unwrap().detach();
    };
    spawner.spawn(pool, free).unwrap().detach();
    assert_eq!(sim.run(0), 3);
    assert_eq!(log.take(), [1, 2]);
    // Another worker may run the next poll of a task, if there is one.
    let sim = Sim::new(2);
    let refused = sim.on(0, |_| {
        sim.executor.as_poll(|| sim.executor.spawner().spawn_local(pool, async {}).unwrap_err())
    });
    assert_eq!(refused.kind, SpawnErrorKind::NotPinned);
}

#[test]
fn code_as_a_poll_leaves_the_worker_as_it_was() {
    let sim = Sim::new(1);
    assert_eq!(sim.on(0, |worker| worker.turn(8)), Turn::Rests(None));
    let ran = Arc::new(AtomicBool::new(false));
    let runs = Arc::clone(&ran);
    let code = || {
        sim.executor.as_poll(|| {
            assert!(!sim.executor.has_duties());
            sim.executor.spawn(pool(), async move { runs.store(true, Relaxed) }).unwrap().detach();
            // Once more is a part of this.
            sim.executor.as_poll(|| panic!("on purpose"))
        })
    };
    let outcome = sim.on(0, |worker| {
        assert!(!worker.is_at_work());
        sim.executor.as_poll(|| assert!(worker.is_at_work()));
        assert_eq!(sim.executor.platform().woken(), [0], "it rests no more");
        let outcome = catch_unwind(AssertUnwindSafe(code));
        assert!(!worker.is_at_work());
        outcome
    });
    assert!(outcome.is_err());
    assert!(!ran.load(Relaxed));
    assert_eq!(sim.on(0, |worker| worker.turn(8)), Turn::Rests(None));
    assert!(ran.load(Relaxed));
}

#[test]
fn a_task_of_code_as_a_poll_is_taken() {
    let _watchdog = watchdog();
    let executor = beside_threads(2);
    let worker = executor.worker(id(0)).unwrap();
    let ran = executor.as_poll(|| spawn(executor));
    // The next step does not come.
    until(|| ran.load(SeqCst));
    drop(worker);
    stop(executor);
}
