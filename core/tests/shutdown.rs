//! The end of an executor: draining, cancelling, survivors, reopening; and that the figures add up all the while.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{pending, poll_fn},
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    sync::{Arc, Mutex},
    task::Wake,
    thread,
};

use common::{Drops, Flag, Log, Sim, id, output, pool, quiet, stop, threads, until, watchdog};
use filch::{
    Config, Instant, Platform as _, RunError, ShutdownError, SpawnErrorKind, TaskOptions, TaskPool,
    yield_now,
};

#[test]
fn an_executor_that_has_nothing_to_do_stops() {
    let sim = Sim::offline(2, quiet());
    assert!(!sim.executor.is_stopped());
    assert_eq!(sim.executor.shutdown(Instant::MAX, |_| {}), Ok(0));
    assert!(sim.executor.is_stopped());
    assert_eq!(sim.executor.shutdown(Instant::MAX, |_| {}), Ok(0), "twice is once");
    assert_eq!(sim.executor.run(id(0)), Err(RunError::Stopped));
}

#[test]
fn without_a_worker_the_caller_finishes_the_tasks() {
    let sim = Sim::offline(3, quiet());
    let (executor, pool, log) = (sim.executor, pool(), Log::new());
    for i in 0..10 {
        let log = log.clone();
        let future = async move {
            yield_now().await;
            log.push(i);
        };
        if i % 2 == 0 {
            executor.spawn(pool, future).unwrap().detach();
        } else {
            executor.spawner().spawn_pinned(pool, id(i % 3), future).unwrap().detach();
        }
    }
    assert_eq!(executor.shutdown(Instant::MAX, |_| {}), Ok(0));
    let mut ran = log.take();
    ran.sort_unstable();
    assert_eq!(ran, (0..10).collect::<Vec<_>>());
    assert_eq!(executor.platform().current_worker(), None);
}

#[test]
fn the_survivors_of_the_deadline_are_shown_and_cancelled() {
    let sim = Sim::offline(1, quiet());
    let (executor, pool, drops) = (sim.executor, pool(), Drops::new());
    let deadline = executor.platform().now() + Duration::from_millis(5);
    let line = line!() + 3;
    for name in ["one that waits", "another"] {
        let tally = drops.tally();
        let named = TaskOptions::new().name(name);
        let future = async move {
            let _tally = tally;
            pending::<()>().await;
        };
        core::mem::forget(executor.spawner().spawn_with(named, pool, future).unwrap());
    }
    let pinned = TaskOptions::new().name("pinned").pinned(id(0));
    core::mem::forget(executor.spawner().spawn_with(pinned, pool, pending::<()>()).unwrap());
    executor.spawn(pool, async {}).unwrap().detach();
    let mut survivors = Vec::new();
    assert_eq!(executor.shutdown(deadline, |task| survivors.push(task)), Ok(3));
    assert!(executor.platform().now() >= deadline);
    let mut names: Vec<_> = survivors.iter().map(|task| task.name.unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["another", "one that waits", "pinned"]);
    for task in survivors {
        let at = task.location.unwrap();
        assert!(at.file().ends_with("shutdown.rs"), "{at}");
        assert!((line..line + 12).contains(&at.line()), "{at}, not {line}");
        assert_eq!(task.worker, (task.name == Some("pinned")).then_some(id(0)));
    }
    assert_eq!(drops.count(), 2);
    let totals = executor.metrics().totals();
    assert_eq!((totals.spawned, totals.completed, totals.live), (4, 4, 0));
}

#[test]
fn a_worker_does_not_wait_for_its_own_end() {
    let sim = Sim::new(1);
    let executor = sim.executor;
    let mut handle = executor
        .spawn(pool(), async move { executor.shutdown(Instant::MAX, |_| unreachable!()) })
        .unwrap();
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap(), Err(ShutdownError::OnWorker));
    executor.spawn(pool(), async {}).expect("nothing was done").detach();
    assert_eq!(
        sim.on(0, |_| executor.shutdown(Instant::ZERO, |_| {})),
        Err(ShutdownError::OnWorker)
    );
    assert_eq!(sim.run(0), 1);
}

