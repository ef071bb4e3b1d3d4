//! Coroutines with stacks of their own, which stay on their thread.

use core::marker::PhantomData;
use std::thread::{self, ThreadId};

use corosensei::{Coroutine as Inner, CoroutineResult, Yielder};

/// A coroutine with a stack of its own. Its drop unwinds what has not ended.
#[expect(missing_debug_implementations, reason = "it has nothing to show")]
pub struct Coroutine(Inner<(), (), ()>);

/// Suspends the coroutine whose body got it. Closures that must be `Send` may call it, if they stay on their thread.
#[derive(Debug)]
pub struct Suspend<'a> {
    yielder: *const Yielder<(), ()>,
    thread: ThreadId,
    body: PhantomData<&'a ()>,
}

// SAFETY: the yielder is used on its own thread alone, which `now` checks.
unsafe impl Send for Suspend<'_> {}
// SAFETY: as above.
unsafe impl Sync for Suspend<'_> {}

impl Suspend<'_> {
    /// Suspends the coroutine, until it is resumed. On another thread than the coroutine's it returns at once.
    pub fn now(&self) {
        if thread::current().id() == self.thread {
            // SAFETY: the body is under way, and the yielder lives as long.
            unsafe { &*self.yielder }.suspend(());
        }
    }
}

/// A coroutine with this body, which begins with the first resume.
pub fn coroutine(body: impl FnOnce(Suspend<'_>) + 'static) -> Coroutine {
    Coroutine(Inner::new(move |yielder, ()| {
        let thread = thread::current().id();
        body(Suspend { yielder, thread, body: PhantomData });
    }))
}

impl Coroutine {
    /// Goes on with the body until it suspends or ends; whether it has ended, perhaps before.
    ///
    /// # Panics
    /// With the body's panic.
    pub fn resume(&mut self) -> bool {
        self.0.done() || self.0.resume(()) == CoroutineResult::Return(())
    }
}
