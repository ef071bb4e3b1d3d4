//! `block_on` and `join` in sync code: on threads and workers, nested, too deep, on itself.

mod common;

use core::{
    future::{Future, pending},
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    task::Context,
    time::Duration,
};
use std::{
    sync::{Arc, Mutex},
    thread,
};

use common::{Flag, runtime, until, watchdog};
use filch_std::{
    JoinError, JoinHandle, Runtime, TaskOptions, runtime::WorkerId, task::yield_now, time::sleep,
};

#[test]
fn block_on_runs_a_future_that_need_not_be_send() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let local = std::rc::Rc::new(4);
    let text = String::from("borrowed");
    let length = rt.block_on(async {
        yield_now().await;
        text.len() + *local
    });
    assert_eq!(length, 12);
}

#[test]
fn block_on_sleeps_until_it_is_woken() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let flag = Flag::new();
    let set = flag.clone();
    let setter = thread::spawn(move || {
        until(|| set.is_awaited());
        set.set();
    });
    rt.block_on(flag.wait());
    setter.join().unwrap();
    for _ in 0..1_000 {
        assert_eq!(rt.block_on(rt.spawn(async { 1 })).unwrap(), 1);
    }
}

#[test]
fn block_on_of_many_threads() {
    let _watchdog = watchdog();
    for workers in [1, 3] {
        let rt = runtime(workers);
        thread::scope(|s| {
            for i in 0..8_u64 {
                let rt = &rt;
                s.spawn(move || {
                    for k in 0..100 {
                        let future = async move {
                            yield_now().await;
                            filch_std::spawn(async move { i + k }).await.unwrap()
                        };
                        assert_eq!(rt.block_on(rt.spawn(future)).unwrap(), i + k);
                    }
                });
            }
        });
    }
}

#[test]
fn block_on_in_a_task_lets_the_others_run() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let nested = rt.spawn(async {
        filch_std::block_on(async {
            let other = filch_std::spawn(async {
                yield_now().await;
                5
            });
            other.await.unwrap()
        })
    });
    assert_eq!(rt.block_on(nested).unwrap(), 5);
}

#[test]
fn block_on_in_a_task_that_only_yields_lets_the_others_run() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let flag = Flag::new();
    let set = flag.clone();
    let waits = rt.spawn(async move {
        filch_std::block_on(async move {
            while !flag.is_set() {
                yield_now().await;
            }
        })
    });
    let sets = rt.spawn(async move { set.set() });
    rt.block_on(waits).unwrap();
    rt.block_on(sets).unwrap();
}

#[test]
fn block_on_in_a_task_has_no_end_of_its_budget() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let mut handle = rt.spawn(async {
        let finished: Vec<_> = (0..1_000).map(|i| filch_std::spawn(async move { i })).collect();
        while !finished.iter().all(JoinHandle::is_finished) {
            yield_now().await;
        }
        filch_std::block_on(async {
            let mut sum = 0;
            for handle in finished {
                sum += handle.await.unwrap();
                filch_std::task::consume_budget().await;
            }
            sum
        })
    });
    assert_eq!(handle.join().unwrap(), 499_500);
}

/// `block_on` nested `depth` deep, each level in a task of its own.
fn descend(depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    filch_std::block_on(async move { filch_std::spawn(async move { descend(depth - 1) }).await })
        .unwrap()
        + 1
}

#[test]
fn block_on_nests_deeper_than_the_limit_with_stand_ins() {
    let _watchdog = watchdog();
    for (workers, nesting, depth) in [(1, 32, 30), (1, 32, 100), (2, 4, 20), (1, 0, 5), (3, 1, 10)]
    {
        let rt = Runtime::builder().workers(workers).nesting(nesting).build().unwrap();
        let deep = rt.spawn(async move { descend(depth) });
        // A helper would take a spare slot.
        until(|| deep.is_finished());
        assert_eq!(rt.block_on(deep).unwrap(), depth);
        // The compensation workers end.
        let online = || rt.metrics().workers().filter(|(_, w)| w.online).count();
        until(|| online() == workers);
    }
}

