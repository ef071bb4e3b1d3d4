//! Fork-join runs with a class, and on some workers only: one thread plays all workers.
#![cfg(all(feature = "classes", not(any(filch_loom, filch_shuttle, filch_weakmem))))]

mod common;

use core::{cell::Cell, time::Duration};

use common::{Log, Mine, Sim, id, pool, quiet};
use filch::{Class, Fork, ForkOptions, Platform as _, Step, TaskOptions, WorkerId, WorkerSet};

fn of(class: Class) -> ForkOptions {
    ForkOptions::new().class(class)
}

fn affine(workers: &[u16]) -> ForkOptions {
    let workers: Vec<_> = workers.iter().map(|i| id(*i)).collect();
    ForkOptions::new().workers(WorkerSet::new(&workers).unwrap())
}

fn fork<R>(sim: &Sim, options: ForkOptions, f: impl FnOnce(Fork<'_>) -> R) -> R {
    sim.on(0, |_| match sim.executor.fork_with(options, f) {
        Ok(outcome) => outcome,
        Err(_) => panic!("worker 0 may begin it"),
    })
}

fn me(sim: &Sim) -> Option<WorkerId> {
    sim.executor.platform().current_worker()
}

fn sleep(sim: &Sim, worker: u16) {
    sim.on(worker, |worker| assert_eq!(worker.begin_park(), Some(None)));
}

fn wake(sim: &Sim, worker: u16) -> Step {
    sim.on(worker, |worker| {
        worker.end_park();
        worker.step()
    })
}

/// Where a task of this class is in line with the pieces of a run.
fn order(run: Class, task: Class) -> Vec<&'static str> {
    let (sim, log) = (Mine::new(Sim::new(2)), Log::new());
    sleep(&sim, 1);
    fork(&sim, of(run), |fork| {
        fork.join(
            |fork| {
                let log = log.clone();
                let options = TaskOptions::new().class(task).pinned(id(1));
                let polled = async move { log.push("task") };
                sim.executor.spawner().spawn_with(options, pool(), polled).unwrap().detach();
                // Worker 1 asks for jobs, if it did not before, and this one sees it at its next fork.
                assert_eq!(wake(&sim, 1), Step::Polled);
                fork.join(|_| while wake(&sim, 1) == Step::Polled {}, |_| {});
            },
            |_| log.push(if me(&sim) == Some(id(1)) { "piece" } else { "alone" }),
        );
    });
    log.take()
}

#[test]
fn pieces_are_in_line_with_tasks() {
    let (piece, task) = (vec!["piece", "task"], vec!["task", "piece"]);
    for (run, other, expected) in [
        (Class::Urgent, Class::Urgent, &task),
        (Class::Urgent, Class::Normal, &piece),
        (Class::Urgent, Class::Background, &piece),
        (Class::Normal, Class::Urgent, &task),
        (Class::Normal, Class::Normal, &task),
        (Class::Normal, Class::Background, &piece),
        (Class::Background, Class::Normal, &task),
        (Class::Background, Class::Background, &task),
    ] {
        assert_eq!(order(run, other), *expected, "{run:?} and a task that is {other:?}");
    }
}

/// A worker with one task after the other takes pieces of an urgent run between them, and of no other.
#[test]
fn a_busy_worker_comes_for_pieces_of_an_urgent_run() {
    for (class, expected) in [(Class::Urgent, Some(id(1))), (Class::Normal, Some(id(0)))] {
        let sim = Mine::new(Sim::new(2));
        for _ in 0..20 {
            let options = TaskOptions::new().pinned(id(1));
            sim.executor.spawner().spawn_with(options, pool(), async {}).unwrap().detach();
        }
        let step = || assert_eq!(sim.step(1), Step::Polled);
        let ((), at) = fork(&sim, of(class), |fork| {
            fork.join(
                |fork| {
                    step();
                    fork.join(|_| (0..3).for_each(|_| step()), |_| ());
                },
                |_| me(&sim),
            )
        });
        assert_eq!(at, expected, "{class:?}");
        sim.settle();
    }
}

