//! The demonstration: producers and consumers, timers, a parallel job.

use core::{future::Future, time::Duration};

use embassy_sync::channel::Channel;
use filch::{
    JoinHandle, Memory, Platform,
    atomic::{AtomicU32, Ordering},
};

use crate::{Kernel, TaskLock};

static CHANNEL: Channel<TaskLock, u32, 4> = Channel::new();
static SUM: AtomicU32 = AtomicU32::new(0);
static TICKS: AtomicU32 = AtomicU32::new(0);

impl<P: Platform, M: Memory + 'static, const N: usize, const RING: usize> Kernel<P, M, N, RING> {
    pub(crate) async fn demonstrate(&'static self) {
        let sound = self.trade().await;
        self.suite.check("two producers and two consumers trade 2,000 numbers", sound);
        let sound = self.tickers().await;
        self.suite.check("three intervals tick as often as they should", sound);
        let sound = self.parallel().await;
        self.suite.check("the primes below 10,000, counted in parallel, are 1,229", sound);
    }

    /// Spawns a task. Where there is a flight recorder, the task keeps the place of the call.
    #[cfg_attr(feature = "recorder", track_caller)]
    pub(crate) fn spawn<F>(&'static self, future: F) -> Option<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        #[cfg(feature = "recorder")]
        let spawned =
            self.executor.spawner().spawn_with(filch::TaskOptions::new(), self.memory, future);
        #[cfg(not(feature = "recorder"))]
        let spawned = self.executor.spawn(self.memory, future);
        spawned.ok()
    }

    async fn trade(&'static self) -> bool {
        let producer = |first: u32| async move {
            for i in 0..1_000 {
                CHANNEL.send(first + i).await;
            }
        };
        let consumer = || async {
            for _ in 0..1_000 {
                SUM.fetch_add(CHANNEL.receive().await, Ordering::Relaxed);
            }
        };
        let traders = (
            self.spawn(producer(0)),
            self.spawn(producer(1_000)),
            self.spawn(consumer()),
            self.spawn(consumer()),
        );
        let (Some(a), Some(b), Some(c), Some(d)) = traders else { return false };
        let ended = a.await.is_ok() && b.await.is_ok() && c.await.is_ok() && d.await.is_ok();
        ended && SUM.load(Ordering::Acquire) == 2_000 * 1_999 / 2
    }

    async fn tickers(&'static self) -> bool {
        let timers = self.executor.timers();
        for millis in [5, 10, 20] {
            let ticker = async move {
                let mut interval = timers.interval(Duration::from_millis(millis));
                for _ in 0..40 / millis {
                    interval.tick().await;
                    TICKS.fetch_add(1, Ordering::Relaxed);
                }
            };
            if self.spawn(ticker).is_none() {
                return false;
            }
        }
        while self.executor.metrics().totals().live > 1 {
            timers.sleep(Duration::from_millis(5)).await;
        }
        TICKS.load(Ordering::Acquire) == 8 + 4 + 2
    }

    /// Whether the count is right each time, and parts of it are stolen, if there are cores to
    /// steal them. A single count may end before other cores come.
    async fn parallel(&'static self) -> bool {
        let stolen =
            || self.executor.metrics().workers().map(|(_, core)| core.stolen).sum::<usize>();
        let before = stolen();
        for _ in 0..50 {
            if self.primes().await != 1_229 {
                return false;
            }
            if N == 1 || stolen() != before {
                return true;
            }
        }
        false
    }

    /// Counts primes in so many parts, which other cores steal.
    async fn primes(&'static self) -> u32 {
        SUM.store(0, Ordering::Relaxed);
        let parts = self.tasks - 2;
        let parent = async move {
            for part in 0..parts {
                let count = async move {
                    let mine = (2..10_000).filter(|n| n % parts == part && is_prime(*n)).count();
                    SUM.fetch_add(mine as u32, Ordering::AcqRel);
                };
                if self.spawn(count).is_none() {
                    return;
                }
            }
        };
        if let Some(parent) = self.spawn(parent) {
            let _ = parent.await;
        }
        while self.executor.metrics().totals().live > 1 {
            filch::yield_now().await;
        }
        SUM.load(Ordering::Acquire)
    }
}

fn is_prime(n: u32) -> bool {
    (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)
}
