//! Crates that know no executor: channels, locks, combinators, computation.

use core::{
    num::NonZeroU32,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
    time::Duration,
};
use std::sync::Arc;

use filch_linux::{
    spawn, spawn_blocking,
    task::{JoinSet, yield_now},
};
use futures::{SinkExt, StreamExt};

use super::row;
use crate::{Done, Row, equal};

pub(super) fn rows() -> Vec<Row> {
    vec![
        row!("arc-swap", "a value that tasks replace", arc_swap, ""),
        row!("async-broadcast", "channel", async_broadcast, ""),
        row!("async-channel", "channel", async_channel, ""),
        row!("async-lock", "mutex, across an await", async_lock, ""),
        row!("async-stream", "`stream!`", async_stream, ""),
        row!("async-trait", "trait object", async_trait, ""),
        row!("backon", "retries, with this runtime's sleep", backon_ours, ""),
        row!(
            "backon",
            "retries, with its own sleep",
            backon_own,
            "`.sleep(filch_linux::time::sleep)`"
        ),
        row!("bytes", "buffers between tasks", bytes, ""),
        row!(
            "crossbeam",
            "channel, in the blocking pool",
            crossbeam,
            "its `recv` blocks: not on a worker"
        ),
        row!("dashmap", "map between tasks", dashmap, "no guard across an await"),
        row!("event-listener", "event", event_listener, ""),
        row!("flume", "channel", flume, ""),
        row!("futures", "`mpsc`, `FuturesUnordered`, `select!`", futures_crate, ""),
        row!("futures-concurrency", "join, race", futures_concurrency, ""),
        row!(
            "futures-timer",
            "delay",
            futures_timer,
            "has a thread of its own; `filch_linux::time::sleep` has none"
        ),
        row!("governor", "rate limiter", governor, ""),
        row!("moka", "`future::Cache`", moka, ""),
        row!("parking_lot", "mutex between tasks", parking_lot, "no guard across an await"),
        row!("pin-project", "future of one's own", pin_project, ""),
        row!(
            "rayon",
            "parallel iterator in a task",
            rayon,
            "with filch's `rayon-core`: on the same threads"
        ),
        row!("tower", "`ServiceBuilder`, concurrency limit", tower_limit, ""),
        row!("tower", "timeout", tower_timeout, "`filch_linux::time::timeout` around the call"),
        row!(
            "tracing",
            "spans across awaits, on several workers",
            tracing,
            "the runtime's own spans: feature `tracing`"
        ),
        row!("deadpool", "pool", deadpool_plain, ""),
        row!(
            "deadpool",
            "pool, with a timeout of its own",
            deadpool,
            "`filch_linux::time::timeout` around `get`"
        ),
        row!("bb8", "pool", bb8, "deadpool"),
    ]
}

