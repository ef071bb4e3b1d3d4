//! A thread wakes a task of an idle executor: the time from just before the wake to the task's
//! poll.

use core::{
    future::poll_fn,
    sync::atomic::{AtomicU64, Ordering},
    task::Poll,
    time::Duration,
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Instant,
};

use futures_util::task::AtomicWaker;

use super::Run;
use crate::{
    meter::{Figure, Usage, latencies},
    peers::Join,
};

/// Long enough for every executor here to go to sleep.
const REST: Duration = Duration::from_micros(1_000);

struct Shared {
    waker: AtomicWaker,
    /// How many wakes there have been.
    sent: AtomicU64,
    /// When the last one began.
    begun: Mutex<Instant>,
    latencies: Mutex<Vec<f64>>,
    seen: AtomicU64,
}

pub(crate) fn run<P: Join>(run: Run) -> Vec<Figure> {
    let peer = P::start(run.workers);
    let wakes = run.effort.scale(1_500) as u64;
    let shared = Arc::new(Shared {
        waker: AtomicWaker::new(),
        sent: AtomicU64::new(0),
        begun: Mutex::new(Instant::now()),
        latencies: Mutex::new(Vec::with_capacity(wakes as usize)),
        seen: AtomicU64::new(0),
    });
    peer.submit(receive(Arc::clone(&shared), wakes));
    thread::sleep(Duration::from_millis(20));
    let usage = Usage::now();
    for i in 1..=wakes {
        *lock(&shared.begun) = Instant::now();
        // Ordering: Release pairs with the Acquire in `receive`.
        shared.sent.store(i, Ordering::Release);
        shared.waker.wake();
        thread::sleep(REST);
        // Ordering: pairs with the Release in `receive`.
        while shared.seen.load(Ordering::Acquire) < i {
            thread::yield_now();
        }
    }
    let mut figures = usage.since(wakes as f64);
    // The first figure is the time of the sleeps.
    let time = figures.remove(0);
    let mut of_all = latencies(&mut lock(&shared.latencies));
    of_all[0].allocs_per_op = time.allocs_per_op;
    of_all[0].bytes_per_op = time.bytes_per_op;
    of_all.append(&mut figures);
    of_all
}

async fn receive(shared: Arc<Shared>, wakes: u64) {
    for i in 1..=wakes {
        poll_fn(|cx| {
            shared.waker.register(cx.waker());
            // Ordering: pairs with the Release in `run`.
            if shared.sent.load(Ordering::Acquire) < i { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        let latency = lock(&shared.begun).elapsed().as_nanos() as f64;
        lock(&shared.latencies).push(latency);
        // Ordering: pairs with the Acquire in `run`.
        shared.seen.store(i, Ordering::Release);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same with a thread that another one unparks, and no executor.
pub(crate) fn bare(run: Run) -> Vec<Figure> {
    let wakes = run.effort.scale(1_500);
    let begun = Arc::new(Mutex::new(None::<Instant>));
    let theirs = Arc::clone(&begun);
    let sleeper = thread::spawn(move || {
        let mut latencies = Vec::with_capacity(wakes);
        while latencies.len() < wakes {
            let taken = lock(&theirs).take();
            match taken {
                Some(begun) => latencies.push(begun.elapsed().as_nanos() as f64),
                None => thread::park(),
            }
        }
        latencies
    });
    for _ in 0..wakes {
        *lock(&begun) = Some(Instant::now());
        sleeper.thread().unpark();
        thread::sleep(REST);
        while lock(&begun).is_some() {
            thread::yield_now();
        }
    }
    latencies(&mut sleeper.join().expect("it does not panic"))
}
