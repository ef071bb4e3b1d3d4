//! Runs the example `httpd` with requests that keep all its workers computing, and other requests
//! beside them.
#![cfg(target_os = "linux")]

mod servers;

use core::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use std::{fs, sync::Mutex, thread, time::Instant};

use servers::{Server, watchdog};

const WORKERS: usize = 2;
const CLIENTS: usize = 4;
const REQUESTS: usize = 1_000;
/// How many sums are requested at the same time.
const SUMS: usize = 2;

fn threads(server: &Server) -> usize {
    let tasks = format!("/proc/{}/task", server.id().as_raw_nonzero());
    fs::read_dir(tasks).unwrap().count()
}

/// The wait of the slowest of 100, in milliseconds, and the median.
fn quantiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |n: usize| times[times.len() * n / 100].as_secs_f64() * 1e3;
    (at(99), at(50))
}

/// A client that makes small requests until it has its share, and records the wait for each.
fn ask(server: &Server, times: &Mutex<Vec<Duration>>) {
    let mut client = server.connect();
    for _ in 0..REQUESTS / CLIENTS {
        let begin = Instant::now();
        assert_eq!(client.expect("/").body, "hello, world\n");
        times.lock().unwrap().push(begin.elapsed());
    }
}

#[test]
fn sums_and_others_share_the_workers() {
    let _watchdog = watchdog();
    let server = Server::start("httpd", &["--workers", &WORKERS.to_string()]);
    assert_eq!(server.connect().expect("/sum").body, "8796090925056\n");
    let before = threads(&server);
    let (done, sums, most) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let (alone, beside) = (Mutex::new(vec![]), Mutex::new(vec![]));
    let all_ask = |times| {
        thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(|| ask(&server, times)))));
    };
    all_ask(&alone);
    thread::scope(|scope| {
        for _ in 0..SUMS {
            scope.spawn(|| {
                let mut client = server.connect();
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(client.expect("/sum").body, "8796090925056\n");
                    sums.fetch_add(1, Ordering::Relaxed);
                    most.fetch_max(threads(&server), Ordering::Relaxed);
                }
            });
        }
        all_ask(&beside);
        done.store(true, Ordering::Relaxed);
    });
    let (alone, beside) = (alone.into_inner().unwrap(), beside.into_inner().unwrap());
    assert_eq!((alone.len(), beside.len()), (REQUESTS, REQUESTS));
    for (what, mut times) in [("alone", alone), ("beside the sums", beside)] {
        let (p99, p50) = quantiles(&mut times);
        println!("{REQUESTS} requests {what}: p50 {p50:.2} ms, p99 {p99:.2} ms");
    }
    let (sums, most) = (sums.into_inner(), most.into_inner());
    println!("{sums} sums; {most} threads, of which {WORKERS} are workers and one waits");
    assert!(sums >= SUMS, "nothing was computed meanwhile");
    // There is no separate pool for the computations, and no compensation worker.
    assert_eq!((before, most), (WORKERS + 1, WORKERS + 1));
    server.end();
}