async fn arc_swap() -> Done {
    let value = Arc::new(arc_swap::ArcSwap::from_pointee(0));
    let tasks: Vec<_> = (0..10)
        .map(|_| {
            let value = value.clone();
            spawn(async move {
                yield_now().await;
                value.rcu(|n| **n + 1);
            })
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    equal(**value.load(), 10)
}

async fn async_broadcast() -> Done {
    let (sender, receiver) = async_broadcast::broadcast(2);
    let mut sums = JoinSet::new();
    for mut receiver in [receiver.clone(), receiver] {
        sums.spawn(async move {
            let mut sum = 0;
            while let Ok(i) = receiver.recv().await {
                sum += i;
            }
            sum
        });
    }
    for i in 0..50 {
        sender.broadcast(i).await?;
    }
    drop(sender);
    while let Some(sum) = sums.join_next().await {
        equal(sum?, 1_225)?;
    }
    Ok(())
}

async fn async_channel() -> Done {
    let (sender, receiver) = async_channel::bounded(1);
    let sends = spawn(async move {
        for i in 0..100 {
            sender.send(i).await?;
        }
        Ok::<_, async_channel::SendError<i32>>(())
    });
    let mut sum = 0;
    while let Ok(i) = receiver.recv().await {
        sum += i;
    }
    sends.await??;
    equal(sum, 4_950)
}

async fn async_lock() -> Done {
    let count = Arc::new(async_lock::Mutex::new(0));
    let tasks = (0..10).map(|_| {
        let count = count.clone();
        spawn(async move {
            let mut count = count.lock().await;
            let before = *count;
            yield_now().await;
            *count = before + 1;
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await?;
    }
    equal(*count.lock().await, 10)
}

async fn async_stream() -> Done {
    let numbers = async_stream::stream! {
        for i in 0..10 {
            yield_now().await;
            yield i;
        }
    };
    let sum = spawn(numbers.fold(0, async |sum, i| sum + i)).await?;
    equal(sum, 45)
}

#[async_trait::async_trait]
trait Answers: Send + Sync {
    async fn answer(&self) -> u32;
}

struct Deep(u32);

#[async_trait::async_trait]
impl Answers for Deep {
    async fn answer(&self) -> u32 {
        yield_now().await;
        self.0
    }
}

async fn async_trait() -> Done {
    let object: Box<dyn Answers> = Box::new(Deep(42));
    equal(spawn(async move { object.answer().await }).await?, 42)
}

/// Fails twice.
async fn fails_twice(count: &AtomicUsize) -> Result<usize, &'static str> {
    match count.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Err("not yet"),
        n => Ok(n),
    }
}

async fn backon_ours() -> Done {
    use backon::{ExponentialBuilder, Retryable};
    let count = AtomicUsize::new(0);
    let fast = ExponentialBuilder::default().with_min_delay(Duration::from_millis(1));
    let tried = (|| fails_twice(&count)).retry(fast).sleep(filch_linux::time::sleep).await?;
    equal(tried, 2)
}

async fn backon_own() -> Done {
    use backon::{ExponentialBuilder, Retryable};
    let count = AtomicUsize::new(0);
    let fast = ExponentialBuilder::default().with_min_delay(Duration::from_millis(1));
    equal((|| fails_twice(&count)).retry(fast).await?, 2)
}

async fn bytes() -> Done {
    use bytes::{BufMut, BytesMut};
    let mut buffer = BytesMut::new();
    buffer.put_slice(b"shared between tasks");
    let all = buffer.freeze();
    let part = all.slice(7..14);
    let task = spawn(async move { part.len() });
    equal(task.await?, 7)?;
    equal(&all[..6], &b"shared"[..])
}

async fn crossbeam() -> Done {
    let (sender, receiver) = crossbeam::channel::bounded(1);
    let sends = spawn_blocking(move || (0..100).try_for_each(|i| sender.send(i)));
    let sum = spawn_blocking(move || receiver.iter().sum::<i32>());
    sends.await??;
    equal(sum.await?, 4_950)
}

async fn dashmap() -> Done {
    let map = Arc::new(dashmap::DashMap::new());
    let mut tasks = JoinSet::new();
    for i in 0..10 {
        let map = map.clone();
        tasks.spawn(async move { *map.entry(i % 2).or_insert(0) += i });
    }
    while let Some(done) = tasks.join_next().await {
        done?;
    }
    equal(*map.get(&1).ok_or("no such key")?, 25)
}

async fn event_listener() -> Done {
    let event = Arc::new(event_listener::Event::new());
    let (listener, other) = (event.listen(), event.clone());
    let waits = spawn(listener);
    spawn(async move { other.notify(1) }).await?;
    waits.await?;
    Ok(())
}

async fn flume() -> Done {
    let (sender, receiver) = flume::bounded(1);
    let sends = spawn(async move {
        for i in 0..100 {
            sender.send_async(i).await?;
        }
        Ok::<_, flume::SendError<i32>>(())
    });
    let sum = receiver.stream().fold(0, async |sum, i| sum + i).await;
    sends.await??;
    equal(sum, 4_950)
}

async fn futures_crate() -> Done {
    let (mut sender, receiver) = futures::channel::mpsc::channel(1);
    let sends = spawn(async move {
        for i in 0..100 {
            sender.send(i).await?;
        }
        Ok::<_, futures::channel::mpsc::SendError>(())
    });
    let sum = spawn(receiver.fold(0, async |sum, i| sum + i)).await?;
    sends.await??;
    let mut all: futures::stream::FuturesUnordered<_> =
        (0..10).map(|i| spawn(async move { i })).collect();
    let mut other = 0;
    loop {
        futures::select! {
            i = all.next() => match i {
                Some(i) => other += i?,
                None => break,
            },
            complete => break,
        }
    }
    equal((sum, other), (4_950, 45))
}

async fn futures_concurrency() -> Done {
    use futures_concurrency::prelude::*;
    let (a, b) = (spawn(async { 1 }), spawn(async { 2 })).join().await;
    let late = async {
        filch_linux::time::sleep(Duration::from_secs(60)).await;
        0
    };
    let first = (late, async { 3 }).race().await;
    equal((a?, b?, first), (1, 2, 3))
}

async fn futures_timer() -> Done {
    let began = std::time::Instant::now();
    spawn(futures_timer::Delay::new(Duration::from_millis(5))).await?;
    equal(began.elapsed() >= Duration::from_millis(5), true)
}

async fn governor() -> Done {
    use governor::{Quota, RateLimiter};
    let quota = Quota::per_second(NonZeroU32::new(100).ok_or("zero")?).allow_burst(NonZeroU32::MIN);
    let limiter = Arc::new(RateLimiter::direct(quota));
    let began = std::time::Instant::now();
    for _ in 0..3 {
        let limiter = limiter.clone();
        spawn(async move { limiter.until_ready().await }).await?;
    }
    equal(began.elapsed() >= Duration::from_millis(19), true)
}

async fn moka() -> Done {
    let cache = moka::future::Cache::new(10);
    let mut tasks = JoinSet::new();
    let made = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let (cache, made) = (cache.clone(), made.clone());
        tasks.spawn(async move {
            let make = async {
                yield_now().await;
                made.fetch_add(1, Ordering::Relaxed);
                7
            };
            cache.get_with("key", make).await
        });
    }
    while let Some(value) = tasks.join_next().await {
        equal(value?, 7)?;
    }
    equal(made.load(Ordering::Relaxed), 1)
}

async fn parking_lot() -> Done {
    let count = Arc::new(parking_lot::Mutex::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let count = count.clone();
        tasks.spawn(async move {
            yield_now().await;
            *count.lock() += 1;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?;
    }
    equal(*count.lock(), 10)
}

#[pin_project::pin_project]
struct Counted<F> {
    #[pin]
    future: F,
    polls: usize,
}

impl<F: Future> Future for Counted<F> {
    type Output = usize;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        let this = self.project();
        *this.polls += 1;
        this.future.poll(cx).map(|_| *this.polls)
    }
}

async fn pin_project() -> Done {
    equal(spawn(Counted { future: yield_now(), polls: 0 }).await?, 2)
}

async fn rayon() -> Done {
    use rayon::prelude::*;
    let sum = spawn(async { (0..10_000_u64).into_par_iter().map(|i| i % 7).sum::<u64>() }).await?;
    equal(sum, (0..10_000).map(|i| i % 7).sum())
}

async fn tower_limit() -> Done {
    use tower::{Service, ServiceBuilder, ServiceExt};
    let doubles = |i: i32| async move { Ok::<_, core::convert::Infallible>(2 * i) };
    let mut service = ServiceBuilder::new().concurrency_limit(1).service_fn(doubles);
    let sum = spawn(async move {
        let mut sum = 0;
        for i in 0..10 {
            sum += service.ready().await?.call(i).await?;
        }
        Ok::<_, core::convert::Infallible>(sum)
    });
    equal(sum.await??, 90)
}

async fn tower_timeout() -> Done {
    use tower::{ServiceBuilder, ServiceExt};
    let never = |(): ()| core::future::pending::<Result<(), core::convert::Infallible>>();
    let service = ServiceBuilder::new().timeout(Duration::from_millis(5)).service_fn(never);
    let late = spawn(service.oneshot(())).await?;
    equal(late.is_err_and(|error| error.is::<tower::timeout::error::Elapsed>()), true)
}

async fn tracing() -> Done {
    use tracing::Instrument;
    use tracing_subscriber::{Layer, layer::SubscriberExt, registry::LookupSpan};
    /// Counts events inside of the span.
    struct Counts(Arc<AtomicUsize>);
    impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Counts {
        fn on_event(
            &self,
            event: &tracing::Event<'_>,
            cx: tracing_subscriber::layer::Context<'_, S>,
        ) {
            let inside = cx.event_span(event).is_some_and(|span| span.name() == "work");
            self.0.fetch_add(usize::from(inside), Ordering::Relaxed);
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let registry = tracing_subscriber::registry().with(Counts(count.clone()));
    tracing::subscriber::set_global_default(registry)?;
    let work = async {
        for _ in 0..5 {
            yield_now().await;
            tracing::info!("inside");
        }
    };
    let other = spawn(async { tracing::info!("outside") });
    spawn(work.instrument(tracing::info_span!("work"))).await?;
    other.await?;
    equal(count.load(Ordering::Relaxed), 5)
}

/// Makes numbers for the pools.
struct Makes(AtomicUsize);

impl deadpool::managed::Manager for Makes {
    type Type = usize;
    type Error = core::convert::Infallible;

    async fn create(&self) -> Result<usize, Self::Error> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }

    async fn recycle(
        &self,
        _: &mut usize,
        _: &deadpool::managed::Metrics,
    ) -> deadpool::managed::RecycleResult<Self::Error> {
        Ok(())
    }
}

async fn deadpool_plain() -> Done {
    let pool = deadpool::managed::Pool::<Makes>::builder(Makes(AtomicUsize::new(0)));
    takes_turns(pool.max_size(1).build()?).await
}

async fn deadpool() -> Done {
    let pool = deadpool::managed::Pool::<Makes>::builder(Makes(AtomicUsize::new(0)));
    let pool = pool.max_size(1).wait_timeout(Some(Duration::from_secs(10)));
    takes_turns(pool.runtime(deadpool::Runtime::Tokio1).build()?).await
}

/// Two tasks, and one object.
async fn takes_turns(pool: deadpool::managed::Pool<Makes>) -> Done {
    let first = pool.get().await?;
    let other = pool.clone();
    let waits = spawn(async move { other.get().await.map(|object| *object) });
    yield_now().await;
    drop(first);
    equal(waits.await??, 0)
}

impl bb8::ManageConnection for Makes {
    type Connection = usize;
    type Error = core::convert::Infallible;

    async fn connect(&self) -> Result<usize, Self::Error> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }

    async fn is_valid(&self, _: &mut usize) -> Result<(), Self::Error> {
        Ok(())
    }

    fn has_broken(&self, _: &mut usize) -> bool {
        false
    }
}

async fn bb8() -> Done {
    let pool = bb8::Pool::builder().max_size(1).build(Makes(AtomicUsize::new(0))).await?;
    let got = spawn(async move { pool.get().await.map(|object| *object) });
    equal(got.await??, 0)
}
