//! What tasks and foreign threads share: tables of wakers, handles and abort handles, from which
//! all of them put and take.

use core::{
    future::Future,
    pin::Pin,
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Relaxed, Release},
    },
    task::{Context, Poll, Waker},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use filch_std::{JoinError, JoinHandle, task::AbortHandle};

use crate::accounts::{Asked, Kind, ON_PURPOSE, Output, violation};

/// Places in each table.
const PLACES: usize = 64;

type Table<T> = [Mutex<Option<T>>; PLACES];

static SLOTS: Table<Waiting> = [const { Mutex::new(None) }; PLACES];
static WAKERS: Table<Waker> = [const { Mutex::new(None) }; PLACES];
static HANDLES: Table<Kept> = [const { Mutex::new(None) }; PLACES];
static ABORTS: Table<Abort> = [const { Mutex::new(None) }; PLACES];

fn lock<T>(place: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a value at a random place, and returns the old one. The lock is released before the return.
fn put<T>(table: &Table<T>, rng: &mut Rng, value: T) -> Option<T> {
    lock(&table[rng.usize(..PLACES)]).replace(value)
}

fn take<T>(table: &Table<T>, rng: &mut Rng) -> Option<T> {
    lock(&table[rng.usize(..PLACES)]).take()
}

/// A task at a slot. The thread that takes it out fires it: a waiter that is neither in a slot nor
/// fired would be lost.
struct Waiting {
    waker: Waker,
    fired: Arc<AtomicBool>,
}

impl Waiting {
    fn fire(self, rng: &mut Rng) {
        // Ordering: Release pairs with the Acquire in `Wait::poll`.
        self.fired.store(true, Release);
        wake(self.waker, rng);
    }
}

/// Wakes once, in one of the possible ways.
fn wake(waker: Waker, rng: &mut Rng) {
    match rng.u8(..4) {
        0 => waker.wake_by_ref(),
        1 => {
            let clone = waker.clone();
            waker.wake();
            drop(clone);
        }
        _ => waker.wake(),
    }
}

/// Waits in a slot until it is fired. A lost wake-up is a task that waits for ever.
pub(crate) struct Wait {
    place: usize,
    fired: Arc<AtomicBool>,
    rng: Rng,
}

pub(crate) fn wait(rng: &mut Rng) -> Wait {
    Wait { place: rng.usize(..PLACES), fired: Arc::default(), rng: rng.fork() }
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // Ordering: see `fire`.
        if this.fired.load(Acquire) {
            return Poll::Ready(());
        }
        let mine = Waiting { waker: cx.waker().clone(), fired: Arc::clone(&this.fired) };
        let before = lock(&SLOTS[this.place]).replace(mine);
        // It may be an older entry of this task: then the wake is spurious.
        match before {
            Some(own) if Arc::ptr_eq(&own.fired, &this.fired) => {}
            Some(other) => other.fire(&mut this.rng),
            None => {}
        }
        if this.rng.u8(..8) == 0 {
            leave_waker(cx, &mut this.rng);
        }
        Poll::Pending
    }
}

/// Fires the waiter in a random slot.
pub(crate) fn fire(rng: &mut Rng) {
    if let Some(waiting) = take(&SLOTS, rng) {
        waiting.fire(rng);
    }
}

/// Fires all waiters.
pub(crate) fn fire_all(rng: &mut Rng) {
    for place in &SLOTS {
        let waiting = lock(place).take();
        if let Some(waiting) = waiting {
            waiting.fire(rng);
        }
    }
}

/// Leaves a clone of the task's waker in the table, for spurious and late wakes.
pub(crate) fn leave_waker(cx: &Context<'_>, rng: &mut Rng) {
    let before = put(&WAKERS, rng, cx.waker().clone());
    if rng.bool() {
        drop(before);
    } else if let Some(waker) = before {
        wake(waker, rng);
    }
}

