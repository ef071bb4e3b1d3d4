//! One poll of a task: from its `Ready` to what follows.

use core::{cell::Cell, ptr::NonNull, task::Context};

use super::{
    error::JoinError,
    executor_ref::ExecutorRef,
    header::{Header, Ready},
    join_slot::Joiner,
    state::{AfterComplete, AfterPending, Snapshot},
    waker::{carry_out, drop_complete},
};
use crate::{
    atomic::{AtomicU32, Ordering},
    platform::{Panic, WorkerId},
};

/// What follows a poll.
#[must_use]
pub(crate) enum Polled {
    /// The task waits for a wake.
    Idle,
    /// The task was woken during the poll: queue it again.
    Again(Ready),
    /// The task is complete.
    Complete,
    /// The task is complete, and was a local one.
    CompleteLocal,
    /// The task is complete, and could run only on this worker, or on a set of which it is the first.
    CompleteAffine(WorkerId),
}

/// Calls user code, and contains its panic.
///
/// A type and no closure: the compiler does not inline a closure that is called in several places, and then each poll would pass two
/// more calls by pointer (50 of the 230 instructions of a task that yields).
pub(crate) trait Guard {
    fn call(&self, code: &mut dyn FnMut()) -> Result<(), Panic>;

    /// The task's output is a panic.
    fn trace_panic(&self, task: NonNull<Header>);
}

/// Polls the task once. Every call into user code is inside `guard`. `gone` becomes true as the reference is given up, if user code
/// follows that.
#[inline(always)]
pub(crate) fn poll(ready: Ready, guard: &impl Guard, gone: &Cell<bool>) -> Polled {
    let task = ready.as_ptr();
    let header = ready.header();
    let before = header.state.load();
    if before.must_cancel() {
        return cancel(ready, guard, gone);
    }
    #[cfg(not(feature = "task-dump"))]
    let waker = super::waker::borrowed(task);
    #[cfg(feature = "task-dump")]
    let waker = super::dump::waker(task);
    let mut cx = Context::from_waker(&waker);
    let alive = Cell::new(true);
    let mut done = false;
    let polled = guard.call(&mut || {
        // SAFETY: INV-TASK-POLL: `ready` is the task's.
        done = unsafe { (header.vtable().poll)(task, &mut cx, &alive) };
    });
    match polled {
        Ok(()) if done => complete(ready, guard, gone),
        Ok(()) if !alive.get() => {
            // The guard contained a panic of the finished future's drop, and did not report it.
            // SAFETY: INV-TASK-POLL; the future is gone, and the output was never written.
            unsafe { (header.vtable().fail)(task, JoinError::Cancelled) };
            complete(ready, guard, gone)
        }
        // Ordering: `load` has Acquire, and so has the load of the next poll. This one publishes nothing: the queue
        // that carries the `Ready` publishes what the poll did.
        Ok(()) if header.state.load().is_again(before) => Polled::Again(ready),
        Ok(()) => match header.state.apply(|s| s.pending(before.wakes())) {
            AfterPending::Idle => {
                // The transition consumed the reference.
                let _ = ready.into_raw();
                Polled::Idle
            }
            AfterPending::Again => Polled::Again(ready),
            AfterPending::Cancel => cancel(ready, guard, gone),
        },
        Err(panic) => {
            if alive.get() {
                // SAFETY: INV-TASK-POLL. A second panic is discarded: the first one is reported.
                drop(guard.call(&mut || unsafe { (header.vtable().drop_future)(task) }));
            }
            guard.trace_panic(task);
            // SAFETY: INV-TASK-POLL; the future is gone.
            unsafe { (header.vtable().fail)(task, JoinError::Panicked(panic)) };
            complete(ready, guard, gone)
        }
    }
}

/// Drops the future instead of polling it, and completes the task.
#[cold]
pub(crate) fn cancel(ready: Ready, guard: &impl Guard, gone: &Cell<bool>) -> Polled {
    let task = ready.as_ptr();
    // SAFETY: a `Ready` holds a reference.
    let vtable = unsafe { ready.header().vtable() };
    // SAFETY: INV-TASK-POLL.
    let error = match guard.call(&mut || unsafe { (vtable.drop_future)(task) }) {
        Ok(()) => JoinError::Cancelled,
        Err(panic) => {
            guard.trace_panic(task);
            JoinError::Panicked(panic)
        }
    };
    // SAFETY: INV-TASK-POLL; the future is gone.
    unsafe { (vtable.fail)(task, error) };
    complete(ready, guard, gone)
}

/// Completes the task, whose output has been written, and passes the output on.
fn complete(ready: Ready, guard: &impl Guard, gone: &Cell<bool>) -> Polled {
    let polled = match ready.holder() {
        None => Polled::Complete,
        Some((_, true)) => Polled::CompleteLocal,
        Some((worker, false)) => Polled::CompleteAffine(worker),
    };
    let task = ready.into_raw();
    // SAFETY: the reference was the `Ready`'s, and stays ours until a transition below consumes it.
    let header = unsafe { task.as_ref() };
    let drop_output = || {
        // SAFETY: INV-TASK-OUTPUT: there is no join interest. A panic is discarded: there is no handle to report it to.
        drop(guard.call(&mut || unsafe { (header.vtable().drop_output)(task) }));
    };
    // Join interest never returns, so a detached task completes in one transition instead of two. On small targets less code counts more.
    if cfg!(not(any(target_pointer_width = "32", filch_narrow)))
        && !header.state.load().has_join_interest()
    {
        drop_output();
        // SAFETY: the transition consumed our reference.
        unsafe { carry_out(header.state.apply(Snapshot::complete_detached), task) };
        return polled;
    }
    match header.state.apply(Snapshot::complete) {
        AfterComplete::Released => {}
        AfterComplete::DropOutput => {
            drop_output();
            // SAFETY: the reference is ours, and the task complete.
            unsafe { drop_complete(task) };
        }
        AfterComplete::WakeJoiner => {
            gone.set(true);
            wake_joiner(task, guard);
        }
    }
    polled
}

fn wake_joiner(task: NonNull<Header>, guard: &impl Guard) {
    // SAFETY: we hold a reference; INV-JOIN-SLOT: completion found the bit set, so the slot's content is ours.
    match unsafe { Header::join_slot(task) }.take() {
        Joiner::Waker(waker) => {
            // SAFETY: the reference is ours, and the task complete.
            unsafe { drop_complete(task) };
            let mut waker = Some(waker);
            // A foreign waker is user code. Its panic is discarded: there is no task to report it to.
            drop(guard.call(&mut || {
                if let Some(waker) = waker.take() {
                    waker.wake();
                }
            }));
        }
        Joiner::Thread(word) => {
            // SAFETY: our reference keeps the word. The joiner may be gone by the time `unblock` is called.
            unsafe {
                wake_thread(ExecutorRef::of(task), word);
                drop_complete(task);
            }
        }
    }
}

/// Ends a thread's sleep on its completion word.
///
/// # Safety
/// The word came from `Joiner::Thread`, and the caller still holds a reference to its task, which is one of this executor's.
unsafe fn wake_thread(executor: ExecutorRef, word: *const AtomicU32) {
    // SAFETY: INV-JOIN-SLOT: the word is in the task's slot, which the caller's reference keeps.
    let word = unsafe { &*word };
    // Ordering: Release pairs with the Acquire in the scheduler's `block`. The state word publishes the output.
    word.store(1, Ordering::Release);
    executor.unblock(word);
}
