//! A poll has one budget, which tokio's channels and this crate's sockets spend alike, and of which nothing is left behind.

use core::{
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Waker},
};
use std::sync::Arc;

use filch_test_support::watchdog;
use filch_tokio::{
    io::{AsyncReadExt, repeat},
    runtime::{Builder, Runtime},
    sync::mpsc,
    task::{self, LocalSet, coop},
};

fn threaded(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
}

fn current() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Receives until the flag is set, from a channel that always has a message.
async fn receive_until(flag: Arc<AtomicBool>) {
    let (send, mut receive) = mpsc::unbounded_channel();
    while !flag.load(Ordering::Relaxed) {
        send.send(()).unwrap();
        receive.recv().await.unwrap();
    }
}

/// How many units the poll has left.
fn left() -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    let spend = || match coop::poll_proceed(&mut cx) {
        Poll::Ready(unit) => {
            unit.made_progress();
            true
        }
        Poll::Pending => false,
    };
    core::iter::repeat_with(spend).take(1_000).take_while(|spent| *spent).count()
}

#[test]
fn a_task_on_a_channel_that_is_never_empty_gives_way() {
    let _watchdog = watchdog();
    for runtime in [current(), threaded(1)] {
        let flag = Arc::new(AtomicBool::new(false));
        let receiver = runtime.spawn(receive_until(Arc::clone(&flag)));
        // The one thread that polls tasks gets here only if the receiver gives way.
        runtime
            .block_on(runtime.spawn(async move { flag.store(true, Ordering::Relaxed) }))
            .unwrap();
        runtime.block_on(receiver).unwrap();
    }
}

#[test]
fn a_root_future_and_a_local_task_on_such_a_channel_give_way() {
    let _watchdog = watchdog();
    let runtime = current();
    let flag = Arc::new(AtomicBool::new(false));
    runtime.spawn({
        let flag = Arc::clone(&flag);
        async move { flag.store(true, Ordering::Relaxed) }
    });
    runtime.block_on(receive_until(flag));

    let flag = Arc::new(AtomicBool::new(false));
    let set = LocalSet::new();
    set.spawn_local(receive_until(Arc::clone(&flag)));
    set.spawn_local(async move { flag.store(true, Ordering::Relaxed) });
    runtime.block_on(set);
}

#[test]
fn a_stream_in_memory_that_is_never_empty_gives_way() {
    let _watchdog = watchdog();
    let runtime = threaded(1);
    let reader = runtime.spawn(async {
        let mut byte = [0];
        loop {
            repeat(7).read_exact(&mut byte).await.unwrap();
        }
    });
    runtime.block_on(runtime.spawn(async {})).unwrap();
    reader.abort();
    assert!(runtime.block_on(reader).map(|(): ()| ()).unwrap_err().is_cancelled());
}

#[test]
fn each_poll_begins_with_a_full_budget_and_leaves_none_on_the_thread() {
    let _watchdog = watchdog();
    for runtime in [current(), threaded(1)] {
        let polls = || async {
            let first = left();
            task::yield_now().await;
            (first, left())
        };
        assert_eq!(runtime.block_on(runtime.spawn(polls())).unwrap(), (127, 127));
        assert_eq!(runtime.block_on(polls()), (128, 128));
        // This thread has no limit any more: another executor's polls go on.
        assert_eq!(left(), 1_000);
    }
}

#[test]
fn what_is_polled_or_blocks_inside_of_a_poll_leaves_its_budget_as_it_was() {
    let _watchdog = watchdog();
    let runtime = threaded(1);
    let inner = runtime.spawn(poll_fn(|_| {
        // A set that is polled in the midst of it has budgets of its own.
        let set = LocalSet::new();
        set.spawn_local(async { assert!(left() > 0) });
        assert!(pin!(set).poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert!(coop::has_budget_remaining());
        left();
        task::block_in_place(|| {
            assert_eq!(left(), 1_000);
            current().block_on(async { assert!(left() > 0) });
        });
        assert!(!coop::has_budget_remaining());
        Poll::Ready(())
    }));
    runtime.block_on(inner).unwrap();
}
