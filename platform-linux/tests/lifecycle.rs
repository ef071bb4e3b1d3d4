//! What a runtime leaves behind when it ends: no descriptor, and memory that the next one reuses.

mod os_common;

use core::time::Duration;
use std::{
    io::{Read, Write},
    os::fd::{AsRawFd, RawFd},
};

use filch_linux::{
    Runtime, TaskOptions,
    runtime::{Host, WorkerId},
};
use os_common::{alone, pair, rng};

fn descriptors() -> Vec<(RawFd, String)> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    all.filter_map(|entry| {
        let target = std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned();
        Some((entry.file_name().to_str()?.parse().ok()?, target))
    })
    .collect()
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

fn works(rt: &Runtime) {
    rt.block_on(async {
        let (a, b) = pair();
        a.write_with(|mut io| io.write(b"!")).await.unwrap();
        let mut byte = [0];
        b.read_with(|mut io| io.read(&mut byte)).await.unwrap();
        assert_eq!(&byte, b"!");
    });
}

/// Workers may come and go before the others are there: the I/O of the runtime goes on.
#[test]
fn a_runtime_without_workers_for_a_moment_keeps_its_sources() {
    let rt: Runtime = filch_std::Runtime::builder().workers(1).build_bare().unwrap();
    let handle = *rt.handle();
    let (a, b) = rt.block_on(async { pair() });
    // SAFETY: no thread is a worker yet; this one was one for a moment.
    unsafe {
        rt.host().set_worker(Some(WorkerId::new(0)));
        rt.host().set_worker(None);
    }
    let worker = std::thread::spawn(move || handle.be_worker(WorkerId::new(0), &mut || ()));
    let read = rt.spawn(async move {
        let mut byte = [0];
        b.read_with(|mut io| io.read(&mut byte)).await.map(|_| byte)
    });
    rt.block_on(async { a.write_with(|mut io| io.write(b"!")).await }).unwrap();
    assert_eq!(&rt.block_on(read).unwrap().unwrap(), b"!");
    drop(rt);
    assert!(worker.join().unwrap());
}

#[test]
fn ten_thousand_runtimes_of_any_configuration_end_where_they_began() {
    alone("ten_thousand_runtimes_of_any_configuration_end_where_they_began", build_ten_thousand);
}

fn build_ten_thousand() {
    let mut rng = rng();
    let mut random = move |below: u64| rng.u64(..below);
    let mut kept = None;
    let mut build = |round: usize| {
        let ms = Duration::from_millis;
        let rt = filch_linux::Builder::new()
            .workers(1 + random(3) as usize)
            .spin_rounds(random(50) as u32)
            .lifo_cap(random(5) as u32)
            .budget(1 + random(200) as u16)
            .poll_limit((random(2) == 0).then(|| ms(1 + random(1_000))))
            .park_timeout((random(2) == 0).then(|| ms(1 + random(1_000))))
            .watchdog((random(2) == 0).then(|| (ms(1 + random(5)), ms(10))))
            .nesting(random(100) as u32)
            .job_workers(random(3) as u16)
            .build()
            .unwrap();
        if round % 16 == 0 {
            works(&rt);
            // Sources that outlive their runtime are closed during another's life.
            kept = rt.block_on(async { Some((pair(), filch_linux::time::sleep(ms(1)))) });
        }
    };
    (0..200).for_each(&mut build);
    let (files, memory) = (descriptors().len(), resident());
    (0..10_000).for_each(&mut build);
    let (files_then, memory_then) = (descriptors().len(), resident());
    assert_eq!(files_then, files, "{:?}", descriptors());
    // The allocator's and the threads' stacks come and go.
    assert!(memory_then <= memory + (8 << 20), "{memory} bytes, then {memory_then}");
    drop(kept);
}

#[test]
fn an_epoll_that_a_stranger_closes_is_an_error_and_no_busy_loop() {
    alone("an_epoll_that_a_stranger_closes_is_an_error_and_no_busy_loop", close_an_epoll);
}

fn close_an_epoll() {
    let rt = filch_linux::Builder::new().workers(2).build().unwrap();
    works(&rt);
    let (a, b) = rt.block_on(async { pair() });
    let reads = rt.spawn(async move {
        let mut byte = [0];
        b.read_with(|mut io| io.read(&mut byte)).await
    });
    let (epoll, _) =
        descriptors().into_iter().find(|(_, to)| to.contains("[eventpoll]")).expect("it is there");
    // The kernel keeps it while a wait is in progress: that must end first, in whichever worker it
    // is.
    // SAFETY: the test closes the runtime's descriptor on purpose.
    assert_eq!(unsafe { libc::close(epoll) }, 0);
    for worker in 0..2 {
        rt.handle()
            .spawn_with(TaskOptions::new().pinned(WorkerId::new(worker)), async {})
            .unwrap()
            .join()
            .unwrap();
    }
    let error = rt.block_on(reads).unwrap().unwrap_err();
    // Where each wait is asked for, this one may have been refused.
    let is_refused = error.raw_os_error() == Some(libc::EBADF);
    assert!(is_refused || error.to_string().contains("has shut down"), "{error}");
    // Its tasks and timers go on, and no worker spins.
    let parks = || rt.metrics().workers().map(|(_, worker)| worker.parks).sum::<usize>();
    let before = parks();
    rt.block_on(async { filch_linux::time::sleep(Duration::from_millis(200)).await });
    let parks = parks() - before;
    assert!(parks < 1_000, "{parks} sleeps in 200 ms");
    assert_ne!(a.as_raw_fd(), epoll);
    drop(a);
    drop(rt);
    // The next one has an epoll again.
    works(&filch_linux::Builder::new().workers(2).build().unwrap());
}

/// Nothing comes, and a nested wait for it is no end of a poll.
#[test]
fn a_runtime_ends_though_a_task_waits_for_io_in_place() {
    let _watchdog = os_common::watchdog();
    std::thread::scope(|scope| {
        for (workers, nesting) in [(1, 64), (2, 64), (1, 0), (2, 0)] {
            scope.spawn(move || {
                let builder = filch_linux::Builder::new().workers(workers).nesting(nesting);
                let rt = builder.build().unwrap();
                let (here, begun) = (*rt.handle(), filch_test_support::Flag::new());
                let begins = begun.clone();
                let task = rt.spawn(async move {
                    let listener =
                        filch_linux::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                    here.block_in_place(|| {
                        begins.set();
                        here.block_on(listener.accept()).map(drop)
                    })
                });
                begun.block();
                drop(rt);
                assert!(task.is_finished());
            });
        }
    });
}
