//! An idle runtime with open sockets and far timers makes no system call: its workers make no
//! context switch.

mod common;

use core::time::Duration;
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::Instant,
};

use common::watchdog;
use filch_linux::{Async, Runtime, TaskOptions, runtime::WorkerId, time::timeout};

const NAME: &str = "idler";

/// The context switches of each worker's thread, and its run time in clock ticks.
fn switches() -> BTreeMap<String, (u64, u64)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").unwrap() {
        let path = entry.unwrap().path();
        // A thread may end between the listing and the read.
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap().trim()
        };
        let name = field("Name");
        if name.starts_with(NAME) {
            let count = |name| field(name).parse::<u64>().unwrap();
            let both = (count("voluntary_ctxt_switches"), count("nonvoluntary_ctxt_switches"));
            found.insert(name.to_owned(), both);
        }
    }
    found
}

/// Waits until all workers sleep, and have slept for a while.
fn settle(runtime: &Runtime) -> BTreeMap<String, (u64, u64)> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let before = switches();
        thread::sleep(Duration::from_millis(100));
        if runtime.metrics().totals().parked == 2 && switches() == before {
            return before;
        }
        assert!(Instant::now() < end, "the workers do not settle: {:?}", runtime.metrics());
    }
}

#[test]
fn an_idle_runtime_with_sockets_and_timers_makes_no_context_switch() {
    let _watchdog = watchdog();
    let runtime = filch_linux::Builder::new().workers(2).name(NAME).build().unwrap();
    let (mut peers, mut tasks) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        let (a, b) = UnixStream::pair().unwrap();
        peers.push(b);
        tasks.push(runtime.spawn(async move {
            let a = Async::new(a)?;
            let mut byte = [0];
            // A first byte, then a long wait for the second, with a far deadline.
            a.read_with(|mut a| a.read(&mut byte)).await?;
            let second = a.read_with(|mut a| a.read(&mut byte));
            timeout(Duration::from_secs(3_600), second).await.map_err(std::io::Error::other)??;
            Ok::<_, std::io::Error>(byte[0])
        }));
    }
    for peer in &mut peers {
        peer.write_all(&[1]).unwrap();
    }
    let before = settle(&runtime);
    assert_eq!(before.len(), 2 + usize::from(cfg!(feature = "tokio")), "{before:?}");
    thread::sleep(Duration::from_secs(5));
    assert_eq!(switches(), before, "somebody woke up");

    // The workers only sleep: each runs a task, and one gets an I/O event.
    for worker in 0..2 {
        let task = runtime
            .handle()
            .spawn_with(TaskOptions::new().pinned(WorkerId::new(worker)), async { 7 })
            .unwrap();
        assert_eq!(runtime.block_on(task).unwrap(), 7);
    }
    for (peer, task) in peers.iter_mut().zip(tasks) {
        peer.write_all(&[2]).unwrap();
        assert_eq!(runtime.block_on(task).unwrap().unwrap(), 2);
    }
    assert_ne!(settle(&runtime), before, "the count counts");
}
