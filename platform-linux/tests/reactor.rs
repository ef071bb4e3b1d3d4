//! The reactor: sources that outlive their runtime, memory that is reused, workers in long polls,
//! forks.

mod common;

use core::{
    future::pending,
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    sync::Arc,
    thread,
};

use common::{Flag, pair, pausable, runtime, until, watchdog};
use filch_linux::{
    Async, Handle, Runtime, TaskOptions,
    runtime::{Host, WorkerId},
    spawn,
};

async fn read_byte(io: &Async<UnixStream>) -> io::Result<u8> {
    let mut byte = [0];
    io.read_with(|mut io| io.read(&mut byte)).await.map(|_| byte[0])
}

async fn write_byte(io: &Async<UnixStream>, byte: u8) -> io::Result<()> {
    io.write_with(|mut io| io.write(&[byte])).await.map(drop)
}

fn host<H: Host>(rt: &filch_std::runtime::RuntimeOn<H>) -> &'static H {
    rt.handle().host().unwrap()
}

/// Whether the current runtime has a host of the type of this one's.
fn is_found<H: Host>(_: &filch_std::runtime::RuntimeOn<H>) -> bool {
    Handle::current().unwrap().host::<H>().is_some()
}

#[test]
fn sources_outlive_their_runtime_and_say_so() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let (a, b) = rt.block_on(async { pair() });
    // A read that waits on another thread when the runtime ends.
    let waiting = Flag::new();
    let waits = thread::spawn({
        let waiting = waiting.clone();
        move || {
            futures::executor::block_on(async {
                let mut read = pin!(read_byte(&b));
                let mut cx = Context::from_waker(Waker::noop());
                assert!(read.as_mut().poll(&mut cx).is_pending());
                waiting.set();
                let error = read.await.unwrap_err();
                assert!(error.to_string().contains("shut down"), "{error}");
            });
            b
        }
    });
    waiting.block();
    drop(rt);
    let b = waits.join().unwrap();
    futures::executor::block_on(async {
        // An operation that is ready at once works; one that would block fails, each time.
        write_byte(&a, 7).await.unwrap();
        assert_eq!(read_byte(&b).await.unwrap(), 7);
        for _ in 0..3 {
            read_byte(&b).await.unwrap_err();
            b.readable().await.unwrap_err();
        }
        while a.try_write_with(|mut io| io.write(&[0; 4_096])).is_ok() {}
        write_byte(&a, 7).await.unwrap_err();
    });
    // The next runtime in the same memory does not take them over either.
    let rt = runtime(2);
    rt.block_on(async {
        let (c, d) = pair();
        write_byte(&c, 1).await.unwrap();
        assert_eq!(read_byte(&d).await.unwrap(), 1);
        write_byte(&a, 7).await.unwrap_err();
    });
}

#[test]
fn memory_is_used_again_with_sources_left_open() {
    let _watchdog = watchdog();
    let mut left = Vec::new();
    let mut hosts = std::collections::BTreeSet::new();
    for round in 0..200_u32 {
        // As many workers as in no other test: such a test's runtime might get the memory.
        let rt = filch_linux::Builder::new().workers(7).build().unwrap();
        hosts.insert(core::ptr::from_ref(host(&rt)).addr());
        rt.block_on(async {
            let (a, b) = pair();
            let (flag, (c, d)) = (Flag::new(), pair());
            let stuck = spawn({
                let flag = flag.clone();
                async move {
                    flag.set();
                    read_byte(&d).await
                }
            });
            flag.wait().await;
            let echo = spawn(async move {
                let byte = read_byte(&b).await?;
                write_byte(&b, byte).await?;
                Ok::<_, io::Error>(b)
            });
            write_byte(&a, round as u8).await.unwrap();
            assert_eq!(read_byte(&a).await.unwrap(), round as u8);
            // Some sources outlive the runtime; a task is left waiting; an event is in transit.
            write_byte(&c, 1).await.unwrap();
            if round % 10 == 0 {
                left.push((a, echo.await.unwrap().unwrap()));
            }
            drop((c, stuck));
        });
    }
    assert_eq!(hosts.len(), 1, "the memory is used again");
    for (a, b) in left {
        futures::executor::block_on(async {
            write_byte(&a, 1).await.unwrap();
            assert_eq!(read_byte(&b).await.unwrap(), 1);
        });
    }
}

