//! The gate for new tasks, and how far the end of the executor has come.

use core::marker::PhantomData;

use crate::{
    atomic::{AtomicU32, AtomicUsize, Ordering, fence, maybe_const},
    parts::{Counts, Parts, Switch},
    platform::{Platform, ward::Ward},
};

/// Every context may spawn.
pub(crate) const OPEN: u32 = 0;
/// Only tasks may spawn; the executor stops when none is left.
pub(crate) const DRAINING: u32 = 1;
/// No context may spawn, and every task is cancelled.
pub(crate) const CANCELLING: u32 = 2;
/// No task is left.
pub(crate) const STOPPED: u32 = 3;

/// The lowest bit of the outside count: closed.
pub(crate) const CLOSED: usize = 1;
pub(crate) const ONE: usize = 2;

/// Whether tasks may still be spawned, and whether all have ended.
///
/// Spawns from inside a poll are counted by their worker, without sharing; the executor cannot stop meanwhile, since the
/// spawning task itself is alive. Spawns from outside are counted here, in one word with the bit that closes the gate, so
/// that each comes either before or after the closing.
pub(crate) struct Gate<F> {
    pub(crate) stage: AtomicU32,
    pub(crate) outside: AtomicUsize,
    /// Tasks that have completed outside of the workers.
    completed: AtomicUsize,
    /// Counts up when a waiter for the end should look again.
    pub(crate) news: AtomicU32,
    parts: PhantomData<fn() -> F>,
}

impl<F: Parts> Gate<F> {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { stage: AtomicU32::new(OPEN), outside: AtomicUsize::new(0), completed: AtomicUsize::new(0), news: AtomicU32::new(0), parts: PhantomData }
        }
    }

    /// Counts a spawn from outside; false if the gate is closed, and then it was never counted: neither the workers nor
    /// [`Scheduler::metrics`] see a task that is none.
    pub(crate) fn admit(&self) -> bool {
        if !Counts::<F>::ON {
            return true;
        }
        let next = |count: usize| (count & CLOSED == 0).then_some(count + ONE);
        // Ordering: AcqRel; Release so that a later closing sees what came before, Acquire so that a spawn that comes
        // too late sees the shutdown: pairs with the AcqRel in `advance`.
        self.outside.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// The same for a task whose poll has left its worker, and which is alive; false if all tasks are cancelled.
    pub(crate) fn admit_of_task(&self) -> bool {
        if self.is_cancelling() {
            return false;
        }
        if Counts::<F>::ON {
            // Ordering: as in `admit`. The bit of the closing stays as it is: the executor stops when the caller's own task has ended.
            self.outside.fetch_add(ONE, Ordering::AcqRel);
        }
        true
    }

    pub(crate) fn dismiss(&self) {
        if !Counts::<F>::ON {
            return;
        }
        self.outside.fetch_sub(ONE, Ordering::AcqRel);
    }

    /// A task has completed outside of the workers.
    pub(crate) fn complete(&self) {
        // Ordering: Release pairs with the Acquire in `completed`: a look that sees the completion sees what the task has spawned.
        self.completed.fetch_add(1, Ordering::Release);
    }

    /// How many tasks have completed outside of the workers.
    pub(crate) fn completed(&self) -> usize {
        // Ordering: Acquire pairs with the Release in `complete`.
        self.completed.load(Ordering::Acquire)
    }

    pub(crate) fn spawned(&self) -> usize {
        self.outside.load(Ordering::Acquire) / ONE
    }

    #[inline]
    pub(crate) fn stage(&self) -> u32 {
        // Ordering: Acquire pairs with the AcqRel in `advance`.
        if F::Shutdown::ON { self.stage.load(Ordering::Acquire) } else { OPEN }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.stage() != OPEN
    }
    #[inline(always)]
    pub(crate) fn is_cancelling(&self) -> bool {
        self.stage() >= CANCELLING
    }
    pub(crate) fn is_stopped(&self) -> bool {
        self.stage() == STOPPED
    }

    /// Moves on to a later stage; true if it was not there yet.
    pub(crate) fn advance(&self, to: u32) -> bool {
        self.outside.fetch_or(CLOSED, Ordering::AcqRel);
        // Ordering: see `stage`.
        self.stage.fetch_max(to, Ordering::AcqRel) < to
    }

    pub(crate) fn tell<P: Platform>(&self, platform: &Ward<P>) {
        // Ordering: Release pairs with the Acquire in `wait_until`.
        self.news.fetch_add(1, Ordering::Release);
        platform.unblock(&self.news);
    }

    /// A worker has left.
    pub(crate) fn tell_if_closing<P: Platform>(&self, platform: &Ward<P>) {
        // Ordering: either we see the closing, or the thread that closes sees that we have left: pairs with the fence in
        // `wait_until`.
        fence(Ordering::SeqCst);
        if self.is_closing() {
            self.tell(platform);
        }
    }
}
