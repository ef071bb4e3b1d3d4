//! Operations that are always ready yield now and then, whatever polls them.

mod common;

use core::{
    future::{Future, poll_fn},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};
use std::sync::Arc;

use common::{until, watchdog};
use filch_linux::{net::UdpSocket, spawn, task::JoinSet, time::timeout};
use futures::stream::{FuturesUnordered, StreamExt};

/// Always ready: each read has a datagram, from the write before it.
async fn datagrams() {
    let a = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    a.connect(a.local_addr().unwrap()).await.unwrap();
    let mut byte = [0];
    loop {
        a.send(b"!").await.unwrap();
        a.recv(&mut byte).await.unwrap();
    }
}

#[test]
fn a_root_future_that_is_always_ready_does_not_keep_its_timeout() {
    let _watchdog = watchdog();
    let rt = filch_linux::Builder::new().workers(1).build().unwrap();
    let limit = Duration::from_millis(100);
    assert!(rt.block_on(async { timeout(limit, datagrams()).await }).is_err());
    // In a task, and on a thread that is in another `block_on`.
    assert!(
        rt.block_on(rt.spawn(async move { timeout(limit, datagrams()).await })).unwrap().is_err()
    );
    let nested = rt.block_on(async { filch_linux::block_on(timeout(limit, datagrams())) });
    assert!(nested.is_err());
    // In a combinator with wakers of its own.
    let mut all = FuturesUnordered::new();
    let many = async {
        all.push(datagrams());
        all.next().await
    };
    assert!(rt.block_on(async { timeout(limit, many).await }).is_err());
}

/// Tasks that have ended, in a set.
fn ended(rt: &filch_linux::Runtime, tasks: usize) -> JoinSet<()> {
    let ran = Arc::new(AtomicUsize::new(0));
    let set = rt.block_on(async {
        let mut set = JoinSet::new();
        for _ in 0..tasks {
            let ran = Arc::clone(&ran);
            set.spawn(async move {
                ran.fetch_add(1, SeqCst);
            });
        }
        set
    });
    until(|| ran.load(SeqCst) == tasks);
    set
}

/// The largest number of them that is joined in one poll.
async fn most_in_one_poll(mut set: JoinSet<()>) -> usize {
    let (joined, mut most) = (AtomicUsize::new(0), 0);
    let mut all = core::pin::pin!(async {
        while set.join_next().await.is_some() {
            joined.fetch_add(1, SeqCst);
        }
    });
    poll_fn(|cx| {
        let before = joined.load(SeqCst);
        let polled = all.as_mut().poll(cx);
        most = most.max(joined.load(SeqCst) - before);
        polled
    })
    .await;
    most
}

#[test]
fn a_set_of_joins_spends_budget() {
    const TASKS: usize = 10_000;
    let _watchdog = watchdog();
    let rt = filch_linux::Builder::new().workers(1).build().unwrap();
    let set = ended(&rt, TASKS);
    let most = rt.block_on(rt.spawn(async { most_in_one_poll(set).await })).unwrap();
    assert!(most <= 128, "{most} joins in one poll");
    let set = ended(&rt, TASKS);
    let most = rt.block_on(most_in_one_poll(set));
    assert!(most <= 128, "{most} joins in one poll of the root");
}

#[test]
fn a_foreign_block_on_in_a_task_outlives_the_budget_of_its_poll() {
    let _watchdog = watchdog();
    let rt = filch_linux::Builder::new().workers(2).build().unwrap();
    let task = rt.spawn(async {
        futures::executor::block_on(async {
            let mut joined = 0;
            for _ in 0..1_000 {
                joined += spawn(async { 1 }).await.unwrap();
            }
            joined
        })
    });
    assert_eq!(rt.block_on(task).unwrap(), 1_000);
}
