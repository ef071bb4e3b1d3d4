//! Coroutines with stacks of their own, suspended in a fork: their frames end in any order.

use core::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{collections::HashSet, rc::Rc, sync::Mutex, thread};

use filch_std::{Runtime, TaskOptions, parallel, runtime::WorkerId};
use filch_test_support::{Coroutine, Drops, Suspend, coroutine, rng, until, watchdog};

const ROUNDS: usize = 30;

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Waits until both workers are without work. Then a run begins on the calling thread, in the place of one of them. If one is
/// at work again, the run is a task, and moves there; then nothing in it can be suspended.
fn rest(runtime: &Runtime) {
    until(|| runtime.metrics().totals().parked == 2);
}

/// Forks until another worker takes part: it would find whatever was left in the deque first.
fn have_one_stolen() {
    loop {
        let threads = Mutex::new(HashSet::new());
        parallel::for_each(0..64, |_| {
            thread::yield_now();
            threads.lock().unwrap().insert(thread::current().id());
        });
        if threads.into_inner().unwrap().len() > 1 {
            return;
        }
    }
}

/// A coroutine that adds to the sum, after it was suspended in a tree of forks as often as there are leaves.
fn tree(sum: &Rc<Cell<usize>>, leaves: usize) -> Coroutine {
    fn count(suspend: &Suspend<'_>, stays: bool, leaves: usize) -> usize {
        if leaves == 1 {
            if stays {
                suspend.now();
            }
            return 1;
        }
        // Only first sides stay on the coroutine's stack.
        let (a, b) = parallel::join(
            || count(suspend, stays, leaves / 2),
            || count(suspend, false, leaves - leaves / 2),
        );
        a + b
    }
    let sum = Rc::clone(sum);
    coroutine(move |suspend| {
        let leaves = count(&suspend, true, leaves);
        sum.set(sum.get() + leaves);
    })
}

/// Two coroutines that are suspended in a join end in the order of their beginning.
fn two_joins() {
    let sum = Rc::new(Cell::new(0));
    let [mut first, mut second] = [(); 2].map(|()| tree(&sum, 2));
    first.resume();
    second.resume();
    assert!(first.resume());
    assert!(second.resume());
    // Their stacks are gone.
    drop((first, second));
    assert_eq!(sum.get(), 4);
}

#[test]
fn two_joins_end_in_another_order_in_a_task() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    for _ in 0..ROUNDS {
        let task = runtime.spawn(async {
            two_joins();
            have_one_stolen();
        });
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn two_joins_end_in_another_order_in_a_thread_that_helps() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    for _ in 0..ROUNDS {
        rest(&runtime);
        runtime.block_on(async {
            two_joins();
            have_one_stolen();
        });
        // It is no worker any more.
        assert_eq!(runtime.handle().current_worker(), None);
    }
}

#[test]
fn two_joins_end_in_another_order_in_one_run() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    for _ in 0..ROUNDS {
        rest(&runtime);
        runtime.handle().fork(|_| {
            two_joins();
            have_one_stolen();
        });
    }
}

#[test]
fn a_run_is_suspended_in_a_thread_that_helps() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    let handle = *runtime.handle();
    // The other tests rely on it, most of the time.
    loop {
        rest(&runtime);
        let mut run = coroutine(move |suspend| handle.fork(|_| suspend.now()));
        if !run.resume() {
            assert!(handle.current_worker().is_some());
            assert!(run.resume());
            return;
        }
    }
}

#[test]
fn a_join_ends_after_the_run_of_another_coroutine() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    let handle = *runtime.handle();
    for _ in 0..ROUNDS {
        rest(&runtime);
        let sum = Rc::new(Cell::new(0));
        let mut run = coroutine(move |suspend| handle.fork(|_| suspend.now()));
        run.resume();
        // On top of that run, on a stack of its own.
        let mut join = tree(&sum, 4);
        join.resume();
        assert!(run.resume());
        assert!(join.resume());
        assert_eq!(sum.get(), 4);
        assert_eq!(handle.current_worker(), None);
    }
}

