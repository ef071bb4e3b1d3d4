//! A simple bounded channel. Wakers are woken outside of its lock, since wakes switch to other
//! fibers.

use core::{
    future::poll_fn,
    task::{Poll, Waker},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// Both ends of a channel.
pub(super) struct Channel<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    items: VecDeque<T>,
    room: usize,
    closed: bool,
    waiting: Vec<Waker>,
}

impl<T> Clone for Channel<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Channel<T> {
    pub(super) fn new(room: usize) -> Self {
        let state = State { items: VecDeque::new(), room, closed: false, waiting: Vec::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Tries to change the state. On success it wakes all waiting tasks; otherwise it waits with
    /// them.
    async fn change<R>(&self, mut f: impl FnMut(&mut State<T>) -> Option<R>) -> R {
        poll_fn(|cx| {
            // Cloned outside of the lock.
            let waker = cx.waker().clone();
            let (result, waiting) = {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                match f(&mut state) {
                    Some(result) => (Poll::Ready(result), core::mem::take(&mut state.waiting)),
                    None => {
                        state.waiting.push(waker);
                        (Poll::Pending, Vec::new())
                    }
                }
            };
            waiting.into_iter().for_each(Waker::wake);
            result
        })
        .await
    }

    /// Sends an item; returns it if the channel is closed.
    pub(super) async fn send(&self, item: T) -> Result<(), T> {
        let mut item = Some(item);
        self.change(|state| {
            if state.closed {
                return item.take().map(Err);
            }
            if state.items.len() == state.room {
                return None;
            }
            state.items.extend(item.take());
            Some(Ok(()))
        })
        .await
    }

    /// The next item; `None` at the end.
    pub(super) async fn receive(&self) -> Option<T> {
        self.change(|state| match state.items.pop_front() {
            Some(item) => Some(Some(item)),
            None => state.closed.then_some(None),
        })
        .await
    }

    /// Closes the channel to new items. Sent items still arrive.
    pub(super) fn close(&self) {
        let waiting = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.closed = true;
            core::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
