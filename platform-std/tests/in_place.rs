//! `block_in_place`: what its closure queues, and what the task does after another thread has its worker.

mod common;

use core::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};
use std::sync::{Arc, mpsc};

use common::{Flag, until, watchdog};
use filch_std::{Builder, Runtime, sleep, unconstrained};

fn builder(spares: u16) -> Builder {
    Runtime::builder().workers(1).spares(spares)
}

/// Waits on the thread itself.
fn block_on_thread<F: Future>(future: F) -> F::Output {
    let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = core::task::Context::from_waker(&waker);
    let mut future = core::pin::pin!(future);
    loop {
        if let core::task::Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        std::thread::park();
    }
}

struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_budget_is_put_back_on_the_worker_that_had_it_alone() {
    let _watchdog = watchdog();
    let rt = builder(0).build().unwrap();
    let handle = *rt.handle();
    let (runs, over) = (Flag::new(), Flag::new());
    let blocks = rt.spawn({
        let (runs, over) = (runs.clone(), over.clone());
        async move {
            unconstrained(async { handle.block_in_place(|| until(|| runs.is_set())) }).await;
            over.set();
        }
    });
    let polls = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&polls);
    let other = rt.spawn(unconstrained(async move {
        let first = async {
            runs.set();
            until(|| over.is_set());
            for _ in 0..1_000 {
                filch_std::consume_budget().await;
            }
        };
        let mut first = Box::pin(first);
        core::future::poll_fn(|cx| {
            counts.fetch_add(1, Relaxed);
            first.as_mut().poll(cx)
        })
        .await;
    }));
    rt.block_on(blocks).unwrap();
    rt.block_on(other).unwrap();
    assert_eq!(polls.load(Relaxed), 1);
}

/// With a replacement worker, and with none; with a watchdog, which would find what nobody is told of, and without.
fn runtimes() -> impl Iterator<Item = Runtime> {
    let all = [0, 1].into_iter().flat_map(|spares| [true, false].map(|watched| (spares, watched)));
    all.flat_map(|(spares, watched)| [true, false].map(|stealing| (spares, watched, stealing))).map(
        |(spares, watched, stealing)| {
            let builder = builder(spares).stealing(stealing);
            if watched { builder } else { builder.watchdog(None) }.build().unwrap()
        },
    )
}

#[test]
fn a_timer_of_the_closure_fires() {
    for rt in runtimes() {
        let _watchdog = watchdog();
        let handle = *rt.handle();
        let blocks = async move {
            handle.block_in_place(|| {
                // The replacement has gone to sleep.
                block_on_thread(sleep(Duration::from_millis(30)));
                block_on_thread(sleep(Duration::from_millis(10)));
            });
        };
        rt.block_on(rt.spawn(blocks)).unwrap();
    }
}

#[test]
fn a_task_of_the_closure_runs() {
    for rt in runtimes() {
        let _watchdog = watchdog();
        let handle = *rt.handle();
        let blocks = async move {
            handle.block_in_place(|| {
                let (send, receive) = mpsc::channel();
                filch_std::spawn(async move { send.send(7) }).detach();
                receive.recv()
            })
        };
        assert_eq!(rt.block_on(rt.spawn(blocks)).unwrap(), Ok(7));
    }
}
