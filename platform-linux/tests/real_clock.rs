//! The time of day is changed forwards and backwards while tasks sleep: they use the clock that
//! cannot be set.

mod common;

use core::time::Duration;
use std::time::Instant;

use common::watchdog;
use filch_linux::{
    Runtime, spawn,
    time::{sleep, timeout},
};

fn set_forth(by: i64) {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let then = rustix::time::Timespec { tv_sec: now.tv_sec + by, ..now };
    rustix::time::clock_settime(rustix::time::ClockId::Realtime, then).expect("as root");
}

#[test]
#[ignore = "sets the machine's clock by an hour for a moment: to be run as root, on a machine where that is no harm"]
fn steps_of_the_time_of_day_have_no_effect() {
    let _watchdog = watchdog();
    let runtime: Runtime = filch_linux::Builder::new().workers(2).build().unwrap();
    let (begin, length) = (Instant::now(), Duration::from_millis(100));
    runtime.block_on(async {
        let sleeps: Vec<_> = (0..10).map(|_| spawn(sleep(length))).collect();
        let far = spawn(timeout(Duration::from_secs(1_800), core::future::pending::<()>()));
        sleep(Duration::from_millis(10)).await;
        set_forth(3_600);
        sleep(Duration::from_millis(10)).await;
        set_forth(-3_600);
        for sleep in sleeps {
            sleep.await.unwrap();
        }
        let took = begin.elapsed();
        assert!(took >= length && took < Duration::from_secs(60), "{took:?}");
        assert!(!far.is_finished(), "half an hour has not passed");
    });
}
