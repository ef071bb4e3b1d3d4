//! Loom models of the task word with its waker and its join handle: real tasks on a scheduler that is only an injector.
//! injector.

use alloc::{boxed::Box, vec::Vec};
use core::task::{Poll, Waker};

use loom::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use super::{
    models_bare::{Guarded, Signal, System, counter, poll},
    options::TaskOptions,
};
use crate::atomic::model::check;

extern crate alloc;

/// A task that waits for a signal is polled again after it, whether the wake finds the task idle or, if `queued`,
/// scheduled or running.
fn wake_against_poll(by_value: bool, queued: bool) {
    let system = System::new();
    let (mut handle, signal, drops) = system.spawn_waiting(TaskOptions::new());
    if queued {
        signal.waker().wake();
    }
    let waker = thread::spawn(move || {
        let waker = signal.waker();
        signal.set();
        if by_value {
            waker.wake()
        } else {
            waker.wake_by_ref()
        }
        // Drops what the wakers left here, perhaps the last reference.
        signal.forget();
    });
    system.run();
    waker.join().unwrap();
    system.run();
    assert!(matches!(poll(&mut handle, Waker::noop()), Poll::Ready(Ok(()))), "a lost wake-up");
    drop(handle);
    assert_eq!(drops.load(Relaxed), 1);
    system.assert_no_slot_leaks();
}

#[test]
fn models_wake_by_ref_of_an_idle_task() {
    check(3, || wake_against_poll(false, false));
}

#[test]
fn models_wake_by_value_of_an_idle_task() {
    check(3, || wake_against_poll(true, false));
}

/// Seen to catch: `state_load`, `state_apply`, `pending_seen`.
#[test]
fn models_wake_by_ref_against_poll() {
    check(3, || wake_against_poll(false, true));
}

/// Seen to catch: `state_load`, `state_apply`, `pending_seen`.
#[test]
fn models_wake_by_value_against_poll() {
    check(3, || wake_against_poll(true, true));
}

/// A wake that finds the count of wakes saturated changes nothing in the word, and is published all the same.
///
/// Seen to catch: `wake_skip`, `state_load`, `state_apply`.
#[test]
fn models_wake_that_changes_nothing() {
    check(3, || {
        let system = System::new();
        let signal = Signal::new();
        let handle = system.spawn({
            let signal = signal.clone();
            async move { signal.wait().await }
        });
        system.run();
        let late = signal.waker();
        late.wake_by_ref();
        let header = super::waker::header_of(&late).expect("a waker of ours");
        // SAFETY: the waker's reference.
        unsafe { header.as_ref() }.state.apply(super::state::Snapshot::saturate_wakes);
        let waker = thread::spawn(move || {
            signal.set();
            late.wake_by_ref();
            drop(late);
            signal.forget();
        });
        system.run();
        waker.join().unwrap();
        system.run();
        assert!(handle.is_finished(), "a lost wake-up");
    });
}

/// Two wakers against a poll make at most one `Ready`. A second would poll the future on two workers at once, which
/// loom reports as a race.
#[test]
fn models_two_wakers_against_poll() {
    check(2, || {
        let system = System::new();
        let signal = Signal::new();
        let handle = system.spawn({
            let (signal, guarded) = (signal.clone(), Guarded::new(&Arc::new(AtomicUsize::new(0))));
            async move {
                guarded.touch();
                signal.wait().await;
            }
        });
        system.run();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let signal = signal.clone();
                thread::spawn(move || {
                    signal.wake();
                    system.run();
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        system.run();
        assert!(handle.is_finished(), "a lost wake-up");
    });
}

/// A context that awaits the handle is woken, or sees the output at once. A waker that was replaced is not needed.
///
/// Seen to catch: `state_load`, `state_apply`, `join_early`, `join_keep`.
#[test]
fn models_join_against_completion() {
    check(3, || {
        let system = System::new();
        let mut handle = system.spawn(async { Box::new(7) });
        let worker = thread::spawn(move || system.run());
        let (first, first_waker) = counter();
        let (second, second_waker) = counter();
        let mut output = None;
        for waker in [&first_waker, &second_waker] {
            if output.is_none() {
                if let Poll::Ready(done) = poll(&mut handle, waker) {
                    output = Some(done);
                }
            }
        }
        worker.join().unwrap();
        let woken = second.0.load(Relaxed) + first.0.load(Relaxed);
        let output = match output {
            Some(done) => done,
            None => {
                assert_eq!(second.0.load(Relaxed), 1, "the registered waker is woken ({woken})");
                match poll(&mut handle, &second_waker) {
                    Poll::Ready(done) => done,
                    Poll::Pending => panic!("woken, and not complete"),
                }
            }
        };
        assert_eq!(*output.unwrap(), 7);
        drop(handle);
        system.assert_no_slot_leaks();
    });
}

/// A thread that is no worker sleeps on the task's completion word.
///
/// Seen to catch: `state_load`, `state_apply`.
#[test]
fn models_blocking_join_against_completion() {
    check(2, || {
        let system = System::new();
        let mut handle = system.spawn(async { Box::new(7) });
        let worker = thread::spawn(move || system.run());
        assert_eq!(*handle.join().unwrap(), 7);
        worker.join().unwrap();
        drop(handle);
        system.assert_no_slot_leaks();
    });
}

/// The output is dropped once, by the later of the handle and the worker. With `registered`, after a waker was
/// registered.
///
/// Seen to catch: `state_apply`; with a waker, `join_keep`.
fn drop_against_completion(registered: bool) {
    let system = System::new();
    let drops = Arc::new(AtomicUsize::new(0));
    let output = Guarded::output(&drops);
    let mut handle = system.spawn(async move { output });
    let (_count, waker) = counter();
    if registered {
        assert!(poll(&mut handle, &waker).is_pending());
    }
    let worker = thread::spawn(move || system.run());
    drop(handle);
    worker.join().unwrap();
    assert_eq!(drops.load(Relaxed), 1);
    system.assert_no_slot_leaks();
    // No clone of the waker is left.
    assert_eq!(alloc::sync::Arc::strong_count(&_count), 2);
}

#[test]
fn models_handle_dropped_against_completion() {
    check(3, || drop_against_completion(false));
}

#[test]
fn models_handle_with_waker_dropped_against_completion() {
    check(3, || drop_against_completion(true));
}
