//! Tasks that borrow (`Handle::scope`), and tasks that are tracked (`TaskTracker`).

mod common;

use core::{
    cell::Cell,
    future::{Future, pending, poll_fn},
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::atomic::{
        AtomicBool, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    },
    task::{Context, Poll},
};
use std::{
    panic::catch_unwind,
    rc::Rc,
    sync::{Arc, Mutex},
    task::Wake,
    thread,
};

use common::{Drops, Flag, message, runtime, until, watchdog};
use filch_std::{
    Handle, JoinHandle, LocalRuntime, TaskOptions, spawn_local, spawn_with,
    task::{JoinSet, TaskTracker, yield_now},
};

#[test]
fn tasks_borrow_what_outlives_the_scope() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let numbers: Vec<usize> = (0..100).collect();
    let (sum, mut last) = (AtomicUsize::new(0), 0);
    let output = rt.handle().scope(|scope| {
        for n in &numbers {
            let sum = &sum;
            scope.spawn(async move {
                yield_now().await;
                // A task spawns into its own scope, and awaits what borrows.
                let half = scope.spawn(async move { n / 2 });
                sum.fetch_add(half.await.unwrap(), Relaxed);
            });
        }
        scope.spawn(async { last = numbers[99] });
        let borrowed = scope.spawn(async { &numbers[7] });
        borrowed.join().unwrap()
    });
    assert_eq!((*output, last, sum.into_inner()), (7, 99, 2_450));
}

/// Tasks that use a value up to the end, in all the ways in which a scope may end.
#[test]
fn a_scope_ends_after_its_tasks() {
    struct Value(AtomicBool);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.store(false, SeqCst);
        }
    }
    let _watchdog = watchdog();
    let mut rng = filch_test_support::rng();
    let rt = runtime(2);
    for round in 0..200 {
        let value = Value(AtomicBool::new(true));
        let (ended, tasks, panics) = (AtomicUsize::new(0), rng.usize(1..20), round % 3 == 0);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            rt.handle().scope(|scope| {
                for i in 0..tasks {
                    let (value, ended, yields) = (&value, &ended, rng.usize(..5));
                    let task = scope.spawn(async move {
                        for _ in 0..yields {
                            yield_now().await;
                            assert!(value.0.load(SeqCst), "it is in use");
                        }
                        ended.fetch_add(1, SeqCst);
                    });
                    if i % 4 == 1 {
                        let _ = task.join();
                    } else if i % 4 == 2 {
                        drop(task);
                    }
                }
                assert!(!panics, "on purpose");
            });
        }));
        assert_eq!(ended.load(SeqCst), tasks);
        assert_eq!(outcome.is_err(), panics);
    }
}

#[test]
fn handles_that_are_leaked_end_no_scope_early() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let (value, ended) = (AtomicBool::new(true), AtomicUsize::new(0));
    rt.handle().scope(|scope| {
        for _ in 0..20 {
            core::mem::forget(scope.spawn(async {
                yield_now().await;
                assert!(value.load(SeqCst));
                ended.fetch_add(1, SeqCst);
            }));
        }
    });
    assert_eq!(ended.into_inner(), 20);
}

#[test]
fn an_aborted_task_ends_the_wait() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let (drops, value) = (Drops::new(), 7);
    let tally = drops.tally();
    rt.handle().scope(|scope| {
        let task = scope.spawn(async {
            let _tally = tally;
            pending::<()>().await;
            value
        });
        task.abort();
        assert!(task.join().unwrap_err().is_cancelled());
    });
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_panic_that_no_handle_shows_is_the_scopes() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let ended = AtomicUsize::new(0);
    let scope = |joins: bool| {
        rt.handle().scope(|scope| {
            let panics = scope.spawn(async { panic!("on purpose") });
            scope.spawn(async {
                yield_now().await;
                ended.fetch_add(1, SeqCst);
            });
            joins.then(|| panics.join().map(|()| 7).unwrap_err().is_panic())
        })
    };
    assert_eq!(scope(true), Some(true));
    let panic = catch_unwind(AssertUnwindSafe(|| scope(false))).unwrap_err();
    assert_eq!(message(&*panic), "a task of the scope panicked");
    assert_eq!(ended.load(SeqCst), 2);
}

/// Panics in its drop.
struct Trap;

impl Drop for Trap {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("in a drop");
        }
    }
}

#[test]
fn a_panic_in_the_drop_of_a_task_counts_once() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    // In a poll, or as an abort drops it.
    let scope = |panics: bool, joins: bool| {
        rt.handle().scope(|scope| {
            let begun = Flag::new();
            let (begins, trap) = (begun.clone(), Trap);
            let task = scope.spawn(poll_fn(move |_| {
                let _trap = &trap;
                begins.set();
                assert!(!panics, "in a poll");
                Poll::<()>::Pending
            }));
            until(|| begun.is_set());
            if !panics {
                task.abort();
            }
            joins.then(|| assert!(task.join().unwrap_err().is_panic()))
        })
    };
    for panics in [false, true] {
        assert_eq!(scope(panics, true), Some(()), "its handle has shown the panic");
        let panic = catch_unwind(AssertUnwindSafe(|| scope(panics, false))).unwrap_err();
        assert_eq!(message(&*panic), "a task of the scope panicked");
    }
}

