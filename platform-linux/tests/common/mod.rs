//! What the tests of the runtime share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use core::{
    future::{Future, poll_fn},
    sync::atomic::{AtomicUsize, Ordering},
    task::{Poll, Waker},
    time::Duration,
};
use std::{
    sync::{Arc, Condvar, Mutex, mpsc},
    thread,
};

use filch_linux::Runtime;

pub(crate) fn runtime(workers: usize) -> Runtime {
    filch_linux::builder().workers(workers).build().expect("a runtime")
}

/// Ends the whole test program if it is not dropped in time: a hang must not look like a slow machine.
pub(crate) struct Watchdog(mpsc::Sender<()>);

pub(crate) fn watchdog() -> Watchdog {
    let (alive, dead) = mpsc::channel();
    let name = thread::current().name().unwrap_or("a test").to_owned();
    thread::spawn(move || {
        if dead.recv_timeout(Duration::from_secs(120)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs");
            std::process::abort();
        }
    });
    Watchdog(alive)
}

/// An event, for futures and for threads.
#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<FlagState>);

#[derive(Default)]
struct FlagState {
    set: Mutex<(bool, Vec<Waker>)>,
    news: Condvar,
}

impl Flag {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn set(&self) {
        let waiting = {
            let mut state = self.0.set.lock().unwrap();
            state.0 = true;
            core::mem::take(&mut state.1)
        };
        self.0.news.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.set.lock().unwrap().0
    }

    pub(crate) fn is_awaited(&self) -> bool {
        !self.0.set.lock().unwrap().1.is_empty()
    }

    /// The wakers of those who wait; it forgets them.
    pub(crate) fn take_wakers(&self) -> Vec<Waker> {
        core::mem::take(&mut self.0.set.lock().unwrap().1)
    }

    /// Blocks the calling thread.
    pub(crate) fn block(&self) {
        let state = self.0.set.lock().unwrap();
        drop(self.0.news.wait_while(state, |state| !state.0).unwrap());
    }

    pub(crate) fn wait(&self) -> impl Future<Output = ()> + Send + 'static {
        let flag = self.clone();
        poll_fn(move |cx| {
            let mut state = flag.0.set.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(cx.waker().clone());
            Poll::Pending
        })
    }
}

/// Counts its own drop.
pub(crate) struct Tally(Arc<AtomicUsize>);

impl Drop for Tally {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// How often the things that it gave out were dropped.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn new() -> Self {
        Self::default()
    }
    pub(crate) fn tally(&self) -> Tally {
        Tally(Arc::clone(&self.0))
    }
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Waits, on a thread, until the condition holds; the watchdog is the limit.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// The message of a panic's payload.
pub(crate) fn message(payload: &(dyn core::any::Any + Send)) -> &str {
    match payload.downcast_ref::<&'static str>() {
        Some(text) => text,
        None => payload.downcast_ref::<String>().map_or("something else", String::as_str),
    }
}