#[test]
fn many_sources_come_and_go_while_others_are_told() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let stop = Arc::new(AtomicBool::new(false));
    // Traffic on some sources, while others are made and dropped with events in transit: stale
    // events reach no other source.
    let traffic: Vec<_> = (0..4)
        .map(|_| {
            let stop = Arc::clone(&stop);
            rt.spawn(async move {
                let (a, b) = pair();
                let echo = spawn(async move {
                    while let Ok(byte @ 1..) = read_byte(&b).await {
                        write_byte(&b, byte).await.unwrap();
                    }
                });
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) {
                    write_byte(&a, 1 + (rounds % 255) as u8).await.unwrap();
                    assert_eq!(read_byte(&a).await.unwrap(), 1 + (rounds % 255) as u8);
                    rounds += 1;
                }
                drop(a);
                echo.await.unwrap();
                rounds
            })
        })
        .collect();
    rt.block_on(async {
        for round in 0..3_000 {
            let (a, b) = pair();
            let mut wait = pin!(read_byte(&b));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(wait.as_mut().poll(&mut cx).is_pending());
            write_byte(&a, 1).await.unwrap();
            if round % 2 == 0 {
                assert_eq!(wait.await.unwrap(), 1);
            }
        }
    });
    stop.store(true, Ordering::Relaxed);
    for task in traffic {
        assert!(rt.block_on(task).unwrap() > 0);
    }
}

/// Sends both workers to sleep, this one first, so that it sleeps in epoll.
fn put_to_sleep(rt: &Runtime, first: u16) {
    let hold = |worker: u16| {
        let (held, release) = (Flag::new(), Flag::new());
        let task = rt.handle().spawn_with(TaskOptions::new().pinned(WorkerId::new(worker)), {
            let (held, release) = (held.clone(), release.clone());
            async move {
                held.set();
                release.block();
            }
        });
        drop(task.unwrap());
        held.block();
        release
    };
    let (first, second) = (hold(first), hold(1 - first));
    first.set();
    // The pauses do not synchronise: they only make it likely that the sleepers are where the test
    // wants them.
    until(|| rt.metrics().totals().parked == 1);
    thread::sleep(Duration::from_millis(1));
    second.set();
    until(|| rt.metrics().totals().parked == 2);
    thread::sleep(Duration::from_millis(30));
}

/// The worker that sleeps in epoll, or the other, gets a long poll: the other one gets the I/O
/// event.
#[test]
fn a_worker_in_a_long_poll_keeps_io_from_nobody() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    for round in 0..20 {
        let (a, b) = rt.block_on(async { pair() });
        let done = Arc::new(AtomicBool::new(false));
        let started = Flag::new();
        let reader = rt.spawn({
            let done = Arc::clone(&done);
            async move {
                assert_eq!(read_byte(&b).await.unwrap(), 9);
                done.store(true, Ordering::SeqCst);
            }
        });
        put_to_sleep(&rt, round % 2);
        // Does not yield until the other has got its event.
        let long = rt.spawn({
            let (done, started) = (Arc::clone(&done), started.clone());
            async move {
                started.set();
                while !done.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
            }
        });
        started.block();
        a.get_ref().write_all(&[9]).unwrap();
        for task in [reader, long] {
            // Not with `block_on`, which would help.
            until(|| task.is_finished());
        }
    }
}