#[test]
fn a_scope_in_a_task_runs_others_meanwhile() {
    let _watchdog = watchdog();
    // One worker: its tasks run on top of the call.
    let rt = runtime(1);
    let task = rt.spawn(async {
        let values = [1, 2, 3];
        let sum = filch_std::task::scope(|scope| {
            let tasks = values.each_ref().map(|value| scope.spawn(async move { value * 2 }));
            tasks.into_iter().map(|task| task.join().unwrap()).sum::<i32>()
        });
        let nested = filch_std::task::scope(|scope| {
            scope
                .spawn(async { filch_std::task::scope(|inner| inner.spawn(async { sum }).join()) })
                .join()
        });
        (sum, nested.unwrap().unwrap())
    });
    assert_eq!(rt.block_on(task).unwrap(), (12, 12));
    assert_eq!(
        rt.block_on(async { filch_std::task::scope(|scope| scope.spawn(async { 5 }).join()) })
            .unwrap(),
        5
    );
}

#[test]
fn a_scope_on_a_runtime_of_one_thread_runs_there() {
    let _watchdog = watchdog();
    let rt = LocalRuntime::new().unwrap();
    let main = thread::current().id();
    let scope = || {
        let value = 7;
        rt.handle().scope(|scope| {
            let task = scope.spawn(async {
                assert_eq!(thread::current().id(), main);
                filch_std::spawn(async {}).await.unwrap();
                &value
            });
            // Not joined: the end of the scope waits.
            drop(task);
        });
    };
    scope();
    rt.block_on(async { scope() });
    // The runtime ends in the scope: its tasks are cancelled.
    let (drops, handle) = (Drops::new(), *rt.handle());
    let (tally, value) = (drops.tally(), Flag::new());
    handle.scope(|scope| {
        scope.spawn(async {
            let _tally = tally;
            value.wait().await;
        });
        drop(rt);
        assert_eq!(drops.count(), 1);
        let late = scope.spawn(async { value.is_set() });
        assert!(late.join().unwrap_err().is_cancelled());
    });
}

#[test]
fn a_scope_outlives_its_runtime_by_cancelled_tasks() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let (handle, value, drops) = (*rt.handle(), Flag::new(), Drops::new());
    let tallies: Vec<_> = (0..10).map(|_| drops.tally()).collect();
    handle.scope(|scope| {
        for tally in tallies {
            let value = &value;
            scope.spawn(async move {
                let _tally = tally;
                value.wait().await;
            });
        }
        drop(rt);
    });
    assert_eq!(drops.count(), 10);
}

/// Spawns a task of the tracker on a runtime.
fn spawn_into<F>(tracker: &TaskTracker, on: &Handle, task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tracker.spawn_by(task, |task| Ok(on.spawn(task))).unwrap()
}

#[test]
fn a_tracker_waits_for_what_many_places_spawn() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let tracker = TaskTracker::new();
    let done = Rc::new(AtomicUsize::new(0));
    assert!(tracker.is_empty() && !tracker.is_closed());
    let flag = Flag::new();
    let (wait, more) = (flag.wait(), tracker.clone());
    let first = spawn_into(&tracker, rt.handle(), async move {
        wait.await;
        for _ in 0..10 {
            more.spawn(async { yield_now().await }).detach();
        }
        let options = TaskOptions::new().name("with");
        more.spawn_by(async {}, |task| spawn_with(options, task)).unwrap().detach();
        more.spawn_blocking(|| 5).await.unwrap()
    });
    let counts = Rc::clone(&done);
    rt.block_on(async {
        let tracked = tracker.track(async move { _ = counts.fetch_add(1, SeqCst) });
        assert_eq!(tracker.len(), 2);
        tracked.await;
        assert_eq!((tracker.len(), done.load(SeqCst)), (1, 1));
        let waits = filch_std::spawn({
            let tracker = tracker.clone();
            async move { tracker.wait().await }
        });
        tracker.close();
        assert!(tracker.is_closed() && !waits.is_finished());
        flag.set();
        tracker.wait().await;
        waits.await.unwrap();
        assert_eq!(first.await.unwrap(), 5);
        assert!(tracker.is_empty());
        // A closed tracker takes tasks, too.
        tracker.spawn(async {}).detach();
        tracker.wait().await;
        tracker.reopen();
        let waits = filch_std::time::timeout(core::time::Duration::ZERO, tracker.wait()).await;
        assert!(waits.is_err(), "it is open");
    });
}

