//! The life of one task: handles, wakers, panics, and when its future and its output are dropped.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{
    future::{Future, pending, poll_fn},
    mem::forget,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    task::{Poll, Waker},
};
use std::sync::{Arc, Mutex};

use common::{
    Drops, Flag, Sim, Tally, id, output, pool,
    watched::{watched, watched_with},
};
use filch::{JoinError, RefLimit, Step, TaskOptions, yield_now};

#[test]
fn a_detached_task_goes_on_and_its_output_is_dropped_on_the_worker() {
    let sim = Sim::new(1);
    let (flag, drops) = (Flag::new(), Drops::new());
    let (wait, tally) = (flag.wait(), drops.tally());
    sim.executor
        .spawn(pool(), async move {
            wait.await;
            tally
        })
        .unwrap()
        .detach();
    sim.run(0);
    flag.set();
    assert_eq!(drops.count(), 0);
    sim.run(0);
    assert_eq!(drops.count(), 1);
    assert_eq!(sim.executor.metrics().totals().live, 0);
}

#[test]
fn a_handle_dropped_after_completion_drops_the_output_once() {
    let sim = Sim::new(1);
    let drops = Drops::new();
    let tally = drops.tally();
    let handle = sim.executor.spawn(pool(), async move { tally }).unwrap();
    sim.run(0);
    assert_eq!(drops.count(), 0);
    drop(handle);
    assert_eq!(drops.count(), 1);
}

#[test]
fn an_output_taken_is_not_dropped_again() {
    let sim = Sim::new(1);
    let drops = Drops::new();
    let tally = drops.tally();
    let mut handle = sim.executor.spawn(pool(), async move { tally }).unwrap();
    assert!(handle.id().is_some());
    sim.run(0);
    let taken: Tally = output(&mut handle).unwrap();
    assert!(handle.is_finished() && handle.id().is_none() && handle.info().is_none());
    assert!(matches!(handle.join(), Err(JoinError::Taken)));
    handle.abort();
    drop(handle);
    assert_eq!(drops.count(), 0);
    drop(taken);
    assert_eq!(drops.count(), 1);
}

#[test]
fn the_future_is_gone_before_the_output_is_handed_over() {
    let sim = Sim::new(1);
    let drops = Drops::new();
    let tally = drops.tally();
    let mut handle = sim
        .executor
        .spawn(pool(), async move {
            let _kept = &tally;
            yield_now().await;
            1
        })
        .unwrap();
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(drops.count(), 0);
    assert_eq!(sim.step(0), Step::Polled);
    assert_eq!(drops.count(), 1);
    assert_eq!(output(&mut handle).unwrap(), 1);
}

#[test]
fn tasks_that_nothing_can_wake_are_kept_until_shutdown() {
    let sim = Sim::new(2);
    let (spawner, pool, drops, flag) = (sim.executor.spawner(), pool(), Drops::new(), Flag::new());
    // Detached at once, before the first poll.
    spawner.spawn(pool, guarded(&drops, pending())).unwrap().detach();
    spawner.spawn_with(TaskOptions::new(), pool, guarded(&drops, pending())).unwrap().detach();
    // Pinned, and local.
    spawner.spawn_pinned(pool, id(0), guarded(&drops, pending())).unwrap().detach();
    let local = guarded(&drops, pending());
    let spawns = async move { spawner.spawn_local(pool, local).unwrap().detach() };
    spawner.spawn_pinned(pool, id(0), spawns).unwrap().detach();
    // The last reference is a handle, or a waker.
    let handle = spawner.spawn(pool, guarded(&drops, pending())).unwrap();
    let aborts = spawner.spawn(pool, guarded(&drops, pending())).unwrap();
    spawner.spawn(pool, guarded(&drops, flag.wait())).unwrap().detach();
    sim.run(0);
    drop(handle);
    let last = aborts.abort_handle().unwrap();
    drop(aborts);
    drop(last);
    drop(flag.take_wakers());
    assert_eq!(sim.run(0) + sim.run(1), 0);
    let mut seen = 0;
    sim.executor.tasks(|task| {
        assert!(!task.scheduled);
        seen += 1;
    });
    // What looks at them is a reference for a moment.
    assert_eq!((seen, drops.count(), sim.run(0)), (7, 0, 0));
    sim.close();
    assert_eq!(drops.count(), 7);
}

/// A future that holds a guard while it waits.
fn guarded(
    drops: &Drops,
    wait: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = ()> + Send + 'static {
    let guard = drops.tally();
    async move {
        let _guard = guard;
        wait.await;
    }
}

