//! The heap memory for each pending task with a future of 48 bytes.

use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{sync::Arc, thread};

use super::Run;
use crate::{counters::totals, meter::Figure, peers::Peer};

const TASKS: usize = 10_000;

/// Counts its first poll, and never ends. It keeps its waker: a task without a waker may be
/// dropped.
struct Pending {
    polled: &'static AtomicUsize,
    waker: Option<Waker>,
    _rest: [u64; 3],
}

const _: () = assert!(size_of::<Pending>() == 48);

impl Future for Pending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.waker.replace(cx.waker().clone()).is_none() {
            // Ordering: pairs with the Acquire in `run`.
            self.polled.fetch_add(1, Ordering::Release);
        }
        Poll::Pending
    }
}

pub(crate) fn run<P: Peer>(run: Run) -> Vec<Figure> {
    let mut peer = P::start(run.workers);
    let polled: &'static AtomicUsize = Box::leak(Box::default());
    let keep = Arc::new(());
    let before = totals();
    peer.within(move |here| {
        // Only this closure holds it, so that its memory is not counted.
        drop(keep);
        for _ in 0..TASKS {
            P::detach(here, Pending { polled, waker: None, _rest: [0; 3] });
        }
    });
    // Ordering: pairs with the Release in `poll`.
    while polled.load(Ordering::Acquire) < TASKS {
        thread::sleep(Duration::from_millis(1));
    }
    let after = totals();
    let live = |totals: crate::counters::Totals| totals.allocated as f64 - totals.freed as f64;
    vec![Figure::new("heap", "B", (live(after) - live(before)) / TASKS as f64)]
}