#[test]
fn block_on_deeper_than_the_limit_is_woken_from_outside() {
    // No spare slot is left, and the wait ends by a thread that is no worker.
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).nesting(0).build().unwrap();
    let flags: Vec<_> = (0..9).map(|_| Flag::new()).collect();
    let blocked: Vec<_> = flags
        .iter()
        .map(|flag| {
            let wait = flag.wait();
            rt.spawn(async move { filch_std::block_on(wait) })
        })
        .collect();
    // One worker and eight compensation workers, each in a `block_on` of its own.
    until(|| flags.iter().all(Flag::is_awaited));
    for (flag, mut task) in flags.into_iter().rev().zip(blocked.into_iter().rev()) {
        flag.set();
        until(|| task.is_finished());
        task.join().unwrap();
    }
    assert_eq!(rt.spawn(async { 3 }).join().unwrap(), 3);
}

#[test]
fn block_on_deeper_than_the_limit_runs_what_is_pinned_to_its_worker() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(2).nesting(0).build().unwrap();
    let pinned = rt.handle().spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async {
        filch_std::block_on(async {
            let inner =
                filch_std::spawn_with(TaskOptions::new().pinned(WorkerId::new(0)), async { 6 })
                    .unwrap();
            inner.await.unwrap()
        })
    });
    assert_eq!(rt.block_on(pinned.unwrap()).unwrap(), 6);
}

/// Joins nested `depth` deep; returns the deepest level that was reached.
fn join_down(depth: usize) -> Result<usize, usize> {
    if depth == 0 {
        return Ok(0);
    }
    let mut handle = filch_std::spawn(async move { join_down(depth - 1) });
    match handle.join() {
        Ok(result) => result.map(|n| n + 1).map_err(|n| n + 1),
        Err(JoinError::TooDeep) => {
            assert!(!handle.is_finished());
            handle.detach();
            Err(0)
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn joins_nest_and_too_deep_is_an_error() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).nesting(8).build().unwrap();
    let down = |depth| {
        let mut handle = rt.spawn(async move { join_down(depth) });
        until(|| handle.is_finished());
        let result = handle.join().unwrap();
        // The rest of a descent that was cut off runs by itself.
        until(|| rt.metrics().totals().live == 0);
        let online = || rt.metrics().workers().filter(|(_, w)| w.online).count();
        until(|| online() == 1);
        result
    };
    assert_eq!(down(8), Ok(8));
    assert_eq!(down(9), Ok(9), "with a stand-in");
    assert_eq!(down(8 * 9), Ok(8 * 9), "with all of them");
    // One worker and eight compensation workers, eight deep each, and one more each that sleeps.
    assert!(down(200).is_err());
    assert_eq!(down(20), Ok(20), "and it goes on as before");
}

#[test]
fn join_from_a_foreign_thread() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        let rt = runtime(workers);
        for i in 0..1_000 {
            assert_eq!(rt.spawn(async move { i }).join().unwrap(), i);
        }
        let flag = Flag::new();
        let mut handle = rt.spawn(flag.wait());
        let joiner = thread::spawn(move || handle.join());
        until(|| flag.is_awaited());
        flag.set();
        joiner.join().unwrap().unwrap();
    }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let mut left = filch_std::spawn(async move { fib(n - 1) });
    let right = fib(n - 2);
    left.join().unwrap() + right
}

#[test]
fn spawn_and_join_on_workers() {
    let _watchdog = watchdog();
    for workers in [1, 4] {
        let rt = runtime(workers);
        assert_eq!(rt.block_on(rt.spawn(async { fib(12) })).unwrap(), 144);
    }
}

#[test]
fn a_task_that_joins_itself_is_told() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let own: Arc<Mutex<Option<JoinHandle<i32>>>> = Arc::default();
    let (inside, ready) = (Arc::clone(&own), Flag::new());
    let wait = ready.wait();
    let handle = rt.spawn(async move {
        wait.await;
        let mut handle = inside.lock().unwrap().take().unwrap();
        assert!(matches!(handle.join(), Err(JoinError::OnItself)));
        *inside.lock().unwrap() = Some(handle);
        12
    });
    *own.lock().unwrap() = Some(handle);
    ready.set();
    let back = || own.lock().unwrap().as_ref().is_some_and(JoinHandle::is_finished);
    until(back);
    let mut handle = own.lock().unwrap().take().unwrap();
    assert_eq!(handle.join().unwrap(), 12, "the handle stayed good");
}