#[test]
fn runs_end_in_the_order_of_their_beginning() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    let handle = *runtime.handle();
    for _ in 0..ROUNDS {
        rest(&runtime);
        let mut runs = [(); 3].map(|()| {
            coroutine(move |suspend| {
                handle.fork(|_| {
                    suspend.now();
                    assert_eq!(parallel::map_reduce(0..100, |i| i, |a, b| a + b), Some(4950));
                });
            })
        });
        runs.iter_mut().for_each(|run| _ = run.resume());
        assert!(runs.iter_mut().all(Coroutine::resume));
        assert_eq!(handle.current_worker(), None);
        runtime.block_on(async { have_one_stolen() });
    }
}

#[test]
fn loops_and_scopes_end_in_another_order() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    for _ in 0..ROUNDS {
        rest(&runtime);
        runtime.block_on(async {
            let sum = Rc::new(Cell::new(0));
            let mut all = [0, 1, 2].map(|kind| {
                let sum = Rc::clone(&sum);
                coroutine(move |suspend| {
                    let ran = AtomicUsize::new(0);
                    let run = || _ = ran.fetch_add(1, Ordering::Relaxed);
                    match kind {
                        0 => parallel::for_each(0..8, |i| {
                            run();
                            if i == 0 {
                                suspend.now();
                            }
                        }),
                        1 => parallel::scope(|scope| {
                            for _ in 0..3 {
                                scope.spawn(|_| run());
                            }
                            suspend.now();
                            for _ in 0..30 {
                                scope.spawn(|_| run());
                            }
                        }),
                        _ => parallel::run(|fork| {
                            fork.join(|_| suspend.now(), |_| run());
                            fork.scope(|scope| scope.spawn(|_| run()));
                        }),
                    }
                    sum.set(sum.get() + ran.into_inner());
                })
            });
            all.iter_mut().for_each(|each| _ = each.resume());
            assert!(all.iter_mut().all(Coroutine::resume));
            assert_eq!(sum.get(), 8 + 33 + 2);
            have_one_stolen();
        });
        assert_eq!(runtime.handle().current_worker(), None);
    }
}

#[test]
fn many_joins_end_in_any_order() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    let mut rng = rng();
    let orders: Vec<Vec<usize>> =
        (0..100).map(|_| (0..200).map(|_| rng.usize(..8)).collect()).collect();
    for order in orders {
        let on_a_worker = rng.bool();
        let body = move || {
            let (sum, mut expected) = (Rc::new(Cell::new(0)), 0);
            let mut all: [Option<Coroutine>; 8] = Default::default();
            for n in order {
                match &mut all[n] {
                    Some(under_way) => {
                        if under_way.resume() {
                            all[n] = None;
                        }
                    }
                    none => {
                        let leaves = 1 + n * 3;
                        *none = Some(tree(&sum, leaves));
                        expected += leaves;
                    }
                }
            }
            for mut left in all.into_iter().flatten() {
                while !left.resume() {}
            }
            assert_eq!(sum.get(), expected);
            have_one_stolen();
        };
        if on_a_worker {
            runtime.block_on(runtime.spawn(async move { body() })).unwrap();
        } else {
            rest(&runtime);
            runtime.block_on(async move { body() });
            assert_eq!(runtime.handle().current_worker(), None);
        }
    }
}

#[test]
fn coroutines_are_dropped_in_the_midst_of_joins() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    for on_a_worker in [true, false] {
        for _ in 0..ROUNDS {
            let body = || {
                let drops = Drops::new();
                let mut all = [(); 3].map(|()| {
                    let [a, b] = [drops.tally(), drops.tally()];
                    coroutine(move |suspend| {
                        let first = move || {
                            suspend.now();
                            drop(a);
                        };
                        parallel::join(first, move || drop(b));
                    })
                });
                all.iter_mut().for_each(|each| _ = each.resume());
                let [a, b, c] = all;
                drop(b);
                // A second side may have run already, on the other worker.
                assert!(drops.count() >= 2);
                drop((a, c));
                assert_eq!(drops.count(), 6);
                have_one_stolen();
            };
            if on_a_worker {
                runtime.block_on(runtime.spawn(async move { body() })).unwrap();
            } else {
                rest(&runtime);
                runtime.block_on(async move { body() });
                assert_eq!(runtime.handle().current_worker(), None);
            }
        }
    }
}