#[test]
fn other_workers_take_no_pieces_of_an_affine_run() {
    let sim = Mine::new(Sim::new(3));
    (1..3).for_each(|worker| sleep(&sim, worker));
    sim.executor.platform().woken();
    let ((), at) = fork(&sim, affine(&[0, 1]), |fork| {
        fork.join(
            |_| {
                assert_eq!(sim.executor.platform().woken(), [1]);
                assert_eq!(wake(&sim, 2), Step::Idle);
                // It does not stay awake for jobs that are not for it.
                sleep(&sim, 2);
                assert_eq!(wake(&sim, 1), Step::Polled);
            },
            |_| me(&sim),
        )
    });
    assert_eq!(at, Some(id(1)));
    // The next run is for all again.
    let ((), at) = sim.on(0, |_| {
        let run =
            |fork: Fork<'_>| fork.join(|_| assert_eq!(wake(&sim, 2), Step::Polled), |_| me(&sim));
        sim.executor.fork(run).unwrap_or_else(|_| panic!("worker 0 is a worker"))
    });
    assert_eq!(at, Some(id(2)));
}

#[test]
fn a_worker_does_not_sleep_while_pieces_wait_that_are_for_it() {
    let sim = Mine::new(Sim::new(3));
    // Worker 2 searches: by the general rule nobody else would have to look.
    sleep(&sim, 1);
    fork(&sim, affine(&[0, 1]), |fork| {
        fork.join(
            |_| {
                sim.on(1, |worker| {
                    worker.end_park();
                    assert_eq!(worker.begin_park(), None);
                });
                assert_eq!(wake(&sim, 1), Step::Polled);
                // There might have been more.
                assert_eq!(sim.step(1), Step::Idle);
                sleep(&sim, 1);
            },
            |_| assert_eq!(me(&sim), Some(id(1))),
        );
    });
}

#[test]
fn a_run_begins_on_a_worker_of_its_set() {
    let sim = Sim::new(3);
    let refused = sim.on(0, |_| sim.executor.fork_with(affine(&[1, 2]), |_| 7));
    let Err(f) = refused else { panic!("worker 0 is not in the set") };
    assert_eq!(f(Fork::alone()), 7);
    assert!(sim.on(2, |_| sim.executor.fork_with(affine(&[1, 2]), |_| 7)).is_ok());
}

/// A run in a run of another kind is in place, on its worker alone, and one of the same kind is not; a plain one joins any.
#[test]
fn a_run_in_another_has_its_kind_or_is_alone() {
    let sim = Mine::new(Sim::new(2));
    let at = Cell::new(None);
    let nested = |sim: &Mine<Sim>, options: Option<ForkOptions>| {
        sleep(sim, 1);
        fork(sim, of(Class::Background), |_| {
            let run = |fork: Fork<'_>| {
                let ((), b) = fork.join(|_| assert!(wake(sim, 1) != Step::Stopped), |_| me(sim));
                at.set(b);
            };
            let begun = match options {
                Some(options) => sim.executor.fork_with(options, run).is_ok(),
                None => sim.executor.fork(run).is_ok(),
            };
            assert!(begun);
        });
        at.take().map(WorkerId::index)
    };
    assert_eq!(nested(&sim, None), Some(1));
    assert_eq!(nested(&sim, Some(of(Class::Background))), Some(1));
    assert_eq!(nested(&sim, Some(of(Class::Normal))), Some(0));
    assert_eq!(nested(&sim, Some(affine(&[0, 1]).class(Class::Background))), Some(0));
}

/// A piece of a background run gives way to a task that others would not take, whatever the slice; one of a normal run does not.
#[test]
fn a_piece_of_a_background_run_gives_way_at_once() {
    for (class, gives_way) in [(Class::Background, true), (Class::Normal, false)] {
        let sim = Mine::new(Sim::with(2, quiet().job_slice(Duration::MAX)));
        let on_1 = Log::new();
        fork(&sim, of(class), |fork| {
            fork.for_each(0..100, |i| {
                if me(&sim) == Some(id(1)) {
                    on_1.push(i);
                    if i == 70 {
                        let options = TaskOptions::new().pinned(id(1));
                        let task = async {};
                        sim.executor.spawner().spawn_with(options, pool(), task).unwrap().detach();
                    }
                } else if i == 19 {
                    sleep(&sim, 1);
                } else if i == 20 {
                    assert_eq!(wake(&sim, 1), Step::Polled);
                }
            });
        });
        // It is asked after each few calls.
        let end = on_1.take().last().copied();
        assert_eq!(end < Some(80), gives_way, "{class:?}: {end:?}");
        sim.settle();
    }
}
