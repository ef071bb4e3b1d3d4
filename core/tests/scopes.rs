//! Scopes whose handle gets where `Send` should keep it from: everything runs once all the same.

mod common;

use core::{
    cell::RefCell,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use std::panic::catch_unwind;

use common::{Mine, Sim};
use filch::{Fork, Platform, Step};

/// Worker 1 goes to sleep, and so is without work.
fn sleep(sim: &Sim) {
    sim.on(1, |worker| assert_eq!(worker.begin_park(), Some(None)));
}

/// Worker 1 wakes and does one thing.
fn wake(sim: &Sim) -> Step {
    sim.on(1, |worker| {
        worker.end_park();
        worker.step()
    })
}

fn fork<R>(sim: &Sim, f: impl FnOnce(Fork<'_>) -> R) -> R {
    sim.on(0, |_| match sim.executor.fork(f) {
        Ok(outcome) => outcome,
        Err(_) => panic!("worker 0 is a worker"),
    })
}

/// A program may force a scope into the first side of a join, knowing that this side stays on its thread. (`Mine`
/// checks that it does.)
#[test]
fn a_scope_in_the_side_of_a_join_runs_its_jobs_at_once() {
    let sim = Mine::new(Sim::new(2));
    let (sides, spawned) = (AtomicUsize::new(0), AtomicUsize::new(0));
    fork(&sim, |fork| {
        fork.scope(|scope| {
            let scope = Mine::new(scope);
            for _ in 0..50 {
                scope.fork().join(
                    |_| scope.spawn(|_| _ = spawned.fetch_add(1, Relaxed)),
                    |_| sides.fetch_add(1, Relaxed),
                );
            }
        });
        // Passes on what is left in the deque.
        fork.join(|_| (), |_| ());
        sleep(&sim);
        fork.join(|_| while wake(&sim) == Step::Polled {}, |_| ());
    });
    assert_eq!((sides.into_inner(), spawned.into_inner()), (50, 50));
}

/// The other side of the join was stolen: nothing is below, and what is spawned there waits for the end of the scope, while
/// more comes and goes above it.
#[test]
fn a_scope_in_the_side_of_a_join_whose_other_side_was_stolen() {
    let sim = Mine::new(Sim::new(2));
    sleep(&sim);
    let order = Mine::new(RefCell::new(Vec::new()));
    fork(&sim, |fork| {
        fork.scope(|scope| {
            let scope = Mine::new(scope);
            scope.fork().join(
                |_| {
                    assert_eq!(wake(&sim), Step::Polled);
                    scope.spawn(|_| order.borrow_mut().push("first"));
                },
                |_| order.borrow_mut().push("side"),
            );
            scope.spawn(|_| order.borrow_mut().push("second"));
            sleep(&sim);
            // Two are public at most: the older one is taken.
            scope.fork().join(
                |_| assert_eq!(wake(&sim), Step::Polled),
                |_| {
                    order.borrow_mut().push("last side");
                },
            );
        });
    });
    assert_eq!(*order.borrow(), ["side", "first", "last side", "second"]);
}

/// Without a worker nothing contains a second panic: what comes after the first is dropped.
#[test]
fn alone_the_first_panic_ends_it() {
    let after = AtomicUsize::new(0);
    let count = |_: Fork<'_>| _ = after.fetch_add(1, Relaxed);
    let side = catch_unwind(|| Fork::alone().join(|_| panic!("a"), |_| panic!("b")));
    assert_eq!(side.unwrap_err().downcast_ref(), Some(&"a"));
    let body = catch_unwind(AssertUnwindSafe(|| {
        Fork::alone().scope(|scope| {
            scope.spawn(count);
            scope.spawn(|_| panic!("job"));
            scope.spawn(count);
        });
    }));
    assert_eq!(body.unwrap_err().downcast_ref(), Some(&"job"));
    assert_eq!(after.into_inner(), 1);
}

/// More jobs than a scope has room for, all of which are stolen: the room of those that are done is used again.
#[test]
fn a_scope_whose_jobs_are_all_stolen_has_room_for_more() {
    let sim = Mine::new(Sim::new(2));
    let ran_on = [const { AtomicUsize::new(0) }; 2];
    let executor = sim.executor;
    fork(&sim, |fork| {
        fork.scope(|scope| {
            for _ in 0..50 {
                sleep(&sim);
                scope.spawn(|_| {
                    let worker = executor.platform().current_worker().expect("a worker runs it");
                    ran_on[worker.index()].fetch_add(1, Relaxed);
                });
                assert_eq!(wake(&sim), Step::Polled);
            }
        });
    });
    assert_eq!(ran_on.map(AtomicUsize::into_inner), [0, 50]);
}

/// It is boxed, and waits as a small one does: a sleeper takes it.
#[cfg(feature = "alloc")]
#[test]
fn a_large_job_can_be_stolen() {
    let sim = Mine::new(Sim::new(2));
    sleep(&sim);
    let worker = || sim.executor.platform().current_worker();
    let ran_on = Mine::new(RefCell::new(None));
    fork(&sim, |fork| {
        fork.scope(|scope| {
            let (large, ran_on, worker) = ([1_u8; 100], &ran_on, &worker);
            scope.spawn(move |_| *ran_on.borrow_mut() = worker().map(|id| (id, large[99])));
            assert_eq!(wake(&sim), Step::Polled);
        });
    });
    assert_eq!(*ran_on.borrow(), Some((common::id(1), 1)));
}
