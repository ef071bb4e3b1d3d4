//! What workers owe to tasks and jobs with an affinity: hand-overs, and nothing starves.
#![cfg(all(feature = "classes", not(any(filch_loom, filch_shuttle, filch_weakmem))))]

mod common;

use core::cell::RefCell;

use common::{Log, Mine, Sim, id, parked, pool, quiet, shared, stop};
use filch::{Class, ForkOptions, Instant, Platform as _, Step, TaskOptions, WorkerSet, yield_now};

fn set(workers: &[u16]) -> WorkerSet {
    let workers: Vec<_> = workers.iter().map(|i| id(*i)).collect();
    WorkerSet::new(&workers).unwrap()
}

fn affine(workers: &[u16]) -> TaskOptions {
    TaskOptions::new().workers(set(workers))
}

fn sleep(sim: &Sim, worker: u16) {
    sim.on(worker, |worker| assert_eq!(worker.begin_park(), Some(None)));
}

fn woken(sim: &Sim) -> Vec<u16> {
    sim.executor.platform().woken()
}

#[test]
fn a_woken_worker_that_leaves_passes_an_affine_task_on() {
    let sim = Sim::new(3);
    for worker in [1, 2] {
        sleep(&sim, worker);
    }
    woken(&sim);
    sim.executor.spawner().spawn_with(affine(&[1, 2]), pool(), async {}).unwrap().detach();
    assert_eq!(woken(&sim), [1]);
    sim.detach(1);
    assert_eq!(woken(&sim), [2]);
    sim.on(2, |worker| {
        worker.end_park();
        assert_eq!(worker.step(), Step::Polled);
    });
    assert_eq!(sim.settle(), 0);
}

/// The woken worker has a task that is its alone, which comes first.
fn passes_on(class: Class) {
    let (sim, mine) = shared(Sim::new(3));
    for worker in [1, 2] {
        sleep(&sim, worker);
    }
    woken(&sim);
    let (log, spawner) = (Log::new(), sim.executor.spawner());
    let writes = log.clone();
    let task = async move { writes.push("affine") };
    spawner.spawn_with(affine(&[1, 2]).class(class), pool(), task).unwrap().detach();
    assert_eq!(woken(&sim), [1]);
    let writes = log.clone();
    let long = async move {
        let other = mine.executor.platform().woken().contains(&2);
        writes.push(if other { "long, and 2 was woken" } else { "long" });
    };
    spawner
        .spawn_with(TaskOptions::new().pinned(id(1)).class(class), pool(), long)
        .unwrap()
        .detach();
    sim.on(1, |worker| {
        worker.end_park();
        assert_eq!(worker.step(), Step::Polled);
    });
    let seen = log.take();
    assert!(seen == ["affine"] || seen == ["long, and 2 was woken"], "{class:?}: {seen:?}");
    sim.on(2, |worker| worker.end_park());
    sim.settle();
}

#[test]
fn a_woken_worker_that_turns_to_something_else_passes_an_affine_task_on() {
    for class in [Class::Urgent, Class::Normal, Class::Background] {
        passes_on(class);
    }
}

/// A wait that is too deep polls what has an affinity to its worker, by whatever class it was queued.
#[test]
fn a_blocked_worker_polls_a_boosted_affine_task() {
    for (waits, waited) in [
        (Class::Normal, Class::Normal),
        (Class::Urgent, Class::Normal),
        (Class::Normal, Class::Background),
    ] {
        let executor = parked(2, quiet().nesting(0));
        executor.start(id(0)).unwrap();
        let outer = async move {
            let options = affine(&[0, 1]).class(waited);
            let mut inner = executor.spawner().spawn_with(options, pool(), async { 7 }).unwrap();
            inner.join()
        };
        let options = TaskOptions::new().pinned(id(0)).class(waits);
        let mut outer = executor.spawner().spawn_with(options, pool(), outer).unwrap();
        assert_eq!(outer.join().unwrap().unwrap(), 7, "{waits:?} {waited:?}");
        stop(executor);
    }
}

/// The polls until a task from outside, or one of these options, is polled beside two that yield without end.
fn polls_until(busy: TaskOptions, one: TaskOptions) -> usize {
    let (sim, log) = (Sim::new(2), Log::new());
    let spawner = sim.executor.spawner();
    for _ in 0..2 {
        let forever = async {
            loop {
                yield_now().await;
            }
        };
        spawner.spawn_with(busy, pool(), forever).unwrap().detach();
    }
    for worker in [0, 1] {
        assert_eq!(sim.step(worker), Step::Polled);
    }
    let writes = log.clone();
    spawner.spawn_with(one, pool(), async move { writes.push(()) }).unwrap().detach();
    let polls = (0..100_000).take_while(|i| {
        let _ = sim.step((i % 2) as u16);
        log.take().is_empty()
    });
    let polls = polls.count();
    sim.close();
    polls
}

