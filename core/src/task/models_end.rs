//! Loom models of a task's end by abort, under a shield, by completion, or because nothing can wake it; and of the
//! reuse of its slot.

use alloc::boxed::Box;
use core::task::{Poll, Waker};

use loom::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use super::{
    error::JoinError,
    models_bare::{Signal, System, poll},
    options::TaskOptions,
};
use crate::atomic::model::check;

extern crate alloc;

/// An abort takes effect before or after completion, never during it: the future is dropped once.
#[test]
fn models_abort_against_poll_and_wake() {
    check(2, || {
        let system = System::new();
        let (mut handle, signal, drops) = system.spawn_waiting(TaskOptions::new());
        let abort = handle.abort_handle().unwrap();
        let aborter = thread::spawn(move || abort.abort());
        let waker = thread::spawn(move || {
            signal.wake();
            signal.forget();
        });
        system.run();
        aborter.join().unwrap();
        waker.join().unwrap();
        system.run();
        let Poll::Ready(end) = poll(&mut handle, Waker::noop()) else { panic!("not over") };
        assert!(matches!(end, Ok(()) | Err(JoinError::Cancelled)), "{end:?}");
        assert_eq!(drops.load(Relaxed), 1);
        drop(handle);
        system.assert_no_slot_leaks();
    });
}

/// A shielded task that is aborted runs to the end of its shield.
#[test]
fn models_abort_against_shield() {
    check(2, || {
        let system = System::new();
        let (signal, ended) = (Signal::new(), Arc::new(AtomicBool::new(false)));
        let mut handle = system.spawn({
            let (signal, ended) = (signal.clone(), Arc::clone(&ended));
            async move {
                super::coop::shield(async {
                    signal.wait().await;
                    ended.store(true, Relaxed);
                })
                .await;
                core::future::pending::<()>().await;
            }
        });
        system.run();
        let abort = handle.abort_handle().unwrap();
        let aborter = thread::spawn(move || abort.abort());
        signal.wake();
        signal.forget();
        system.run();
        aborter.join().unwrap();
        drop(signal);
        system.run();
        assert!(ended.load(Relaxed), "the shield was cut");
        let end = poll(&mut handle, Waker::noop());
        assert!(matches!(end, Poll::Ready(Err(JoinError::Cancelled))), "{end:?}");
        drop(handle);
        system.assert_no_slot_leaks();
    });
}

/// The last two references to an idle task are dropped at once: a worker drops its future, once.
#[test]
fn models_last_references_dropped() {
    check(3, || {
        let system = System::new();
        let (handle, signal, drops) = system.spawn_waiting(TaskOptions::new().end_unreachable());
        let waker = thread::spawn(move || {
            signal.forget();
        });
        drop(handle);
        system.run();
        waker.join().unwrap();
        system.run();
        assert_eq!(drops.load(Relaxed), 1, "a task that nothing can wake is dropped");
        system.assert_no_slot_leaks();
    });
}

/// The last two references to an idle task are dropped while a shutdown cancels it: its future is dropped once, and its slot freed
/// once.
///
/// Seen to catch: `keep_last`.
#[test]
fn models_last_references_dropped_against_an_abort() {
    check(3, || {
        let system = System::new();
        let (handle, signal, drops) = system.spawn_waiting(TaskOptions::new());
        let waker = thread::spawn(move || signal.forget());
        let aborter = thread::spawn(move || system.abort_all());
        drop(handle);
        waker.join().unwrap();
        system.run();
        aborter.join().unwrap();
        system.run();
        assert_eq!(drops.load(Relaxed), 1);
        system.assert_no_slot_leaks();
    });
}

/// A task that nothing can wake is kept, until it is found in its memory.
///
/// Seen to catch: `keep_last`.
#[test]
fn models_unreachable_task_is_kept() {
    check(3, || {
        let system = System::new();
        let (handle, signal, drops) = system.spawn_waiting(TaskOptions::new());
        let waker = thread::spawn(move || signal.forget());
        drop(handle);
        system.run();
        waker.join().unwrap();
        system.run();
        assert_eq!(drops.load(Relaxed), 0);
        system.abort_all();
        system.run();
        assert_eq!(drops.load(Relaxed), 1);
        system.assert_no_slot_leaks();
    });
}

/// The last reference is consumed by a wake of a complete task: the slot is freed once.
#[test]
fn models_late_wake_of_a_complete_task() {
    check(3, || {
        let system = System::new();
        let signal = Signal::new();
        let mut handle = system.spawn({
            let signal = signal.clone();
            async move { signal.wait().await }
        });
        system.run();
        let late = signal.waker();
        signal.wake();
        signal.forget();
        drop(signal);
        let waker = thread::spawn(move || late.wake());
        system.run();
        let _ = poll(&mut handle, Waker::noop());
        drop(handle);
        waker.join().unwrap();
        system.run();
        system.assert_no_slot_leaks();
    });
}

/// One waker is woken and one dropped while the handle is dropped: a worker polls the task or drops its future, and the
/// slot is freed once.
#[test]
fn models_last_references_woken_and_dropped() {
    check(2, || {
        let system = System::new();
        let (handle, signal, drops) = system.spawn_waiting(TaskOptions::new().end_unreachable());
        let one = signal.waker();
        signal.forget();
        let waker = thread::spawn(move || one.wake());
        drop(handle);
        system.run();
        waker.join().unwrap();
        system.run();
        // Drops the waker that a poll may have left.
        signal.forget();
        system.run();
        assert_eq!(drops.load(Relaxed), 1, "a task that nothing can wake is dropped");
        system.assert_no_slot_leaks();
    });
}

/// The slot of a complete task is taken for the next task, while the last reference to the first is dropped.
///
/// Seen to catch: `free_give`, `state_apply`.
#[test]
fn models_slot_is_used_again() {
    check(3, || {
        let system = System::new();
        let first = system.spawn(async {});
        // Takes the other slot.
        let ends = TaskOptions::new().end_unreachable();
        let second = system.spawn_with(ends, core::future::pending::<()>());
        let other = thread::spawn(move || drop(first));
        system.run();
        let third = system.try_spawn(async { Box::new(3) });
        other.join().unwrap();
        system.run();
        if let Some(mut third) = third {
            let end = poll(&mut third, Waker::noop());
            assert!(matches!(end, Poll::Ready(Ok(three)) if *three == 3));
        }
        drop(second);
        system.run();
        system.assert_no_slot_leaks();
    });
}
