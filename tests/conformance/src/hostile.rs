//! A platform that does all that the contract allows.

use filch::{
    Event, Instant, Panic, Platform, StartError, WorkerEntry, WorkerId,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

/// Clocks of a hostile platform move in steps of so many nanoseconds, and stand still between.
const STEP: u64 = 100_000;
/// Workers beyond this share their marks, which coalesces nothing.
const MARKS: usize = 64;

/// A platform over another one, as unhelpful as the contract allows: waits end for no reason, wakes come late, twice, and
/// several as one, the clock stalls.
///
/// What passes on a platform and hangs over its hostile twin rests on a promise that nobody made.
#[derive(Debug)]
pub struct Hostile<P> {
    inner: P,
    dice: AtomicU32,
    /// A wake is on its way to the worker, who has not looked since.
    waking: [AtomicBool; MARKS],
}

impl<P> Hostile<P> {
    /// Over this platform; equal seeds make equal choices, in so far as contexts come in the same order.
    pub const fn new(inner: P, seed: u32) -> Self {
        Self {
            inner,
            dice: AtomicU32::new(seed),
            waking: [const { AtomicBool::new(false) }; MARKS],
        }
    }

    /// The platform below.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    fn roll(&self) -> u32 {
        // A Weyl sequence, mixed (after splitmix): a single addition, so that interrupts may roll too.
        let mut x = self.dice.fetch_add(0x9E37_79B9, Ordering::Relaxed);
        x = (x ^ x >> 16).wrapping_mul(0x21F0_AAAD);
        x = (x ^ x >> 15).wrapping_mul(0x735A_2D97);
        x ^ x >> 15
    }
}

// SAFETY:
// - Identity, guard and start are the inner platform's.
// - Sticky wake: a wake that is left out finds the mark of an earlier one, which the worker has not taken down: it will look
//   at the word after that, and the mark's read-modify-writes let it see the word's change. All other wakes are passed on.
unsafe impl<P: Platform> Platform for Hostile<P> {
    fn now(&self) -> Instant {
        let now = self.inner.now().as_nanos();
        Instant::from_nanos(now - now % STEP)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        self.inner.current_worker()
    }

    fn enter(&self, worker: WorkerId) {
        self.inner.enter(worker);
    }

    fn leave(&self, worker: WorkerId) {
        self.inner.leave(worker);
    }

    fn wait(&self, worker: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        if let Some(mark) = self.waking.get(worker.index()) {
            // Ordering: AcqRel pairs with itself in `wake`.
            mark.swap(false, Ordering::AcqRel);
        }
        if self.roll() % 4 != 0 {
            self.inner.wait(worker, word, expected, deadline);
        }
    }

    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        if let Some(mark) = self.waking.get(worker.index()) {
            // Ordering: AcqRel pairs with itself in `wait`.
            if mark.swap(true, Ordering::AcqRel) {
                return;
            }
        }
        let how = self.roll();
        if how % 4 == 0 {
            (0..how % 2_048).for_each(|_| core::hint::spin_loop());
        }
        self.inner.wake(worker, word);
        if how % 3 == 0 {
            self.inner.wake(worker, word);
        }
    }

    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        self.inner.start(entry)
    }

    fn poll_io(&self, worker: WorkerId) -> usize {
        self.inner.poll_io(worker)
    }

    fn is_unwatched(&self) -> bool {
        self.inner.is_unwatched()
    }

    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        self.inner.guard(poll)
    }

    fn resume(&self, panic: Panic) -> ! {
        self.inner.resume(panic)
    }

    fn relax(&self, round: u32) {
        self.inner.relax(round);
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        if self.roll() % 4 != 0 {
            self.inner.block(word, expected, deadline);
        }
    }

    fn unblock(&self, word: &AtomicU32) {
        self.inner.unblock(word);
    }

    fn seed(&self, worker: WorkerId) -> u64 {
        self.inner.seed(worker) ^ u64::from(self.roll())
    }

    fn ready(&self) -> bool {
        self.inner.ready()
    }

    fn event(&self, worker: Option<WorkerId>, event: Event) {
        self.inner.event(worker, event);
    }
}