/// Uses a waker from the table.
pub(crate) fn use_waker(rng: &mut Rng) {
    let Some(waker) = take(&WAKERS, rng) else { return };
    match rng.u8(..5) {
        0 => drop(waker),
        1 => {
            waker.wake_by_ref();
            drop(put(&WAKERS, rng, waker));
        }
        2 => {
            drop(put(&WAKERS, rng, waker.clone()));
            drop(put(&WAKERS, rng, waker));
        }
        _ => wake(waker, rng),
    }
}

/// An abort handle, and the flag that says that the task was aborted.
struct Abort {
    handle: AbortHandle,
    asked: Asked,
}

impl Abort {
    fn abort(&self) {
        // Ordering: Relaxed; the abort publishes it to the thread that drops the future.
        self.asked.store(true, Relaxed);
        self.handle.abort();
    }
}

/// Uses an abort handle from the table.
pub(crate) fn use_abort(rng: &mut Rng) {
    let Some(abort) = take(&ABORTS, rng) else { return };
    match rng.u8(..4) {
        0 => drop(abort),
        1 => {
            if let Ok(handle) = abort.handle.try_clone() {
                let asked = Arc::clone(&abort.asked);
                drop(put(&ABORTS, rng, Abort { handle, asked }));
            }
            abort.abort();
        }
        2 if abort.handle.is_finished() => drop(abort),
        _ => abort.abort(),
    }
}

/// A join handle, and the task's kind and id.
pub(crate) struct Kept {
    pub(crate) handle: JoinHandle<Output>,
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) pinned: bool,
    pub(crate) asked: Asked,
}

impl Kept {
    pub(crate) fn abort(&self) {
        // Ordering: Relaxed, as in `Abort::abort`.
        self.asked.store(true, Relaxed);
        self.handle.abort();
    }

    /// Whether sync code on a worker may wait for the task: it ends by itself, on any worker.
    pub(crate) fn may_be_joined_on_worker(&self) -> bool {
        self.kind.is_leaf() && !self.pinned
    }

    /// Leaves an abort handle in the table.
    pub(crate) fn leave_abort(&self, rng: &mut Rng) {
        if let Ok(handle) = self.handle.abort_handle() {
            drop(put(&ABORTS, rng, Abort { handle, asked: Arc::clone(&self.asked) }));
        }
    }

    /// Leaves the handle in the table.
    pub(crate) fn leave(self, rng: &mut Rng) {
        // A forgotten task never ends by itself, so no task may wait for it.
        if self.kind != Kind::Forgotten {
            drop(put(&HANDLES, rng, self));
        }
    }

    /// Whether the task can have this outcome; false if the handle is still valid.
    pub(crate) fn check(&self, outcome: Result<Output, JoinError>) -> bool {
        let (id, kind) = (self.id, self.kind);
        match outcome {
            Ok(output) if !output.is_of(id, kind) => violation("a handle gave another's output"),
            // If it was cancelled without an abort, the guard has reported it.
            Ok(_) | Err(JoinError::Cancelled) => true,
            Err(JoinError::Panicked(panic)) if panic.message() != Some(ON_PURPOSE) => {
                violation(&format!("{kind:?} {id}: {panic:?}"))
            }
            Err(JoinError::Panicked(_)) => true,
            Err(JoinError::TooDeep) => false,
            Err(error) => violation(&format!("{kind:?} {id}: {error}")),
        }
    }
}

/// Takes a handle from the table.
pub(crate) fn take_handle(rng: &mut Rng) -> Option<Kept> {
    take(&HANDLES, rng)
}

/// Drops all handles, and all wakers except those of waiters; wakes no task.
pub(crate) fn clear() {
    WAKERS.iter().for_each(|place| drop(lock(place).take()));
    HANDLES.iter().for_each(|place| drop(lock(place).take()));
    ABORTS.iter().for_each(|place| drop(lock(place).take()));
}
