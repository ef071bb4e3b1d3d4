//! One context at a time is a worker, whatever safe code does with handles, entries and platforms.
#![cfg(not(any(filch_loom, filch_shuttle, filch_weakmem)))]

mod common;

use core::{cell::RefCell, panic::AssertUnwindSafe};
use std::{
    panic::{catch_unwind, resume_unwind},
    thread,
};

use common::{ThreadExecutor, id, parked, pool, quiet, stop, watchdog};
use filch::{RunError, Worker};
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

/// Drops the handle, in the midst of something that the executor does in its slot: no other thread gets the slot.
fn drop_handle(executor: &'static ThreadExecutor) {
    drop(HANDLE.take());
    let elsewhere = || executor.worker(id(0)).map(drop);
    let entered = thread::scope(|s| s.spawn(elsewhere).join().unwrap());
    assert_eq!(entered, Err(RunError::AlreadyRunning), "two threads in one slot");
}

/// The worker has left at the end of what it was in.
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
