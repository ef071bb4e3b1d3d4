//! The host by itself: what it is asked for, what it tells, and what ends its wait.

use std::{
    io::{Read, Write},
    os::{fd::AsFd, unix::net::UnixStream},
};

use filch::io::{Direction, Readiness};
use filch_test_support::{watchdog, watchdog_of};

use super::*;
use crate::driver::{Key, Watch};

const ME: WorkerId = WorkerId::new(0);

/// Listens until an event comes; the number of sources that it is delivered to.
fn hear(host: &Polling) -> usize {
    let _watchdog = watchdog();
    let asleep = AtomicU32::new(0);
    // SAFETY: this thread alone plays worker 0.
    unsafe {
        while !host.listen(ME, &asleep, 0, None) {}
        host.deliver(ME)
    }
}

/// Whether there is an event now.
fn looks(host: &Polling) -> bool {
    // SAFETY: as above.
    unsafe { host.listen(ME, &AtomicU32::new(0), 1, Some(Instant::ZERO)) }
}

fn watched() -> (Polling, UnixStream, UnixStream, Key) {
    let host = Polling::new().unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    let key = host.driver.key().unwrap();
    host.watcher.add(one.as_fd(), key).unwrap();
    (host, one, other, key)
}

/// Without a task that waits, nothing is watched; what was ready before it is asked for comes at once; and it comes once.
#[test]
fn an_event_comes_once_for_each_time_that_it_is_asked_for() {
    let (host, mut one, mut other, key) = watched();
    other.write_all(b"!").unwrap();
    assert!(!looks(&host));
    let readiness = Readiness::new();
    readiness.set(Ready::WRITABLE);
    for _ in 0..3 {
        host.watcher.arm(one.as_fd(), key, Direction::Read, &readiness).unwrap();
        assert_eq!(hear(&host), 1);
        assert!(!looks(&host), "it was asked for once");
    }
    one.read_exact(&mut [0]).unwrap();
    host.watcher.arm(one.as_fd(), key, Direction::Read, &readiness).unwrap();
    assert!(!looks(&host), "there is nothing");
    other.write_all(b"!").unwrap();
    assert_eq!(hear(&host), 1);
    host.watcher.delete(one.as_fd());
}

/// The timer of a wait that ended early comes due while no worker listens. A stopped clock does not move if the host says that there is
/// I/O, and the worker that listens next looks at the clock again only if its wait ends.
#[test]
fn what_keeps_a_stopped_clock_ends_the_next_wait() {
    let _watchdog = watchdog_of(Duration::from_secs(10));
    let (host, asleep) = (Polling::new().unwrap(), AtomicU32::new(0));
    host.watcher.notify();
    let due = host.now() + Duration::from_millis(5);
    // SAFETY: this thread alone plays worker 0.
    assert!(!unsafe { host.listen(ME, &asleep, 0, Some(due)) });
    while host.now() <= due {
        std::thread::yield_now();
    }
    while host.has_io() {
        // SAFETY: as above.
        assert!(!unsafe { host.listen(ME, &asleep, 0, None) });
    }
}

/// A task waits to read; then another asks to write, and must not take the event of the first away.
#[test]
fn asking_for_one_direction_asks_for_the_other_if_a_task_may_wait_for_it() {
    let (host, mut one, mut other, key) = watched();
    while one.write(&[0; 4_096]).is_ok() {}
    let readiness = Readiness::new();
    readiness.set(Ready::WRITABLE);
    host.watcher.arm(one.as_fd(), key, Direction::Read, &readiness).unwrap();
    readiness.clear(readiness.get());
    host.watcher.arm(one.as_fd(), key, Direction::Write, &readiness).unwrap();
    assert!(!looks(&host));
    other.write_all(b"!").unwrap();
    assert_eq!(hear(&host), 1, "for the reader");
    // The reader has been told, and does not wait.
    readiness.set(Ready::READABLE);
    host.watcher.arm(one.as_fd(), key, Direction::Write, &readiness).unwrap();
    assert!(!looks(&host), "nothing asks for what there is to read");
    host.watcher.delete(one.as_fd());
}

/// Whatever the event was of: the system has stopped to watch both.
#[test]
fn an_event_is_told_to_both_directions() {
    let (host, one, mut other, _) = watched();
    let (key, entry) = host.driver.sources().insert().unwrap();
    host.watcher.delete(one.as_fd());
    host.watcher.add(one.as_fd(), key).unwrap();
    entry.readiness.clear(entry.readiness.get());
    host.watcher.arm(one.as_fd(), key, Direction::Read, &entry.readiness).unwrap();
    other.write_all(b"!").unwrap();
    hear(&host);
    assert_eq!(entry.readiness.get().ready, BOTH);
    host.watcher.delete(one.as_fd());
}

/// The first ends the wait that comes after it, and those that are not needed do not pile up.
#[test]
fn an_interrupt_ends_a_wait() {
    let host = Polling::new().unwrap();
    let word = AtomicU32::new(0);
    let _watchdog = watchdog();
    for _ in 0..3 {
        host.interrupt(ME, &word);
        host.interrupt(ME, &word);
        // SAFETY: as above. If the interrupt were lost, it would hang.
        assert!(!unsafe { host.listen(ME, &word, 0, None) });
    }
    let all = host.driver.metrics();
    assert_eq!((all.waits, all.alarms, all.events), (3, 3, 0));
}

/// As wakers of tasks may do at any time.
#[test]
fn an_interrupt_of_a_closed_host_does_nothing() {
    let host = Polling::new().unwrap();
    // SAFETY: no thread is a worker.
    unsafe { host.close() };
    host.interrupt(ME, &AtomicU32::new(0));
    assert!(!host.has_io() && !format!("{host:?}").is_empty());
    // SAFETY: as above.
    unsafe { host.open() }.unwrap();
    host.interrupt(ME, &AtomicU32::new(0));
}

/// A runtime of one thread, whose loop sleeps on the descriptor alone, hears of I/O and of wakes.
#[test]
fn a_loop_sleeps_on_the_descriptor() {
    use filch_std::{
        Runtime,
        runtime::{LocalRuntimeOn, Turn},
    };
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let _watchdog = watchdog();
    let rt: LocalRuntimeOn<Polling> = Runtime::builder().build_local_on().unwrap();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let sleep = |rt: &LocalRuntimeOn<Polling>, time| {
        poll(&mut [PollFd::new(rt, PollFlags::IN)], time).unwrap() > 0
    };
    let (one, mut other) = UnixStream::pair().unwrap();
    let reads = rt.spawn_local(async move {
        let one = crate::Async::new(one).unwrap();
        for _ in 0..2 {
            one.read_with(|mut one| one.read_exact(&mut [0])).await.unwrap();
        }
    });
    let reads = reads.unwrap();
    while rt.turn(64) == Turn::Again {}
    assert!(!sleep(&rt, Some(&at_once)), "there is nothing");
    other.write_all(b"1").unwrap();
    assert!(sleep(&rt, None));
    while rt.turn(64) == Turn::Again {}
    assert!(!sleep(&rt, Some(&at_once)) && !reads.is_finished());
    for _ in 0..3 {
        let handle = *rt.handle();
        let spawned = std::thread::spawn(move || handle.spawn(async {}));
        assert!(sleep(&rt, None), "a spawn by another thread");
        let spawned = spawned.join().unwrap();
        while rt.turn(64) == Turn::Again {}
        assert!(!sleep(&rt, Some(&at_once)) && spawned.is_finished());
    }
    other.write_all(b"2").unwrap();
    rt.block_on(reads).unwrap();
}