/// As in loops of `select!`: each round makes a wait, polls it, and drops it.
#[test]
fn a_tracker_keeps_nothing_of_waits_that_were_dropped() {
    struct Counts(AtomicUsize);
    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let tracker = TaskTracker::new();
    let counts = || Arc::new(Counts(AtomicUsize::new(0)));
    let (gone, here, moved) = (counts(), counts(), counts());
    let poll = |wait: Pin<&mut dyn Future<Output = ()>>, counts: &Arc<Counts>| {
        wait.poll(&mut Context::from_waker(&Arc::clone(counts).into()))
    };
    let mut stays = pin!(tracker.wait());
    for waker in [&moved, &moved, &here, &here] {
        assert!(poll(stays.as_mut(), waker).is_pending());
    }
    for _ in 0..9 {
        assert!(poll(pin!(tracker.wait()), &gone).is_pending());
    }
    let kept = [&gone, &moved, &here].map(|waker| Arc::strong_count(waker) - 1);
    assert_eq!(kept, [0, 0, 1]);
    tracker.close();
    assert_eq!([&gone, &moved, &here].map(|waker| waker.0.load(SeqCst)), [0, 0, 1]);
    assert!(poll(stays.as_mut(), &here).is_ready());
}

#[test]
fn a_tracker_aborts_its_tasks() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let (tracker, drops, flag) = (TaskTracker::new(), Drops::new(), Flag::new());
    rt.block_on(async {
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let (tally, wait) = (drops.tally(), flag.wait());
                tracker.spawn(async move {
                    let _tally = tally;
                    wait.await;
                })
            })
            .collect();
        tracker.abort_all();
        tracker.close();
        tracker.wait().await;
        assert_eq!(drops.count(), 20);
        for task in tasks {
            assert!(task.await.unwrap_err().is_cancelled());
        }
    });
    drop(rt);
    // A spawn that is refused does not count.
    let refused = catch_unwind(AssertUnwindSafe(|| tracker.spawn(async {})));
    assert!(refused.is_err() && tracker.is_empty());
    let refused =
        tracker.spawn_by(async { 7 }, |task| spawn_with(TaskOptions::new(), task)).unwrap_err();
    assert!(tracker.is_empty());
    assert_eq!(LocalRuntime::new().unwrap().block_on(refused.future), 7);
    let local = LocalRuntime::new().unwrap();
    let ran = Rc::new(Cell::new(false));
    let runs = Rc::clone(&ran);
    let task = tracker.spawn_by(async move { runs.set(true) }, spawn_local).unwrap();
    local.block_on(async {
        tracker.wait().await;
        task.await.unwrap();
    });
    assert!(ran.get());
}

/// Tasks are spawned on other threads while all are aborted: each ends, by itself or aborted.
#[test]
fn a_tracker_aborts_what_is_being_spawned() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let handle = *rt.handle();
    for _ in 0..50 {
        let (tracker, go) = (TaskTracker::new(), AtomicBool::new(false));
        let handles = Mutex::new(Vec::new());
        thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    until(|| go.load(SeqCst));
                    let spawn = || spawn_into(&tracker, &handle, async { yield_now().await });
                    let own: Vec<_> = (0..10).map(|_| spawn()).collect();
                    handles.lock().unwrap().extend(own);
                });
            }
            go.store(true, SeqCst);
            tracker.abort_all();
        });
        tracker.close();
        rt.block_on(tracker.wait());
        assert!(tracker.is_empty());
        for handle in handles.into_inner().unwrap() {
            let ended = rt.block_on(handle);
            assert!(ended.is_ok() || ended.unwrap_err().is_cancelled());
        }
    }
}

#[test]
fn a_join_set_tells_its_tasks_apart() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let flag = Flag::new();
    let mut set = JoinSet::new();
    let wait = flag.wait();
    set.insert(rt.spawn(async move {
        wait.await;
        0
    }));
    let waits = set.ids().next().unwrap();
    set.insert(rt.handle().spawn_blocking(|| 1));
    let blocks = set.ids().find(|id| *id != waits).unwrap();
    rt.block_on(async {
        let (id, output) = set.join_next_with_id().await.unwrap();
        assert_eq!((id, output.unwrap()), (Some(blocks), 1));
        assert!(set.try_join_next_with_id().is_none());
        assert_eq!(set.ids().collect::<Vec<_>>(), [waits]);
        flag.set();
        let next = core::future::poll_fn(|cx| set.poll_join_next_with_id(cx)).await;
        let (id, output) = next.unwrap();
        assert_eq!((id, output.unwrap()), (Some(waits), 0));
        assert!(core::future::poll_fn(|cx| set.poll_join_next(cx)).await.is_none());
        let mut taken = filch_std::spawn(async { 7 });
        assert_eq!((&mut taken).await.unwrap(), 7);
        set.insert(taken);
        let (id, output) = set.join_next_with_id().await.unwrap();
        assert!(id.is_none() && output.is_err());
    });
    let local = LocalRuntime::new().unwrap();
    set.insert(local.spawn_local(async { *Rc::new(3) }).unwrap());
    assert_eq!(local.block_on(set.join_next()).unwrap().unwrap(), 3);
}