#[test]
fn workers_wake_each_other_in_and_out_of_epoll() {
    let _watchdog = watchdog();
    let rt = runtime(3);
    // Bytes pass through sockets, tokens through tasks: both kinds of sleepers are woken by both
    // kinds of events.
    let rounds = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let rounds = Arc::clone(&rounds);
            rt.spawn(async move {
                let (a, b) = pair();
                for i in 0..1_000 {
                    let (io, flag) = (&a, Flag::new());
                    let task = spawn({
                        let flag = flag.clone();
                        async move {
                            flag.wait().await;
                            i
                        }
                    });
                    let write = async {
                        write_byte(io, 1).await.unwrap();
                        flag.set();
                        task.await.unwrap()
                    };
                    let (byte, back) = futures::join!(read_byte(&b), write);
                    assert_eq!((byte.unwrap(), back), (1, i));
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for task in tasks {
        rt.block_on(task).unwrap();
    }
    assert_eq!(rounds.load(Ordering::SeqCst), 6_000);
}

#[test]
fn a_blocking_wait_inside_a_task_goes_on_with_io() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    // The only worker waits in sync code, three deep, and gets the event that ends each wait in the
    // one within.
    let (mut peer, b) = UnixStream::pair().unwrap();
    let reading = Flag::new();
    let task = rt.spawn({
        let reading = reading.clone();
        async move {
            let (c, d) = pair();
            let inner = spawn(async move {
                let b = Async::new(b).unwrap();
                let byte = filch_linux::block_on(async {
                    reading.set();
                    read_byte(&b).await.unwrap()
                });
                write_byte(&c, byte + 1).await.unwrap();
            });
            let outer = spawn(async move { filch_linux::block_on(read_byte(&d)).unwrap() });
            let byte = filch_linux::block_on(outer).unwrap();
            inner.await.unwrap();
            byte
        }
    });
    reading.block();
    until(|| rt.metrics().totals().parked == 1);
    peer.write_all(&[3]).unwrap();
    // Not with `block_on`, which would help.
    until(|| task.is_finished());
    assert_eq!(rt.block_on(task).unwrap(), 4);
}

#[test]
fn a_worker_that_blocks_too_deep_to_help_keeps_no_events_to_itself() {
    let _watchdog = watchdog();
    let rt = filch_linux::Builder::new().workers(1).nesting(1).build().unwrap();
    for _ in 0..20 {
        let (mut x, a) = UnixStream::pair().unwrap();
        let (mut y, b) = UnixStream::pair().unwrap();
        let (first, second) = (Flag::new(), Flag::new());
        let task = rt.spawn({
            let (first, second) = (first.clone(), second.clone());
            async move {
                let (a, b) = (Async::new(a).unwrap(), Async::new(b).unwrap());
                let read = move |io: Async<UnixStream>, flag: Flag| async move {
                    flag.set();
                    read_byte(&io).await.unwrap()
                };
                // Each within the one before; the innermost is too deep.
                let task = spawn(async move {
                    let inner = spawn(async move { filch_linux::block_on(read(b, second)) });
                    filch_linux::block_on(read(a, first)) + filch_linux::block_on(inner).unwrap()
                });
                filch_linux::block_on(task).unwrap()
            }
        });
        first.block();
        second.block();
        x.write_all(&[3]).unwrap();
        y.write_all(&[4]).unwrap();
        until(|| task.is_finished());
        assert_eq!(rt.block_on(task).unwrap(), 7);
    }
}

#[test]
fn a_forked_child_takes_nothing_from_its_parent() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    rt.block_on(async {
        let (a, b) = pair();
        // It waits, so that its event must come from epoll.
        let mut read = pin!(read_byte(&b));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(read.as_mut().poll(&mut cx).is_pending());
        // SAFETY: the child uses its copy of the source, and through it the epoll, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = Async::new(UnixStream::pair().unwrap().0).is_err();
            // SAFETY: a copy of a value in the child's own memory; the child does not use the other
            // copy.
            drop(unsafe { core::ptr::read(&b) });
            // SAFETY: ends the child without running any of the parent's destructors.
            unsafe { libc::_exit(if refused { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        write_byte(&a, 5).await.unwrap();
        assert_eq!(read.await.unwrap(), 5);
    });
}

#[test]
#[cfg_attr(
    filch_tsan,
    ignore = "ThreadSanitizer puts a handler off until the thread's next call into libc, and one that sleeps in epoll makes none"
)]
fn signal_handlers_wake_whoever_sleeps_in_epoll() {
    static WAKER: std::sync::OnceLock<Waker> = std::sync::OnceLock::new();
    static HITS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handler(_: libc::c_int) {
        HITS.fetch_add(1, Ordering::SeqCst);
        if let Some(waker) = WAKER.get() {
            waker.wake_by_ref();
        }
    }
    let _watchdog = watchdog();
    // SAFETY: the handler uses atomics and a waker, whose wakes are allowed in handlers.
    let before = unsafe { libc::signal(libc::SIGUSR2, handler as *const () as usize) };
    assert_ne!(before, libc::SIG_ERR);
    let rt = runtime(1);
    let polls = Arc::new(AtomicUsize::new(0));
    let task = rt.spawn({
        let polls = Arc::clone(&polls);
        core::future::poll_fn(move |cx| {
            WAKER.get_or_init(|| cx.waker().clone());
            polls.fetch_add(1, Ordering::SeqCst);
            Poll::<()>::Pending
        })
    });
    until(|| WAKER.get().is_some());
    // The worker's own thread, asleep or not: each signal leads to a poll after it.
    let worker = rt.spawn(async {
        // SAFETY: no preconditions.
        unsafe { libc::pthread_self() }
    });
    let worker = rt.block_on(worker).unwrap();
    for i in 1..=2_000 {
        let seen = polls.load(Ordering::SeqCst);
        // SAFETY: the worker's thread lives as long as the runtime.
        assert_eq!(unsafe { libc::pthread_kill(worker, libc::SIGUSR2) }, 0);
        until(|| HITS.load(Ordering::SeqCst) == i);
        until(|| polls.load(Ordering::SeqCst) > seen);
    }
    task.abort();
}

#[test]
fn handles_find_the_host() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let found = rt.block_on(async { is_found(&rt) });
    assert!(found);
    assert!(core::ptr::eq(host(&rt), rt.host()));
    drop(rt.spawn(pending::<()>()));
    assert!(!format!("{:?}", host(&rt)).is_empty());
    assert_eq!(rt.shutdown(Duration::ZERO).len(), 1);
}

/// All workers slept. The one in epoll is woken for a poll that ends only when a byte has arrived,
/// whose event that worker would have received.
#[test]
fn io_is_heard_of_by_others_when_a_worker_is_stuck_after_an_idle_moment() {
    let _watchdog = watchdog();
    for worker in [0, 1].map(WorkerId::new) {
        let rt = runtime(2);
        let (a, mut peer) = UnixStream::pair().unwrap();
        let a = rt.block_on(async { Async::new(a).unwrap() });
        let over = Arc::new(AtomicBool::new(false));
        thread::scope(|scope| {
            let reader = scope.spawn(|| futures::executor::block_on(read_byte(&a)));
            until(|| rt.metrics().totals().parked == 2);
            let seen = Arc::clone(&over);
            let begun = Flag::new();
            let stuck = rt.handle().spawn_with(TaskOptions::new().pinned(worker), {
                let begun = begun.clone();
                async move {
                    begun.set();
                    while !seen.load(Ordering::SeqCst) {
                        thread::yield_now();
                    }
                }
            });
            begun.block();
            peer.write_all(&[7]).unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 7);
            over.store(true, Ordering::SeqCst);
            stuck.unwrap().join().unwrap();
        });
    }
}

