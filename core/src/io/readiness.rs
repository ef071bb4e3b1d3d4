//! The readiness cell: one word, and the waiters under a bit of it.

use core::{
    fmt,
    task::{Context, Poll, Waker},
};

use super::{
    ready::{Direction, Event, Ready},
    wait::WaitReady,
    waiters::{Batch, Place, Waiters},
};
use crate::{
    atomic::{
        AtomicWord,
        Ordering::{self, AcqRel, Acquire, Relaxed, Release},
        UnsafeCell, Word, maybe_const, spin_loop,
    },
    bits::Field,
};

// The fields of the word, from the lowest bit.
const READY: Field = Field::first(Ready::BITS);
const SERVICE: Field = READY.then(2);
const EDGE: Field = SERVICE.then(Word::BITS - Ready::BITS - 2);

/// Set while a context holds the waiters.
const LOCKED: Word = SERVICE.bit(0);
/// Set by a context that found the lock taken and does not wait. The holder checks all waiters again before it unlocks.
const MARKED: Word = SERVICE.bit(1);
const ONE_EDGE: Word = EDGE.bit(0);

/// What one source of I/O is ready for, and the tasks that wait for it. See the [module](super) for its use.
///
/// A few words, made in a constant, without an allocation. Any number of tasks wait through [`ready`](Self::ready), and
/// two more, one for each direction, through [`poll_ready`](Self::poll_ready). All of them share one state: what one
/// task clears is gone for all, and a task that was woken for it waits again.
///
/// # Edges
///
/// Each `set` is an edge, and a counter counts the edges. `clear` takes back what was seen as of the last edge, and
/// nothing else. The counter has 56 bits, or 24 where 64-bit atomics are not native, and wraps. A task that is stopped
/// between its event and its `clear` for exactly 16,777,216 edges, or a multiple of that, would clear what it did not
/// see.
///
/// # The lock
///
/// A bit of the word guards the waiters. `set` only tries to take it: if the lock is taken, `set` leaves a mark, and
/// the holder wakes in its place (after the delegation in the `futures` crate's atomic waker). Tasks spin for the lock,
/// for one walk over the list and one more for each edge that comes meanwhile. So a task must not spin for a task that
/// it keeps from running: tasks of an executor in an interrupt handler must not share a cell with tasks that the
/// handler interrupts. No waker is cloned, woken or dropped under the lock.
///
/// ```
/// use core::task::{Context, Poll, Waker};
/// use filch::io::{Direction, Event, Readiness, Ready};
/// static CELL: Readiness = Readiness::new();
/// # let mut cx = Context::from_waker(Waker::noop());
/// // A task: there is nothing to read. The cell keeps its waker.
/// assert!(CELL.poll_ready(&mut cx, Direction::Read).is_pending());
/// // A reactor, or an interrupt handler:
/// CELL.set(Ready::READABLE);
/// // The task again.
/// let event: Event = CELL.get();
/// assert_eq!(CELL.poll_ready(&mut cx, Direction::Read), Poll::Ready(event));
/// // The operation would have blocked.
/// CELL.clear(event);
/// assert!(CELL.get().ready.is_empty());
/// // The place of this source goes to another.
/// CELL.reset();
/// ```
pub struct Readiness {
    word: AtomicWord,
    /// INV-WAITERS: touched only by the context that has set `LOCKED`.
    waiters: UnsafeCell<Waiters>,
}

// SAFETY: INV-WAITERS; wakers may move between threads, and the linked nodes are `Send`.
unsafe impl Send for Readiness {}
// SAFETY: as above.
unsafe impl Sync for Readiness {}

impl Readiness {
    maybe_const! {
        /// The cell of a source that is not ready.
        pub fn new() -> Self {
            Self { word: AtomicWord::new(0), waiters: UnsafeCell::new(Waiters::new()) }
        }
    }

    /// Adds bits as a new edge, and wakes the tasks that wait for a bit that is now set.
    ///
    /// A task that sees the edge sees everything that came before it. Callable from any context in which wakers may be
    /// woken, including interrupt and signal handlers, whatever they have interrupted: it waits for nothing, and runs
    /// no user code but `Waker::wake`. Cost: two read-modify-writes, a walk over the waiters, and their wakes: with one waiter
    /// about 90 instructions on x86-64.
    ///
    /// # Panics
    /// If a waker panics, after the others have been woken. (A second waker that panics ends the program, as in any
    /// unwinding.)
    pub fn set(&self, ready: Ready) {
        let bits = ready.with_implied().to_word();
        if self.lock_or_mark(|word| (word | bits).wrapping_add(ONE_EDGE)) {
            self.deliver();
        }
    }

    /// What is ready now. Callable from any context. Cost: one load.
    pub fn get(&self) -> Event {
        // Ordering: Acquire pairs with the Release in `lock_or_mark`: the caller sees what came before the edge.
        event_of(self.word.load(Acquire))
    }

