//! The platform, behind a guard: a platform method that unwinds ends the program.
//!
//! The core is written for platform methods that return. One that unwinds would leave a worker between two states: with a task
//! that was taken from its queue and is never polled, or with a frame on a stack that is gone. [`Platform`] forbids it, and this
//! guard enforces that. Where nothing unwinds the guard costs no code.

use core::{cell::Cell, ptr::NonNull};

use super::{Context, Panic, Platform, StartError, WorkerEntry, WorkerId};
use crate::{atomic::AtomicU32, instant::Instant, trace::Event};

/// A platform whose methods return, or end the program.
pub(crate) struct Ward<P>(pub(crate) P);

/// Only a panic drops it. Its own panic is then the second one, which ends the program.
struct Unwound;

impl Drop for Unwound {
    #[cold]
    fn drop(&mut self) {
        panic!("a method of `Platform` must not unwind");
    }
}

#[inline(always)]
fn returns<T>(f: impl FnOnce() -> T) -> T {
    let bomb = Unwound;
    let result = f();
    core::mem::forget(bomb);
    result
}

/// Safety of each method: that of the platform's method of the same name, or the reactor's.
impl<P: Platform> Ward<P> {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        returns(|| self.0.now())
    }

    #[inline(always)]
    pub(crate) fn current_worker(&self) -> Option<WorkerId> {
        returns(|| self.0.current_worker())
    }

    pub(crate) fn may_wait(&self) -> bool {
        returns(|| self.0.context()) == Context::Thread
    }

    #[inline]
    pub(crate) fn is_handler(&self) -> bool {
        returns(|| self.0.context()) == Context::Handler
    }

    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        returns(|| self.0.context()) == Context::Forked
    }

    pub(crate) fn left_poll(&self) -> Option<NonNull<Cell<*const ()>>> {
        returns(|| self.0.left_poll())
    }

    pub(crate) fn stay(&self) -> *const () {
        returns(|| self.0.stay())
    }

    pub(crate) fn budget(&self) -> Option<NonNull<Cell<u32>>> {
        returns(|| self.0.budget())
    }

    pub(crate) unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        // SAFETY: the caller's.
        returns(|| unsafe { self.0.set_worker(worker) });
    }

    pub(crate) unsafe fn wait(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        // SAFETY: the caller's.
        returns(|| unsafe { self.0.wait(worker, word, expected, deadline) });
    }

    /// Whether the platform has a reactor. Known when the core is compiled, where it has none.
    #[inline(always)]
    pub(crate) fn has_reactor(&self) -> bool {
        returns(|| self.0.reactor().is_some())
    }

    /// Nothing is heard of where there is no reactor.
    pub(crate) unsafe fn listen(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        returns(|| match self.0.reactor() {
            // SAFETY: the caller's.
            Some(reactor) => unsafe { reactor.listen(worker, word, expected, deadline) },
            None => false,
        })
    }

    #[inline(always)]
    pub(crate) fn distance(&self, from: WorkerId, to: WorkerId) -> u32 {
        returns(|| self.0.distance(from, to))
    }

    pub(crate) fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        returns(|| self.0.wake(worker, word));
    }

    pub(crate) fn interrupt(&self, worker: WorkerId, word: &AtomicU32) {
        returns(|| {
            if let Some(reactor) = self.0.reactor() {
                reactor.interrupt(worker, word);
            }
        });
    }

    #[inline(always)]
    pub(crate) fn nest(&self) -> *const () {
        returns(|| self.0.nest())
    }

    #[inline(always)]
    pub(crate) fn unnest(&self, before: *const ()) {
        returns(|| self.0.unnest(before));
    }

    #[inline(always)]
    pub(crate) fn foreign_broadcast(&self) -> Option<fn()> {
        returns(|| self.0.foreign_broadcast())
    }

    pub(crate) fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        returns(|| self.0.start(entry))
    }

    /// Runs wakers, which may panic. Called inside `guard`, so a panic that gets out comes from a waker.
    pub(crate) unsafe fn deliver(&self, worker: WorkerId) -> usize {
        let Some(reactor) = returns(|| self.0.reactor()) else { return 0 };
        // SAFETY: the caller's.
        unsafe { reactor.deliver(worker) }
    }

    /// Calls user code, which may panic. A panic that gets out of here ends the program.
    #[inline(always)]
    pub(crate) fn guard(&self, call: &mut dyn FnMut()) -> Result<(), Panic> {
        let bomb = Passed;
        let outcome = self.0.guard(call);
        core::mem::forget(bomb);
        outcome
    }

    pub(crate) fn relax(&self, round: u32) {
        returns(|| self.0.relax(round));
    }

    pub(crate) fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        returns(|| self.0.block(word, expected, deadline));
    }

    pub(crate) fn unblock(&self, word: &AtomicU32) {
        returns(|| self.0.unblock(word));
    }

    #[inline(always)]
    pub(crate) fn event(&self, worker: Option<WorkerId>, event: Event<'_>) {
        // In place, so that a sink's match on the event is decided here, where it is known.
        let bomb = Unwound;
        self.0.event(worker, event);
        core::mem::forget(bomb);
    }
}

/// A panic went through `guard`. If the worker is in the midst of a poll, the frame of that poll is on a stack that is gone.
struct Passed;

impl Drop for Passed {
    #[cold]
    fn drop(&mut self) {
        panic!(
            "a panic went through `Platform::guard`: where panics unwind it must contain them, as `catch_unwind` does; the default does not"
        );
    }
}
