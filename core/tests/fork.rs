//! Fork-join with every steal where the test wants it: one thread plays all workers.

mod common;

use core::{
    cell::RefCell,
    panic::AssertUnwindSafe,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{panic::catch_unwind, sync::Mutex};

use common::{Mine, Sim, id, quiet};
use filch::{Fork, Platform, Step, WorkerId};

/// Two workers, of which the second sleeps, and so is without work.
fn sim() -> Sim {
    let sim = Sim::new(2);
    sleep(&sim);
    sim
}

/// Worker 1 goes to sleep.
fn sleep(sim: &Sim) {
    sim.on(1, |worker| assert_eq!(worker.begin_park(), Some(None)));
}

/// Worker 1 wakes and makes one step.
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

fn me(sim: &Sim) -> Option<WorkerId> {
    sim.executor.platform().current_worker()
}

fn jobs(sim: &Sim, worker: usize) -> usize {
    sim.executor.metrics().workers().nth(worker).expect("such a worker").1.jobs
}

fn online(sim: &Sim) -> usize {
    sim.executor.metrics().workers().filter(|(_, worker)| worker.online).count()
}

fn message(payload: &(dyn core::any::Any + Send)) -> &str {
    payload.downcast_ref::<&str>().expect("a text")
}

fn fib(fork: Fork<'_>, n: u32) -> u32 {
    if n < 2 {
        return n;
    }
    let (a, b) = fork.join(|fork| fib(fork, n - 1), |fork| fib(fork, n - 2));
    a + b
}

#[test]
fn nobody_steals_while_nobody_asks() {
    let sim = Sim::new(2);
    assert_eq!(fork(&sim, |fork| fib(fork, 15)), 610);
    assert_eq!((jobs(&sim, 0), jobs(&sim, 1)), (0, 0));
    assert_eq!(fib(Fork::alone(), 15), 610);
    assert_eq!(sim.step(1), Step::Idle);
}

#[test]
fn who_is_no_worker_gets_the_closure_back() {
    let sim = Sim::new(1);
    sim.on(0, |worker| assert_eq!(worker.begin_park(), Some(None)));
    let Err(f) = sim.executor.fork(|_| 7) else { panic!("there is no spare slot") };
    assert_eq!(f(Fork::alone()), 7);

    let sim = spared();
    assert!(sim.executor.fork(|_| 7).is_err(), "no worker is without work");
}

/// Two workers, both awake, and slots for two more contexts.
fn spared() -> Sim {
    let sim = Sim::offline(4, quiet().spare_slots(2));
    (0..2).for_each(|i| sim.attach(i));
    sim
}

/// A run on a context that is no worker.
fn fork_outside<R>(sim: &Sim, f: impl FnOnce(Fork<'_>) -> R) -> R {
    match sim.executor.fork(f) {
        Ok(outcome) => outcome,
        Err(_) => panic!("a worker sleeps, and a slot is free"),
    }
}

#[test]
fn who_is_no_worker_takes_the_place_of_one_that_sleeps() {
    let sim = Mine::new(spared());
    sim.on(0, |worker| assert_eq!(worker.begin_park(), Some(None)));
    sleep(&sim);
    let parked = || sim.executor.metrics().totals().parked;
    fork_outside(&sim, |_| ());
    assert_eq!(parked(), 2, "nobody was woken for nothing");
    for _ in 0..2 {
        let (a, b) = fork_outside(&sim, |fork| {
            fork.join(
                |_| {
                    assert_eq!(wake(&sim), Step::Polled);
                    me(&sim)
                },
                |_| me(&sim),
            )
        });
        assert_eq!((a, b), (Some(id(2)), Some(id(1))));
        assert_eq!(me(&sim), None);
        assert_eq!(online(&sim), 2);
        sleep(&sim);
    }
    let run = || fork_outside(&sim, |_| panic!("out of the run"));
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    assert_eq!((me(&sim), online(&sim)), (None, 2));
}

#[test]
fn no_more_contexts_work_than_there_are_workers() {
    let sim = Mine::new(spared());
    sleep(&sim);
    fork_outside(&sim, |fork| {
        let asleep = || assert_eq!(sim.executor.metrics().totals().parked, 1, "one is at work");
        fork.join(|fork| fork.join(|_| asleep(), |_| {}), |_| {});
    });
    sim.on(0, |worker| assert_eq!(worker.begin_park(), Some(None)));
    let outside = |sim: &Mine<Sim>| {
        let executor = sim.executor;
        std::thread::spawn(move || executor.fork(|_| ()).is_ok()).join().unwrap()
    };
    assert!(outside(&sim));
    let taken = Mine::new(RefCell::new(Vec::new()));
    fork_outside(&sim, |fork| {
        let job = |fork: Fork<'_>| {
            taken.borrow_mut().push(me(&sim));
            // The other worker finds what this one forks, and must not take it.
            fork.join(
                |_| {
                    sim.on(0, |worker| worker.end_park());
                    assert_eq!(sim.step(0), Step::Idle);
                    assert!(!outside(&sim), "nobody is without work who could");
                },
                |_| {},
            );
        };
        fork.join(|_| assert_eq!(wake(&sim), Step::Polled), job);
    });
    assert_eq!(*taken.borrow(), [Some(id(1))]);
    assert_eq!((jobs(&sim, 0), jobs(&sim, 1)), (0, 1));
}

#[test]
fn who_leaves_makes_room_for_a_worker() {
    let sim = Mine::new(spared());
    sim.on(0, |worker| assert_eq!(worker.begin_park(), Some(None)));
    sleep(&sim);
    let (executor, parked) = (sim.executor, || sim.executor.metrics().totals().parked);
    let (begun, begins) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let run = |_: Fork<'_>| {
            begun.send(()).unwrap();
            ends.recv().unwrap();
        };
        assert!(executor.fork(run).is_ok());
    });
    begins.recv().unwrap();
    fork_outside(&sim, |fork| {
        fork.join(
            move |fork| {
                assert!(!fork.is_wanted());
                assert_eq!(parked(), 2, "two contexts are at work");
                end.send(()).unwrap();
                other.join().unwrap();
                fork.join(|_| assert_eq!(parked(), 1), |_| {});
            },
            |_| {},
        )
    });
    sim.on(1, |worker| worker.end_park());
}

