//! `join` from sync code: on a worker, nested, from other threads, on itself, and too deep.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{Future, pending},
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Context, Poll, Waker},
};
use std::{
    sync::{Arc, Mutex},
    task::Wake,
    thread,
};

use common::{
    Flag, Log, Sim, ThreadExecutor, id, output, pool, quiet, stop, threads, until, watchdog,
};
use filch::{Config, Instant, JoinError, JoinHandle, PanicVtable, Step, TaskPool, yield_now};

type Own<T> = Arc<Mutex<Option<JoinHandle<T>>>>;

#[test]
fn a_task_that_joins_itself_is_told_and_its_handle_stays_good() {
    let sim = Sim::new(1);
    let own: Own<u8> = Arc::default();
    let inside = Arc::clone(&own);
    let future = async move {
        let mut handle = inside.lock().unwrap().take().unwrap();
        let error = handle.join().unwrap_err();
        assert!(matches!(error, JoinError::OnItself), "{error}");
        assert!(matches!(handle.join(), Err(JoinError::OnItself)), "and again");
        *inside.lock().unwrap() = Some(handle);
        9
    };
    *own.lock().unwrap() = Some(sim.executor.spawn(pool(), future).unwrap());
    sim.run(0);
    let mut handle = own.lock().unwrap().take().unwrap();
    assert_eq!(output(&mut handle).unwrap(), 9);
}

#[test]
fn joining_itself_is_found_through_others_on_the_same_stack() {
    // A joins B, which runs on top of it, joins C, which runs on top of both and joins A.
    let sim = Sim::new(1);
    let (executor, pool) = (sim.executor, pool());
    let own: Own<&'static str> = Arc::default();
    let inside = Arc::clone(&own);
    let a = async move {
        let b = async move {
            let c = async move {
                let mut a = inside.lock().unwrap().take().unwrap();
                let result = a.join();
                *inside.lock().unwrap() = Some(a);
                matches!(result, Err(JoinError::OnItself))
            };
            executor.spawn(pool, c).unwrap().join().unwrap()
        };
        assert!(executor.spawn(pool, b).unwrap().join().unwrap());
        "a"
    };
    *own.lock().unwrap() = Some(executor.spawn(pool, a).unwrap());
    assert_eq!(sim.step(0), Step::Polled);
    let mut a = own.lock().unwrap().take().unwrap();
    assert_eq!(output(&mut a).unwrap(), "a");
    assert_eq!(executor.metrics().totals().completed, 3);
}

#[test]
fn spawn_and_join_runs_the_own_newest_first() {
    let sim = Sim::new(1);
    let (executor, pool, log) = (sim.executor, pool(), Log::new());
    let seen = log.clone();
    let future = async move {
        for i in 0..3 {
            let log = seen.clone();
            executor.spawn(pool, async move { log.push(("queued", i)) }).unwrap().detach();
            let log = seen.clone();
            executor.spawn(pool, async move { log.push(("joined", i)) }).unwrap().join().unwrap();
        }
        seen.push(("end", 3));
    };
    executor.spawn(pool, future).unwrap().detach();
    sim.run(0);
    let seen = log.take();
    assert_eq!(seen[..1], [("joined", 0)], "next to a call");
    assert_eq!(seen.len(), 7);
}

#[test]
fn a_worker_joins_between_its_polls() {
    let sim = Sim::new(1);
    let mut handle = sim
        .executor
        .spawn(pool(), async {
            yield_now().await;
            4
        })
        .unwrap();
    assert_eq!(sim.on(0, |_| handle.join()).unwrap(), 4);
}

