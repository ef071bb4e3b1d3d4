//! 10,000 sleeps of 1 to 100 ms at once: none is early. Their lateness is printed, and does not
//! decide the test.

use std::time::Instant as HostInstant;

use core::time::Duration;

use filch_std::{Runtime, spawn, time::sleep};

#[test]
fn ten_thousand_sleeps_are_never_early() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let mut late: Vec<Duration> = runtime.block_on(async {
            let tasks: Vec<_> = (0..10_000_u64)
                .map(|i| {
                    let length = Duration::from_micros(1_000 + i * 7_919 % 99_000);
                    spawn(async move {
                        let begin = HostInstant::now();
                        sleep(length).await;
                        let took = begin.elapsed();
                        assert!(took >= length, "{took:?} of {length:?}");
                        took - length
                    })
                })
                .collect();
            let mut late = Vec::new();
            for task in tasks {
                late.push(task.await.unwrap());
            }
            late
        });
        late.sort_unstable();
        println!(
            "{workers} workers: late by p50 {:?}, p99 {:?}, max {:?}",
            late[late.len() / 2],
            late[late.len() * 99 / 100],
            late[late.len() - 1]
        );
    }
}
