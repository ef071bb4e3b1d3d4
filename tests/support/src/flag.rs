//! An event, for futures and for threads.

use core::{
    future::{Future, poll_fn},
    task::{Poll, Waker},
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An event, for futures and for threads.
#[derive(Clone, Debug, Default)]
pub struct Flag(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    set: bool,
    waiting: Vec<Waker>,
}

impl Flag {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// A waker that panics in a test leaves the state consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets it, and wakes all that wait.
    pub fn set(&self) {
        let waiting = {
            let mut state = self.state();
            state.set = true;
            core::mem::take(&mut state.waiting)
        };
        self.0.news.notify_all();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.state().set
    }

    /// Whether a future waits.
    pub fn is_awaited(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// Takes the wakers of the waiting futures.
    pub fn take_wakers(&self) -> Vec<Waker> {
        core::mem::take(&mut self.state().waiting)
    }

    /// Blocks the calling thread until it is set.
    pub fn block(&self) {
        let state = self.state();
        let waited = self.0.news.wait_while(state, |state| !state.set);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until it is set.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + 'static {
        let flag = self.clone();
        poll_fn(move |cx| {
            let mut state = flag.state();
            if state.set {
                return Poll::Ready(());
            }
            state.waiting.push(cx.waker().clone());
            Poll::Pending
        })
    }
}