#[test]
fn what_the_poll_had_is_there_again_after_a_join() {
    let sim = Sim::new(1);
    let (executor, pool) = (sim.executor, pool());
    let future = async move {
        let spend = |n: u32| (0..n).take_while(|_| executor.spend_budget()).count();
        assert_eq!(spend(100), 100);
        let inner = async move { (0..1_000).take_while(|_| executor.spend_budget()).count() };
        let inner = executor.spawn(pool, inner).unwrap().join().unwrap();
        assert_eq!(inner, 128, "each poll has its own budget");
        // A spawn still goes to the worker's own queues.
        executor.spawn(pool, async {}).unwrap().detach();
        assert_eq!(executor.metrics().totals().injector_depth, 0);
        spend(1_000)
    };
    let mut handle = executor.spawn(pool, future).unwrap();
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap(), 128, "others ran meanwhile: it begins anew");
}

#[test]
fn a_panicked_or_cancelled_task_is_joined_as_such() {
    let sim = Sim::new(1);
    let (executor, pool) = (sim.executor, pool());
    let future = async move {
        let mut bad = executor.spawn(pool, async { panic!("on purpose") }).unwrap();
        let bad: Result<(), _> = bad.join();
        let mut gone = executor.spawn(pool, pending::<()>()).unwrap();
        gone.abort();
        (bad.unwrap_err().is_panic(), gone.join().unwrap_err().is_cancelled())
    };
    let mut handle = executor.spawn(pool, future).unwrap();
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap(), (true, true));
}

#[test]
fn a_panic_opens_for_the_platform_that_caught_it_alone() {
    static OTHERS: PanicVtable = PanicVtable {
        drop: |_| panic!("the payload is not ours"),
        message: |_| panic!("the payload is not ours"),
        resume: |_| panic!("the payload is not ours"),
    };
    let sim = Sim::new(1);
    let mut bad = sim.executor.spawn(pool(), async { panic!("on purpose") }).unwrap();
    sim.run(0);
    let bad: Result<(), _> = output(&mut bad);
    let panic = bad.unwrap_err().into_panic().expect("it is one");
    let panic = panic.into_raw(&OTHERS).expect_err("it is another platform's");
    assert_eq!(panic.message(), Some("on purpose"));
    let cancelled = JoinError::Cancelled.into_panic().expect_err("it is none");
    assert!(cancelled.is_cancelled());
}

#[test]
fn a_handle_that_is_polled_again_keeps_its_waker_and_wakes_it_once() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let sim = Sim::new(1);
    let mut handle = pin!(sim.executor.spawn(pool(), async { 7 }).unwrap());
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    for _ in 0..3 {
        assert!(handle.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(Arc::strong_count(&count), 3, "the test's, the waker's, the task's");
    }
    sim.run(0);
    assert_eq!(count.0.load(SeqCst), 1);
    let polled = handle.poll(&mut Context::from_waker(&waker));
    assert!(matches!(polled, Poll::Ready(Ok(7))));
}

/// Nests joins `depth` deep, each level in a task of its own. Returns how many got `TooDeep`.
fn nest<E: Copy + Send + 'static>(
    spawn: fn(E, Descent<E>) -> JoinHandle<usize>,
    at: E,
    depth: usize,
) -> usize {
    if depth == 0 {
        return 0;
    }
    let mut handle = spawn(at, Descent { spawn, at, depth: depth - 1 });
    match handle.join() {
        Ok(n) => n,
        Err(JoinError::TooDeep) => {
            // The handle is still valid; the task runs once this one is out of the way.
            assert!(!handle.is_finished());
            handle.detach();
            1
        }
        Err(error) => panic!("{error}"),
    }
}

struct Descent<E> {
    spawn: fn(E, Descent<E>) -> JoinHandle<usize>,
    at: E,
    depth: usize,
}

impl<E: Copy + Send + 'static> Descent<E> {
    async fn go(self) -> usize {
        nest(self.spawn, self.at, self.depth)
    }
}

static DEEP: TaskPool<512, 256> = TaskPool::new();

