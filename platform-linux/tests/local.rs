//! The runtime of one thread with I/O: in `block_on`, and driven by a loop that sleeps on its descriptor.

mod common;

use core::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::{
    io::{Read, Write},
    os::{fd::AsFd, unix::net},
    rc::Rc,
    sync::Arc,
    thread,
};

use common::watchdog;
use filch_linux::{
    Async, JoinHandle, LocalRuntime,
    net::{TcpListener, TcpStream},
    runtime::Turn,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn local() -> LocalRuntime {
    filch_linux::Builder::new().build_local().expect("a runtime")
}

/// Whether the descriptor is readable, at once.
fn is_readable(rt: &LocalRuntime) -> bool {
    sleep(rt, Some(Duration::ZERO))
}

/// Sleeps until the descriptor is readable; false if the time is over first.
fn sleep(rt: &LocalRuntime, time: Option<Duration>) -> bool {
    let time = time.map(|time| Timespec::try_from(time).unwrap());
    poll(&mut [PollFd::new(rt, PollFlags::IN)], time.as_ref()).unwrap() > 0
}

/// Gives it turns until the task has ended; sleeps in between. How often it has slept.
fn drive<T>(rt: &LocalRuntime, task: &JoinHandle<T>) -> usize {
    let mut sleeps = 0;
    loop {
        let turn = rt.turn(16);
        if task.is_finished() {
            return sleeps;
        }
        if let Turn::Rests(time) = turn {
            sleep(rt, time);
            sleeps += 1;
        }
    }
}

async fn echo_once(not_send: Rc<Cell<usize>>) -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let counts = Rc::clone(&not_send);
    let server = filch_linux::spawn_local(async move {
        let (stream, _) = listener.accept().await?;
        let mut byte = [0];
        stream.read_exact(&mut byte).await?;
        counts.set(counts.get() + 1);
        stream.write_all(&byte).await
    });
    let stream = TcpStream::connect(addr).await?;
    stream.write_all(b"!").await?;
    let mut byte = [0];
    stream.read_exact(&mut byte).await?;
    assert_eq!(byte, *b"!");
    server.expect("the thread is the worker").await.expect("it does not panic")
}

#[filch_linux::test(local)]
async fn sockets_work_in_block_on() {
    let count = Rc::new(Cell::new(0));
    echo_once(Rc::clone(&count)).await.unwrap();
    assert_eq!(count.get(), 1);
}

#[filch_linux::test(local, paused)]
async fn a_stopped_clock_lets_io_come_first() {
    let (a, mut b) = net::UnixStream::pair().unwrap();
    let a = Async::new(a).unwrap();
    b.write_all(b"!").unwrap();
    let read = a.read_with(|mut a| a.read(&mut [0]));
    let read = filch_linux::time::timeout(Duration::from_secs(86_400), read).await;
    assert_eq!(read.expect("I/O has arrived").unwrap(), 1);
    filch_linux::time::sleep(Duration::from_secs(86_400)).await;
}

#[test]
fn sockets_and_timers_work_in_turns() {
    let _watchdog = watchdog();
    let rt = local();
    let count = Rc::new(Cell::new(0));
    let task = rt.spawn_local(echo_once(Rc::clone(&count))).unwrap();
    drive(&rt, &task);
    assert_eq!(count.get(), 1);
    rt.block_on(task).unwrap().unwrap();
    let task = rt.spawn_local(async { filch_linux::time::sleep(Duration::from_millis(2)).await });
    assert!(drive(&rt, &task.unwrap()) >= 1);
}

#[test]
fn the_descriptor_tells_of_io_and_of_wakes() {
    let _watchdog = watchdog();
    let rt = local();
    let (a, mut b) = net::UnixStream::pair().unwrap();
    let reads = rt.spawn_local(async move {
        let a = Async::new(a).unwrap();
        let mut byte = [0];
        a.read_with(|mut a| a.read(&mut byte)).await.unwrap();
        a.read_with(|mut a| a.read(&mut byte)).await.unwrap();
        byte
    });
    let reads = reads.unwrap();
    // A registration is an event: after the turn there is none.
    while rt.turn(64) == Turn::Again {}
    assert!(!is_readable(&rt));
    // I/O.
    b.write_all(b"1").unwrap();
    assert!(sleep(&rt, None));
    assert_eq!(rt.turn(64), Turn::Rests(None));
    assert!(!is_readable(&rt) && !reads.is_finished());
    // A spawn by another thread.
    let handle = *rt.handle();
    let other = thread::spawn(move || handle.spawn(async {}));
    assert!(sleep(&rt, None));
    let spawned = other.join().unwrap();
    assert_eq!(rt.turn(64), Turn::Rests(None));
    assert!(!is_readable(&rt) && spawned.is_finished());
    // Both at once; and what `block_on` sees to is no event any more.
    b.write_all(b"2").unwrap();
    rt.spawn(async {}).detach();
    assert_eq!(rt.block_on(reads).unwrap(), *b"2");
    while rt.turn(64) == Turn::Again {}
    assert!(!is_readable(&rt));
    // A loop may wait in an epoll of its own.
    use rustix::event::epoll;
    let outer = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let data = epoll::EventData::new_u64(7);
    epoll::add(&outer, rt.as_fd(), data, epoll::EventFlags::IN).unwrap();
    rt.spawn(async {}).detach();
    let mut events = Vec::with_capacity(4);
    assert_eq!(epoll::wait(&outer, rustix::buffer::spare_capacity(&mut events), None), Ok(1));
    assert_eq!(rt.turn(64), Turn::Rests(None));
}

/// Other threads write to sockets and spawn tasks while the loop goes to sleep on the descriptor alone: nothing is lost.
#[test]
fn a_loop_that_sleeps_on_the_descriptor_misses_nothing() {
    const ROUNDS: u32 = 300;
    let _watchdog = watchdog();
    let mut rng = filch_test_support::rng();
    let rt = local();
    let handle = *rt.handle();
    let (pairs, spawned) = (3, Arc::new(AtomicUsize::new(0)));
    let mut others = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..pairs {
        let (a, mut b) = net::UnixStream::pair().unwrap();
        let naps: Vec<_> = (0..ROUNDS).map(|_| rng.u32(..300)).collect();
        let counts = Arc::clone(&spawned);
        others.push(thread::spawn(move || {
            for nap in naps {
                (0..nap).for_each(|_| core::hint::spin_loop());
                let counts = Arc::clone(&counts);
                handle.spawn(async move { _ = counts.fetch_add(1, SeqCst) }).detach();
                b.write_all(b"!").unwrap();
                b.read_exact(&mut [0]).unwrap();
            }
        }));
        tasks.push(rt.spawn_local(async move {
            let a = Async::new(a).unwrap();
            for _ in 0..ROUNDS {
                a.read_with(|mut a| a.read(&mut [0])).await.unwrap();
                a.write_with(|mut a| a.write(b"!")).await.unwrap();
            }
        }));
    }
    for task in tasks {
        drive(&rt, &task.unwrap());
    }
    others.into_iter().for_each(|other| other.join().unwrap());
    // What was spawned last may still be queued.
    while rt.turn(64) == Turn::Again {}
    assert_eq!(spawned.load(SeqCst), pairs * ROUNDS as usize);
}