/// Events that have arrived come before a stopped clock's next deadline.
#[test]
fn a_stopped_clock_waits_for_io_that_is_ready() {
    let _watchdog = watchdog();
    let rt = pausable(2);
    for _ in 0..50 {
        let read = rt.spawn(async {
            let (a, b) = pair();
            filch_linux::time::pause();
            filch_linux::time::sleep(Duration::from_millis(1)).await;
            write_byte(&a, 7).await.unwrap();
            let read = filch_linux::time::timeout(Duration::from_secs(60), read_byte(&b)).await;
            filch_linux::time::resume();
            read
        });
        assert_eq!(rt.block_on(read).unwrap().expect("in time").unwrap(), 7);
    }
}

/// A worker in the reactor may have taken an event, and not be back yet, as the last other thread goes to sleep.
#[test]
fn a_stopped_clock_waits_for_events_that_were_taken() {
    let _watchdog = watchdog();
    let rt = pausable(2);
    rt.block_on(async {
        filch_linux::time::pause();
        let begin = filch_linux::time::now();
        let tasks = (0..2).map(|_| {
            let (a, b) = pair();
            let echo = spawn(async move {
                for _ in 0..500 {
                    let byte = read_byte(&b).await.unwrap();
                    write_byte(&b, byte).await.unwrap();
                }
            });
            spawn(async move {
                for i in 0..500_u32 {
                    write_byte(&a, i as u8).await.unwrap();
                    assert_eq!(read_byte(&a).await.unwrap(), i as u8);
                }
                echo.await.unwrap();
            })
        });
        let tasks: Vec<_> = tasks.collect();
        for task in tasks {
            filch_linux::time::timeout(Duration::from_secs(60), task)
                .await
                .expect("in time")
                .unwrap();
        }
        assert_eq!(filch_linux::time::now(), begin);
    });
}

#[filch_linux::test(paused, crate = filch_linux)]
async fn a_test_may_begin_on_a_stopped_clock() {
    let ((a, b), hour) = (pair(), Duration::from_secs(3_600));
    assert!(filch_linux::time::timeout(hour, read_byte(&b)).await.is_err());
    write_byte(&a, 7).await.unwrap();
    assert_eq!(read_byte(&b).await.unwrap(), 7);
}

/// A child drops the sources that it has inherited, while threads of the parent were using them.
#[test]
fn a_forked_child_drops_sources_without_a_lock() {
    let _watchdog = watchdog();
    let rt = runtime(1);
    let handle = *rt.handle();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                handle.block_on(async {
                    while !over.load(Ordering::SeqCst) {
                        drop(pair());
                    }
                });
            });
        }
        for _ in 0..200 {
            let (a, b) = rt.block_on(async { pair() });
            // SAFETY: the child only makes system calls, as this test shows.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: as above; no destructor runs but those of the sources.
                unsafe {
                    libc::alarm(10);
                    drop((a, b));
                    libc::_exit(0);
                }
            }
            let mut status = 0;
            // SAFETY: this process's own child.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert!(libc::WIFEXITED(status), "the child hangs in the drop of a source");
        }
        over.store(true, Ordering::SeqCst);
    });
}
