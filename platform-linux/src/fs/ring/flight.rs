//! One operation in a ring: a future, and what stays behind when it is dropped.

use core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use filch_std::task::budgeted;
use rustix::io::Errno;

use super::{super::operation::Operation, Ring, Started};
use crate::runtime::Linux;

/// What the ring and the future share.
///
/// INV-FLIGHT: from its start to its completion an operation is in `Flies`: the kernel may use its memory. The ring has a
/// reference all that time, whatever becomes of the future; if the completion never comes, that reference is leaked.
pub(super) struct Flight<O: Operation>(Mutex<Stage<O>>);

enum Stage<O> {
    Flies(O, Option<Waker>),
    Landed(O, i32),
    /// The ring was closed before the kernel was done.
    Lost,
    Taken,
}

/// A flight, to its ring.
pub(super) trait Land: Send + Sync {
    /// The kernel is done. Returns the task to wake.
    fn land(&self, result: i32) -> Option<Waker>;
    /// The kernel will not say when it is done. The caller leaks its reference.
    fn lose(&self) -> Option<Waker>;
}

impl<O: Operation> Flight<O> {
    fn stage(&self) -> MutexGuard<'_, Stage<O>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Stage<O> {
        core::mem::replace(&mut *self.stage(), Stage::Taken)
    }
}

impl<O: Operation> Land for Flight<O> {
    fn land(&self, result: i32) -> Option<Waker> {
        let mut stage = self.stage();
        let (next, waker) = match core::mem::replace(&mut *stage, Stage::Taken) {
            Stage::Flies(operation, waker) => (Stage::Landed(operation, result), waker),
            other => (other, None),
        };
        *stage = next;
        waker
    }

    fn lose(&self) -> Option<Waker> {
        let mut stage = self.stage();
        match core::mem::replace(&mut *stage, Stage::Lost) {
            Stage::Flies(operation, waker) => {
                // INV-FLIGHT.
                core::mem::forget(operation);
                waker
            }
            other => {
                *stage = other;
                None
            }
        }
    }
}

/// A file that was opened for a future that has gone is closed.
impl<O: Operation> Drop for Flight<O> {
    fn drop(&mut self) {
        if let Stage::Landed(operation, result) = self.take() {
            drop(operation.finish(outcome(result)));
        }
    }
}

fn outcome(result: i32) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(result.wrapping_neg()))
}

/// Errors after which nothing has happened, and a thread may have more luck: the operation was cancelled with the thread that
/// had started it, or the kernel was short of something.
fn is_refusal(result: i32) -> bool {
    let refusals = [Errno::CANCELED, Errno::INTR, Errno::AGAIN, Errno::FAULT];
    refusals.iter().any(|error| result == -error.raw_os_error())
}

/// Performs an operation in a ring. Gives it back where the ring cannot.
///
/// If it is dropped, the kernel is asked to cancel; the operation's memory stays until the kernel is done with it.
pub(super) struct Perform<O: Operation> {
    linux: &'static Linux,
    state: State<O>,
}

enum State<O: Operation> {
    New(O),
    Flies { ring: &'static Ring, key: usize, flight: Arc<Flight<O>> },
    Done,
}

// The operation is not pinned: its memory is on the heap.
impl<O: Operation> Unpin for Perform<O> {}

impl<O: Operation> Perform<O> {
    pub(super) fn new(linux: &'static Linux, operation: O) -> Self {
        Self { linux, state: State::New(operation) }
    }

    fn start(&mut self, cx: &mut Context<'_>) -> Poll<Result<O::Output, O>> {
        let State::New(mut operation) = core::mem::replace(&mut self.state, State::Done) else {
            return Poll::Pending;
        };
        let Some(entry) = operation.entry() else { return Poll::Ready(Err(operation)) };
        let ring = self.linux.rings.ring();
        let flight = Arc::new(Flight(Mutex::new(Stage::Flies(operation, None))));
        let land = Arc::clone(&flight) as Arc<dyn Land>;
        // SAFETY: the contract of `Operation`, and INV-FLIGHT: the ring keeps the reference.
        match unsafe { ring.start(self.linux, entry, land) } {
            Started::Refused => match flight.take() {
                Stage::Flies(operation, _) | Stage::Landed(operation, _) => {
                    Poll::Ready(Err(operation))
                }
                Stage::Lost | Stage::Taken => Poll::Pending,
            },
            Started::At(key) => {
                self.state = State::Flies { ring, key, flight };
                self.land(cx)
            }
        }
    }

    /// Takes the result, if there is one.
    fn land(&mut self, cx: &mut Context<'_>) -> Poll<Result<O::Output, O>> {
        let State::Flies { ring, flight, .. } = &self.state else { return Poll::Pending };
        let mut stage = flight.stage();
        if let Stage::Flies(_, waker) = &mut *stage {
            let old = match waker {
                Some(waker) if waker.will_wake(cx.waker()) => None,
                waker => waker.replace(cx.waker().clone()),
            };
            drop(stage);
            // A waker may be the last owner of anything.
            drop(old);
            ring.flush(cx);
            #[cfg(feature = "observe")]
            filch::dump::waits(cx.waker(), || filch::dump::Wait::Other("for a file, in io_uring"));
            return Poll::Pending;
        }
        drop(stage);
        let taken = flight.take();
        self.state = State::Done;
        Poll::Ready(match taken {
            Stage::Landed(operation, result) if is_refusal(result) => Err(operation),
            Stage::Landed(operation, result) => Ok(operation.finish(outcome(result))),
            _ => {
                Ok(O::fail(io::Error::other("the runtime has ended, and the kernel was not done")))
            }
        })
    }
}

impl<O: Operation> Future for Perform<O> {
    type Output = Result<O::Output, O>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.linux.is_ours() {
            // The memory of the ring is not in this process, and its lock may be held for ever.
            core::mem::forget(core::mem::replace(&mut self.state, State::Done));
            let error = io::Error::other("the runtime belongs to the parent process");
            return Poll::Ready(Ok(O::fail(error)));
        }
        budgeted(cx, |cx| match self.state {
            State::New(_) => self.start(cx),
            _ => self.land(cx),
        })
    }
}

impl<O: Operation> Drop for Perform<O> {
    fn drop(&mut self) {
        let State::Flies { ring, key, flight } = core::mem::replace(&mut self.state, State::Done)
        else {
            return;
        };
        if !self.linux.is_ours() {
            core::mem::forget(flight);
            return;
        }
        let waker = match &mut *flight.stage() {
            Stage::Flies(_, waker) => Some(waker.take()),
            _ => None,
        };
        if let Some(waker) = waker {
            let land = Arc::clone(&flight) as Arc<dyn Land>;
            ring.cancel(key, &land);
            drop(waker);
        }
    }
}
