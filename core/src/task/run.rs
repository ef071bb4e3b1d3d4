//! One poll of a task, from the `Ready` to what becomes of it.

use core::{cell::Cell, ptr::NonNull, task::Context};

use super::{
    header::{Header, Ready},
    join::{JoinError, Joiner, wake_thread},
    state::{Act, Done, Pend, Snapshot},
    waker::{borrowed, carry_out},
};
use crate::platform::Panic;

/// What became of a task that was polled.
#[must_use]
pub(crate) enum Polled {
    /// It waits to be woken.
    Idle,
    /// It was woken meanwhile: queue it again.
    Again(Ready),
    /// It is over.
    Complete,
    /// So is this one, and its future could not leave the worker.
    CompleteLocal,
}

/// Polls the task once, every call into user code inside `guard`.
#[inline(always)]
pub(crate) fn poll(ready: Ready, guard: impl Fn(&mut dyn FnMut()) -> Result<(), Panic>) -> Polled {
    let task = ready.as_ptr();
    let header = ready.header();
    let before = header.state.load();
    if before.must_cancel() {
        return cancel(ready, guard);
    }
    let waker = borrowed(task);
    let mut cx = Context::from_waker(&waker);
    let alive = Cell::new(true);
    let mut done = false;
    // SAFETY: INV-TASK-POLL: `ready` is the task's.
    let polled = guard(&mut || done = unsafe { (header.vtable().poll)(task, &mut cx, &alive) });
    match polled {
        Ok(()) if done => complete(ready, guard),
        Ok(()) if !alive.get() => {
            // The guard hid a panic in the drop of the finished future.
            // SAFETY: INV-TASK-POLL; the future is gone, and the output was never written.
            unsafe { (header.vtable().fail)(task, JoinError::Cancelled) };
            complete(ready, guard)
        }
        // Ordering: `load` has Acquire, and the next poll's has again. Nothing is published: what the poll did goes with
        // the `Ready`, through the queue.
        Ok(()) if header.state.load().is_again(before) => Polled::Again(ready),
        Ok(()) => match header.state.apply(|s| s.pending(before.wakes())) {
            Pend::Idle => {
                // The reference went with the transition.
                let _ = ready.into_raw();
                Polled::Idle
            }
            Pend::Again => Polled::Again(ready),
            Pend::Cancel => cancel(ready, guard),
        },
        Err(panic) => {
            if alive.get() {
                // SAFETY: INV-TASK-POLL. A second panic is as good as none.
                drop(guard(&mut || unsafe { (header.vtable().drop_future)(task) }));
            }
            // SAFETY: INV-TASK-POLL; the future is gone.
            unsafe { (header.vtable().fail)(task, JoinError::Panicked(panic)) };
            complete(ready, guard)
        }
    }
}

/// Drops the future in place of a poll.
#[cold]
pub(crate) fn cancel(
    ready: Ready,
    guard: impl Fn(&mut dyn FnMut()) -> Result<(), Panic>,
) -> Polled {
    let task = ready.as_ptr();
    // SAFETY: a `Ready` holds a reference.
    let vtable = unsafe { ready.header().vtable() };
    // SAFETY: INV-TASK-POLL.
    let error = match guard(&mut || unsafe { (vtable.drop_future)(task) }) {
        Ok(()) => JoinError::Cancelled,
        Err(panic) => JoinError::Panicked(panic),
    };
    // SAFETY: INV-TASK-POLL; the future is gone.
    unsafe { (vtable.fail)(task, error) };
    complete(ready, guard)
}

/// The output is in its place: hand it over.
fn complete(ready: Ready, guard: impl Fn(&mut dyn FnMut()) -> Result<(), Panic>) -> Polled {
    let polled = if ready.is_local() { Polled::CompleteLocal } else { Polled::Complete };
    let task = ready.into_raw();
    // SAFETY: the reference that was the `Ready`'s, until a transition below takes it.
    let header = unsafe { task.as_ref() };
    let drop_output = || {
        // SAFETY: INV-TASK-OUTPUT: nobody is interested. A panic has nobody to go to.
        drop(guard(&mut || unsafe { (header.vtable().drop_output)(task) }));
    };
    // Interest never comes back: a task that was detached needs one transition, not two.
    if !header.state.load().has_join_interest() {
        drop_output();
        // SAFETY: the transition took our reference.
        unsafe { carry_out(header.state.apply(Snapshot::complete_detached), task) };
        return polled;
    }
    match header.state.apply(Snapshot::complete) {
        Done::Released => {}
        Done::DropOutput => {
            drop_output();
            release(task);
        }
        Done::WakeJoiner => wake_joiner(task, guard),
    }
    polled
}

fn wake_joiner(task: NonNull<Header>, guard: impl Fn(&mut dyn FnMut()) -> Result<(), Panic>) {
    // SAFETY: our reference; INV-JOIN-SLOT: completion found the bit set, so the slot's content is ours.
    match unsafe { Header::join_slot(task) }.take() {
        Joiner::Waker(waker) => {
            release(task);
            let mut waker = Some(waker);
            // A foreign waker is user code; what it panics with has nobody to go to.
            drop(guard(&mut || {
                if let Some(waker) = waker.take() {
                    waker.wake();
                }
            }));
        }
        Joiner::Thread(word) => {
            // SAFETY: our reference keeps the word and the home; the joiner may be gone when `unblock` is called.
            unsafe { wake_thread(task.as_ref().home().anchor(), word) };
            release(task);
        }
    }
}

/// Drops the reference of a `Ready` whose task is complete.
fn release(task: NonNull<Header>) {
    // SAFETY: our reference; complete, so the act is never `Schedule`.
    unsafe {
        let act = task.as_ref().state.drop_complete();
        debug_assert!(act != Act::Schedule);
        carry_out(act, task);
    }
}
