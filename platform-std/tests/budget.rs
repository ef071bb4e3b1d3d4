//! Small budgets, beside combinators with wakers of their own: each poll ends, and each future comes further.

use core::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    task::{Context, Poll},
    time::Duration,
};
use std::sync::Arc;

use filch_std::Runtime;
use filch_test_support::{on_wake, watchdog};
use futures_util::{
    FutureExt, StreamExt,
    future::{join, join_all, select},
    stream::{self, FuturesUnordered},
    task::AtomicWaker,
};

/// More than any poll may do.
const MANY: usize = 100_000;

/// Counts operations, and those of the poll under way.
#[derive(Clone, Default)]
struct Meter(Arc<(AtomicUsize, AtomicUsize)>);

impl Meter {
    fn count(&self) {
        let (all, in_poll) = &*self.0;
        all.fetch_add(1, Relaxed);
        assert!(in_poll.fetch_add(1, Relaxed) < MANY, "a poll without an end");
    }
}

/// A future that does so many operations, which are all ready, on the budget.
async fn work(meter: Meter, operations: usize) {
    for _ in 0..operations {
        filch_std::task::consume_budget().await;
        meter.count();
    }
}

/// Polls the future. Fails if a poll does too much, or nothing.
async fn metered(meter: Meter, future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let (all, in_poll) = &*meter.0;
        let before = all.load(Relaxed);
        in_poll.store(0, Relaxed);
        let polled = future.as_mut().poll(cx);
        assert!(polled.is_ready() || all.load(Relaxed) > before, "a poll for nothing");
        polled
    })
    .await;
}

type Case = fn(Meter) -> Pin<Box<dyn Future<Output = ()> + Send>>;
const OPERATIONS: usize = 100;
const SOON: Duration = Duration::from_millis(1);

fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("alone", |meter| work(meter, OPERATIONS).boxed()),
        ("join", |meter| {
            join(work(meter.clone(), OPERATIONS), work(meter, OPERATIONS)).map(drop).boxed()
        }),
        ("join_all", |meter| {
            join_all((0..10).map(|_| work(meter.clone(), OPERATIONS))).map(drop).boxed()
        }),
        ("large join_all", |meter| {
            join_all((0..100).map(|_| work(meter.clone(), OPERATIONS))).map(drop).boxed()
        }),
        ("unordered", |meter| {
            let all: FuturesUnordered<_> =
                (0..10).map(|_| work(meter.clone(), OPERATIONS)).collect();
            all.for_each(|()| async {}).boxed()
        }),
        ("beside unordered", |meter| {
            let all: FuturesUnordered<_> =
                (0..10).map(|_| work(meter.clone(), OPERATIONS)).collect();
            join(work(meter, OPERATIONS), all.for_each(|()| async {})).map(drop).boxed()
        }),
        ("unordered beside", |meter| {
            let all: FuturesUnordered<_> =
                (0..10).map(|_| work(meter.clone(), OPERATIONS)).collect();
            join(all.for_each(|()| async {}), work(meter, OPERATIONS)).map(drop).boxed()
        }),
        ("unordered in unordered", |meter| {
            let all: FuturesUnordered<_> = (0..3)
                .map(|_| {
                    let inner: FuturesUnordered<_> =
                        (0..3).map(|_| work(meter.clone(), OPERATIONS)).collect();
                    inner.for_each(|()| async {})
                })
                .collect();
            all.for_each(|()| async {}).boxed()
        }),
        ("work in between", |meter| {
            async move {
                let mut all: FuturesUnordered<_> =
                    (0..10).map(|_| work(meter.clone(), OPERATIONS)).collect();
                while all.next().await.is_some() {
                    work(meter.clone(), 10).await;
                }
            }
            .boxed()
        }),
        // As one ends, another takes its place: so each look finds one that is ready, beside one that was refused.
        ("refilled unordered", |meter| {
            async move {
                let mut left = OPERATIONS;
                let mut all: FuturesUnordered<_> = (0..2).map(|_| work(meter.clone(), 1)).collect();
                while all.next().await.is_some() {
                    if left > 0 {
                        left -= 1;
                        all.push(work(meter.clone(), 1));
                    }
                }
            }
            .boxed()
        }),
        ("endless unordered", |meter| {
            async move {
                let endless = async {
                    let mut all: FuturesUnordered<_> =
                        (0..5).map(|_| work(meter.clone(), 1)).collect();
                    while all.next().await.is_some() {
                        all.push(work(meter.clone(), 1));
                    }
                };
                let counted = async {
                    for _ in 0..OPERATIONS {
                        filch_std::task::yield_now().await;
                    }
                };
                select(pin!(endless), pin!(counted)).await;
            }
            .boxed()
        }),
        ("merge of 3", |meter| merge(meter, 3).boxed()),
        ("merge of 20", |meter| merge(meter, 20).boxed()),
        ("merge of 300", |meter| merge(meter, 300).boxed()),
        ("either of two", |meter| {
            async move {
                let [one, other] = [(); 2].map(|()| Box::pin(work(meter.clone(), OPERATIONS)));
                select(one, other).await.factor_first().1.await;
            }
            .boxed()
        }),
        ("timeout", |meter| {
            async { _ = filch_std::time::timeout(SOON, work(meter, usize::MAX)).await }.boxed()
        }),
        ("timeout of unordered", |meter| {
            let all: FuturesUnordered<_> =
                (0..3).map(|_| work(meter.clone(), usize::MAX)).collect();
            async { _ = filch_std::time::timeout(SOON, all.for_each(|()| async {})).await }.boxed()
        }),
        ("foreign block_on", |meter| {
            async move { futures_executor::block_on(work(meter, OPERATIONS)) }.boxed()
        }),
        ("unordered in a foreign block_on", |meter| {
            async move {
                let all: FuturesUnordered<_> =
                    (0..10).map(|_| work(meter.clone(), OPERATIONS)).collect();
                futures_executor::block_on(all.for_each(|()| async {}));
            }
            .boxed()
        }),
        ("foreign block_on after a refusal", |meter| {
            async move {
                let mut all: FuturesUnordered<_> =
                    (0..3).map(|_| work(meter.clone(), 10)).collect();
                let mut waits = 0;
                let next = |cx: &mut Context<'_>| {
                    let next = all.poll_next_unpin(cx);
                    if next.is_pending() && waits < 3 {
                        waits += 1;
                        futures_executor::block_on(work(meter.clone(), 10));
                    }
                    next
                };
                let mut next = poll_fn(next);
                while (&mut next).await.is_some() {}
            }
            .boxed()
        }),
    ]
}

