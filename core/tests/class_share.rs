//! Background tasks keep their share, and other tasks their turn, whatever normal tasks call.
#![cfg(all(feature = "classes", not(any(filch_loom, filch_shuttle, filch_weakmem))))]

mod common;

use core::time::Duration;
use std::sync::{Arc, Mutex};

use common::{Log, Mine, Shared, Sim, id, pool, quiet, shared};
use filch::{Class, ForkOptions, Platform as _, Step, TaskOptions, consume_budget, yield_now};

/// The share of background tasks, in thousandths, if normal ones call this in each of their polls.
fn share(calls: fn(&Shared<64>)) -> u64 {
    let (sim, mine) = shared(Sim::<64>::build(1, quiet()));
    let times = Arc::new(Mutex::new([0_u64; 2]));
    let busy = |at: usize| {
        let (times, sim) = (Arc::clone(&times), Arc::clone(&mine));
        async move {
            loop {
                sim.executor.platform().advance(Duration::from_micros(20));
                times.lock().unwrap()[at] += 20;
                if at == 0 {
                    calls(&sim);
                }
                yield_now().await;
            }
        }
    };
    let spawner = sim.executor.spawner();
    for _ in 0..2 {
        spawner.spawn(pool(), busy(0)).unwrap().detach();
    }
    let background = TaskOptions::new().class(Class::Background);
    spawner.spawn_with(background, pool(), busy(1)).unwrap().detach();
    // In a loop of the executor's: between two steps a worker's time stands still.
    let over = || sim.executor.platform().now().as_nanos() >= 200_000_000;
    assert!(sim.on(0, |_| sim.executor.help_until(over)));
    let [normal, background] = *times.lock().unwrap();
    drop((mine, times));
    sim.close();
    background * 1000 / (normal + background)
}

#[test]
fn background_tasks_keep_their_share_beside_tasks_that_give_way() {
    let share = share(|sim| {
        for _ in 0..16 {
            sim.executor.give_way();
        }
    });
    assert!((55..=70).contains(&share), "{share}");
}

#[test]
fn background_tasks_keep_their_share_beside_waits_in_sync_code() {
    let share = share(|sim| {
        let mut other = sim.executor.spawn(pool(), async {}).unwrap();
        assert!(other.join().is_ok());
    });
    assert!((55..=70).contains(&share), "{share}");
}

/// Other tasks have not run meanwhile.
#[test]
fn a_task_that_gives_way_keeps_its_budget() {
    let (sim, mine) = shared(Sim::new(1));
    let log = Log::new();
    let writes = log.clone();
    let bulk = async move {
        for _ in 0..1000 {
            mine.executor.give_way();
            consume_budget().await;
        }
        writes.push("bulk");
    };
    let spawner = sim.executor.spawner();
    spawner.spawn(pool(), bulk).unwrap().detach();
    let writes = log.clone();
    spawner.spawn(pool(), async move { writes.push("other") }).unwrap().detach();
    sim.run(0);
    assert_eq!(log.take(), ["other", "bulk"]);
    sim.settle();
}

/// A job that a worker steals in a wait is no part of the task that waits.
#[test]
fn a_stolen_job_has_no_class_of_the_task_below() {
    let (sim, mine) = shared(Sim::new(2));
    let (executor, log) = (sim.executor, Log::new());
    let spawner = executor.spawner();
    let in_job = || log.push((spawner.class(), spawner.set_class(Class::Background)));
    let writes = log.clone();
    let waits = async move {
        let mut rounds = 2;
        let helped = executor.help_until(|| {
            rounds -= 1;
            rounds == 0
        });
        writes.push((spawner.class(), helped));
    };
    let others = Mine::new(mine);
    let run = ForkOptions::new().class(Class::Background);
    let forked = sim.on(0, |_| {
        executor.fork_with(run, |fork| {
            fork.scope(|scope| {
                scope.spawn(|_| in_job());
                others.on(0, |worker| {
                    let _ = worker.begin_park();
                    worker.end_park();
                });
                let urgent = TaskOptions::new().pinned(id(1)).class(Class::Urgent);
                spawner.spawn_with(urgent, pool(), waits).unwrap().detach();
                others.run(1);
            });
        })
    });
    assert!(forked.is_ok());
    drop(others);
    assert_eq!(log.take(), [(None, false), (Some(Class::Urgent), true)]);
    sim.settle();
}

/// A worker that takes one piece after the other hears of its timers, whatever the class of the run.
#[test]
fn pieces_of_an_urgent_run_hold_up_timers_no_longer_than_others() {
    let fired = [Class::Normal, Class::Urgent].map(|class| {
        let (sim, mine) = shared(Sim::new(2));
        let (executor, fired) = (sim.executor, Log::new());
        let writes = fired.clone();
        let sleeps = async move {
            executor.sleep(Duration::from_millis(5)).await;
            writes.push(executor.platform().now().as_nanos() / 1_000_000);
        };
        let urgent = TaskOptions::new().pinned(id(1)).class(Class::Urgent);
        executor.spawner().spawn_with(urgent, pool(), sleeps).unwrap().detach();
        sim.run(1);
        let others = Mine::new(mine);
        let forked = sim.on(0, |_| {
            executor.fork_with(ForkOptions::new().class(class), |fork| {
                fork.scope(|scope| {
                    for _ in 0..40 {
                        scope.spawn(|_| executor.platform().advance(Duration::from_millis(10)));
                    }
                    others.on(0, |worker| {
                        let _ = worker.begin_park();
                        worker.end_park();
                    });
                    for _ in 0..45 {
                        let _ = others.step(1);
                    }
                });
            })
        });
        assert!(forked.is_ok());
        drop(others);
        sim.settle();
        fired.take()
    });
    // It looks before an urgent piece, and after a normal one.
    assert!(fired[1][0] <= fired[0][0] + 10, "{fired:?}");
}

/// The background tasks are in the ring of one worker, and other tasks keep both workers busy: the share is one of all their time.
#[test]
fn the_share_is_one_of_all_workers() {
    for workers in [2_u16, 4] {
        let sim = Sim::new(workers);
        let (executor, spawner) = (sim.executor, sim.executor.spawner());
        let polls = Log::new();
        let forever = |class| {
            let polls = polls.clone();
            let task = async move {
                loop {
                    executor.platform().advance(Duration::from_micros(1));
                    polls.push(class);
                    yield_now().await;
                }
            };
            spawner.spawn_with(TaskOptions::new().class(class), pool(), task).unwrap().detach();
        };
        for worker in 0..workers {
            (0..4).for_each(|_| forever(Class::Normal));
            assert_eq!(sim.step(worker), Step::Polled);
        }
        (0..8).for_each(|_| forever(Class::Background));
        sim.on(0, |worker| worker.run_for(1_000));
        polls.take();
        (0..100_000_u32).for_each(|i| _ = sim.step((i % u32::from(workers)) as u16));
        let all = polls.take();
        let background = all.iter().filter(|class| **class == Class::Background).count();
        // One in sixteen, but for the rounding of each worker's look every eighth poll.
        let share = all.len() as f64 / background as f64;
        assert!((14.0..19.0).contains(&share), "{workers} workers: one in {share}");
        sim.close();
    }
}