#[test]
fn a_task_that_nothing_can_wake_is_cancelled_on_a_worker_if_its_spawn_says_so() {
    let t = watched_with(TaskOptions::new().end_unreachable());
    t.handle.detach();
    t.sim.run(0);
    assert_eq!(t.log.take(), []);
    // The last reference is dropped outside of the worker.
    drop(t.flag.take_wakers());
    assert_eq!(t.log.take(), [], "not here");
    assert_eq!(t.sim.run(0), 1);
    assert_eq!(t.log.take(), [Some(0)]);
    assert_eq!(t.sim.executor.metrics().totals().live, 0);
}

#[test]
fn a_detached_task_that_keeps_no_waker_ends_with_its_poll_if_its_spawn_says_so() {
    let (sim, drops) = (Sim::new(1), Drops::new());
    let options = TaskOptions::new().end_unreachable();
    let spawned =
        sim.executor.spawner().spawn_with(options, pool(), guarded(&drops, pending())).unwrap();
    spawned.detach();
    sim.run(0);
    assert_eq!(drops.count(), 1);
    assert_eq!(sim.executor.metrics().totals().live, 0);
}

#[test]
fn a_handle_alone_keeps_a_task_that_nothing_can_wake() {
    let (sim, drops) = (Sim::new(1), Drops::new());
    let options = TaskOptions::new().end_unreachable();
    let handle =
        sim.executor.spawner().spawn_with(options, pool(), guarded(&drops, pending())).unwrap();
    sim.run(0);
    assert_eq!(drops.count(), 0, "it can still be aborted");
    drop(handle);
    assert_eq!(drops.count(), 0);
    sim.run(0);
    assert_eq!(drops.count(), 1);
}

#[test]
fn wakes_between_two_polls_are_one_poll() {
    let t = watched();
    t.sim.run(0);
    let waker = t.flag.take_wakers().pop().unwrap();
    // Fewer than the narrow state word can count. A count beyond that costs one poll too many.
    (0..10).for_each(|_| waker.wake_by_ref());
    let clone = waker.clone();
    clone.wake();
    assert_eq!(t.sim.run(0), 1);
    assert_eq!(t.polls.load(SeqCst), 2);
    // Wakes during a poll make one more poll, whether there is one wake or a thousand.
    for wakes in [1, 2, 15, 16, 17, 1_000, 70_000] {
        let mut left = 1;
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&polls);
        let future = poll_fn(move |cx| {
            counted.fetch_add(1, SeqCst);
            (0..wakes * left).for_each(|_| cx.waker().wake_by_ref());
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            Poll::Pending
        });
        let mut handle = t.sim.executor.spawn(pool(), future).unwrap();
        t.sim.run(0);
        assert_eq!(polls.load(SeqCst), 2, "after {wakes} wakes");
        output(&mut handle).unwrap();
    }
}

#[test]
fn wakers_are_harmless_after_the_end() {
    let mut t = watched();
    t.sim.run(0);
    let wakers: Vec<Waker> =
        t.flag.take_wakers().into_iter().flat_map(|w| [w.clone(), w]).collect();
    t.handle.abort();
    t.sim.run(0);
    assert!(output(&mut t.handle).unwrap_err().is_cancelled());
    wakers.iter().for_each(Waker::wake_by_ref);
    assert_eq!(t.sim.run(0), 0);
    t.sim.close();
    assert!(t.sim.executor.is_stopped());
    wakers[0].wake_by_ref();
    assert!(wakers[0].will_wake(&wakers[1].clone()));
    wakers.into_iter().for_each(Waker::wake);
    let totals = t.sim.executor.metrics().totals();
    assert_eq!((totals.injector_depth, totals.live), (0, 0));
}

