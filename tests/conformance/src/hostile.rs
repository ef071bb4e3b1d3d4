//! A platform with every misbehaviour that the contract allows.

use core::ptr;

use filch::{
    Context, Event, Instant, Panic, Platform, Reactor, StartError, WorkerEntry, WorkerId,
    atomic::{AtomicPtr, AtomicU32, Ordering},
};

/// The clock of a hostile platform moves in steps of so many nanoseconds, and stands still in
/// between.
const STEP: u64 = 100_000;
/// Workers beyond this have no mark: their wakes are never left out.
const MARKS: usize = 64;

/// A platform over another one, as unhelpful as the contract allows: waits end spuriously, wakes
/// come late, twice, or several as one, and the clock stalls.
///
/// A program that passes on a platform and hangs on its hostile twin relies on more than the
/// contract.
#[derive(Debug)]
pub struct Hostile<P> {
    inner: P,
    dice: AtomicU32,
    /// The word that a pending wake is for, before that wake has come to the platform below: other
    /// wakes that come now are left out, as the pending one serves for them. Only compared.
    waking: [AtomicPtr<AtomicU32>; MARKS],
}

impl<P> Hostile<P> {
    /// Wraps this platform. Equal seeds make equal choices, as far as contexts come in the same
    /// order.
    pub const fn new(inner: P, seed: u32) -> Self {
        Self {
            inner,
            dice: AtomicU32::new(seed),
            waking: [const { AtomicPtr::new(ptr::null_mut()) }; MARKS],
        }
    }

    /// The platform below.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    fn roll(&self) -> u32 {
        // A Weyl sequence, mixed (after splitmix): a single addition, so that interrupts may draw
        // too.
        let mut x = self.dice.fetch_add(0x9E37_79B9, Ordering::Relaxed);
        x = (x ^ x >> 16).wrapping_mul(0x21F0_AAAD);
        x = (x ^ x >> 15).wrapping_mul(0x735A_2D97);
        x ^ x >> 15
    }
}

// SAFETY:
// - Identity, guard and start are the inner platform's.
// - Sticky wake: a wake that is left out finds the mark of another wake for its word, which is
//   passed on once its mark is cleared; the mark's read-modify-writes order it after the word's
//   change. All other wakes are passed on. A wake must not be left out merely because the worker
//   has not run since an earlier one: the worker may check the word after the earlier wake, and
//   before it sleeps.
unsafe impl<P: Platform> Platform for Hostile<P> {
    fn now(&self) -> Instant {
        let now = self.inner.now().as_nanos();
        Instant::from_nanos(now - now % STEP)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        self.inner.current_worker()
    }

    fn context(&self) -> Context {
        self.inner.context()
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        // SAFETY: the caller's contract.
        unsafe { self.inner.set_worker(worker) };
    }

    unsafe fn wait(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        if self.roll() % 4 != 0 {
            // SAFETY: the caller's contract.
            unsafe { self.inner.wait(worker, word, expected, deadline) };
        }
    }

    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        let mark = self.waking.get(worker.index());
        // Ordering: AcqRel pairs with the swap below: the wake that clears the mark sees the
        // changes of all wakes that found it.
        let for_word = ptr::from_ref(word).cast_mut();
        if mark.is_some_and(|mark| mark.swap(for_word, Ordering::AcqRel) == for_word) {
            return;
        }
        let how = self.roll();
        if how % 4 == 0 {
            (0..how % 2_048).for_each(|_| core::hint::spin_loop());
        }
        if let Some(mark) = mark {
            // Ordering: AcqRel pairs with the one above.
            mark.swap(ptr::null_mut(), Ordering::AcqRel);
        }
        self.inner.wake(worker, word);
        if how % 3 == 0 {
            self.inner.wake(worker, word);
        }
    }

    fn reactor(&self) -> Option<&dyn Reactor> {
        self.inner.reactor()?;
        Some(self)
    }

    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        self.inner.start(entry)
    }

    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        self.inner.guard(poll)
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

    fn event(&self, worker: Option<WorkerId>, event: Event) {
        self.inner.event(worker, event);
    }
}

// SAFETY: as above.
unsafe impl<P: Platform> Reactor for Hostile<P> {
    unsafe fn listen(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        let Some(reactor) = self.inner.reactor() else { return false };
        // SAFETY: the caller's.
        self.roll() % 4 != 0 && unsafe { reactor.listen(worker, word, expected, deadline) }
    }

    fn interrupt(&self, worker: WorkerId, word: &AtomicU32) {
        let Some(reactor) = self.inner.reactor() else { return };
        reactor.interrupt(worker, word);
        if self.roll() % 3 == 0 {
            reactor.interrupt(worker, word);
        }
    }

    unsafe fn deliver(&self, worker: WorkerId) -> usize {
        let Some(reactor) = self.inner.reactor() else { return 0 };
        // SAFETY: the caller's contract.
        unsafe { reactor.deliver(worker) }
    }
}