#[test]
fn a_sleeper_takes_the_second_side() {
    let sim = Mine::new(sim());
    let (a, b) = fork(&sim, |fork| {
        fork.join(
            |_| {
                assert_eq!(sim.executor.metrics().totals().parked, 0, "it was woken");
                assert_eq!(wake(&sim), Step::Polled);
                me(&sim)
            },
            |_| me(&sim),
        )
    });
    assert_eq!((a, b), (Some(id(0)), Some(id(1))));
    assert_eq!((jobs(&sim, 0), jobs(&sim, 1)), (0, 1));
}

#[test]
fn jobs_that_were_private_are_published_at_the_next_fork_oldest_first() {
    let sim = Mine::new(Sim::new(2));
    let taken = Mine::new(RefCell::new(Vec::new()));
    fork(&sim, |fork| {
        fork.join(
            |fork| {
                fork.join(
                    |fork| {
                        assert_eq!(sim.step(1), Step::Idle, "all is private");
                        sleep(&sim);
                        fork.join(|_| assert_eq!(wake(&sim), Step::Polled), |_| {});
                    },
                    |_| taken.borrow_mut().push(("inner", me(&sim))),
                )
            },
            |_| taken.borrow_mut().push(("outer", me(&sim))),
        )
    });
    assert_eq!(*taken.borrow(), [("outer", Some(id(1))), ("inner", Some(id(0)))]);
}

#[test]
fn jobs_that_were_private_are_published_at_the_next_join() {
    let sim = Mine::new(Sim::new(2));
    let outer = Mine::new(RefCell::new(None));
    fork(&sim, |fork| {
        fork.join(
            |fork| {
                fork.join(|_| sleep(&sim), |_| assert_eq!(wake(&sim), Step::Polled));
            },
            |_| *outer.borrow_mut() = me(&sim),
        )
    });
    assert_eq!(*outer.borrow(), Some(id(1)));
}

