//! Fibers: contexts with stacks of their own, which take turns on one thread.

use core::{cell::Cell, fmt, ptr::null};
use std::{io, rc::Rc};

use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};

/// Debug builds have deep frames, and fork-join runs recurse.
const STACK: usize = 1 << 19;

type Turns = Yielder<(), ()>;

thread_local! {
    /// The fiber that runs, if any. INV-TURN: it is on that fiber's stack, which stays until the
    /// fiber has ended.
    static TURN: Cell<*const Turns> = const { Cell::new(null()) };
}

/// A context that runs when it is resumed, and stops where it calls [`suspend`].
pub(super) struct Fiber {
    coroutine: Coroutine<(), (), ()>,
    turns: Rc<Cell<*const Turns>>,
}

impl Fiber {
    /// A fiber that will run `body` when it is first resumed.
    pub(super) fn new(body: Box<dyn FnOnce()>) -> io::Result<Self> {
        let turns = Rc::new(Cell::new(null()));
        let mine = Rc::clone(&turns);
        let coroutine =
            Coroutine::with_stack(DefaultStack::new(STACK)?, move |yielder: &Turns, ()| {
                mine.set(yielder);
                TURN.set(yielder);
                body();
            });
        Ok(Self { coroutine, turns })
    }

    /// Runs it until it suspends itself, or ends: then returns true. A panic of its body
    /// propagates.
    pub(super) fn resume(&mut self) -> bool {
        /// Resets `TURN`, also after a panic.
        struct Nobody;
        impl Drop for Nobody {
            fn drop(&mut self) {
                TURN.set(null());
            }
        }
        TURN.set(self.turns.get());
        let _nobody = Nobody;
        matches!(self.coroutine.resume(()), CoroutineResult::Return(()))
    }
}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fiber").field("done", &self.coroutine.done()).finish_non_exhaustive()
    }
}

/// Whether the caller is in a fiber.
pub(super) fn in_fiber() -> bool {
    !TURN.get().is_null()
}

/// Stops the calling fiber until it is resumed. Does nothing outside of fibers.
pub(super) fn suspend() {
    // SAFETY: INV-TURN: it is the calling fiber, whose body has not ended.
    if let Some(turn) = unsafe { TURN.get().as_ref() } {
        turn.suspend(());
    }
}