#[test]
fn nesting_has_a_limit_where_nobody_can_stand_in() {
    let _watchdog = watchdog();
    type At = &'static common::ManualExecutor;
    let spawn = |at: At, d: Descent<At>| at.spawn(&DEEP, d.go()).unwrap();
    let sim = Sim::with(1, quiet().nesting(10));
    for (depth, too_deep) in [(10, 0), (11, 1), (40, 1)] {
        let before = sim.executor.metrics().totals().completed;
        let mut handle =
            sim.executor.spawn(&DEEP, Descent { spawn, at: sim.executor, depth }.go()).unwrap();
        sim.run(0);
        assert_eq!(output(&mut handle).unwrap(), too_deep, "{depth} deep");
        let rest = if too_deep == 1 { depth.saturating_sub(11) } else { 0 };
        let ran = sim.executor.metrics().totals().completed - before;
        assert!(ran >= depth + 1 - rest, "{ran} of {depth}");
    }
}

type At = &'static ThreadExecutor;

#[test]
fn stand_ins_take_over_from_workers_that_are_too_deep() {
    static POOL: TaskPool<512, 256> = TaskPool::new();
    let _watchdog = watchdog();
    let spawn = |at: At, d: Descent<At>| at.spawn(&POOL, d.go()).unwrap();
    let executor = threads(1 + 4, Config::new().nesting(10).spare_slots(4));
    // Five contexts; each nests ten deep, or one deeper.
    for depth in [10, 11, 30, 50] {
        let descent = Descent { spawn, at: executor, depth };
        let mut handle = executor.spawn(&POOL, descent.go()).unwrap();
        // This thread must not help: it would take the slot of a compensation worker.
        until(|| handle.is_finished());
        assert_eq!(handle.join().unwrap(), 0, "{depth} deep");
        // Compensation workers retire when they are no longer needed.
        until(|| executor.metrics().workers().filter(|(_, w)| w.online).count() == 1);
    }
    // With no slot left, some joins return an error, and none hangs.
    let descent = Descent { spawn, at: executor, depth: 100 };
    let too_deep = executor.spawn(&POOL, descent.go()).unwrap().join().unwrap();
    assert!(too_deep > 0);
    stop(executor);
}

#[test]
fn a_refused_stand_in_is_an_error_not_a_hang() {
    static POOL: TaskPool<512, 64> = TaskPool::new();
    let _watchdog = watchdog();
    let spawn = |at: At, d: Descent<At>| at.spawn(&POOL, d.go()).unwrap();
    let executor = threads(1 + 2, Config::new().nesting(3).spare_slots(2));
    executor.platform().limit_starts(0);
    let descent = Descent { spawn, at: executor, depth: 8 };
    assert!(executor.spawn(&POOL, descent.go()).unwrap().join().unwrap() > 0);
    stop(executor);
}

/// Tasks pinned to a worker that waits too deep are polled on top of the wait, perhaps without end. The wait returns
/// its error all the same.
#[test]
fn pinned_tasks_without_end_keep_no_join_from_its_error() {
    let _watchdog = watchdog();
    let executor = threads(1, Config::new().nesting(0));
    let pool = pool();
    let over = Flag::new();
    let until_over = over.clone();
    let me = filch::WorkerId::new(0);
    let mut busy = executor
        .spawner()
        .spawn_pinned(pool, me, async move {
            while !until_over.is_set() {
                filch::yield_now().await;
            }
        })
        .unwrap();
    let mut outer = executor
        .spawn(pool, async move { executor.spawn(pool, async {}).unwrap().join() })
        .unwrap();
    until(|| outer.is_finished());
    assert!(matches!(outer.join(), Ok(Err(JoinError::TooDeep))));
    over.set();
    busy.join().unwrap();
    stop(executor);
}