#[test]
fn jobs_of_a_worker_that_goes_to_sleep_in_a_run_are_published() {
    let sim = Mine::new(Sim::new(2));
    let (_, b) = fork(&sim, |fork| {
        fork.join(
            |_| {
                // A wait in sync code does the same.
                assert!(sim.on(0, |worker| worker.begin_park()).is_some());
                assert_eq!(sim.step(1), Step::Polled);
                sim.on(0, |worker| worker.end_park());
            },
            |_| me(&sim),
        )
    });
    assert_eq!(b, Some(id(1)));
}

#[test]
fn a_full_deque_runs_in_place() {
    fn nest(fork: Fork<'_>, depth: usize, count: &AtomicUsize) {
        if depth > 0 {
            fork.join(
                |fork| nest(fork, depth - 1, count),
                |_| {
                    count.fetch_add(1, Ordering::Relaxed);
                },
            );
        }
    }
    let sim = sim();
    let count = AtomicUsize::new(0);
    fork(&sim, |fork| nest(fork, 1_000, &count));
    assert_eq!(count.load(Ordering::Relaxed), 1_000);
}

#[test]
fn a_run_goes_on_after_steals() {
    let sim = Mine::new(sim());
    let sum = fork(&sim, |fork| {
        (0..500)
            .map(|i| {
                let (a, b) = fork.join(
                    |fork| {
                        let step = wake(&sim);
                        assert_eq!(step, Step::Polled, "round {i}");
                        let sum = fib(fork, 5);
                        sleep(&sim);
                        sum
                    },
                    |fork| fib(fork, 6),
                );
                a + b
            })
            .sum::<u32>()
    });
    assert_eq!(sum, 500 * 13);
    assert_eq!(jobs(&sim, 1), 500);
}

#[test]
fn a_worker_without_others_forks_in_place() {
    for sim in [Sim::new(1), Sim::with(2, quiet().stealing(false))] {
        let order = Mutex::new(Vec::new());
        fork(&sim, |fork| {
            fork.join(|_| order.lock().unwrap().push('a'), |_| order.lock().unwrap().push('b'))
        });
        assert_eq!(*order.lock().unwrap(), ['a', 'b']);
    }
}

/// The result of a run whose sides may panic, and whose second side may be stolen.
fn panics(stolen: bool, a_panics: bool, b_panics: bool) -> (Option<&'static str>, usize) {
    let sim = Mine::new(if stolen { sim() } else { Sim::new(2) });
    let ran = AtomicUsize::new(0);
    let run = || {
        fork(&sim, |fork| {
            fork.join(
                |_| {
                    if stolen {
                        assert_eq!(wake(&sim), Step::Polled);
                    }
                    ran.fetch_add(1, Ordering::Relaxed);
                    assert!(!a_panics, "a");
                },
                |_| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    assert!(!b_panics, "b");
                },
            );
        });
    };
    let at = core::ptr::from_ref(sim.executor.platform());
    let outcome = catch_unwind(AssertUnwindSafe(run));
    if outcome.is_err() {
        // The panic has left the context of worker 0.
        common::forget_context(at);
    }
    assert_eq!(fork(&sim, |fork| fib(fork, 10)), 55, "the worker is good for more");
    let text = outcome.err().map(|payload| match message(&*payload) {
        "a" => "a",
        _ => "b",
    });
    (text, ran.into_inner())
}

#[test]
fn both_sides_run_to_an_end_and_the_first_panic_goes_on() {
    for stolen in [false, true] {
        assert_eq!(panics(stolen, false, false), (None, 2));
        assert_eq!(panics(stolen, true, false), (Some("a"), 2), "stolen: {stolen}");
        assert_eq!(panics(stolen, false, true), (Some("b"), 2), "stolen: {stolen}");
        assert_eq!(panics(stolen, true, true), (Some("a"), 2), "stolen: {stolen}");
    }
}

