//! A thread that waits, and the waker that ends the wait.

use core::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    sync::Arc,
    task::Wake,
    thread::{self, Thread},
};

/// A thread that may wait, and whether it was woken since its last wait.
#[derive(Debug)]
pub(crate) struct Signal {
    thread: Thread,
    woken: AtomicBool,
}

impl Signal {
    /// That of the calling thread, woken once.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { thread: thread::current(), woken: AtomicBool::new(true) })
    }

    /// Whether it was woken since the last call.
    pub(crate) fn take(&self) -> bool {
        // Ordering: Acquire pairs with the Release in `wake_by_ref`: the caller sees what the waker did.
        self.woken.swap(false, Ordering::Acquire)
    }

    /// Waits until it is woken, at most so long. May return early.
    pub(crate) fn wait(&self, longest: Option<Duration>) {
        // Ordering: Relaxed; `take` follows. An `unpark` before the park ends it.
        if self.woken.load(Ordering::Relaxed) {
            return;
        }
        match longest {
            Some(longest) => thread::park_timeout(longest),
            None => thread::park(),
        }
    }

    /// Waits for the future's output; none if it is woken before, which takes that wake.
    pub(crate) fn wait_for<F: Future + Unpin>(&self, mut future: F) -> Option<F::Output> {
        let over = Self::new();
        let waker = Waker::from(Arc::clone(&over));
        loop {
            // A wake from here on ends the wait.
            over.take();
            if let Poll::Ready(output) =
                Pin::new(&mut future).poll(&mut Context::from_waker(&waker))
            {
                return Some(output);
            }
            if self.take() {
                return None;
            }
            self.wait(None);
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Ordering: Release pairs with the Acquire in `take`.
        if !self.woken.swap(true, Ordering::Release) && self.thread.id() != thread::current().id() {
            self.thread.unpark();
        }
    }
}