#[test]
fn the_reference_count_has_a_limit_and_is_never_wrong_beyond_it() {
    // One reference less than the state word can count: the next one is refused.
    let limit: usize = match filch::atomic::Word::BITS {
        // Classes take some of its bits.
        32 if cfg!(feature = "classes") => 0x1FFF,
        32 => 0x7FFF,
        _ => 0xFF_FFFF,
    };
    let drops = Drops::new();
    let sim = Sim::new(1);
    let (flag, tally) = (Flag::new(), drops.tally());
    let wait = flag.wait();
    let mut handle = sim
        .executor
        .spawn(pool(), async move {
            let _tally = tally;
            wait.await;
            17
        })
        .unwrap();
    sim.run(0);
    let waker = flag.take_wakers().pop().unwrap();
    // The handle and the waker are two; one more fits below the limit.
    (2..limit - 2).for_each(|_| forget(waker.clone()));
    assert_eq!(handle.info().unwrap().references, limit - 2);
    let last = handle.abort_handle().unwrap();
    assert!(matches!(handle.abort_handle(), Err(RefLimit)));
    assert!(matches!(last.try_clone(), Err(RefLimit)));
    assert_eq!(RefLimit.to_string(), "the task's reference count is at its limit");
    drop(last);
    drop(waker.clone());
    assert_eq!(handle.info().unwrap().references, limit - 2, "below the limit it counts right");

    // At the limit itself the count sticks: the task is leaked rather than freed too early.
    let more: Vec<_> = (0..10).map(|_| waker.clone()).collect();
    assert_eq!(handle.info().unwrap().references, limit);
    drop(more);
    assert_eq!(handle.info().unwrap().references, limit);
    let mut seen = 0;
    sim.executor.tasks(|_| seen += 1);
    assert_eq!(seen, 1);
    // It still works.
    flag.set();
    waker.wake_by_ref();
    sim.run(0);
    assert_eq!(output(&mut handle).unwrap(), 17);
    assert_eq!(drops.count(), 1);
    waker.wake_by_ref();
    drop(waker);
    drop(handle);
    assert_eq!(sim.executor.metrics().totals().live, 0);
}

#[test]
fn a_panic_is_the_tasks_result_and_the_worker_goes_on() {
    let sim = Sim::new(1);
    let mut bad = sim
        .executor
        .spawn(pool(), async {
            yield_now().await;
            panic!("on purpose");
        })
        .unwrap();
    let mut good = sim.executor.spawn(pool(), async { 1 }).unwrap();
    sim.run(0);
    let error: Result<(), _> = output(&mut bad);
    let error = error.unwrap_err();
    assert!(error.is_panic());
    assert_eq!(error.to_string(), "the task panicked: on purpose");
    assert_eq!(error.into_panic().unwrap().message(), Some("on purpose"));
    assert_eq!(output(&mut good).unwrap(), 1);
}

#[test]
fn a_panic_in_a_cancelled_futures_drop_is_its_result() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a drop, on purpose");
        }
    }
    let sim = Sim::new(1);
    let bomb = Bomb;
    let mut handle = sim
        .executor
        .spawn(pool(), async move {
            let _bomb = bomb;
            pending::<()>().await;
        })
        .unwrap();
    sim.run(0);
    handle.abort();
    sim.run(0);
    assert!(output(&mut handle).unwrap_err().is_panic());
    // An output without a handle: its panic is discarded.
    sim.executor.spawn(pool(), async { Bomb }).unwrap().detach();
    assert_eq!(sim.run(0), 1);
    assert_eq!(sim.executor.metrics().totals().live, 0);
}

#[test]
fn a_joiner_that_looks_elsewhere_loses_nothing() {
    let sim = Sim::new(1);
    let flag = Flag::new();
    let mut target = sim.executor.spawn(pool(), flag.wait()).unwrap();
    // One task polls the handle once and ends; another task takes the handle over.
    let give_up = Arc::new(Mutex::new(None));
    let left = Arc::clone(&give_up);
    sim.executor
        .spawn(pool(), async move {
            poll_fn(|cx| {
                assert!(Pin::new(&mut target).poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            *left.lock().unwrap() = Some(target);
        })
        .unwrap()
        .detach();
    sim.run(0);
    let target = give_up.lock().unwrap().take().unwrap();
    let mut second = sim.executor.spawn(pool(), target).unwrap();
    sim.run(0);
    assert!(!second.is_finished());
    flag.set();
    sim.run(0);
    assert!(output(&mut second).unwrap().is_ok());
}

#[test]
fn an_aborted_join_leaves_the_target_alone() {
    let sim = Sim::new(1);
    let flag = Flag::new();
    let (wait, drops) = (flag.wait(), Drops::new());
    let tally = drops.tally();
    let target = sim
        .executor
        .spawn(pool(), async move {
            wait.await;
            drop(tally);
        })
        .unwrap();
    let mut joiner = sim.executor.spawn(pool(), target).unwrap();
    sim.run(0);
    joiner.abort();
    sim.run(0);
    assert!(output(&mut joiner).unwrap_err().is_cancelled());
    assert_eq!(drops.count(), 0);
    flag.set();
    sim.run(0);
    assert_eq!(drops.count(), 1, "it was detached and has ended by itself");
}