#[test]
fn a_stand_in_that_the_shutdown_ended_leaves_nothing_behind() {
    // A compensation worker is asked to retire while it is in a poll, and the executor stops before the worker reads the
    // request. The next worker that is too deep must still get one that stays.
    let _watchdog = watchdog();
    let executor = threads(1 + 1, Config::new().nesting(0).spare_slots(1));
    let pool = pool();
    let block_in_poll = move |entered: Flag, released: Flag| {
        executor
            .spawn(pool, async move {
                entered.set();
                until(|| released.is_set());
            })
            .unwrap()
    };
    let (entered, release) = (Flag::new(), Flag::new());
    let (e, r) = (entered.clone(), release.clone());
    let mut outer = executor
        .spawn(pool, async move {
            // On the compensation worker, behind the target: a poll that has not ended when this worker continues.
            let busy = block_in_poll(e.clone(), r);
            executor.spawn(pool, async {}).unwrap().join().unwrap();
            busy.detach();
            until(|| e.is_set());
        })
        .unwrap();
    until(|| outer.is_finished());
    outer.join().unwrap();
    until(|| entered.is_set());
    executor.begin_shutdown();
    release.set();
    assert_eq!(executor.shutdown(Instant::MAX, |_| {}), Ok(0));
    executor.platform().join();
    assert!(executor.reopen());

    executor.start(id(0)).unwrap();
    let (go, idle) = (Flag::new(), Flag::new());
    let (wait, waits) = (go.wait(), idle.clone());
    let mut outer = executor
        .spawn(pool, async move {
            let target = async move {
                waits.set();
                wait.await;
                6
            };
            executor.spawn(pool, target).unwrap().join().unwrap()
        })
        .unwrap();
    until(|| idle.is_set() && go.is_awaited());
    // The compensation worker is idle, or soon will be. It must not retire while its worker waits.
    let asleep = || executor.metrics().totals().parked == 1;
    let gone = || executor.metrics().workers().filter(|(_, w)| w.online).count() == 1;
    until(|| asleep() || gone());
    go.set();
    until(|| outer.is_finished());
    assert_eq!(outer.join().unwrap(), 6);
    stop(executor);
}

#[test]
fn a_pinned_task_runs_on_a_worker_that_is_too_deep() {
    // Worker 0 is too deep to help. It waits for a task that waits for a task that is pinned to worker 0.
    let _watchdog = watchdog();
    let executor = threads(2 + 2, Config::new().nesting(0).spare_slots(2));
    let pool = pool();
    let mut outer = executor
        .spawner()
        .spawn_pinned(pool, id(0), async move {
            let middle = async move {
                executor.spawner().spawn_pinned(pool, id(0), async { 3 }).unwrap().await.unwrap()
            };
            executor.spawn(pool, middle).unwrap().join().unwrap()
        })
        .unwrap();
    assert_eq!(outer.join().unwrap(), 3);
    stop(executor);
}

#[test]
fn an_own_pinned_task_is_joined_however_deep() {
    let _watchdog = watchdog();
    let executor = threads(2 + 1, Config::new().nesting(0).spare_slots(1));
    let pool = pool();
    let down = async move {
        let mut pinned = executor.spawner().spawn_pinned(pool, id(0), async { 3 }).unwrap();
        pinned.join().unwrap()
    };
    let mut outer = executor.spawner().spawn_pinned(pool, id(0), down).unwrap();
    assert_eq!(outer.join().unwrap(), 3);
    stop(executor);
}

#[test]
fn foreign_threads_join() {
    let _watchdog = watchdog();
    for workers in [1, 3] {
        for spares in [0, 2] {
            let executor = threads(workers + spares, Config::new().spare_slots(spares));
            let pool = pool();
            let joins = |n: usize| {
                for i in 0..n {
                    let mut handle = executor
                        .spawn(pool, async move {
                            yield_now().await;
                            executor.spawn(pool, async move { i }).unwrap().await.unwrap()
                        })
                        .unwrap();
                    assert_eq!(handle.join().unwrap(), i);
                }
            };
            thread::scope(|s| (0..3).for_each(|_| drop(s.spawn(|| joins(100)))));
            stop(executor);
            let totals = executor.metrics().totals();
            assert_eq!((totals.spawned, totals.completed), (600, 600));
        }
    }
}

#[test]
fn a_foreign_thread_that_helps_is_no_worker_afterwards() {
    // The only worker is in a poll. A thread that joins must not become that worker; it may only help.
    let _watchdog = watchdog();
    let executor = threads(1 + 1, Config::new().spare_slots(1));
    let pool = pool();
    for _ in 0..200 {
        let mut handle = executor.spawn(pool, async { 1 }).unwrap();
        assert_eq!(handle.join().unwrap(), 1);
        assert_eq!(filch::Platform::current_worker(executor.platform()), None);
    }
    stop(executor);
}

