//! The readiness cell.

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

// The word, from the low end.
const READY: Field = Field::first(Ready::BITS);
const SERVICE: Field = READY.then(2);
const EDGE: Field = SERVICE.then(Word::BITS - Ready::BITS - 2);

/// Somebody is at the waiters.
const LOCKED: Word = SERVICE.bit(0);
/// Somebody who does not wait found it so; the holder looks at all waiters again before it unlocks.
const MARKED: Word = SERVICE.bit(1);
const ONE_EDGE: Word = EDGE.bit(0);

/// What one source of I/O is ready for, and who waits for it. See the [module](super) for its use.
///
/// A few words, made in a constant, without an allocation. Any number of tasks wait through [`ready`](Self::ready); two
/// more, one for each direction, through [`poll_ready`](Self::poll_ready). Readiness is one state for all of them: what one
/// clears is gone for all, and who was woken for it waits again.
///
/// # Edges
///
/// Each `set` is an edge, which a counter counts. `clear` takes back what was seen at the last edge, and nothing else. The
/// counter has 56 bits, or 24 where 64-bit atomics are not native, and wraps: a task that is stopped between its event
/// and its `clear` for 16,777,216 edges, or exactly a multiple of that, would clear what it did not see.
///
/// # The lock
///
/// The waiters are guarded by a bit of the word, which `set` only tries: when it is taken, `set` leaves a mark, and the
/// holder wakes in its place (after the delegation in `AtomicWaker` of the `futures` crate). Tasks spin for it, for a walk
/// over the list and one more for each edge that comes meanwhile. So a task must not wait for one that it keeps from
/// running: tasks of an interrupt handler's executor share no cell with those that it interrupts. No waker is cloned, woken
/// or dropped under the lock.
pub struct Readiness {
    word: AtomicWord,
    /// INV-WAITERS: touched by whoever has set `LOCKED`.
    waiters: UnsafeCell<Waiters>,
}

// SAFETY: INV-WAITERS; wakers go between threads, and the nodes that are pointed to are `Send`.
unsafe impl Send for Readiness {}
// SAFETY: as above.
unsafe impl Sync for Readiness {}

impl Readiness {
    maybe_const! {
        /// A cell of a source that is not ready.
        pub fn new() -> Self {
            Self { word: AtomicWord::new(0), waiters: UnsafeCell::new(Waiters::new()) }
        }
    }

    /// Adds bits, as a new edge, and wakes whoever waits for any that is set.
    ///
    /// What comes before it is seen by whoever sees the edge. From any context in which wakers may be woken, interrupt and
    /// signal handlers included, whatever they interrupted: it waits for nobody, and runs `Waker::wake` alone. Cost: two
    /// read-modify-writes, a walk over the waiters, and their wakes.
    ///
    /// # Panics
    /// If a waker does, after the others have been woken (a second one that panics ends the program, as in any unwinding).
    pub fn set(&self, ready: Ready) {
        let bits = ready.with_implied().to_word();
        if self.lock_or_mark(|word| (word | bits).wrapping_add(ONE_EDGE)) {
            self.deliver();
        }
    }

    /// What is ready now. From any context. Cost: a load.
    pub fn get(&self) -> Event {
        // Ordering: Acquire pairs with the Release in `lock_or_mark`: what was before the edge is seen.
        event_of(self.word.load(Acquire))
    }

    /// For poll-style callers: what of [`Direction::interest`] is ready, or the waker of `cx` is kept and woken once when
    /// something is.
    ///
    /// There is one place for each direction: a later caller takes that of an earlier one, who is then not woken. From
    /// tasks; not from an interrupt handler. Cost when ready: a load; else a clone of the waker and two read-modify-writes.
    ///
    /// # Panics
    /// If a waker does.
    pub fn poll_ready(&self, cx: &mut Context<'_>, direction: Direction) -> Poll<Event> {
        let event = self.get().only(direction.interest());
        if !event.ready.is_empty() {
            return Poll::Ready(event);
        }
        // SAFETY: no node.
        unsafe { self.register(Place::Slot(direction), direction.interest(), cx.waker()) }
    }

