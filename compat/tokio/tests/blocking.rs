//! `spawn_blocking`: the threads of the pool, their limit, and the end of the runtime.

use core::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{
    panic::catch_unwind,
    sync::{Arc, mpsc},
    thread,
};

use filch_test_support::{Flag, until, watchdog};
use filch_tokio::runtime::{Builder, Handle, Runtime};

const MS: Duration = Duration::from_millis(1);

const KINDS: [fn() -> Builder; 2] = [Builder::new_current_thread, Builder::new_multi_thread];

/// A runtime with one thread for closures that block.
fn build(kind: fn() -> Builder, options: impl Fn(&mut Builder)) -> Runtime {
    let mut builder = kind();
    options(builder.worker_threads(1).max_blocking_threads(1).enable_all());
    builder.build().unwrap()
}

/// One of each kind.
fn both(options: impl Fn(&mut Builder)) -> [Runtime; 2] {
    KINDS.map(|kind| build(kind, &options))
}

#[test]
fn a_closure_that_comes_as_the_last_thread_leaves_runs() {
    let _watchdog = watchdog();
    let (leaves, goes_on) = (Flag::new(), Flag::new());
    let (left, gate) = (leaves.clone(), goes_on.clone());
    for runtime in both(|builder| {
        let (leaves, goes_on) = (leaves.clone(), goes_on.clone());
        builder.thread_keep_alive(MS).on_thread_stop(move || {
            leaves.set();
            goes_on.block();
        });
    }) {
        runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
        // The thread is on its way out, and has seen that there is nothing to do.
        left.block();
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 7)).unwrap(), 7);
        gate.set();
    }
}

#[test]
fn each_of_many_closures_runs_beside_threads_that_leave() {
    let _watchdog = watchdog();
    for runtime in both(|builder| _ = builder.thread_keep_alive(Duration::ZERO)) {
        runtime.block_on(async {
            for n in 0..10_000 {
                assert_eq!(filch_tokio::task::spawn_blocking(move || n).await.unwrap(), n);
            }
        });
    }
}

#[test]
fn the_end_refuses_closures_and_waits_for_those_that_were_taken() {
    let _watchdog = watchdog();
    for runtime in both(|_| ()) {
        let (begun, goes_on) = (Flag::new(), Flag::new());
        let (begins, gate) = (begun.clone(), goes_on.clone());
        let first = runtime.spawn_blocking(move || {
            begins.set();
            gate.block();
            7
        });
        begun.block();
        let second = runtime.spawn_blocking(|| 8);
        let handle = runtime.handle().clone();
        let end = thread::spawn(move || drop(runtime));
        // It is over at once as soon as the end has begun.
        until(|| handle.spawn_blocking(|| {}).is_finished());
        assert!(!second.is_finished());
        goes_on.set();
        end.join().unwrap();
        assert!(first.is_finished() && second.is_finished());
        let other = Builder::new_current_thread().build().unwrap();
        assert_eq!(other.block_on(first).unwrap(), 7);
        assert_eq!(other.block_on(second).unwrap(), 8);
        let refused = handle.spawn_blocking(|| {});
        assert!(other.block_on(refused).unwrap_err().is_cancelled());
    }
}

#[test]
fn the_end_waits_for_the_hook_of_a_thread_unless_it_has_a_limit() {
    let _watchdog = watchdog();
    for (kind, has_limit) in KINDS.iter().flat_map(|kind| [(*kind, false), (*kind, true)]) {
        let (begun, goes_on, over) = (Flag::new(), Flag::new(), Flag::new());
        let runtime = build(kind, |builder| {
            let (begun, goes_on, over) = (begun.clone(), goes_on.clone(), over.clone());
            builder.on_thread_stop(move || {
                begun.set();
                goes_on.block();
                over.set();
            });
        });
        runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
        if has_limit {
            runtime.shutdown_timeout(MS);
            assert!(!over.is_set());
            goes_on.set();
            over.block();
        } else {
            let helper = thread::spawn(move || {
                begun.block();
                goes_on.set();
            });
            drop(runtime);
            assert!(over.is_set());
            helper.join().unwrap();
        }
    }
}

#[test]
fn an_aborted_closure_never_begins() {
    let _watchdog = watchdog();
    for runtime in both(|_| ()) {
        let (begun, goes_on) = (Flag::new(), Flag::new());
        let (begins, gate) = (begun.clone(), goes_on.clone());
        let first = runtime.spawn_blocking(move || {
            begins.set();
            gate.block();
        });
        begun.block();
        let ran = Flag::new();
        let runs = ran.clone();
        let second = runtime.spawn_blocking(move || runs.set());
        second.abort();
        goes_on.set();
        assert!(runtime.block_on(second).unwrap_err().is_cancelled());
        runtime.block_on(first).unwrap();
        assert!(!ran.is_set());
    }
}

#[test]
fn a_hook_spawns_as_its_thread_begins() {
    let _watchdog = watchdog();
    for kind in KINDS {
        let (send, receive) = mpsc::channel();
        let runtime = build(kind, |builder| {
            let send = send.clone();
            builder.worker_threads(4).on_thread_start(move || {
                let send = send.clone();
                let spawns = || drop(Handle::current().spawn(async {}));
                send.send(catch_unwind(spawns).is_ok()).unwrap();
            });
        });
        runtime.block_on(runtime.spawn_blocking(|| {})).unwrap();
        drop(runtime);
        let spawned: Vec<bool> = receive.try_iter().collect();
        assert!(!spawned.is_empty() && spawned.iter().all(|spawned| *spawned), "{spawned:?}");
    }
}

#[test]
fn threads_have_the_names_and_the_hooks_of_the_builder() {
    let _watchdog = watchdog();
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut builder = Builder::new_current_thread();
    let (begins, ends) = (Arc::clone(&begun), Arc::clone(&ended));
    let runtime = builder
        .thread_name("blocks")
        .on_thread_start(move || {
            assert_eq!(thread::current().name(), Some("blocks"));
            begins.fetch_add(1, SeqCst);
        })
        .on_thread_stop(move || _ = ends.fetch_add(1, SeqCst))
        .build()
        .unwrap();
    let name = || thread::current().name().map(str::to_owned);
    assert_eq!(runtime.block_on(runtime.spawn_blocking(name)).unwrap().as_deref(), Some("blocks"));
    assert_eq!((begun.load(SeqCst), ended.load(SeqCst)), (1, 0));
    drop(runtime);
    assert_eq!((begun.load(SeqCst), ended.load(SeqCst)), (1, 1));
}