#[test]
fn tasks_spawned_by_tasks_while_draining_still_run() {
    let _watchdog = watchdog();
    let executor = threads(2, Config::new());
    let (pool, go, ran) = (pool(), Flag::new(), Arc::new(AtomicUsize::new(0)));
    let (count, wait) = (Arc::clone(&ran), go.wait());
    executor
        .spawn(pool, async move {
            wait.await;
            for _ in 0..10 {
                let count = Arc::clone(&count);
                let child = async move {
                    yield_now().await;
                    count.fetch_add(1, SeqCst);
                };
                executor.spawn(pool, child).unwrap().detach();
                yield_now().await;
            }
        })
        .unwrap()
        .detach();
    until(|| go.is_awaited());
    let end = thread::spawn(move || executor.shutdown(Instant::MAX, |_| {}));
    // Once the shutdown has begun, every spawn from outside is refused.
    until(|| match executor.spawn(pool, async {}) {
        Ok(handle) => {
            handle.detach();
            false
        }
        // The other thread has not come that far, and the workers do not keep up.
        Err(refused) if refused.kind == SpawnErrorKind::Full => false,
        Err(refused) => {
            assert_eq!(refused.kind, SpawnErrorKind::Shutdown);
            true
        }
    });
    assert!(!executor.is_stopped());
    go.set();
    assert_eq!(end.join().unwrap(), Ok(0));
    assert_eq!(ran.load(SeqCst), 10);
    executor.platform().join();
}