#[test]
fn loops_call_each_index_once_and_split_for_a_sleeper() {
    let sim = Mine::new(Sim::new(2));
    let calls: Vec<_> = (0..100).map(|_| AtomicUsize::new(0)).collect();
    let on_1 = AtomicUsize::new(0);
    fork(&sim, |fork| {
        fork.for_each(0..100, |i| {
            calls[i].fetch_add(1, Ordering::Relaxed);
            if me(&sim) == Some(id(1)) {
                on_1.fetch_add(1, Ordering::Relaxed);
            } else if i == 19 {
                sleep(&sim);
            } else if i == 20 {
                assert_eq!(wake(&sim), Step::Polled);
            }
        });
    });
    assert!(calls.iter().all(|n| n.load(Ordering::Relaxed) == 1));
    assert_eq!(on_1.into_inner(), 40, "the second half of what was left");
    let mut elements = vec![0_u32; 100];
    fork(&sim, |fork| fork.for_each_mut(&mut elements, |n| *n += 1));
    assert!(elements.iter().all(|n| *n == 1));
}

#[test]
fn reductions_keep_the_order() {
    let sim = Mine::new(Sim::new(2));
    let text = fork(&sim, |fork| {
        fork.map_reduce(
            0..30,
            |i| {
                if me(&sim) == Some(id(0)) && i == 4 {
                    sleep(&sim);
                } else if me(&sim) == Some(id(0)) && i == 5 {
                    assert_eq!(wake(&sim), Step::Polled);
                }
                format!("{i} ")
            },
            |a, b| a + &b,
        )
    });
    let wanted: String = (0..30).map(|i| format!("{i} ")).collect();
    assert_eq!(text, Some(wanted));
    assert_eq!(jobs(&sim, 1), 1);
    assert_eq!(fork(&sim, |fork| fork.map_reduce(0..0, |i| i, |a, b| a + b)), None);
}

#[test]
fn a_scope_ends_after_all_its_jobs() {
    let sim = Mine::new(Sim::new(2));
    let done = Mine::new(RefCell::new(vec![0; 100]));
    fork(&sim, |fork| {
        fork.scope(|scope| {
            for i in 0..100 {
                let (done, sim) = (&done, &sim);
                scope.spawn(move |fork| {
                    assert_eq!(fib(fork, 6), 8);
                    done.borrow_mut()[i] += 1 + usize::from(me(sim) == Some(id(1)));
                });
                match i % 10 {
                    3 => sleep(sim),
                    4 => assert_eq!(wake(sim), Step::Polled),
                    _ => {}
                }
            }
        });
        assert!(done.borrow().iter().all(|n| *n > 0));
    });
    assert_eq!(done.borrow().iter().filter(|n| **n == 2).count(), 10);
    assert_eq!(jobs(&sim, 1), 10);
}

#[test]
fn a_job_that_is_too_large_to_wait_runs_at_once() {
    let sim = Sim::new(2);
    let order = Mutex::new(Vec::new());
    fork(&sim, |fork| {
        fork.scope(|scope| {
            scope.spawn(|_| order.lock().unwrap().push("small"));
            let large = [0_u8; 100];
            let order = &order;
            scope.spawn(move |_| {
                assert_eq!(large.len(), 100);
                order.lock().unwrap().push("large");
            });
        });
    });
    assert_eq!(*order.lock().unwrap(), ["large", "small"]);
}

#[test]
fn a_scope_that_panics_waits_for_its_jobs() {
    for (body_panics, job_panics) in [(true, false), (false, true), (true, true)] {
        let sim = Mine::new(Sim::new(2));
        let ran = AtomicUsize::new(0);
        let run = || {
            fork(&sim, |fork| {
                fork.scope(|scope| {
                    for i in 0..20 {
                        let ran = &ran;
                        scope.spawn(move |_| {
                            ran.fetch_add(1, Ordering::Relaxed);
                            assert!(!job_panics || i != 7, "job");
                        });
                        if i == 7 {
                            sleep(&sim);
                        } else if i == 8 {
                            while wake(&sim) == Step::Polled {}
                        }
                    }
                    assert!(!body_panics, "body");
                });
            });
        };
        let at = core::ptr::from_ref(sim.executor.platform());
        let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("something panics");
        common::forget_context(at);
        assert_eq!(message(&*payload), if body_panics { "body" } else { "job" });
        assert_eq!(ran.into_inner(), 20);
    }
}