#[test]
fn a_worker_of_one_runtime_waits_for_another() {
    let _watchdog = watchdog();
    let (a, b) = (runtime(2), runtime(1));
    let (to_a, to_b) = (*a.handle(), *b.handle());
    let mut there_and_back = a.spawn(async move {
        let outer = to_b.spawn(async move {
            // On a worker of `b`, whose task waits for the other worker of `a`.
            to_a.spawn(async { 1 }).await.unwrap() + 1
        });
        // The thread is in `b` here, and further down its stack in `a`.
        let inside = to_b.block_on(async move {
            filch_std::spawn(async {}).await.unwrap();
            outer.await.unwrap()
        });
        filch_std::spawn_with(TaskOptions::new().pinned(WorkerId::new(1)), async {})
            .expect("`a` has two")
            .detach();
        inside + 1
    });
    assert_eq!(there_and_back.join().unwrap(), 3);
}

#[test]
fn the_watchdog_frees_the_task_behind_a_stuck_poll() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    for _ in 0..20 {
        let ran = Flag::new();
        let set = ran.clone();
        let mut stuck = rt.spawn(async move {
            // Into the LIFO slot of this worker, which is never stolen from; this poll ends when
            // that task has run.
            let behind = filch_std::spawn(async move { set.set() });
            ran.block();
            behind.detach();
        });
        stuck.join().unwrap();
    }
    let rescues: usize = rt.metrics().workers().map(|(_, w)| w.rescues).sum();
    assert!(rescues > 0, "a worker watched");
}

#[test]
fn an_aborted_task_that_blocks_ends_when_it_lets_go() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let (entered, flag) = (Flag::new(), Flag::new());
    let (set, wait) = (entered.clone(), flag.wait());
    let mut blocked = rt.spawn(async move {
        filch_std::block_on(async move {
            set.set();
            wait.await;
        });
        pending::<()>().await;
    });
    entered.block();
    blocked.abort();
    assert_eq!(rt.spawn(async { 1 }).join().unwrap(), 1, "the worker helps meanwhile");
    assert!(!blocked.is_finished());
    flag.set();
    assert!(blocked.join().unwrap_err().is_cancelled());
}

#[test]
fn block_on_deeper_than_all_stand_ins_ends() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).nesting(8).build().unwrap();
    let deep = rt.spawn(async move { descend(200) });
    // With the output or with a panic, but it ends.
    until(|| deep.is_finished());
}

#[test]
fn a_foreign_block_on_in_a_task_has_no_end_of_its_budget() {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let _watchdog = watchdog();
    let rt = runtime(1);
    let mut handle = rt.spawn(async {
        let finished: Vec<_> = (0..300).map(|i| filch_std::spawn(async move { i })).collect();
        while !finished.iter().all(JoinHandle::is_finished) {
            yield_now().await;
        }
        // As `block_on` of other crates does.
        let waker = Arc::new(Unpark(thread::current())).into();
        let mut cx = Context::from_waker(&waker);
        let mut all = pin!(async {
            for handle in finished {
                handle.await.unwrap();
            }
        });
        while all.as_mut().poll(&mut cx).is_pending() {
            thread::park();
        }
    });
    handle.join().unwrap();
}

#[test]
fn workers_in_block_in_place_are_replaced() {
    let _watchdog = watchdog();
    let rt = Runtime::builder().workers(1).nesting(0).spare_slots(3).build().unwrap();
    let handle = *rt.handle();
    assert_eq!(handle.block_in_place(|| handle.current_worker()), None);
    let barrier = Arc::new(std::sync::Barrier::new(4));
    let blocked: Vec<_> = (0..3)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            rt.spawn(async move {
                handle.block_in_place(|| barrier.wait());
                handle.current_worker()
            })
        })
        .collect();
    // All of them are in their calls at once.
    barrier.wait();
    for task in blocked {
        assert!(rt.block_on(task).unwrap().is_some());
    }
    let panics = rt.spawn(async move { handle.block_in_place(|| panic!("in place")) });
    assert!(matches!(rt.block_on(panics), Err(JoinError::Panicked(_))));
    assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
}

/// A task that sleeps again and again, and counts that.
fn ticks(rt: &Runtime) -> Arc<AtomicUsize> {
    let ticks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ticks);
    let sleeps = async move {
        loop {
            sleep(Duration::from_millis(1)).await;
            count.fetch_add(1, Relaxed);
        }
    };
    rt.spawn(sleeps).detach();
    ticks
}

