//! At most one context at a time is a given worker, whatever safe code does with handles, entries and platforms.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{cell::RefCell, panic::AssertUnwindSafe};
use std::{
    panic::{catch_unwind, resume_unwind},
    thread,
};

#[cfg(feature = "classes")]
use common::at_wake;
use common::{Flag, ThreadExecutor, at_event, id, parked, pool, quiet, stop, until, watchdog};
use filch::{RunError, Worker, WorkerEntry};
use filch_test_support::message;

type Handle = Worker<common::Threads, common::Room<256>>;

thread_local! {
    /// A worker's handle that any code on its thread can take and drop.
    static HANDLE: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// The calling thread is worker 0, by a handle in a thread local.
fn keep_handle(executor: &'static ThreadExecutor) {
    HANDLE.set(Some(executor.worker(id(0)).unwrap()));
}

/// Drops the handle while the executor is doing something in the worker's slot: no other thread gets the slot.
fn drop_handle(executor: &'static ThreadExecutor) {
    drop(HANDLE.take());
    let elsewhere = || executor.worker(id(0)).map(drop);
    let entered = thread::scope(|s| s.spawn(elsewhere).join().unwrap());
    assert_eq!(entered, Err(RunError::AlreadyRunning), "two threads in one slot");
}

/// Checks that the worker left once the executor had finished in its slot.
fn has_left(executor: &'static ThreadExecutor) {
    assert!(HANDLE.take().is_none());
    drop(executor.worker(id(0)).expect("the slot is free again"));
    stop(executor);
}

#[test]
fn a_handle_dropped_in_a_sync_wait_leaves_at_its_end() {
    let _watchdog = watchdog();
    let executor = parked(1, quiet());
    keep_handle(executor);
    let mut dropped = false;
    assert!(executor.help_until(|| {
        if !core::mem::replace(&mut dropped, true) {
            drop_handle(executor);
        }
        true
    }));
    has_left(executor);
}

#[test]
fn a_handle_dropped_in_a_broadcast_leaves_at_its_end() {
    let _watchdog = watchdog();
    let executor = parked(1, quiet());
    keep_handle(executor);
    assert_eq!(executor.broadcast(|_| drop_handle(executor)).ok(), Some(1));
    has_left(executor);
}

#[test]
fn a_handle_dropped_in_a_fork_join_run_leaves_at_its_end() {
    let _watchdog = watchdog();
    let executor = parked(2, quiet());
    keep_handle(executor);
    let ran = executor.fork(|fork| fork.join(|_| drop_handle(executor), |_| ()));
    assert_eq!(ran.ok(), Some(((), ())));
    has_left(executor);
}

#[test]
fn a_handle_dropped_by_a_task_that_a_join_polls_leaves_at_its_end() {
    let _watchdog = watchdog();
    let executor = parked(1, quiet());
    keep_handle(executor);
    let mut task = executor.spawn(pool(), async move { drop_handle(executor) }).unwrap();
    task.join().unwrap();
    has_left(executor);
}

#[test]
fn a_handle_dropped_in_a_wait_that_panics_leaves_at_its_end() {
    let _watchdog = watchdog();
    let executor = parked(1, quiet());
    keep_handle(executor);
    let wait = || {
        executor.help_until(|| {
            drop_handle(executor);
            resume_unwind(Box::new("on purpose"));
        })
    };
    let panic = catch_unwind(AssertUnwindSafe(wait)).unwrap_err();
    assert_eq!(message(&*panic), "on purpose");
    has_left(executor);
}

/// An executor with one worker and one spare slot, and the entry of a compensation worker that has not come. Worker 0
/// has waited for a task that worker 1 has run.
fn late_replacement() -> (&'static ThreadExecutor, WorkerEntry) {
    let executor = parked(3, quiet().nesting(0).spare_slots(1));
    executor.platform().keep_entries();
    let blocked = thread::spawn(move || {
        let worker = executor.worker(id(0)).unwrap();
        let target = executor.spawn(pool(), async {}).unwrap();
        let waits = async move { { target }.join().unwrap() };
        let waits = executor.spawner().spawn_pinned(pool(), id(0), waits).unwrap();
        while !waits.is_finished() {
            // The first task that it finds may be the target.
            let _ = worker.step();
        }
    });
    let entry = loop {
        match executor.platform().take_entry() {
            None if !blocked.is_finished() => thread::yield_now(),
            entry => break entry,
        }
    };
    let other = executor.worker(id(1)).unwrap();
    while !blocked.is_finished() {
        let _ = other.step();
    }
    drop(other);
    blocked.join().unwrap();
    match entry {
        Some(entry) => (executor, entry),
        // The worker did not wait for the target; tries again.
        None => late_replacement(),
    }
}

fn is_online(executor: &ThreadExecutor, worker: usize) -> bool {
    executor.metrics().workers().nth(worker).unwrap().1.online
}

#[test]
fn a_replacement_that_comes_after_the_end_takes_the_slot_from_nobody() {
    let _watchdog = watchdog();
    let (executor, entry) = late_replacement();
    executor.shutdown(filch::Instant::ZERO, |_| {}).unwrap();
    // The thread is refused, and leaves. Until it has left, the executor is not opened again.
    let tries = Flag::new();
    let has_tried = tries.clone();
    executor.platform().at_unblock(move || {
        assert!(!executor.reopen(), "a compensation worker is on its way");
        has_tried.set();
    });
    assert_eq!(entry.worker(), id(2));
    entry.run();
    assert!(tries.is_set());
    assert!(executor.reopen());
    thread::spawn(move || executor.run(id(0)));
    until(|| executor.metrics().totals().parked == 1);
    // A thread takes the spare slot.
    let (forked, over) = (Flag::new(), Flag::new());
    let (in_slot, go_on) = (forked.clone(), over.clone());
    thread::spawn(move || {
        let forked = executor.fork(|_| {
            in_slot.set();
            go_on.block();
        });
        assert!(forked.is_ok());
    });
    until(|| forked.is_set());
    assert!(is_online(executor, 2), "two contexts could be in one slot");
    over.set();
    executor.shutdown(filch::Instant::MAX, |_| {}).unwrap();
}

#[test]
fn a_replacement_in_a_wrong_context_leaves_the_slot_for_another() {
    let _watchdog = watchdog();
    let (executor, entry) = late_replacement();
    executor.platform().pose(1, || entry.run());
    assert!(is_taken_again(executor));
    stop(executor);
}

#[test]
fn an_entry_that_is_dropped_leaves_the_slot_for_another() {
    let _watchdog = watchdog();
    let (executor, entry) = late_replacement();
    drop(entry);
    assert!(is_taken_again(executor));
    stop(executor);
}

/// Whether the spare slot can be used again: by a thread that forks, in place of an idle worker.
fn is_taken_again(executor: &'static ThreadExecutor) -> bool {
    let idle = thread::spawn(move || executor.run(id(0)));
    // That worker may look around at the very moment, and then has no place to take.
    let taken = loop {
        match executor.fork(|_| is_online(executor, 2)) {
            Ok(taken) => break taken,
            Err(_) => thread::yield_now(),
        }
    };
    executor.begin_shutdown();
    idle.join().unwrap().unwrap();
    taken
}

#[test]
fn a_handle_dropped_in_code_as_a_poll_leaves_at_its_end() {
    let _watchdog = watchdog();
    let executor = parked(1, quiet());
    keep_handle(executor);
    executor.as_poll(|| drop_handle(executor));
    has_left(executor);
}

/// Begins a park of the worker whose handle the thread keeps.
fn rest() -> Option<Option<filch::Instant>> {
    HANDLE.with_borrow(|handle| handle.as_ref().expect("it is online").begin_park())
}

/// Drops the handle in the first event of this name.
fn drop_handle_at(executor: &'static ThreadExecutor, event: &'static str) {
    at_event(move |seen| {
        if format!("{seen:?}").starts_with(event) && HANDLE.with_borrow(Option::is_some) {
            drop_handle(executor);
        }
    });
}

#[test]
fn a_handle_dropped_by_a_sink_leaves_at_the_end_of_the_call() {
    type Call = fn(&'static ThreadExecutor);
    let calls: [(&str, Call); 7] = [
        ("Spawn", |on| on.spawn(pool(), async {}).unwrap().detach()),
        ("Unpark", |on| assert!(on.fork(|fork| fork.join(|_| (), |_| ())).is_ok())),
        ("Unpark", |on| assert!(on.broadcast(|_| ()).is_ok())),
        ("Unpark", |on| assert!(on.help_until(|| true))),
        ("Unpark", |on| on.as_poll(|| ())),
        ("PollStart", |on| drop(on.spawn(pool(), async {}).unwrap().join())),
        ("PollEnd", |on| drop(on.spawn(pool(), async {}).unwrap().join())),
    ];
    for (event, call) in calls {
        let _watchdog = watchdog();
        let executor = parked(2, quiet());
        keep_handle(executor);
        drop_handle_at(executor, event);
        if event == "Unpark" {
            assert_eq!(rest(), Some(None));
        }
        call(executor);
        at_event(|_| {});
        has_left(executor);
    }
}

#[test]
fn a_handle_dropped_by_the_sink_of_a_wake_leaves_at_its_end() {
    let _watchdog = watchdog();
    let executor = parked(2, quiet());
    keep_handle(executor);
    let flag = Flag::new();
    let task = executor.spawn(pool(), flag.wait()).unwrap();
    HANDLE.with_borrow(|worker| worker.as_ref().unwrap().run_for(1));
    drop_handle_at(executor, "Wake");
    flag.set();
    at_event(|_| {});
    assert!(HANDLE.take().is_none());
    // The task was not lost on the way.
    let worker = executor.worker(id(0)).expect("the slot is free again");
    assert_eq!(worker.run_for(8), 1);
    assert!(task.is_finished());
    drop(worker);
    stop(executor);
}

#[test]
fn a_worker_run_inside_its_own_poll_leaves_at_the_end_of_that() {
    let _watchdog = watchdog();
    let executor = parked(1, quiet());
    keep_handle(executor);
    let mut task = executor
        .spawn(pool(), async move {
            HANDLE.take().unwrap().run();
            let elsewhere = || executor.worker(id(0)).map(drop);
            thread::scope(|s| s.spawn(elsewhere).join().unwrap())
        })
        .unwrap();
    assert_eq!(task.join().ok(), Some(Err(RunError::AlreadyRunning)));
    has_left(executor);
}

/// Calls `f` in the next `wake` of the calling thread after worker 0 has left.
#[cfg(feature = "classes")]
fn when_left(executor: &'static ThreadExecutor, f: impl FnOnce() + 'static) {
    at_wake(move || if is_online(executor, 0) { when_left(executor, f) } else { f() });
}

/// The urgent task drops the worker's handle. As the worker has left, another thread takes the slot and spends some of its budget. What is
/// left of that is as before when `give_way` is over.
#[cfg(feature = "classes")]
#[test]
fn giving_way_writes_nothing_into_a_slot_that_was_left() {
    use filch::{Class, TaskOptions, WorkerSet};

    let _watchdog = watchdog();
    let executor = parked(2, quiet());
    keep_handle(executor);
    let step = || HANDLE.with_borrow(|worker| worker.as_ref().unwrap().step());
    // A worker that leaves a timer behind wakes a sleeper.
    let sleeps = executor.sleep(core::time::Duration::from_secs(3_600));
    executor.spawn(pool(), sleeps).unwrap().detach();
    assert_eq!(step(), filch::Step::Polled);
    let (rests, over) = (Flag::new(), Flag::new());
    let (is_over, says) = (over.clone(), rests.clone());
    let sleeper = thread::spawn(move || {
        let worker = executor.worker(id(1)).unwrap();
        assert!(worker.begin_park().is_some());
        says.set();
        until(|| is_over.is_set());
    });
    until(|| rests.is_set());
    let entered = Flag::new();
    let (enters, is_over) = (entered.clone(), over.clone());
    let other = move || {
        let worker = executor.worker(id(0)).unwrap();
        let spends = async move {
            let units = |n: u32| (0..n).filter(|_| executor.spend_budget()).count();
            assert_eq!(units(100), 100);
            enters.set();
            until(|| is_over.is_set());
            units(100)
        };
        let mut spends = executor.spawner().spawn_pinned(pool(), id(0), spends).unwrap();
        while !spends.is_finished() {
            let _ = worker.step();
        }
        spends.join().unwrap()
    };
    let started = std::rc::Rc::new(RefCell::new(None));
    let starts = std::rc::Rc::clone(&started);
    when_left(executor, move || {
        starts.replace(Some(thread::spawn(other)));
        until(|| entered.is_set());
    });
    let options = TaskOptions::new().class(Class::Urgent).workers(WorkerSet::only(id(0)));
    let urgent = async move { drop_handle(executor) };
    executor.spawner().spawn_with(options, pool(), urgent).unwrap().detach();
    assert!(executor.give_way());
    over.set();
    let other = started.take().expect("the worker has left");
    assert_eq!(other.join().unwrap(), 28);
    sleeper.join().unwrap();
    stop(executor);
}
