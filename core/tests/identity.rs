//! At most one context at a time is a given worker, whatever safe code does with handles, entries and platforms.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{cell::RefCell, panic::AssertUnwindSafe};
use std::{
    panic::{catch_unwind, resume_unwind},
    thread,
};

use common::{Flag, ThreadExecutor, id, parked, pool, quiet, stop, until, watchdog};
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

/// An executor with one worker and one spare slot, and the entry of a replacement worker that has not come. Worker 0
/// has waited for a task that worker 1 has run.
fn late_replacement() -> (&'static ThreadExecutor, WorkerEntry) {
    let executor = parked(3, quiet().nesting(0).spares(1));
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
        assert!(!executor.reopen(), "a replacement is on its way");
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