#[test]
fn a_join_from_a_thread_is_cancelled_by_the_shutdown() {
    let _watchdog = watchdog();
    let executor = threads(1, Config::new());
    let flag = Flag::new();
    let mut handle = executor.spawn(pool(), flag.wait()).unwrap();
    until(|| flag.is_awaited());
    let joiner = thread::spawn(move || handle.join());
    stop(executor);
    assert!(joiner.join().unwrap().unwrap_err().is_cancelled());
}

#[test]
fn helping_until_a_condition_holds() {
    let sim = Sim::new(1);
    let (executor, pool, count) = (sim.executor, pool(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..10 {
        let count = Arc::clone(&count);
        let future = async move {
            count.fetch_add(1, SeqCst);
        };
        executor.spawn(pool, future).unwrap().detach();
    }
    assert!(sim.on(0, |_| executor.help_until(|| count.load(SeqCst) == 7)));
    assert_eq!(count.load(SeqCst), 7);
    assert!(!executor.help_until(|| false), "from outside, with nothing to help with");
    assert!(executor.help_until(|| true));
}

#[test]
fn workers_join_each_others_tasks_at_random() {
    static POOL: TaskPool<512, 2_000> = TaskPool::new();
    let _watchdog = watchdog();
    fn tree(at: At, depth: u32, seed: u64) -> u64 {
        if depth == 0 {
            return 1;
        }
        let next = move |k: u64| seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(k);
        let branch = |k| at.spawn(&POOL, async move { tree(at, depth - 1, next(k)) }).unwrap();
        let (mut left, mut right) = (branch(1), branch(2));
        if seed >> 63 == 0 {
            core::mem::swap(&mut left, &mut right);
        }
        left.join().unwrap() + right.join().unwrap()
    }
    let executor = threads(4 + 4, Config::new().nesting(64).spare_slots(4));
    for seed in [1, 0xDEAD_BEEF, 0x9E37_79B9_7F4A_7C15] {
        println!("seed {seed:#x}");
        let mut root = executor.spawn(&POOL, async move { tree(executor, 7, seed) }).unwrap();
        assert_eq!(root.join().unwrap(), 128);
    }
    stop(executor);
}

/// A worker in a poll can still take the task that ends a wait, however often the only other worker waits inside a wait.
#[test]
fn a_worker_that_waits_twice_counts_once() {
    let _watchdog = watchdog();
    let executor = threads(2, quiet().nesting(0));
    let spawner = executor.spawner();
    let (begun, go, done) = (Flag::new(), Flag::new(), Flag::new());
    let (busy, polled) = (go.clone(), begun.clone());
    let other = spawner.spawn_pinned(pool(), id(1), async move {
        polled.set();
        until(|| busy.is_set());
    });
    until(|| begun.is_set());
    let wait = |entered: Flag, done: Flag| async move {
        entered.set();
        executor.help_until(|| done.is_set())
    };
    let (outside, inside) = (Flag::new(), Flag::new());
    let outer = spawner.spawn_pinned(pool(), id(0), wait(outside.clone(), done.clone()));
    until(|| outside.is_set());
    let ends = done.clone();
    let last = spawner.spawn(pool(), async move {
        ends.set();
        executor.unpark_worker(id(0));
    });
    let inner = spawner.spawn_pinned(pool(), id(0), wait(inside.clone(), done));
    until(|| inside.is_set());
    // It sleeps, or has given up.
    let mut inner = inner.unwrap();
    until(|| inner.is_finished() || executor.platform().sleeps(0) != common::Sleeps::Awake);
    go.set();
    assert!(inner.join().unwrap(), "an able worker was online");
    assert!(outer.unwrap().join().unwrap());
    last.unwrap().join().unwrap();
    other.unwrap().join().unwrap();
    stop(executor);
}