/// A waker that spawns, in no task.
struct Spawns(Mutex<Option<Result<(), SpawnErrorKind>>>, &'static common::ThreadExecutor);

impl Wake for Spawns {
    fn wake(self: Arc<Self>) {
        let spawned = self.1.spawn(pool(), async {}).map(filch::JoinHandle::detach);
        *self.0.lock().unwrap() = Some(spawned.map_err(|error| error.kind));
    }
}

/// No task of its own keeps the executor from its end meanwhile.
#[test]
fn a_waker_in_no_task_cannot_spawn_while_draining() {
    let _watchdog = watchdog();
    let executor = threads(1, quiet());
    let flag = Flag::new();
    let waits = executor.spawn(pool(), flag.clone().wait()).unwrap();
    let spawns = Arc::new(Spawns(Mutex::new(None), executor));
    let ends = thread::spawn(|| executor.shutdown(Instant::MAX, |_| {}));
    until(|| {
        let probe = executor.spawn(pool(), async {});
        probe.map(filch::JoinHandle::detach).is_err()
    });
    let mut sleep = pin!(executor.sleep(Duration::from_millis(1)));
    let waker = Waker::from(Arc::clone(&spawns));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    until(|| spawns.0.lock().unwrap().is_some());
    assert_eq!(*spawns.0.lock().unwrap(), Some(Err(SpawnErrorKind::Shutdown)));
    flag.set();
    drop(waits);
    assert_eq!(ends.join().unwrap(), Ok(0));
    executor.platform().join();
}

#[test]
fn cancelling_drops_every_future_and_nothing_runs_afterwards() {
    let _watchdog = watchdog();
    static POOL: TaskPool<256, 600> = TaskPool::new();
    let executor = threads(3, Config::new());
    let (drops, polls) = (Drops::new(), Arc::new(AtomicUsize::new(0)));
    let flag = Flag::new();
    for i in 0..600_usize {
        let (tally, polls, wait) = (drops.tally(), Arc::clone(&polls), flag.wait());
        let restless = poll_fn(move |cx| {
            polls.fetch_add(1, SeqCst);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let future = async move {
            let _tally = tally;
            match i % 3 {
                0 => restless.await,
                1 => wait.await,
                _ => pending().await,
            }
        };
        let handle = match i % 4 {
            0 => executor.spawner().spawn_pinned(&POOL, id((i % 3) as u16), future).unwrap(),
            _ => executor.spawn(&POOL, future).unwrap(),
        };
        // Some are detached. Those that nothing can wake any more end by themselves.
        if i % 5 == 0 { handle.detach() } else { core::mem::forget(handle) }
    }
    until(|| polls.load(SeqCst) > 10_000);
    let mut survivors = 0;
    let survived = executor.shutdown(Instant::ZERO, |_| survivors += 1).unwrap();
    assert_eq!(survived, survivors);
    assert!(survived > 400, "{survived}");
    assert_eq!(drops.count(), 600);
    let totals = executor.metrics().totals();
    assert_eq!((totals.spawned, totals.completed, totals.live), (600, 600, 0));
    let polls_then = polls.load(SeqCst);
    flag.set();
    executor.platform().join();
    assert_eq!(polls.load(SeqCst), polls_then);
    assert!(executor.metrics().workers().all(|(_, w)| !w.online && w.queue_depth == 0));
}

#[test]
fn cancelled_tasks_cannot_spawn() {
    let sim = Sim::new(1);
    let (executor, pool, log) = (sim.executor, pool(), Log::new());
    struct SpawnsInDrop(&'static common::ManualExecutor, Log<SpawnErrorKind>);
    impl Drop for SpawnsInDrop {
        fn drop(&mut self) {
            static POOL: TaskPool<128, 1> = TaskPool::new();
            let refused = self.0.spawn(&POOL, pending::<()>()).unwrap_err();
            self.1.push(refused.kind);
        }
    }
    let bomb = SpawnsInDrop(executor, log.clone());
    let handle = executor
        .spawn(pool, async move {
            let _bomb = bomb;
            pending::<()>().await;
        })
        .unwrap();
    sim.run(0);
    executor.begin_shutdown();
    sim.run(0);
    assert!(handle.is_finished());
    assert_eq!(log.take(), [SpawnErrorKind::Shutdown]);
    assert!(executor.is_stopped());
}

#[test]
fn tasks_pinned_to_an_absent_worker_do_not_hold_up_the_end() {
    let _watchdog = watchdog();
    for patience in [Duration::ZERO, Duration::MAX] {
        let executor = common::parked(2, Config::new());
        executor.start(id(0)).unwrap();
        until(|| executor.metrics().workers().any(|(_, w)| w.online));
        let (pool, drops) = (pool(), Drops::new());
        // One task has never run; another wakes a task from the worker that is left.
        let (flag, tally) = (Flag::new(), drops.tally());
        let wait = flag.wait();
        let pinned = async move {
            let _tally = tally;
            wait.await;
        };
        executor.spawner().spawn_pinned(pool, id(1), pinned).unwrap().detach();
        let waker = async move {
            while !flag.is_awaited() {
                yield_now().await;
            }
            flag.set();
        };
        if patience == Duration::MAX {
            executor.spawn(pool, waker).unwrap().detach();
        }
        let deadline = executor.platform().now() + patience;
        let survivors = executor.shutdown(deadline, |_| {}).unwrap();
        assert_eq!(survivors, usize::from(patience == Duration::ZERO));
        assert_eq!(drops.count(), 1);
        executor.platform().join();
    }
}

#[test]
fn an_executor_opens_again() {
    let sim = Sim::new(2);
    let executor = sim.executor;
    assert!(!executor.reopen(), "it is open");
    for round in 0..5 {
        let mut handle = executor.spawn(pool(), async move { round }).unwrap();
        sim.run(1);
        assert_eq!(output(&mut handle).unwrap(), round);
        executor.begin_shutdown();
        sim.run(0);
        assert!(executor.is_stopped());
        assert!(!executor.reopen(), "there are workers");
        sim.detach(0);
        sim.detach(1);
        assert!(executor.reopen());
        assert!(!executor.is_stopped());
        sim.attach(0);
        sim.attach(1);
    }
    assert_eq!(executor.metrics().totals().spawned, 5);
}

#[test]
fn a_shutdown_waits_for_the_poll_under_way() {
    let _watchdog = watchdog();
    let executor = threads(1, Config::new());
    let (entered, leave, left) = (Flag::new(), Flag::new(), Flag::new());
    let (e, l, done) = (entered.clone(), leave.clone(), left.clone());
    executor
        .spawn(pool(), async move {
            e.set();
            until(|| l.is_set());
            done.set();
        })
        .unwrap()
        .detach();
    until(|| entered.is_set());
    let end = thread::spawn(move || {
        executor.shutdown(Instant::ZERO, |_| {}).unwrap();
        left.is_set()
    });
    leave.set();
    assert!(end.join().unwrap());
    executor.platform().join();
}

#[test]
fn the_last_task_may_end_anywhere() {
    // A drain ends when the last task ends, whatever wakes that task, even if all workers sleep.
    let _watchdog = watchdog();
    for _ in 0..100 {
        let executor = threads(2, Config::new().spin_rounds(0));
        let flag = Flag::new();
        executor.spawn(pool(), flag.wait()).unwrap().detach();
        until(|| flag.is_awaited());
        let end = thread::spawn(move || executor.shutdown(Instant::MAX, |_| {}));
        flag.set();
        assert_eq!(end.join().unwrap(), Ok(0));
        executor.platform().join();
    }
}

#[test]
fn the_figures_add_up() {
    static POOL: TaskPool<192, 400> = TaskPool::new();
    let sim = Sim::new(3);
    let executor = sim.executor;
    let flag = Flag::new();
    executor
        .spawn(&POOL, async move {
            for i in 0..300_u32 {
                let future = async move {
                    if i % 2 == 0 {
                        yield_now().await;
                    }
                };
                executor.spawn(&POOL, future).unwrap().detach();
            }
        })
        .unwrap()
        .detach();
    for _ in 0..10 {
        core::mem::forget(executor.spawn(&POOL, flag.wait()).unwrap());
    }
    assert_eq!(executor.metrics().totals().spawned, 11);
    assert_eq!(executor.metrics().totals().injector_depth, 11);
    for round in 0..200_u16 {
        for i in 0..3 {
            sim.on(i, |w| w.run_for(usize::from((round + i) % 5)));
        }
        let totals = executor.metrics().totals();
        assert_eq!(totals.spawned - totals.completed, totals.live);
    }
    sim.settle();
    let totals = executor.metrics().totals();
    assert_eq!((totals.spawned, totals.completed, totals.live), (311, 301, 10));
    let mut seen = 0;
    executor.tasks(|task| {
        seen += 1;
        assert!(!task.scheduled && !task.cancelled && task.name.is_none());
        // The handle, the flag's waker, and the visit.
        assert_eq!(task.references, 3);
    });
    assert_eq!(seen, 10);
    let workers: Vec<_> = executor.metrics().workers().map(|(_, w)| w).collect();
    let sum = |f: fn(&filch::WorkerMetrics) -> usize| workers.iter().map(f).sum::<usize>();
    // One poll each, one more for half of the 300.
    assert_eq!(sum(|w| w.polls), 311 + 150);
    assert!(sum(|w| w.steals) > 0 && sum(|w| w.stolen) >= sum(|w| w.steals));
    assert!(sum(|w| w.injector_batches) > 0);
    assert_eq!(sum(|w| w.queue_depth), 0);
    assert!(workers.iter().all(|w| w.online));
    flag.set();
    sim.settle();
    assert_eq!(executor.metrics().totals().live, 0);
    let mut seen = 0;
    executor.tasks(|_| seen += 1);
    assert_eq!(seen, 0);
}

#[test]
fn tasks_are_shown_with_what_is_known_of_them() {
    let sim = Sim::new(2);
    let (executor, pool) = (sim.executor, pool());
    let options = TaskOptions::new().name("fetch").pinned(id(1));
    let named = executor.spawner().spawn_with(options, pool, pending::<()>()).unwrap();
    let plain = executor.spawn(pool, pending::<()>()).unwrap();
    let info = named.info().unwrap();
    assert_eq!((info.name, info.worker), (Some("fetch"), Some(id(1))));
    assert!(info.location.unwrap().file().ends_with("shutdown.rs"));
    assert!(info.scheduled);
    let info = plain.info().unwrap();
    assert_eq!((info.name, info.worker, info.location), (None, None, None));
    sim.settle();
    assert!(!named.info().unwrap().scheduled);
    let mut seen = Vec::new();
    executor.tasks(|task| seen.push(task.id));
    seen.sort_unstable();
    let mut known = [named.id().unwrap(), plain.id().unwrap()];
    known.sort_unstable();
    assert_eq!(seen, known);
    named.abort();
    assert!(named.info().unwrap().cancelled);
}

#[test]
fn spawns_against_a_shutdown_are_run_cancelled_or_refused() {
    let _watchdog = watchdog();
    for seed in 0..50_u64 {
        println!("round {seed}");
        let pool: &'static TaskPool<192, 512> = common::forever(Box::default());
        let executor = threads(2, Config::new());
        let drops = Drops::new();
        let spawners: Vec<_> = (0..3)
            .map(|_| {
                let drops = drops.clone();
                thread::spawn(move || {
                    let mut made = 0;
                    for i in 0..150 {
                        let tally = drops.tally();
                        made += 1;
                        let future = async move {
                            let _tally = tally;
                            for _ in 0..i % 3 {
                                yield_now().await;
                            }
                        };
                        match executor.spawn(pool, future) {
                            Ok(handle) => handle.detach(),
                            Err(refused) => assert_eq!(refused.kind, SpawnErrorKind::Shutdown),
                        }
                    }
                    made
                })
            })
            .collect();
        until(|| executor.metrics().totals().completed as u64 >= seed);
        stop(executor);
        let made: usize = spawners.into_iter().map(|t| t.join().unwrap()).sum();
        assert_eq!(drops.count(), made, "each future is dropped once");
    }
}