/// A worker that slept on under the mark of a task that another one has taken is not woken in place of one that may run what is left.
#[test]
fn a_hand_over_wakes_a_worker_of_the_set() {
    let sim = Sim::new(3);
    let spawner = sim.executor.spawner();
    let spawn = |workers: &[u16]| {
        spawner.spawn_with(affine(workers), pool(), async {}).unwrap().detach();
    };
    for worker in 0..3 {
        sleep(&sim, worker);
    }
    woken(&sim);
    spawn(&[0, 1]);
    assert_eq!(woken(&sim), [0]);
    assert_eq!(sim.run(0), 1);
    sleep(&sim, 0);
    woken(&sim);
    spawn(&[0, 2]);
    assert_eq!(woken(&sim), [0]);
    // Worker 0 turns to something else, and worker 2 is the one that can help.
    sim.detach(0);
    assert_eq!(woken(&sim), [2]);
    assert_eq!(sim.run(2), 1);
}

/// Beside background tasks, of whatever share, and normal ones that yield without end.
#[test]
fn affine_tasks_do_not_starve_beside_background_ones() {
    for share in [2, 4, 8, 16] {
        let (sim, log) = (Sim::with(2, quiet().background_share(share)), Log::new());
        let spawner = sim.executor.spawner();
        for class in [Class::Normal, Class::Normal, Class::Background, Class::Background] {
            let executor = sim.executor;
            let forever = async move {
                loop {
                    executor.platform().advance(core::time::Duration::from_micros(1));
                    yield_now().await;
                }
            };
            let options = TaskOptions::new().class(class);
            spawner.spawn_with(options, pool(), forever).unwrap().detach();
        }
        (0..1_000).for_each(|i| _ = sim.step(i % 2));
        let writes = log.clone();
        let task = async move { writes.push(()) };
        spawner.spawn_with(affine(&[0, 1]), pool(), task).unwrap().detach();
        let polls = (0..100_000).take_while(|i| {
            let _ = sim.step((i % 2) as u16);
            log.take().is_empty()
        });
        let polls = polls.count();
        assert!(polls < 200, "{share}: {polls}");
        sim.close();
    }
}

/// A look takes as long however many tasks wait: in time in proportion to all of them, these would take an hour.
#[cfg(feature = "alloc")]
#[test]
fn many_affine_tasks_are_found_one_by_one() {
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    static POLLED: AtomicUsize = AtomicUsize::new(0);
    let sim = Sim::new(4);
    let heap = common::forever(Box::new(filch::Heap::new()));
    // The others are there first, and are not polled for long.
    for workers in [[2, 3], [0, 1]] {
        for _ in 0..150_000 {
            let task = async { _ = POLLED.fetch_add(1, Relaxed) };
            sim.executor.spawner().spawn_with(affine(&workers), heap, task).unwrap().detach();
        }
    }
    let polls = |workers: [u16; 2]| -> usize {
        (0..3).flat_map(|_| workers).map(|worker| sim.run(worker)).sum()
    };
    assert_eq!((polls([0, 1]), POLLED.load(Relaxed)), (150_000, 150_000));
    assert_eq!((polls([2, 3]), POLLED.load(Relaxed)), (150_000, 300_000));
}

/// The tasks of the first 16 sets never end, and so there is no queue for those of another set.
#[test]
fn a_task_of_one_set_more_than_there_are_queues_does_not_starve() {
    for class in [Class::Urgent, Class::Normal, Class::Background] {
        let (sim, log) = (Sim::new(6), Log::new());
        let spawner = sim.executor.spawner();
        let sets = (1_u16..32).map(|bits| {
            let others = (0..5).filter(move |i| bits & 1 << i != 0).map(|i| i + 1);
            core::iter::once(0).chain(others).collect::<Vec<_>>()
        });
        let mut sets = sets.take(17);
        for workers in sets.by_ref().take(16) {
            for _ in 0..2 {
                let forever = async {
                    loop {
                        yield_now().await;
                    }
                };
                let options = affine(&workers).class(class);
                spawner.spawn_with(options, pool(), forever).unwrap().detach();
            }
        }
        (0..100).for_each(|_| _ = sim.step(0));
        let writes = log.clone();
        let task = async move { writes.push(()) };
        let options = affine(&sets.next().unwrap()).class(class);
        spawner.spawn_with(options, pool(), task).unwrap().detach();
        let polls = (0..10_000).take_while(|_| {
            let _ = sim.step(0);
            log.take().is_empty()
        });
        let polls = polls.count();
        assert!(polls < 100, "{class:?}: {polls}");
        sim.close();
    }
}