    /// Waits until a bit of `interest` is set, any number of tasks at a time. For ever, if there is none in `interest`.
    ///
    /// To be polled and dropped in tasks or threads; not in an interrupt handler. Cost: as of
    /// [`poll_ready`](Self::poll_ready), and two read-modify-writes to drop one that has waited.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing: it takes no bit, and an edge wakes all who wait for it.
    ///
    /// # Panics
    /// If a waker does, when polled or dropped.
    ///
    /// ```
    /// # use core::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # use filch::io::{Readiness, Ready};
    /// # let mut cx = Context::from_waker(Waker::noop());
    /// let cell = Readiness::new();
    /// let mut waiting = pin!(cell.ready(Ready::READABLE));
    /// assert!(waiting.as_mut().poll(&mut cx).is_pending());
    /// cell.set(Ready::READABLE | Ready::WRITABLE);
    /// let Poll::Ready(event) = waiting.as_mut().poll(&mut cx) else { unreachable!() };
    /// assert_eq!(event.ready, Ready::READABLE);
    /// ```
    pub fn ready(&self, interest: Ready) -> WaitReady<'_> {
        WaitReady::new(self, interest)
    }

    /// The operation would have blocked: takes the event's bits back, unless there has been an edge since.
    ///
    /// `READ_CLOSED` and `WRITE_CLOSED` stay. From any context; lock-free. Cost: a read-modify-write.
    pub fn clear(&self, event: Event) {
        let bits = READY.set(0, (event.ready - Ready::CLOSED).to_word());
        // Ordering: Relaxed, it publishes nothing: the counter alone says whether there was an edge, and as a
        // read-modify-write it keeps the release sequence of the last one.
        let mut word = self.word.load(Relaxed);
        while EDGE.get(word) == event.edge {
            let (set, load) = (Relaxed, Relaxed);
            match self.word.compare_exchange_weak(word, word & !bits, set, load) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// For a new use of the cell, by another source: takes all bits back, as a new edge, so that an event from before clears
    /// nothing, and wakes who waits in the places of [`poll_ready`](Self::poll_ready). Who waits through
    /// [`ready`](Self::ready) waits for the new source.
    ///
    /// From tasks and threads; not from an interrupt handler. Cost: three read-modify-writes.
    ///
    /// # Panics
    /// As for [`set`](Self::set).
    pub fn reset(&self) {
        let mut out = Delivery { cell: self, batch: Batch::new(), more: false };
        self.lock();
        // Ordering: Relaxed, it publishes nothing; the release sequence of the last edge goes on.
        self.update(Relaxed, |word| READY.set(word, 0).wrapping_add(ONE_EDGE));
        self.waiters.with_mut(|waiters| {
            for direction in [Direction::Read, Direction::Write] {
                // SAFETY: INV-WAITERS: we hold the lock. No node.
                out.batch.push(unsafe { (*waiters).take(Place::Slot(direction)) });
            }
        });
        self.unlock();
        out.batch.wake();
    }

    /// Ready, and no longer waiting at `place`; or waiting there with `waker`.
    ///
    /// # Safety
    /// A node is pinned, of this cell alone, and goes to `unregister` before it is gone, if this returns `Pending`.
    pub(super) unsafe fn register(
        &self,
        place: Place,
        interest: Ready,
        waker: &Waker,
    ) -> Poll<Event> {
        // Cloned before the lock, dropped after it.
        let mut spare = Some(waker.clone());
        let event = event_of(self.lock()).only(interest);
        let old = self.waiters.with_mut(|waiters| {
            // SAFETY: INV-WAITERS: we hold the lock; the caller's.
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

    /// No longer waiting at `place`; the waker that was there.
    ///
    /// # Safety
    /// As for `register`.
    pub(super) unsafe fn unregister(&self, place: Place) -> Option<Waker> {
        self.lock();
        // SAFETY: INV-WAITERS: we hold the lock; the caller's.
        let waker = self.waiters.with_mut(|waiters| unsafe { (*waiters).take(place) });
        self.unlock();
        waker
    }

    /// Takes the lock; the word as of then. An edge is in that word, or its `set` finds the lock and leaves a mark.
    fn lock(&self) -> Word {
        loop {
            let word = self.word.load(Relaxed);
            // Ordering: Acquire pairs with the Release of the unlock before, for the waiters, and with that of the edges
            // in `lock_or_mark`, as in `get`.
            let (set, load) = (Acquire, Relaxed);
            if word & LOCKED == 0
                && self.word.compare_exchange_weak(word, word | LOCKED, set, load).is_ok()
            {
                return word;
            }
            spin_loop();
        }
    }

    /// Changes the word, and takes the lock if it is free; else leaves a mark, for the holder to deliver. True if taken.
    fn lock_or_mark(&self, change: impl Fn(Word) -> Word) -> bool {
        // Ordering: Release pairs with the Acquire in `get` and `lock`, for what was before an edge; Acquire as in `lock`.
        let before = self
            .update(AcqRel, |word| change(word) | if word & LOCKED == 0 { LOCKED } else { MARKED });
        before & LOCKED == 0
    }

    /// Gives the lock back; delivers what others have left while we had it.
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

    /// Wakes who waits for what is ready. The caller holds the lock, which is given back.
    fn deliver(&self) {
        let mut out = Delivery { cell: self, batch: Batch::new(), more: true };
        while out.more {
            out.more = self.take_and_unlock(&mut out.batch);
            out.batch.wake();
            // Whoever holds the lock now delivers the rest.
            out.more = out.more && self.lock_or_mark(|word| word);
        }
    }

    /// Takes waiters out into `batch`, and gives the lock back; whether there was no room for all. The caller holds the lock.
    fn take_and_unlock(&self, batch: &mut Batch) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            let all = self.waiters.with_mut(|waiters| {
                // SAFETY: INV-WAITERS: we hold the lock.
                unsafe { (*waiters).take_ready(event_of(word).ready, batch) }
            });
            // From the very word that the waiters were held against: after an edge or a mark we look again.
            // Ordering: Release pairs with the Acquire of the next lock.
            let (set, load) = (Release, Relaxed);
            match self.word.compare_exchange(word, word & !(LOCKED | MARKED), set, load) {
                Ok(_) => return !all,
                Err(now) => word = now,
            }
        }
    }

    /// Changes the word; what it was.
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

/// Wakers that are on their way. If one panics, the others are woken all the same.
struct Delivery<'a> {
    cell: &'a Readiness,
    batch: Batch,
    /// Whether waiters were left for want of room.
    more: bool,
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        // Empty, and no more, unless a waker has panicked.
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