/// Does the operations of `streams` streams, which are polled until one is ready, each with a waker of its own.
async fn merge(meter: Meter, streams: usize) {
    let mut all: Vec<_> = (0..streams)
        .map(|_| {
            let meter = meter.clone();
            Some(Box::pin(stream::unfold(OPERATIONS / 10, move |left| {
                let meter = meter.clone();
                async move {
                    let left = left.checked_sub(1)?;
                    work(meter, 1).await;
                    Some(((), left))
                }
            })))
        })
        .collect();
    let parent = Arc::new(AtomicWaker::new());
    let mut next = |cx: &mut Context<'_>| {
        parent.register(cx.waker());
        let mut left = false;
        for stream in &mut all {
            let Some(under_way) = stream else { continue };
            let parent = Arc::clone(&parent);
            let waker = on_wake(move || parent.wake());
            match under_way.poll_next_unpin(&mut Context::from_waker(&waker)) {
                Poll::Ready(Some(())) => return Poll::Ready(Some(())),
                Poll::Ready(None) => *stream = None,
                Poll::Pending => left = true,
            }
        }
        if left { Poll::Pending } else { Poll::Ready(None) }
    };
    while poll_fn(&mut next).await.is_some() {}
}

#[test]
fn polls_end_and_all_come_further_with_any_budget() {
    let _watchdog = watchdog();
    for budget in (1..=8).chain([128]) {
        let runtime = Runtime::builder().workers(1).budget(budget).build().unwrap();
        for (name, case) in cases() {
            eprintln!("budget {budget}, {name}");
            let meter = Meter::default();
            let task = metered(meter.clone(), case(meter));
            runtime.block_on(runtime.spawn(task)).unwrap();
            let meter = Meter::default();
            runtime.block_on(metered(meter.clone(), case(meter)));
        }
    }
}