#[test]
fn affine_tasks_do_not_starve_those_from_outside() {
    let polls = polls_until(affine(&[0, 1]), TaskOptions::new());
    assert!(polls < 100, "{polls}");
}

/// Normal tasks have no order by deadlines.
#[test]
fn affine_tasks_with_deadlines_do_not_starve_those_without() {
    let busy = affine(&[0, 1]).deadline(Instant::from_nanos(5));
    let polls = polls_until(busy, affine(&[0, 1]));
    assert!(polls < 100, "{polls}");
}

#[test]
fn a_background_task_that_yields_does_not_starve_those_from_outside() {
    let background = TaskOptions::new().class(Class::Background);
    let polls = polls_until(background, background);
    assert!(polls < 100, "{polls}");
}

/// The workers that are woken for three long jobs, the owner's and two of which others can take.
fn workers_for(options: ForkOptions) -> usize {
    let sim = Mine::new(Sim::new(4));
    let all = Mine::new(RefCell::new(Vec::new()));
    let play = || {
        let mut next = woken(&sim);
        while let Some(worker) = next.pop() {
            all.borrow_mut().push(worker);
            sim.on(worker, |worker| {
                worker.end_park();
                let _ = worker.step();
            });
            next.extend(woken(&sim));
        }
    };
    let forked = sim.on(0, |_| {
        sim.executor.fork_with(options, |fork| {
            fork.scope(|scope| {
                for _ in 0..3 {
                    // Long, as others play meanwhile.
                    scope.spawn(|_| play());
                }
                for worker in [1, 2, 3] {
                    sleep(&sim, worker);
                }
                woken(&sim);
                scope.fork().is_wanted();
                play();
            });
        })
    });
    assert!(forked.is_ok());
    all.borrow().len()
}

#[test]
fn an_affine_run_wakes_as_many_workers_as_another() {
    let all = workers_for(ForkOptions::new());
    assert_eq!(workers_for(ForkOptions::new().workers(set(&[0, 1, 2, 3]))), all);
}

#[test]
fn a_run_is_refused_if_a_worker_of_its_set_does_not_exist() {
    for beyond in [2, 63, 64, 1000] {
        let sim = Mine::new(Sim::new(2));
        sleep(&sim, 0);
        if beyond >= 64 && WorkerSet::new(&[id(1), id(beyond)]).is_none() {
            continue;
        }
        let options = ForkOptions::new().workers(set(&[1, beyond]));
        let run = |fork: filch::Fork<'_>| fork.join(|_| 1, |_| 2);
        assert!(sim.on(1, |_| sim.executor.fork_with(options, run)).is_err(), "{beyond}");
        sim.on(0, |worker| worker.end_park());
    }
}

/// Else the thief's worker waits for a task of another worker, which waits for the thief.
#[test]
fn a_run_within_another_one_is_in_place_also_if_it_has_another_affinity() {
    let sim = Mine::new(Sim::new(2));
    let here = || sim.executor.platform().current_worker();
    let inner = || {
        let only = ForkOptions::new().workers(set(&[1]));
        sim.executor.fork_with(only, |fork| fork.join(|_| here(), |_| here())).ok()
    };
    let ran = sim.on(0, |_| sim.executor.fork_with(ForkOptions::new(), |_| inner()).ok());
    assert_eq!(ran, Some(Some((Some(id(0)), Some(id(0))))));
}

/// Also those of a plain run inside one that is in place.
#[test]
fn no_other_worker_takes_pieces_of_a_run_in_place() {
    let (sim, log) = (Mine::new(Sim::new(2)), Log::new());
    let executor = sim.executor;
    let writes = || log.push(executor.platform().current_worker());
    let innermost = || {
        executor.fork(|fork| {
            fork.scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|_| writes());
                }
                // It asks for jobs.
                sim.on(0, |worker| {
                    let _ = worker.begin_park();
                    worker.end_park();
                });
                let _ = sim.step(1);
            });
        })
    };
    let only = ForkOptions::new().workers(set(&[0]));
    let inner = || executor.fork_with(only, |_| innermost().is_ok());
    let ran = sim.on(0, |_| executor.fork_with(ForkOptions::new(), |_| inner().ok()).ok());
    assert_eq!(ran, Some(Some(true)));
    assert_eq!(log.take(), [Some(id(0)); 2]);
}