/// Blocks until other tasks' timers have fired a few times.
fn block_for(ticks: &AtomicUsize) {
    let begin = ticks.load(Relaxed);
    until(|| ticks.load(Relaxed) > begin + 5);
}

/// In a task that may move, and in one that is pinned.
fn in_tasks(rt: &Runtime, blocks: impl Fn() + Clone + Send + 'static) {
    let pinned = TaskOptions::new().pinned(WorkerId::new(0));
    for options in [TaskOptions::new(), pinned] {
        let blocks = blocks.clone();
        let task = rt.handle().spawn_with(options, async move { blocks() }).unwrap();
        rt.block_on(task).unwrap();
    }
}

fn without_nesting(workers: usize, spares: u16) -> Runtime {
    Runtime::builder().workers(workers).nesting(0).spare_slots(spares).build().unwrap()
}

#[test]
fn a_sleep_ends_in_a_closure_in_place() {
    for (workers, spares) in [(1, 0), (1, 1), (2, 4), (8, 0), (8, 8)] {
        let _watchdog = watchdog();
        let rt = without_nesting(workers, spares);
        let handle = *rt.handle();
        in_tasks(&rt, move || {
            handle.block_in_place(|| handle.block_on(sleep(Duration::from_millis(20))));
        });
    }
}

#[test]
fn timers_fire_while_a_worker_blocks_in_place() {
    for (workers, spares) in [(1, 1), (2, 0), (2, 4)] {
        let _watchdog = watchdog();
        let rt = without_nesting(workers, spares);
        let (handle, ticks) = (*rt.handle(), ticks(&rt));
        in_tasks(&rt, move || handle.block_in_place(|| block_for(&ticks)));
    }
    // Without a spare slot another thread becomes the worker, if the task may move.
    let _watchdog = watchdog();
    let rt = without_nesting(1, 0);
    let (handle, ticks) = (*rt.handle(), ticks(&rt));
    rt.block_on(rt.spawn(async move { handle.block_in_place(|| block_for(&ticks)) })).unwrap();
}

/// Each of them waits for a task that has yet to run.
#[test]
fn any_number_of_tasks_block_in_place() {
    for (workers, spares) in [(1, 0), (2, 4), (2, 0)] {
        let _watchdog = watchdog();
        let rt = without_nesting(workers, spares);
        let handle = *rt.handle();
        let go = Flag::new();
        let blocked: Vec<_> = (0..100)
            .map(|_| {
                let goes = go.clone();
                rt.spawn(async move {
                    handle.block_in_place(|| until(|| goes.is_set()));
                    // The task goes on as ever.
                    let other = filch_std::spawn(async { 1 });
                    yield_now().await;
                    other.await.unwrap()
                })
            })
            .collect();
        let goes = go.clone();
        rt.block_on(rt.spawn(async move { goes.set() })).unwrap();
        for task in blocked {
            assert_eq!(rt.block_on(task).unwrap(), 1);
        }
        // Each is counted, after its waiter was told.
        until(|| rt.metrics().totals().completed == 201);
        assert_eq!(rt.metrics().totals().spawned, 201);
    }
}

#[test]
fn a_closure_in_place_panics_in_its_task_alone() {
    let _watchdog = watchdog();
    for spares in [0, 2] {
        let rt = without_nesting(1, spares);
        let handle = *rt.handle();
        let panics = rt.spawn(async move { handle.block_in_place(|| panic!("on purpose")) });
        assert!(matches!(rt.block_on(panics), Err(JoinError::Panicked(_))));
        assert_eq!(rt.block_on(rt.spawn(async { 7 })).unwrap(), 7);
    }
}

/// A wait that is too deep polls what is pinned to its worker, and that takes long: other timers fire meanwhile.
#[test]
fn timers_fire_while_a_wait_that_is_too_deep_polls_a_pinned_task() {
    for (workers, spares) in [(1, 1), (2, 0), (2, 4)] {
        let _watchdog = watchdog();
        let rt = without_nesting(workers, spares);
        let (handle, ticks) = (*rt.handle(), ticks(&rt));
        let pinned = TaskOptions::new().pinned(WorkerId::new(0));
        let waits = async move {
            let long = handle.spawn_with(pinned, async move { block_for(&ticks) }).unwrap();
            handle.block_on(long).unwrap();
        };
        rt.block_on(handle.spawn_with(pinned, waits).unwrap()).unwrap();
    }
}