#[test]
fn scopes_nest_in_jobs_and_joins() {
    fn tree(fork: Fork<'_>, depth: u32, leaves: &AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        fork.scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|fork| tree(fork, depth - 1, leaves));
            }
            scope.fork().join(|fork| tree(fork, depth - 1, leaves), |_| {});
        });
    }
    let leaves = AtomicUsize::new(0);
    let sim = sim();
    fork(&sim, |fork| tree(fork, 5, &leaves));
    assert_eq!(leaves.into_inner(), 243);
}

#[test]
fn a_worker_that_is_dropped_in_its_own_run_stays_online_until_its_end() {
    let executor = Sim::leak_offline(2, quiet());
    let platform = executor.platform();
    let is_online = || executor.metrics().workers().next().expect("worker 0").1.online;
    let worker = executor.worker(id(0)).expect("offline");
    let mut worker = Some(worker);
    let run = executor.fork(|fork| {
        drop(worker.take());
        assert_eq!(platform.current_worker(), Some(id(0)));
        assert!(is_online());
        fib(fork, 10)
    });
    assert_eq!(run.ok(), Some(55));
    assert_eq!(platform.current_worker(), None);
    assert!(!is_online());
}

/// A loop of 100 calls on worker 0. Worker 1 is awake at the 21st call and takes half of the rest; a call takes 100 us
/// there.
fn give_back(sim: &Mine<Sim>, rest: impl Fn(usize) + Sync) -> Vec<usize> {
    let on_1 = Mine::new(RefCell::new(Vec::new()));
    fork(sim, |fork| {
        fork.for_each(0..100, |i| {
            if me(sim) == Some(id(1)) {
                sim.executor.platform().advance(Duration::from_micros(100));
                on_1.borrow_mut().push(i);
            } else if i == 19 {
                sleep(sim);
            } else if i == 20 {
                assert_eq!(wake(sim), Step::Polled);
            } else {
                rest(i);
            }
        });
    });
    on_1.take()
}

#[test]
fn a_piece_of_a_loop_is_given_back_after_its_slice() {
    let sim = Mine::new(Sim::new(2));
    let rest = Mutex::new(Vec::new());
    assert_eq!(give_back(&sim, |i| rest.lock().unwrap().push(i)), (60..71).collect::<Vec<_>>());
    let wanted: Vec<_> = (0..19).chain(21..60).chain(71..100).collect();
    assert_eq!(rest.into_inner().unwrap(), wanted);
    let sim = Mine::new(Sim::with(2, quiet().job_slice(Duration::MAX)));
    assert_eq!(give_back(&sim, |_| {}), (60..100).collect::<Vec<_>>());
}

#[test]
fn workers_beyond_the_limit_take_no_jobs() {
    let sim = Mine::new(Sim::with(3, quiet().job_workers(1)));
    sleep(&sim);
    let order = Mutex::new(Vec::new());
    fork(&sim, |fork| {
        fork.scope(|scope| {
            let (order, sim) = (&order, &sim);
            scope.spawn(move |_| {
                // On worker 1; the other job is public by now, and worker 2 leaves it alone.
                assert_eq!(me(sim), Some(id(1)));
                assert_eq!(sim.step(2), Step::Idle);
                assert!(sim.on(2, |worker| worker.begin_park()).is_some(), "no work for worker 2");
                sim.on(2, |worker| worker.end_park());
                order.lock().unwrap().push(1);
            });
            scope.spawn(move |_| order.lock().unwrap().push(2));
            sim.executor.unpark_worker(id(1));
            assert_eq!(wake(sim), Step::Polled);
        });
    });
    assert_eq!(*order.lock().unwrap(), [1, 2]);
    assert_eq!((jobs(&sim, 1), jobs(&sim, 2)), (1, 0));
}
