//! embassy-time in tasks of a runtime whose clock stands still while a task runs: to the tick.
#![cfg(not(filch_weakmem))]

use core::time::Duration as StdDuration;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use embassy_sync::{
    blocking_mutex::raw::CriticalSectionRawMutex, channel::Channel, mutex::Mutex as AsyncMutex,
    signal::Signal,
};
use embassy_time::{Delay, Duration, Instant, Ticker, Timer, with_deadline, with_timeout};
use embedded_hal_async::delay::DelayNs;
use filch_std::{
    Runtime,
    runtime::{Pausable, RuntimeOn},
    spawn, time,
};
use filch_test_support::watchdog;
use futures_util::future::{Either, join_all, select};

// One clock for all tests: each has it for itself.
filch_embassy_time::driver!(static TIME: 64);

fn with_clock<T: Send + 'static>(test: impl Future<Output = T> + Send + 'static) -> T {
    static RUNTIME: OnceLock<RuntimeOn<Pausable>> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    let _watchdog = watchdog();
    let _turn: MutexGuard<'_, ()> = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = RUNTIME.get_or_init(|| {
        let runtime = Runtime::builder().workers(3).build_pausable().unwrap();
        runtime.spawn(TIME.register(runtime.handle().timers()).unwrap()).detach();
        runtime
    });
    let evictions = TIME.evictions();
    let done = runtime.block_on(async {
        time::pause();
        spawn(test).await.unwrap()
    });
    assert_eq!(TIME.evictions(), evictions, "there is room");
    done
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn timers_end_at_their_time_on_all_workers() {
    with_clock(async {
        let begin = Instant::now();
        let wait = |n| {
            spawn(async move {
                Timer::after(ms(n)).await;
                (n, Instant::now() - begin)
            })
        };
        let ended = join_all((0..40).map(|n| wait(n * 7 % 40))).await;
        for (n, after) in ended.into_iter().map(Result::unwrap) {
            assert_eq!(after, ms(n));
        }
    });
}

#[test]
fn a_ticker_keeps_its_rhythm() {
    with_clock(async {
        let begin = Instant::now();
        let mut ticker = Ticker::every(ms(10));
        for n in 1..=5 {
            // Work of any length does not shift the ticks.
            Timer::after(ms(n)).await;
            ticker.next().await;
            assert_eq!(Instant::now() - begin, ms(10 * n));
        }
    });
}

#[test]
fn a_timeout_ends_what_takes_too_long_and_nothing_else() {
    with_clock(async {
        let begin = Instant::now();
        assert_eq!(
            with_timeout(ms(20), async {
                Timer::after(ms(5)).await;
                1
            })
            .await,
            Ok(1)
        );
        assert_eq!(Instant::now() - begin, ms(5));
        // The wake that the timeout has left behind does not end this one.
        Timer::after(ms(50)).await;
        assert_eq!(Instant::now() - begin, ms(55));
        assert!(with_timeout(ms(20), core::future::pending::<()>()).await.is_err());
        assert_eq!(Instant::now() - begin, ms(75));
        assert!(with_deadline(begin + ms(80), Timer::after(ms(6))).await.is_err());
        assert_eq!(Instant::now() - begin, ms(80));
    });
}

#[test]
fn several_timers_of_one_task_share_a_slot() {
    with_clock(async {
        let begin = Instant::now();
        let all = join_all([30, 10, 20, 10, 40].map(|n| async move {
            Timer::after(ms(n)).await;
            assert_eq!(Instant::now() - begin, ms(n));
        }));
        let ten = async { Timer::after(ms(10)).await };
        match select(Box::pin(all), Box::pin(ten)).await {
            Either::Left(_) => panic!("the first takes longer"),
            Either::Right(((), rest)) => rest.await,
        };
        assert_eq!(Instant::now() - begin, ms(40));
    });
}

#[test]
fn the_clock_is_the_runtimes() {
    with_clock(async {
        let (embassy, filch) = (Instant::now(), time::now());
        time::sleep(StdDuration::from_micros(1_500)).await;
        // The one has whole ticks.
        let tick = Duration::from_ticks(1);
        let slept = Instant::now() - embassy;
        assert!(
            slept + tick >= Duration::from_micros(1_500) && slept <= Duration::from_micros(1_501)
        );
        Timer::after(ms(2)).await;
        let slept = time::now() - filch;
        assert!(
            slept >= StdDuration::from_micros(3_499) && slept <= StdDuration::from_micros(3_501)
        );
    });
}

/// A sensor that is slow to measure, as its data sheet says.
struct Bus {
    busy_until: Option<Instant>,
    commands: Vec<u8>,
}

impl Bus {
    fn start(&mut self) {
        self.commands.push(0x2C);
        self.busy_until = Some(Instant::now() + Duration::from_micros(12_500));
    }
    /// `None` while it measures.
    fn read(&mut self) -> Option<u16> {
        self.commands.push(0xE0);
        self.busy_until.is_some_and(|end| end <= Instant::now()).then_some(0x1234)
    }
}

/// The driver of the sensor, as crates write them: it knows no executor and no clock, only `DelayNs`.
struct Sensor<'a, D> {
    bus: &'a mut Bus,
    delay: D,
}

impl<D: DelayNs> Sensor<'_, D> {
    async fn measure(&mut self) -> u16 {
        self.bus.start();
        self.delay.delay_ms(10).await;
        loop {
            if let Some(value) = self.bus.read() {
                return value;
            }
            self.delay.delay_us(500).await;
        }
    }
}

#[test]
fn a_driver_over_embedded_hal_runs_unchanged() {
    with_clock(async {
        let begin = Instant::now();
        let mut bus = Bus { busy_until: None, commands: Vec::new() };
        let mut sensor = Sensor { bus: &mut bus, delay: Delay };
        assert_eq!(sensor.measure().await, 0x1234);
        // `Delay` waits for a tick more, so that it is never short of one.
        let took = Instant::now() - begin;
        assert!(took >= Duration::from_micros(12_500) && took < ms(14), "{took:?}");
        assert!(bus.commands.len() >= 6, "{:?}", bus.commands);
    });
}

/// One receiver: two that wait at the same channel of embassy's wake each other in turns, for ever, and the clock stands.
#[test]
fn channels_signals_and_locks_of_embassy_connect_tasks_on_several_workers() {
    static CHANNEL: Channel<CriticalSectionRawMutex, u32, 4> = Channel::new();
    static DONE: Signal<CriticalSectionRawMutex, u32> = Signal::new();
    static SUM: AsyncMutex<CriticalSectionRawMutex, u32> = AsyncMutex::new(0);
    with_clock(async {
        let producer = |first: u32| async move {
            for i in 0..500 {
                CHANNEL.send(first + i).await;
                {
                    let mut sum = SUM.lock().await;
                    // The other producer waits for the lock meanwhile.
                    filch_std::task::yield_now().await;
                    *sum += first + i;
                }
                if i % 100 == 0 {
                    Timer::after(ms(1)).await;
                }
            }
        };
        let consumer = async {
            let mut sum = 0;
            for _ in 0..1_000 {
                sum += CHANNEL.receive().await;
            }
            DONE.signal(sum);
        };
        let tasks = [spawn(producer(0)), spawn(producer(500)), spawn(consumer)];
        assert_eq!(with_timeout(ms(1_000), DONE.wait()).await, Ok(1_000 * 999 / 2));
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*SUM.lock().await, 1_000 * 999 / 2);
    });
}
