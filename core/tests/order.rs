//! The order in which tasks run, on one worker and on several that are stepped by hand.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{Future, pending, poll_fn},
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::Poll,
    time::Duration,
};
use std::{rc::Rc, sync::Arc};

use common::{Drops, Flag, Log, Mine, Sim, id, output, pool, quiet};
use filch::{
    Config, JoinHandle, SpawnErrorKind, Spawner, Step, TaskPool, consume_budget, unconstrained,
    yield_now,
};

type Pool = &'static TaskPool<1024, 64>;

/// Spawns a task that logs `entry`.
fn log_task<T: Copy + Send + 'static>(spawner: Spawner, pool: Pool, log: &Log<T>, entry: T) {
    let log = log.clone();
    spawner.spawn(pool, async move { log.push(entry) }).unwrap().detach();
}

/// Runs a task on worker 0 that spawns tasks `0..n`. Returns the order in which they ran.
fn spawn_from_task(sim: &Sim, n: usize) -> Vec<usize> {
    let (spawner, pool, log) = (sim.executor.spawner(), pool(), Log::new());
    let seen = log.clone();
    spawner
        .spawn(pool, async move { (0..n).for_each(|i| log_task(spawner, pool, &seen, i)) })
        .unwrap()
        .detach();
    sim.run(0);
    log.take()
}

#[test]
fn tasks_from_outside_run_in_their_order() {
    let sim = Sim::new(1);
    let (pool, log) = (pool(), Log::new());
    (0..50).for_each(|i| log_task(sim.executor.spawner(), pool, &log, i));
    sim.run(0);
    assert_eq!(log.take(), (0..50).collect::<Vec<_>>());
}

#[test]
fn the_newest_task_comes_first_the_others_in_their_order() {
    assert_eq!(spawn_from_task(&Sim::new(1), 5), [4, 0, 1, 2, 3]);
}

#[test]
fn without_the_lifo_slot_all_run_in_their_order() {
    let sim = Sim::with(1, quiet().lifo_cap(0));
    assert_eq!(spawn_from_task(&sim, 5), [0, 1, 2, 3, 4]);
}

/// A chain of tasks, each of which spawns the next, beside one task in the ring. Returns when that one runs.
fn chain_beside_ring(cap: u32) -> Vec<&'static str> {
    fn link(spawner: Spawner, pool: Pool, log: Log<&'static str>, left: u32) {
        let next = move || {
            log.push("chain");
            if left > 0 {
                link(spawner, pool, log, left - 1);
            }
        };
        spawner.spawn(pool, async move { next() }).unwrap().detach();
    }
    let sim = Sim::with(1, quiet().lifo_cap(cap));
    let (spawner, pool, log) = (sim.executor.spawner(), pool(), Log::new());
    let seen = log.clone();
    spawner
        .spawn(pool, async move {
            log_task(spawner, pool, &seen, "ring");
            link(spawner, pool, seen, 9);
        })
        .unwrap()
        .detach();
    sim.run(0);
    log.take()
}

#[test]
fn the_lifo_slot_is_flushed_after_its_cap() {
    let at = |cap| chain_beside_ring(cap).iter().position(|e| *e == "ring");
    assert_eq!(at(3), Some(3));
    assert_eq!(at(1), Some(1));
    assert_eq!(at(0), Some(0));
    assert_eq!(at(100), Some(10));
    assert_eq!(chain_beside_ring(3).len(), 11, "nobody is lost in the flush");
}

#[test]
fn lifo_hits_are_counted() {
    let sim = Sim::new(1);
    spawn_from_task(&sim, 2);
    let (_, worker) = sim.executor.metrics().workers().next().unwrap();
    assert_eq!((worker.polls, worker.lifo_hits), (3, 1));
}

#[test]
fn a_task_that_yields_goes_behind_the_others() {
    let sim = Sim::new(1);
    let (spawner, pool, log) = (sim.executor.spawner(), pool(), Log::new());
    for name in ['a', 'b', 'c'] {
        let log = log.clone();
        spawner
            .spawn(pool, async move {
                for round in 0..3 {
                    log.push((round, name));
                    yield_now().await;
                }
            })
            .unwrap()
            .detach();
    }
    sim.run(0);
    let rounds: Vec<_> = log.take();
    assert!(rounds.is_sorted(), "each round comes after the one before: {rounds:?}");
    assert_eq!(rounds.len(), 9);
}

