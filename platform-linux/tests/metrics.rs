//! What the reactor counts.

mod common;

use core::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::Arc,
    thread,
};

use common::{pair, pausable, runtime, until, watchdog};
use filch_linux::{Async, Runtime, runtime::IoMetrics, time::sleep};

fn io(runtime: &Runtime) -> IoMetrics {
    runtime.metrics().io.expect("there is a reactor")
}

/// A byte comes this often, each time while the one worker waits for events.
fn echo(runtime: &Runtime, times: usize) {
    let asleep = || until(|| runtime.metrics().totals().parked == 1);
    let (mut peer, b) = UnixStream::pair().unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let sees = Arc::clone(&seen);
    let reads = runtime.spawn(async move {
        let (b, mut byte) = (Async::new(b).unwrap(), [0]);
        for _ in 0..times {
            b.read_with(|mut b| b.read(&mut byte)).await.unwrap();
            sees.fetch_add(1, SeqCst);
        }
    });
    for i in 0..times {
        asleep();
        peer.write_all(b"!").unwrap();
        until(|| seen.load(SeqCst) > i);
    }
    runtime.block_on(reads).unwrap();
    asleep();
}

#[test]
fn events_waits_and_sources_add_up() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    assert_eq!(io(&runtime).sources, 0);
    let (a, b) = runtime.block_on(async { pair() });
    assert_eq!((io(&runtime).sources, io(&runtime).registered), (2, 2));
    drop(a);
    assert_eq!((io(&runtime).sources, io(&runtime).registered), (1, 2));
    drop(b);
    // Their ends were events.
    until(|| runtime.metrics().totals().parked == 1);
    let before = io(&runtime);
    echo(&runtime, 10);
    let between = io(&runtime).since(&before);
    assert_eq!((between.sources, between.registered), (0, 1));
    // One for each byte; the first may come before the source is registered. One more says that it can be written to, one that its peer is gone.
    assert!((9..=12).contains(&between.events), "{between:?}");
    assert!(between.waits >= 9 && between.waits >= between.looks + between.timed, "{between:?}");
    // A spawn wakes the worker, which may have been about to sleep, and then only looked.
    until(|| {
        runtime.block_on(runtime.spawn(async {})).unwrap();
        io(&runtime).since(&before).alarms >= 1
    });
}

#[test]
fn a_wait_for_a_timer_is_timed() {
    let _watchdog = watchdog();
    let runtime = runtime(1);
    until(|| runtime.metrics().totals().parked == 1);
    let before = io(&runtime).timed;
    // A worker that is kept from its processor for so long finds the timer due, and does not wait.
    until(|| {
        runtime.block_on(runtime.spawn(async { sleep(Duration::from_millis(5)).await })).unwrap();
        io(&runtime).timed > before
    });
    let stopped = pausable(1);
    assert!(stopped.metrics().io.is_some(), "the host inside counts");
}

/// In the memory of the one before, while a source of that one is still held.
#[test]
fn a_second_runtime_begins_at_zero() {
    let _watchdog = watchdog();
    // A number of workers that no other test has.
    let first = runtime(3);
    let (a, b) = first.block_on(async { pair() });
    drop(first);
    let second = runtime(3);
    let metrics = io(&second);
    assert_eq!((metrics.sources, metrics.registered, metrics.events), (0, 0, 0), "{metrics:?}");
    let others = second.block_on(async { pair() });
    assert_eq!(io(&second).sources, 2);
    // A source of the first runtime is none of the second's when it goes.
    drop((a, b));
    assert_eq!(io(&second).sources, 2);
    drop(others);
    assert_eq!((io(&second).sources, io(&second).registered), (0, 2));
    // Registered and removed by many threads at once.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| second.block_on(async { (0..100).for_each(|_| drop(pair())) }));
        }
    });
    assert_eq!((io(&second).sources, io(&second).registered), (0, 802));
}