    /// For callers with poll functions. Returns what of [`Direction::interest`] is ready; else keeps the waker of `cx`,
    /// and wakes it once when some of it becomes ready.
    ///
    /// There is one place for each direction: a later caller takes that of an earlier one, which then is not woken. To
    /// be called in tasks, not in an interrupt handler. Cost: one load if ready; else a clone of the waker and two
    /// read-modify-writes.
    ///
    /// # Panics
    /// If a waker panics.
    pub fn poll_ready(&self, cx: &mut Context<'_>, direction: Direction) -> Poll<Event> {
        let event = self.get().only(direction.interest());
        if !event.ready.is_empty() {
            return Poll::Ready(event);
        }
        // SAFETY: the place is not a node.
        unsafe { self.register(Place::Slot(direction), direction.interest(), cx.waker()) }
    }

    /// Waits until a bit of `interest` is set. Any number of tasks may wait at once. With an empty `interest` it waits
    /// for ever.
    ///
    /// To be polled and dropped in tasks or threads, not in an interrupt handler. Cost: that of
    /// [`poll_ready`](Self::poll_ready), and two read-modify-writes for the drop of one that has waited.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing: it takes no bit, and an edge wakes every task that waits for it.
    ///
    /// # Panics
    /// If a waker panics, in a poll or in the drop.
    ///
    /// ```
    /// # use core::{future::Future, pin::{Pin, pin}, task::{Context, Poll, Waker}};
    /// # use filch::io::{Readiness, Ready, WaitReady};
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// let cell = Readiness::new();
    /// let mut waiting: Pin<&mut WaitReady<'_>> = pin!(cell.ready(Ready::READABLE));
    /// assert!(waiting.as_mut().poll(&mut cx).is_pending());
    /// cell.set(Ready::READABLE | Ready::WRITABLE);
    /// let Poll::Ready(event) = waiting.as_mut().poll(&mut cx) else { unreachable!() };
    /// assert_eq!(event.ready, Ready::READABLE);
    /// ```
    pub fn ready(&self, interest: Ready) -> WaitReady<'_> {
        WaitReady::new(self, interest)
    }

    /// Takes the event's bits back, because the operation would have blocked; does nothing if there has been an edge
    /// since.
    ///
    /// `READ_CLOSED` and `WRITE_CLOSED` stay set. Callable from any context; lock-free. Cost: one read-modify-write.
    pub fn clear(&self, event: Event) {
        let bits = READY.set(0, (event.ready - Ready::CLOSED).to_word());
        // Ordering: Relaxed: it publishes nothing. Only the counter says whether there was an edge, and a
        // read-modify-write keeps the release sequence of the last edge.
        let mut word = self.word.load(Relaxed);
        while EDGE.get(word) == event.edge {
            let (set, load) = (Relaxed, Relaxed);
            match self.word.compare_exchange_weak(word, word & !bits, set, load) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Prepares the cell for another source. Takes all bits back, as a new edge, so that an event of the old source
    /// clears nothing. Wakes the tasks that wait in the places of [`poll_ready`](Self::poll_ready). Tasks that wait
    /// through [`ready`](Self::ready) wait for the new source.
    ///
    /// To be called in tasks and threads, not in an interrupt handler. Cost: three read-modify-writes.
    ///
    /// # Panics
    /// If a waker panics, after the others have been woken.
    pub fn reset(&self) {
        let mut out = Delivery { cell: self, batch: Batch::new(), more: false };
        self.lock();
        // Ordering: Relaxed: it publishes nothing, and keeps the release sequence of the last edge.
        self.update(Relaxed, |word| READY.set(word, 0).wrapping_add(ONE_EDGE));
        self.waiters.with_mut(|waiters| {
            for direction in [Direction::Read, Direction::Write] {
                // SAFETY: INV-WAITERS: we hold the lock. The place is not a node.
                out.batch.push(unsafe { (*waiters).take(Place::Slot(direction)) });
            }
        });
        self.unlock();
        out.batch.wake();
    }

    /// Removes what waits at `place` if a bit of `interest` is ready; else keeps `waker` there.
    ///
    /// # Safety
    /// A node is pinned and used with this cell only. If this returns `Pending`, `unregister` is called before the node
    /// is freed.
    pub(super) unsafe fn register(
        &self,
        place: Place,
        interest: Ready,
        waker: &Waker,
    ) -> Poll<Event> {
        // Cloned before the lock is taken, and dropped after it is released.
        let mut spare = Some(waker.clone());
        let event = event_of(self.lock()).only(interest);
        let old = self.waiters.with_mut(|waiters| {
            // SAFETY: INV-WAITERS: we hold the lock. The caller says that a node may be linked here.
            unsafe {
                if event.ready.is_empty() {
                    (*waiters).put(place, &mut spare);
                    None
                } else {
                    (*waiters).take(place)
                }
            }
        });
        self.unlock();
        drop((old, spare));
        if event.ready.is_empty() { Poll::Pending } else { Poll::Ready(event) }
    }

    /// Removes what waits at `place`. Returns the waker that was there.
    ///
    /// # Safety
    /// As for `register`.
    pub(super) unsafe fn unregister(&self, place: Place) -> Option<Waker> {
        self.lock();
        // SAFETY: INV-WAITERS: we hold the lock. The caller says that a node is of this cell.
        let waker = self.waiters.with_mut(|waiters| unsafe { (*waiters).take(place) });
        self.unlock();
        waker
    }

    /// Takes the lock. Returns the word as of then. An edge is either in that word, or its `set` finds the lock taken
    /// and leaves a mark.
    fn lock(&self) -> Word {
        loop {
            let word = self.word.load(Relaxed);
            // Ordering: Acquire pairs with the Release of the last unlock, for the waiters, and with the Release of the
            // edges in `lock_or_mark`, as in `get`.
            let (set, load) = (Acquire, Relaxed);
            if word & LOCKED == 0
                && self.word.compare_exchange_weak(word, word | LOCKED, set, load).is_ok()
            {
                return word;
            }
            spin_loop();
        }
    }

    /// Changes the word, and takes the lock if it is free. If not, leaves a mark, so that the holder delivers. True if
    /// it took the lock.
    fn lock_or_mark(&self, change: impl Fn(Word) -> Word) -> bool {
        // Ordering: Release pairs with the Acquire in `get` and `lock`: it publishes what came before an edge. Acquire
        // as in `lock`.
        let before = self
            .update(AcqRel, |word| change(word) | if word & LOCKED == 0 { LOCKED } else { MARKED });
        before & LOCKED == 0
    }

    /// Releases the lock. First delivers the edges that came while it was held.
    fn unlock(&self) {
        // Ordering: Release pairs with the Acquire of the next lock.
        let word = self.word.load(Relaxed);
        let (set, load) = (Release, Relaxed);
        if word & MARKED != 0
            || self.word.compare_exchange(word, word & !LOCKED, set, load).is_err()
        {
            self.deliver();
        }
    }

    /// Wakes the tasks that wait for what is ready. The caller holds the lock; it is released.
    fn deliver(&self) {
        let word = self.word.load(Relaxed);
        let (waker, more) = self.waiters.with_mut(|waiters| {
            // SAFETY: INV-WAITERS: we hold the lock.
            unsafe { (*waiters).take_only(event_of(word).ready) }
        });
        // Ordering: as in `take_and_unlock`.
        let (set, load) = (Release, Relaxed);
        let unlocked = word & !(LOCKED | MARKED);
        if more || self.word.compare_exchange(word, unlocked, set, load).is_err() {
            return self.deliver_all(waker);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// As `deliver`, for more than one waiter. The first one may have been taken out.
    #[cold]
    #[inline(never)]
    fn deliver_all(&self, first: Option<Waker>) {
        let mut out = Delivery { cell: self, batch: Batch::new(), more: true };
        out.batch.push(first);
        while out.more {
            out.more = self.take_and_unlock(&mut out.batch);
            out.batch.wake();
            // If another context has the lock now, it delivers the rest.
            out.more = out.more && self.lock_or_mark(|word| word);
        }
    }

    /// Moves waiters to `batch`, and releases the lock, which the caller holds. Returns whether some were left for want
    /// of room.
    fn take_and_unlock(&self, batch: &mut Batch) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            let all = self.waiters.with_mut(|waiters| {
                // SAFETY: INV-WAITERS: we hold the lock.
                unsafe { (*waiters).take_ready(event_of(word).ready, batch) }
            });
            // The exchange expects the word that the waiters were compared with: after an edge or a mark they are
            // checked again.
            // Ordering: Release pairs with the Acquire of the next lock.
            let (set, load) = (Release, Relaxed);
            match self.word.compare_exchange(word, word & !(LOCKED | MARKED), set, load) {
                Ok(_) => return !all,
                Err(now) => word = now,
            }
        }
    }

    /// Changes the word. Returns the old one.
    fn update(&self, order: Ordering, change: impl Fn(Word) -> Word) -> Word {
        let mut word = self.word.load(Relaxed);
        loop {
            let load = Relaxed;
            match self.word.compare_exchange_weak(word, change(word), order, load) {
                Ok(before) => return before,
                Err(now) => word = now,
            }
        }
    }
}

fn event_of(word: Word) -> Event {
    Event { ready: Ready::from_word(READY.get(word)), edge: EDGE.get(word) }
}

/// Wakers on their way. If one panics, the others are woken all the same.
struct Delivery<'a> {
    cell: &'a Readiness,
    batch: Batch,
    /// Whether waiters were left because the batch was full.
    more: bool,
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        // The batch is empty and `more` is false, unless a waker has panicked.
        self.batch.wake();
        if self.more && self.cell.lock_or_mark(|word| word) {
            self.cell.deliver();
        }
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("ready", &self.get().ready).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
#[path = "readiness_tests.rs"]
mod tests;
