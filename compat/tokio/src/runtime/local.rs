//! Tasks that one thread polls at a time: those of a current-thread runtime, or of a `LocalSet`.

use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Waker},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::Wake,
};

use futures_util::task::AtomicWaker;
use slab::Slab;

use crate::util::lock;

/// The tasks that were woken, in this order, and the waker of what polls them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    ready: Mutex<VecDeque<Arc<Entry>>>,
    pub(crate) poller: AtomicWaker,
}

impl Queue {
    pub(crate) fn pop(&self) -> Option<Arc<Entry>> {
        lock(&self.ready).pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.ready).is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.ready).len()
    }

    fn push(&self, entry: Arc<Entry>) {
        lock(&self.ready).push_back(entry);
        self.poller.wake();
    }

    /// Forgets what was woken.
    pub(crate) fn clear(&self) {
        let ready = core::mem::take(&mut *lock(&self.ready));
        drop(ready);
    }
}

/// A task's place, and its waker.
#[derive(Debug)]
pub(crate) struct Entry {
    key: usize,
    /// Whether it is in the queue.
    queued: AtomicBool,
    queue: Arc<Queue>,
}

impl Wake for Entry {
    fn wake(self: Arc<Self>) {
        // Ordering: AcqRel: pairs with the swap in `begin`: the poll that follows sees what the waker did.
        if !self.queued.swap(true, Ordering::AcqRel) {
            let queue = Arc::clone(&self.queue);
            queue.push(self);
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Ordering: as above.
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.queue.push(Arc::clone(self));
        }
    }
}

struct Place<F> {
    entry: Arc<Entry>,
    waker: Waker,
    /// Taken out while it is polled.
    future: Option<F>,
}

/// Boxed futures, some of which are woken. `F` is a pinned box.
pub(crate) struct Tasks<F> {
    places: Slab<Place<F>>,
    closed: bool,
}

impl<F> Tasks<F> {
    pub(crate) fn new() -> Self {
        Self { places: Slab::new(), closed: false }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Adds a future that is to be polled. Returns it if no more are taken. The result is to be woken outside of locks.
    pub(crate) fn insert(&mut self, queue: &Arc<Queue>, future: F) -> Result<Arc<Entry>, F> {
        if self.closed {
            return Err(future);
        }
        let place = self.places.vacant_entry();
        let queue = Arc::clone(queue);
        let entry = Arc::new(Entry { key: place.key(), queued: AtomicBool::new(false), queue });
        let waker = Arc::clone(&entry).into();
        place.insert(Place { entry: Arc::clone(&entry), waker, future: Some(future) });
        Ok(entry)
    }

    /// Takes the future of a woken task out, for a poll.
    pub(crate) fn begin(&mut self, entry: &Arc<Entry>) -> Option<(F, Waker)> {
        // Ordering: AcqRel: pairs with the swaps in `wake`. A wake from here on queues the task again.
        entry.queued.swap(false, Ordering::AcqRel);
        let place = self.places.get_mut(entry.key)?;
        // A later task may have the place.
        if !Arc::ptr_eq(&place.entry, entry) {
            return None;
        }
        Some((place.future.take()?, place.waker.clone()))
    }

    /// The poll is over; `None`: so is the task. A future that is returned is to be dropped, outside of locks.
    pub(crate) fn end(&mut self, entry: &Entry, future: Option<F>) -> Option<F> {
        if future.is_none() || self.closed {
            if self.places.contains(entry.key) {
                drop(self.places.remove(entry.key));
            }
            return future;
        }
        if let Some(place) = self.places.get_mut(entry.key) {
            place.future = future;
        }
        None
    }

    /// Takes no more futures. What is returned is to be dropped, outside of locks.
    pub(crate) fn close(&mut self) -> impl Sized + use<F> {
        self.closed = true;
        core::mem::take(&mut self.places)
    }
}

/// One poll; the future if it is not over.
pub(crate) fn poll_once<F: Future<Output = ()> + ?Sized>(
    mut future: Pin<Box<F>>,
    waker: &Waker,
) -> Option<Pin<Box<F>>> {
    future.as_mut().poll(&mut Context::from_waker(waker)).is_pending().then_some(future)
}
