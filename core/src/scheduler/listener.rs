//! The listener: the one worker that is in the platform's reactor.
//!
//! A worker that goes to sleep listens if no other does, and waits on its word otherwise. It stops listening as soon as it is
//! awake; what it has heard of is its own to deliver. Then no worker listens, until the next one goes to sleep. Meanwhile a busy
//! worker asks the reactor at the end of each tick, without blocking; and a sleeper with a timeout (`watchdog.rs`) listens when it
//! goes back to sleep.

use super::{
    executor::Scheduler,
    park::{LISTENING, Sleep},
    slot::Slots,
    worker::Worker,
};
use crate::{
    atomic::{AtomicU32, Ordering, maybe_const},
    instant::Instant,
    platform::Platform,
};

const NO_WORKER: u32 = 0;
/// The listener only asks: it is about to go on.
const ASKS: u32 = 1;
/// The listener sleeps, or is about to.
const SLEEPS: u32 = 2;

/// How often a worker on its way to sleep looks whether another has finished asking.
const LOOKS: u32 = 32;
/// In nanoseconds: how long it sleeps on its word if the other has not.
const SOON: u64 = 1_000_000;

/// INV-LISTENER: one worker at a time is in [`Platform::listen`]: the one that has changed this from `NO_WORKER`, until it changes it
/// back.
#[derive(Debug)]
pub(crate) struct Listener(AtomicU32);

impl Listener {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self(AtomicU32::new(NO_WORKER))
        }
    }

    /// Whether no worker is in the reactor. A hint.
    pub(crate) fn is_none(&self) -> bool {
        // Ordering: a hint.
        self.0.load(Ordering::Relaxed) == NO_WORKER
    }

    /// Whether the listener sleeps. A hint.
    fn sleeps(&self) -> bool {
        self.0.load(Ordering::Relaxed) == SLEEPS
    }

    /// Becomes the listener; false if there is one.
    fn begin(&self, how: u32) -> bool {
        // A look first: an exchange that fails takes the cache line all the same.
        // Ordering: Acquire pairs with the Release in `end`: the platform's reactor goes from one worker to the next.
        self.is_none()
            && self.0.compare_exchange(NO_WORKER, how, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn end(&self) {
        // Ordering: Release pairs with the Acquire in `begin`.
        self.0.store(NO_WORKER, Ordering::Release);
    }
}

/// Why a worker does not listen.
enum Busy {
    /// Another sleeps in the reactor.
    Sleeps,
    /// Another asks, and has not finished for a while.
    Asks,
}

impl<P: Platform, S, const RING: usize> Scheduler<P, S, RING>
where
    S: Slots<RING>,
{
    /// Whether I/O is not heard of before some worker looks: none is in the reactor. A hint.
    pub(crate) fn is_unheard(&self) -> bool {
        P::LISTENS && self.idle.listener.is_none()
    }

    fn begin_to_listen(&self) -> Result<(), Busy> {
        for round in 0..LOOKS {
            if self.idle.listener.begin(SLEEPS) {
                return Ok(());
            }
            // Ordering: a hint; a listener that wakes up at this moment sees to what this worker does not hear of.
            if self.idle.listener.sleeps() {
                return Err(Busy::Sleeps);
            }
            self.platform.relax(round);
        }
        Err(Busy::Asks)
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// Sleeps until it is notified, until `deadline`, or for no reason: in the reactor, if no other worker is there. Does not sleep
    /// unless `still`, which is called once the worker can be notified.
    ///
    /// The worker is in its loop, and delivers what it has heard of before it leaves that.
    pub(crate) fn sleep(&self, deadline: Option<Instant>, still: impl FnOnce() -> bool) {
        let executor = self.executor;
        let listens = if P::LISTENS { executor.begin_to_listen() } else { Err(Busy::Sleeps) };
        match listens {
            Ok(()) => {
                let heard = self.park_as(Sleep::Listen, deadline, still);
                executor.idle.listener.end();
                self.slot().local.duties.hears(heard);
            }
            Err(Busy::Sleeps) => {
                self.park_as(Sleep::Wait, deadline, still);
            }
            Err(Busy::Asks) => {
                let soon = executor.platform.now().after_nanos(SOON);
                let deadline = deadline.map_or(soon, |deadline| deadline.min(soon));
                self.park_as(Sleep::Wait, Some(deadline), still);
            }
        }
    }

    /// Asks the reactor what is ready, without blocking, unless another worker is in there: that one hears of it.
    pub(crate) fn ask(&self) {
        let (executor, slot) = (self.executor, self.slot());
        if P::LISTENS && executor.idle.listener.begin(ASKS) {
            let at_once = Some(Instant::ZERO);
            let word = slot.shared.park.word();
            // SAFETY: INV-LISTENER; we are the worker, and have entered. The word is another: the worker is awake.
            let heard = unsafe { executor.platform.listen(self.id(), word, LISTENING, at_once) };
            executor.idle.listener.end();
            slot.local.duties.hears(heard);
        }
    }

    /// Delivers what this worker has heard of, if it has; how much.
    pub(crate) fn deliver(&self) -> usize {
        let mut events = 0;
        if !self.slot().local.duties.delivers() {
            return events;
        }
        // SAFETY: we are the worker.
        self.run_wakers(&mut || events += unsafe { self.executor.platform.poll_io(self.id()) });
        events
    }
}
