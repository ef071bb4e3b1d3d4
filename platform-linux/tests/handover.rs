//! I/O events arrive while workers wait in sync code, and when they return from there.

use core::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::Arc,
    thread,
    time::Instant,
};

use filch_linux::{Async, Builder, Runtime, block_on, parallel, spawn};
use filch_test_support::watchdog;

fn runtime(workers: usize) -> Runtime {
    Builder::new().workers(workers).build().unwrap()
}

/// One end for a task, and one for a thread.
fn pair() -> (Async<UnixStream>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Async::new(ours).unwrap(), theirs)
}

async fn read_byte(io: &Async<UnixStream>) -> u8 {
    let mut byte = [0];
    assert_eq!(io.read_with(|mut io| io.read(&mut byte)).await.unwrap(), 1);
    byte[0]
}

/// Far more than a wake-up takes, and far less than the delay when no worker polled epoll.
const LATE: Duration = Duration::from_millis(100);

/// How many of so many echoes come back late, over a stream whose other end a task has.
fn late_echoes(rt: &Runtime, rounds: u8) -> usize {
    let (ours, mut theirs) = rt.block_on(async { pair() });
    let echo = rt.spawn(async move {
        for _ in 0..rounds {
            let byte = read_byte(&ours).await;
            ours.write_with(|mut io| io.write(&[byte])).await.unwrap();
        }
    });
    let late = (0..rounds).filter(|round| {
        // Gives the workers time to settle.
        thread::park_timeout(Duration::from_millis(2));
        let begin = Instant::now();
        theirs.write_all(&[*round]).unwrap();
        let mut byte = [0];
        theirs.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [*round]);
        begin.elapsed() > LATE
    });
    let late = late.count();
    rt.block_on(echo).unwrap();
    late
}

/// A busy machine may be late by itself now and then.
fn few(late: usize, rounds: u8) {
    assert!(late <= usize::from(rounds) / 10, "{late} of {rounds} echoes took {LATE:?}");
}

#[test]
fn io_is_heard_of_beside_a_poll_that_forks_all_the_time() {
    let _watchdog = watchdog();
    for workers in [2, 3] {
        let rt = runtime(workers);
        let over = Arc::new(AtomicBool::new(false));
        let forks = rt.spawn({
            let over = Arc::clone(&over);
            async move {
                while !over.load(SeqCst) {
                    parallel::join(|| (), || ());
                }
            }
        });
        let late = late_echoes(&rt, 30);
        over.store(true, SeqCst);
        rt.block_on(forks).unwrap();
        few(late, 30);
    }
}

#[test]
fn io_is_heard_of_beside_a_poll_that_broadcasts_all_the_time() {
    let _watchdog = watchdog();
    let rt = runtime(2);
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let broadcasts = rt.spawn({
        let (over, calls) = (Arc::clone(&over), Arc::clone(&calls));
        async move {
            while !over.load(SeqCst) {
                parallel::broadcast(|_| calls.fetch_add(1, SeqCst));
            }
        }
    });
    let late = late_echoes(&rt, 30);
    over.store(true, SeqCst);
    rt.block_on(broadcasts).unwrap();
    few(late, 30);
}

#[test]
fn a_nested_wait_leaves_nobody_without_a_listener() {
    let _watchdog = watchdog();
    let mut late = 0;
    let rounds = 60;
    for round in 0..rounds {
        let rt = runtime(2 + usize::from(round % 3));
        let (first, mut for_first) = rt.block_on(async { pair() });
        let (second, mut for_second) = rt.block_on(async { pair() });
        let heard = Arc::new(AtomicBool::new(false));
        let listener = rt.spawn({
            let heard = Arc::clone(&heard);
            async move {
                read_byte(&second).await;
                heard.store(true, SeqCst);
            }
        });
        let nested = Arc::new(AtomicBool::new(false));
        let poll = rt.spawn({
            let (heard, nested) = (Arc::clone(&heard), Arc::clone(&nested));
            async move {
                // Inside a poll, which lasts until the next event arrives.
                block_on(read_byte(&first));
                nested.store(true, SeqCst);
                let begin = Instant::now();
                while !heard.load(SeqCst) && begin.elapsed() < 3 * LATE {
                    core::hint::spin_loop();
                }
                begin.elapsed() > LATE
            }
        });
        // Gives the workers time to go to sleep, one of them in the nested wait.
        thread::park_timeout(Duration::from_millis(5));
        for_first.write_all(b"1").unwrap();
        while !nested.load(SeqCst) {
            thread::yield_now();
        }
        for_second.write_all(b"2").unwrap();
        late += usize::from(rt.block_on(poll).unwrap());
        rt.block_on(listener).unwrap();
    }
    few(late, rounds);
}

#[test]
fn a_nested_join_leaves_nobody_without_a_listener() {
    let _watchdog = watchdog();
    let mut late = 0;
    let rounds = 60;
    for round in 0..rounds {
        let rt = runtime(2 + usize::from(round % 3));
        let (io, mut theirs) = rt.block_on(async { pair() });
        let heard = Arc::new(AtomicBool::new(false));
        let listener = rt.spawn({
            let heard = Arc::clone(&heard);
            async move {
                read_byte(&io).await;
                heard.store(true, SeqCst);
            }
        });
        let nested = Arc::new(AtomicBool::new(false));
        let poll = rt.spawn({
            let (heard, nested) = (Arc::clone(&heard), Arc::clone(&nested));
            async move {
                let mut slow = spawn(filch_linux::time::sleep(Duration::from_millis(5)));
                slow.join().unwrap();
                nested.store(true, SeqCst);
                let begin = Instant::now();
                while !heard.load(SeqCst) && begin.elapsed() < 3 * LATE {
                    core::hint::spin_loop();
                }
                begin.elapsed() > LATE
            }
        });
        while !nested.load(SeqCst) {
            thread::yield_now();
        }
        theirs.write_all(b"!").unwrap();
        late += usize::from(rt.block_on(poll).unwrap());
        rt.block_on(listener).unwrap();
    }
    few(late, rounds);
}