thread_local! {
    static KEPT: RefCell<Option<Coroutine>> = const { RefCell::new(None) };
}

#[test]
fn a_join_goes_on_in_another_poll_of_its_worker() {
    let _watchdog = watchdog();
    let runtime = runtime(2);
    let pinned = |f: fn()| {
        let task = runtime
            .handle()
            .spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async move { f() })
            .unwrap();
        runtime.block_on(task).unwrap();
    };
    for _ in 0..ROUNDS {
        pinned(|| {
            let mut join = tree(&Rc::new(Cell::new(0)), 4);
            assert!(!join.resume());
            KEPT.set(Some(join));
        });
        pinned(have_one_stolen);
        pinned(|| KEPT.with_borrow_mut(|join| assert!(join.as_mut().unwrap().resume())));
        pinned(have_one_stolen);
    }
}

#[test]
fn a_runtime_ends_with_a_coroutine_in_a_join() {
    let _watchdog = watchdog();
    for _ in 0..ROUNDS {
        let runtime = runtime(2);
        let drops = Drops::new();
        let tally = drops.tally();
        let suspended = async move {
            let mut join = coroutine(move |suspend| {
                parallel::join(|| suspend.now(), move || drop(tally));
            });
            assert!(!join.resume());
            KEPT.set(Some(join));
        };
        let suspended =
            runtime.handle().spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), suspended);
        runtime.block_on(suspended.unwrap()).unwrap();
        // The worker's thread drops the coroutine as it ends.
        drop(runtime);
        assert_eq!(drops.count(), 1);
    }
}

/// A coroutine is suspended in a call of its worker that is at work as its runtime ends: the next runtime may have the worker's memory.
fn ends_with(spares: u16, call: fn(filch_std::Handle, &Suspend)) {
    let _watchdog = watchdog();
    for _ in 0..ROUNDS {
        let runtime = filch_std::Runtime::builder().workers(2).spare_slots(spares).build().unwrap();
        let handle = *runtime.handle();
        let drops = Drops::new();
        let tally = drops.tally();
        let suspended = async move {
            let mut call = coroutine(move |suspend| {
                call(handle, &suspend);
                drop(tally);
            });
            assert!(!call.resume());
            KEPT.set(Some(call));
        };
        let suspended = handle.spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), suspended);
        runtime.block_on(suspended.unwrap()).unwrap();
        drop(runtime);
        assert_eq!(drops.count(), 1);
        // It has all of its workers.
        let runtime = filch_std::Runtime::builder().workers(2).spare_slots(spares).build().unwrap();
        for worker in [0, 1].map(WorkerId::new) {
            let task =
                runtime.handle().spawn_with(TaskOptions::new().pinned(worker), async {}).unwrap();
            runtime.block_on(task).unwrap();
        }
    }
}

#[test]
fn a_runtime_ends_with_a_coroutine_in_a_closure_in_place() {
    for spares in [0, 2] {
        ends_with(spares, |handle, suspend| handle.block_in_place(|| suspend.now()));
    }
}

#[test]
fn a_runtime_ends_with_a_coroutine_in_a_wait() {
    ends_with(0, |handle, suspend| handle.block_on(async { suspend.now() }));
}

#[test]
fn a_runtime_ends_with_a_coroutine_in_a_join_in_a_closure_in_place() {
    ends_with(2, |handle, suspend| {
        handle.block_in_place(|| parallel::join(|| suspend.now(), || ()));
    });
}