/// A future that never ends and is always ready.
fn restless() -> impl Future<Output = ()> + Send {
    poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Steps worker 0 until the task is done; at most `limit` steps.
fn steps_until<T>(sim: &Sim, handle: &JoinHandle<T>, limit: usize) -> usize {
    let steps = (0..limit).take_while(|_| !handle.is_finished() && sim.step(0) == Step::Polled);
    let steps = steps.count();
    assert!(handle.is_finished(), "starved for {limit} polls");
    steps
}

#[test]
fn a_restless_task_starves_neither_the_injector_nor_the_inbox() {
    let sim = Sim::new(2);
    let pool = pool();
    (0..3).for_each(|_| sim.executor.spawn(pool, restless()).unwrap().detach());
    sim.on(0, |worker| worker.run_for(1_000));
    for _ in 0..20 {
        let handle = sim.executor.spawn(pool, async {}).unwrap();
        steps_until(&sim, &handle, 256);
        let pinned = sim.executor.spawner().spawn_pinned(pool, id(0), async {}).unwrap();
        assert!(steps_until(&sim, &pinned, 256) <= 4);
    }
}

#[test]
fn slow_polls_shorten_the_way_to_the_injector() {
    let sim = Sim::new(2);
    let (pool, executor) = (pool(), sim.executor);
    let slow = poll_fn(move |cx| {
        executor.platform().advance(Duration::from_micros(500));
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    sim.executor.spawn(pool, slow).unwrap().detach();
    sim.on(0, |worker| worker.run_for(10_000));
    let handle = sim.executor.spawn(pool, async {}).unwrap();
    assert!(steps_until(&sim, &handle, 256) <= 10);
    // Its time is counted: 10,000 polls of 500 us, up to the last tick.
    let (_, worker) = sim.executor.metrics().workers().next().unwrap();
    assert!((4_900_000..=5_010_000).contains(&worker.busy_micros), "{worker:?}");
}

#[test]
fn restless_pinned_tasks_starve_neither_ring_nor_injector() {
    let sim = Sim::new(1);
    let (spawner, pool) = (sim.executor.spawner(), pool());
    for _ in 0..3 {
        spawner.spawn_pinned(pool, id(0), restless()).unwrap().detach();
    }
    sim.on(0, |worker| worker.run_for(100));
    for _ in 0..20 {
        let handle = spawner.spawn(pool, async {}).unwrap();
        steps_until(&sim, &handle, 256);
    }
    let yielding = spawner.spawn(pool, async {
        for _ in 0..10 {
            yield_now().await;
        }
    });
    steps_until(&sim, &yielding.unwrap(), 600);
}

#[test]
fn a_ping_pong_through_the_lifo_slot_does_not_starve_the_ring() {
    let sim = Sim::new(1);
    let pool = pool();
    let flags: [Flag; 2] = Default::default();
    for i in 0..2 {
        let (mine, other) = (flags[i].clone(), flags[1 - i].clone());
        let future = poll_fn(move |cx| {
            // Wakes the other task, then waits for its wake.
            other.take_wakers().into_iter().for_each(core::task::Waker::wake);
            let mut wait = core::pin::pin!(mine.wait());
            wait.as_mut().poll(cx)
        });
        sim.executor.spawn(pool, future).unwrap().detach();
    }
    sim.on(0, |worker| worker.run_for(10));
    assert_eq!(sim.on(0, |worker| worker.run_for(100)), 100, "they keep each other awake");
    let log = Log::new();
    let spawner = sim.executor.spawner();
    let seen = log.clone();
    spawner
        .spawn(pool, async move {
            for i in 0..5 {
                seen.push(i);
                yield_now().await;
            }
        })
        .unwrap()
        .detach();
    sim.on(0, |worker| worker.run_for(400));
    assert_eq!(log.take(), [0, 1, 2, 3, 4]);
}

/// Joins the tasks one after the other; counts its polls.
async fn join_all(handles: Vec<JoinHandle<usize>>) -> usize {
    let mut sum = 0;
    for handle in handles {
        sum += handle.await.unwrap();
    }
    sum
}

static MANY: TaskPool<192, 1_100> = TaskPool::new();

fn counting<F: Future + Unpin>(
    mut future: F,
    polls: Arc<AtomicUsize>,
) -> impl Future<Output = F::Output> {
    poll_fn(move |cx| {
        polls.fetch_add(1, SeqCst);
        Pin::new(&mut future).poll(cx)
    })
}

#[test]
fn a_poll_joins_128_finished_tasks_then_gives_way() {
    let sim = Sim::new(1);
    let finished = |n| -> Vec<_> {
        let handles =
            (0..n).map(|i| sim.executor.spawn(&MANY, async move { i }).unwrap()).collect();
        sim.run(0);
        handles
    };
    let polls = Arc::new(AtomicUsize::new(0));
    let pool = pool();
    let run = |future: Pin<Box<dyn Future<Output = usize> + Send>>, result: usize| {
        let future = counting(future, Arc::clone(&polls));
        let mut handle = sim.executor.spawn(pool, future).unwrap();
        sim.run(0);
        assert_eq!(output(&mut handle).unwrap(), result);
        polls.swap(0, SeqCst)
    };
    assert_eq!(run(Box::pin(join_all(finished(128))), 127 * 64), 1);
    assert_eq!(run(Box::pin(join_all(finished(129))), 128 * 129 / 2), 2);
    assert_eq!(run(Box::pin(join_all(finished(1_000))), 999 * 500), 8);
    assert_eq!(run(Box::pin(unconstrained(join_all(finished(1_000)))), 999 * 500), 1);
    // The budget around `unconstrained` stays what it was.
    let (inside, outside) = (finished(500), finished(129));
    let mixed = async move {
        unconstrained(join_all(inside)).await;
        join_all(outside).await
    };
    assert_eq!(run(Box::pin(mixed), 128 * 129 / 2), 2);
    let consume = |n: usize| async move {
        for _ in 0..n {
            consume_budget().await;
        }
        n
    };
    assert_eq!(run(Box::pin(consume(128)), 128), 1);
    assert_eq!(run(Box::pin(consume(1_000)), 1_000), 8);
    assert_eq!(run(Box::pin(unconstrained(consume(1_000))), 1_000), 1);
    let executor = sim.executor;
    let own = async move { (0..1_000).take_while(|_| executor.spend_budget()).count() };
    assert_eq!(run(Box::pin(own), 128), 1);
}

#[test]
fn a_poll_out_of_budget_lets_others_run() {
    let sim = Sim::new(1);
    let (pool, log) = (pool(), Log::new());
    for name in ['a', 'b'] {
        let log = log.clone();
        sim.executor
            .spawn(pool, async move {
                for i in 0..300 {
                    consume_budget().await;
                    if i % 100 == 0 {
                        log.push((i, name));
                    }
                }
            })
            .unwrap()
            .detach();
    }
    sim.run(0);
    assert_eq!(log.take(), [(0, 'a'), (100, 'a'), (0, 'b'), (100, 'b'), (200, 'a'), (200, 'b')]);
}

#[test]
fn outside_of_polls_the_budget_has_no_end() {
    let sim = Sim::new(1);
    assert!((0..1_000).all(|_| sim.executor.spend_budget()));
}

#[test]
fn pinned_tasks_run_on_their_worker_alone() {
    let sim = Sim::new(3);
    let (pool, log, executor) = (pool(), Log::new(), sim.executor);
    let flag = Flag::new();
    for worker in [2, 0, 1, 2] {
        let (log, wait) = (log.clone(), flag.wait());
        let here = move || {
            use filch::Platform as _;
            executor.platform().current_worker().map(filch::WorkerId::index)
        };
        executor
            .spawner()
            .spawn_pinned(pool, id(worker), async move {
                log.push((worker, here()));
                yield_now().await;
                log.push((worker, here()));
                wait.await;
                log.push((worker, here()));
            })
            .unwrap()
            .detach();
    }
    // A worker that has nothing of its own finds nothing.
    assert_eq!(sim.run(0), 2);
    assert_eq!(sim.run(0), 0);
    sim.settle();
    // Woken by another worker's poll, they stay where they are.
    executor.spawn(pool, async move { flag.set() }).unwrap().detach();
    assert_eq!(sim.run(0), 2);
    sim.settle();
    let seen = log.take();
    assert_eq!(seen.len(), 12);
    assert!(seen.iter().all(|(wanted, was)| Some(usize::from(*wanted)) == *was), "{seen:?}");
    let refused = executor.spawner().spawn_pinned(pool, id(3), async {}).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::NoSuchWorker);
}

#[test]
fn a_pinned_task_waits_for_its_worker() {
    let sim = Sim::offline(2, quiet());
    sim.attach(0);
    let mut handle = sim.executor.spawner().spawn_pinned(pool(), id(1), async { 3 }).unwrap();
    assert_eq!(sim.run(0), 0);
    assert!(!handle.is_finished());
    sim.attach(1);
    assert_eq!(sim.run(1), 1);
    assert_eq!(output(&mut handle).unwrap(), 3);
}

#[test]
fn local_tasks_are_spawned_by_pinned_tasks_only() {
    let sim = Sim::new(2);
    let (spawner, pool, log) = (sim.executor.spawner(), pool(), Log::new());
    let refused = spawner.spawn_local(pool, async {}).unwrap_err();
    assert_eq!(refused.kind, SpawnErrorKind::NotPinned);
    let mut free =
        spawner.spawn(pool, async move { spawner.spawn_local(pool, async {}).unwrap_err().kind });
    sim.run(0);
    let kind = output(free.as_mut().unwrap()).unwrap();
    assert_eq!(kind, SpawnErrorKind::NotPinned, "it may go on elsewhere");
    // On a worker, between its polls, is not in a task either.
    let kind = sim.on(1, |_| spawner.spawn_local(pool, async {}).unwrap_err().kind);
    assert_eq!(kind, SpawnErrorKind::NotPinned);
    let (seen, executor) = (log.clone(), sim.executor);
    spawner
        .spawn_pinned(pool, id(1), async move {
            let shared = Rc::new(5);
            let inner = Rc::clone(&shared);
            let local = spawner
                .spawn_local(pool, async move {
                    yield_now().await;
                    use filch::Platform as _;
                    let worker = executor.platform().current_worker().unwrap().index();
                    seen.push((worker, Rc::strong_count(&inner)));
                    inner
                })
                .unwrap();
            drop(shared);
            local.detach();
        })
        .unwrap()
        .detach();
    assert_eq!(sim.step(1), Step::Polled);
    assert_eq!(sim.run(0), 0, "it stays where it was spawned");
    assert_eq!(sim.run(1), 2);
    assert_eq!(log.take(), [(1, 1)]);
}

#[test]
fn local_tasks_end_when_their_worker_goes_offline() {
    let sim = Sim::new(2);
    let (spawner, pool, drops) = (sim.executor.spawner(), pool(), Drops::new());
    let flag = Flag::new();
    let (gauge, waits) = (drops.clone(), flag.wait());
    let mut parent = spawner
        .spawn_pinned(pool, id(1), async move {
            // One waits for ever, one for the flag, one is queued, one holds a shield: none may leave its worker.
            let futures: [Pin<Box<dyn Future<Output = ()>>>; 4] = [
                Box::pin(pending()),
                Box::pin(waits),
                Box::pin(restless()),
                Box::pin(filch::shield(pending())),
            ];
            for future in futures {
                let (tally, not_send) = (gauge.tally(), Rc::new(()));
                spawner
                    .spawn_local(pool, async move {
                        let _kept = (tally, not_send);
                        future.await;
                    })
                    .map(Mine::new)
                    .map(core::mem::forget)
                    .unwrap();
            }
        })
        .unwrap();
    let pinned = spawner.spawn_pinned(pool, id(1), pending::<()>()).unwrap();
    let free = spawner.spawn(pool, flag.wait()).unwrap();
    sim.on(1, |worker| worker.run_for(20));
    assert!(output(&mut parent).is_ok());
    assert_eq!(drops.count(), 0);
    sim.detach(1);
    assert_eq!(drops.count(), 4);
    assert!(!pinned.is_finished() && !free.is_finished(), "only the local ones end");
    flag.set();
    sim.run(0);
    assert!(free.is_finished());
    pinned.abort();
    sim.run(0);
    assert!(!pinned.is_finished());
    sim.attach(1);
    sim.run(1);
    assert!(pinned.is_finished());
}

#[test]
fn a_local_task_with_more_wakers_than_can_be_counted_ends_with_its_worker() {
    let _watchdog = filch_test_support::watchdog();
    let sim = Sim::new(1);
    let (spawner, pool, drops) = (sim.executor.spawner(), pool(), Drops::new());
    let tally = drops.tally();
    let leaks = poll_fn(move |cx| {
        let _tally = &tally;
        // The count has 24 bits at most.
        for _ in 0..1 << 24 {
            core::mem::forget(cx.waker().clone());
        }
        Poll::<()>::Pending
    });
    let spawn = async move { spawner.spawn_local(pool, leaks).unwrap().detach() };
    spawner.spawn_pinned(pool, id(0), spawn).unwrap().detach();
    assert_eq!(sim.run(0), 2);
    // Its memory stays for ever. That does not hide it, nor keeps it alive.
    let mut seen = 0;
    sim.executor.tasks(|_| seen += 1);
    assert_eq!((seen, drops.count()), (1, 0));
    sim.detach(0);
    assert_eq!(drops.count(), 1);
}

#[test]
fn without_stealing_each_worker_keeps_what_was_woken_on_it() {
    let spread = |config: Config| {
        let sim = Sim::with(2, config);
        let (executor, pool, log) = (sim.executor, pool(), Log::new());
        let seen = log.clone();
        executor
            .spawn(pool, async move {
                for _ in 0..20 {
                    let log = seen.clone();
                    let future = async move {
                        use filch::Platform as _;
                        log.push(executor.platform().current_worker().unwrap().index());
                        yield_now().await;
                        log.push(executor.platform().current_worker().unwrap().index());
                    };
                    executor.spawn(pool, future).unwrap().detach();
                }
            })
            .unwrap()
            .detach();
        assert_eq!(sim.step(0), Step::Polled);
        sim.run(1);
        sim.run(0);
        let stolen: usize = executor.metrics().workers().map(|(_, w)| w.stolen).sum();
        let seen = log.take();
        assert_eq!(seen.len(), 40);
        (stolen, seen.contains(&1))
    };
    assert_eq!(spread(quiet().stealing(false)), (0, false));
    let (stolen, elsewhere) = spread(quiet());
    assert!(stolen > 0 && elsewhere, "the same with stealing: {stolen}");
}

#[test]
fn without_stealing_work_from_outside_goes_to_whoever_is_free() {
    let sim = Sim::with(2, quiet().stealing(false));
    let mut handle = sim.executor.spawn(pool(), async { 1 }).unwrap();
    assert_eq!(sim.run(1), 1);
    assert_eq!(output(&mut handle).unwrap(), 1);
}

#[test]
fn a_thief_takes_half() {
    let sim = Sim::new(2);
    let (executor, pool) = (sim.executor, pool());
    executor
        .spawn(pool, async move {
            (0..11).for_each(|_| executor.spawn(pool, restless()).unwrap().detach());
        })
        .unwrap()
        .detach();
    assert_eq!(sim.step(0), Step::Polled);
    // Ten in the ring, one in the LIFO slot, which is no thief's.
    assert_eq!(sim.step(1), Step::Polled);
    let workers: Vec<_> = executor.metrics().workers().map(|(_, w)| w).collect();
    assert_eq!((workers[1].steals, workers[1].stolen), (1, 5));
    assert_eq!((workers[0].queue_depth, workers[1].queue_depth), (6, 5));
}

/// The victims of worker 0 in eight searches, each with a task in every ring.
fn victims(sim: &Sim) -> Vec<u16> {
    let (spawner, pool, log) = (sim.executor.spawner(), pool(), Log::new());
    let search = |_| {
        for worker in 1..8 {
            let seen = log.clone();
            let spawns = async move {
                // The first goes to the ring, as the second takes the LIFO slot.
                log_task(spawner, pool, &seen, worker);
                log_task(spawner, pool, &seen, worker);
            };
            spawner.spawn_pinned(pool, id(worker), spawns).unwrap().detach();
            assert_eq!(sim.step(worker), Step::Polled);
        }
        assert_eq!(sim.step(0), Step::Polled);
        let victim = log.take()[0];
        sim.settle();
        log.take();
        victim
    };
    (0..8).map(search).collect()
}

#[test]
fn a_seed_makes_the_same_choices_also_when_it_comes_with_a_later_use() {
    let with = |seed| Sim::with(8, quiet().seed(seed));
    let (one, other) = (victims(&with(1)), victims(&with(2 << 32)));
    assert_eq!(victims(&with(1)), one);
    assert_ne!(one, other, "both halves of a seed count");
    let sim = with(1);
    let executor = sim.executor;
    sim.close();
    assert_eq!(executor.reopen_with(&quiet().seed(2 << 32)), Ok(true));
    (0..8).for_each(|worker| sim.attach(worker));
    assert_eq!(victims(&sim), other);
}
