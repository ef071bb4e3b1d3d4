//! embassy-time in the tasks of a runtime of several threads, by the clock of the system, with more tasks than the table has
//! room for.
#![cfg(not(filch_weakmem))]

use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use embassy_sync::{blocking_mutex::raw::CriticalSectionRawMutex, channel::Channel};
use embassy_time::{Duration, Instant, Ticker, Timer, with_timeout};
use filch_std::{Runtime, spawn};
use filch_test_support::watchdog;

filch_embassy_time::driver!(static TIME: 8);

static CHANNEL: Channel<CriticalSectionRawMutex, u64, 2> = Channel::new();
static EARLY: AtomicUsize = AtomicUsize::new(0);

/// One of many that wait for short times; a wake that is lost is a hang.
async fn waits(task: u64) {
    let mut ticker = Ticker::every(Duration::from_micros(300 + 11 * task));
    for round in 0..20 {
        let end = Instant::now() + Duration::from_micros(task * 31 % 200);
        Timer::at(end).await;
        EARLY.fetch_add(usize::from(Instant::now() < end), SeqCst);
        ticker.next().await;
        let message = async { CHANNEL.send(task * 100 + round).await };
        // Whether it has been sent is for the receiver to see.
        let _ = with_timeout(Duration::from_micros(50), message).await;
    }
}

#[test]
fn no_wake_is_lost_and_none_is_early() {
    let _watchdog = watchdog();
    let runtime = Runtime::builder().workers(3).build().unwrap();
    runtime.spawn(TIME.register(runtime.handle().timers()).unwrap()).detach();
    runtime.block_on(async {
        let receiver = spawn(async {
            while with_timeout(Duration::from_secs(60), CHANNEL.receive()).await != Ok(u64::MAX) {}
        });
        let tasks: Vec<_> = (0..24).map(|task| spawn(waits(task))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        CHANNEL.send(u64::MAX).await;
        receiver.await.unwrap();
    });
    assert_eq!(EARLY.load(SeqCst), 0);
    assert!(TIME.evictions() > 0, "the table was too small");
    drop(runtime);
    // Without an executor, the calling thread still gets to the end of a timer.
    let begin = Instant::now();
    futures_executor::block_on(Timer::after(Duration::from_micros(200)));
    assert!(begin.elapsed() >= Duration::from_micros(200));
}
