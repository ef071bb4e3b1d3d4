//! The packed state word of a task: pure transitions, and the atomic that applies them.
//!
//! The word holds everything that two contexts could disagree about. Its layout, from the lowest bit:
//!
//! | field | wide (64 bits) | narrow (32 bits) | meaning |
//! |---|---|---|---|
//! | life   | 8  | 2  | 0 (vacant: no task), `LIVE` 1 (there is a future), `COMPLETE` 2 (there is an output, or was) |
//! | flags  | 5  | 5  | cancelled, join interest, join waker, pinned, ends unreachable |
//! | class  | 2  | 2, or 0 without the feature `classes` | the task's own class; 0 is normal |
//! | boost  | 2  | as `class` | the class that it inherits from a waiting task, if that is before its own; 0 is none |
//! | shield | 7  | 4  | depth of `shield`s held; cancellation waits while it is not zero; saturates |
//! | wakes  | 16 | 4  | wakes not yet answered by a poll; saturates |
//! | refs   | 24 | 13, or 15 | references: one each for the `Ready`, the `JoinHandle`, every `Waker` and every shield |
//!
//! The phases of a task:
//!
//! | phase | life | wakes | access to the future | leaves by |
//! |---|---|---|---|---|
//! | idle      | LIVE     | 0    | none | wake, abort: to scheduled |
//! | scheduled | LIVE     | >= 1 | none (a queue holds the `Ready`) | a worker pops it: to running |
//! | running   | LIVE     | >= 1 | the holder of the `Ready` | `pending`: to idle or scheduled; `complete` |
//! | complete  | COMPLETE | 0    | none; the future is gone | last reference dropped: the slot is free |
//!
//! *Scheduled* and *running* differ in where the `Ready` is, not in a bit. The word counts wakes instead of keeping a
//! notified flag, so that a poll begins with a plain load and ends with its only read-modify-write (after nexosim's
//! task). A wake that finds `wakes >= 1` only counts up. The end of the poll compares the count, and schedules the task
//! again if it has moved. A saturated count is taken as moved: that may cost a poll too many, and never loses one.
//!
//! An idle task without a reference is *unreachable*: nothing can wake it any more. It keeps what its future holds, and
//! its slot, until the executor finds it by its memory and aborts it, at a shutdown. Where its spawn said so, it is
//! cancelled and scheduled instead as its last reference is dropped.
//!
//! A saturated reference count is sticky: it is never decremented again. The task's slot is leaked, and so never freed
//! under a reference that still lives.

use core::fmt;

pub(crate) use super::action::{Action, AfterComplete, AfterPending, Completed, Upgrade};
use crate::{
    atomic::{AtomicWord, Ordering, Word, maybe_const},
    bits::Field,
};

const WIDE: bool = Word::BITS == 64;

const LIFE: Field = Field::first(if WIDE { 8 } else { 2 });
const FLAGS: Field = LIFE.then(5);
/// Of a narrow word each, or none without classes.
const CLASS_BITS: u32 = if WIDE || cfg!(feature = "classes") { 2 } else { 0 };
pub(super) const CLASS: Field = FLAGS.then(CLASS_BITS);
pub(super) const BOOST: Field = CLASS.then(CLASS_BITS);
const SHIELD: Field = BOOST.then(if WIDE { 7 } else { 4 });
const WAKES: Field = SHIELD.then(if WIDE { 16 } else { 4 });
const REFS: Field = WAKES.then(if WIDE {
    24
} else if CLASS_BITS == 2 {
    13
} else {
    15
});

const LIVE: Word = 1;
const COMPLETE: Word = 2;

const CANCELLED: Word = FLAGS.bit(0);
const JOIN_INTEREST: Word = FLAGS.bit(1);
const JOIN_WAKER: Word = FLAGS.bit(2);
const BOUND: Word = FLAGS.bit(3);
const ENDS_UNREACHABLE: Word = FLAGS.bit(4);

/// A value of the state word. Transitions are pure: they take a value, and return the next one and an action.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot(pub(crate) Word);

impl Snapshot {
    /// A new task: scheduled, with a `Ready` and a join handle.
    #[inline]
    pub(crate) const fn spawned(pinned: bool) -> Self {
        let flags = JOIN_INTEREST | if pinned { BOUND } else { 0 };
        Self(REFS.set(WAKES.set(LIFE.set(flags, LIVE), 1), 2))
    }

    /// The task ends when it is unreachable.
    pub(crate) const fn ending_unreachable(self) -> Self {
        Self(self.0 | ENDS_UNREACHABLE)
    }

    /// A task that is complete from the start: an output, and a join handle to take it.
    pub(crate) const fn born_complete() -> Self {
        Self(REFS.set(LIFE.set(JOIN_INTEREST, COMPLETE), 1))
    }

    #[inline(always)]
    pub(crate) const fn is_live(self) -> bool {
        LIFE.get(self.0) == LIVE
    }
    #[inline(always)]
    pub(crate) const fn is_complete(self) -> bool {
        LIFE.get(self.0) == COMPLETE
    }
    #[inline(always)]
    pub(crate) const fn is_cancelled(self) -> bool {
        self.0 & CANCELLED != 0
    }
    #[inline(always)]
    pub(crate) const fn is_bound(self) -> bool {
        self.0 & BOUND != 0
    }
    /// Whether the task goes elsewhere than most: it is bound to workers (pinned, or with an affinity), if there are several, or, if classes
    /// count, it has one.
    #[inline(always)]
    pub(crate) const fn is_special(self, cores: bool, classes: bool) -> bool {
        let class = if classes { CLASS.mask() | BOOST.mask() } else { 0 };
        self.0 & (class | if cores || classes { BOUND } else { 0 }) != 0
    }
    #[inline(always)]
    pub(crate) const fn has_join_interest(self) -> bool {
        self.0 & JOIN_INTEREST != 0
    }
    #[inline(always)]
    pub(crate) const fn has_join_waker(self) -> bool {
        self.0 & JOIN_WAKER != 0
    }
    /// Whether the task is to end when it is unreachable.
    #[inline(always)]
    pub(crate) const fn is_ending_unreachable(self) -> bool {
        self.0 & ENDS_UNREACHABLE != 0
    }
    #[inline(always)]
    pub(crate) const fn shield(self) -> Word {
        SHIELD.get(self.0)
    }
    #[inline(always)]
    pub(crate) const fn wakes(self) -> Word {
        WAKES.get(self.0)
    }
    #[inline(always)]
    pub(crate) const fn refs(self) -> Word {
        REFS.get(self.0)
    }
    #[inline(always)]
    pub(crate) const fn has_saturated_refs(self) -> bool {
        self.refs() == REFS.max()
    }

    /// Whether the holder of the `Ready` must drop the future instead of polling it.
    #[inline(always)]
    pub(crate) const fn must_cancel(self) -> bool {
        self.is_cancelled() && self.shield() == 0
    }

    pub(super) const fn with(self, field: Field, value: Word) -> Self {
        Self(field.set(self.0, value))
    }
    const fn ref_inc(self) -> Self {
        if self.has_saturated_refs() { self } else { Self(REFS.inc(self.0)) }
    }
    const fn ref_dec(self) -> Self {
        if self.has_saturated_refs() || self.refs() == 0 { self } else { Self(REFS.dec(self.0)) }
    }
    const fn wake_inc(self) -> Self {
        if self.wakes() == WAKES.max() { self } else { Self(WAKES.inc(self.0)) }
    }

    /// A waker is woken and kept.
    ///
    /// | from | to | action |
    /// |---|---|---|
    /// | idle | scheduled, one reference more | `Schedule` |
    /// | scheduled, running | one wake more | `None` |
    /// | complete | same | `None` |
    #[inline]
    pub(crate) const fn wake(self) -> (Self, Action) {
        if !self.is_live() {
            (self, Action::None)
        } else if self.wakes() == 0 {
            (self.with(WAKES, 1).ref_inc(), Action::Schedule)
        } else {
            (self.wake_inc(), Action::None)
        }
    }

    /// A waker is woken and gives up its reference.
    ///
    /// | from | to | action |
    /// |---|---|---|
    /// | idle | scheduled; the waker's reference becomes the `Ready`'s | `Schedule` |
    /// | scheduled, running | one wake more, one reference less | `None` |
    /// | complete | one reference less | `Free` if it was the last, else `None` |
    #[inline]
    pub(crate) const fn wake_by_value(self) -> (Self, Action) {
        if !self.is_live() {
            self.drop_ref()
        } else if self.wakes() == 0 {
            (self.with(WAKES, 1), Action::Schedule)
        } else {
            (self.wake_inc().ref_dec(), Action::None)
        }
    }

    /// Asks for cancellation. The caller needs no reference.
    ///
    /// | from | to | action |
    /// |---|---|---|
    /// | idle | cancelled, scheduled, one reference more | `Schedule` |
    /// | scheduled, running | cancelled, one wake more | `None` |
    /// | complete, vacant | same | `None` |
    #[inline]
    pub(crate) const fn abort(self) -> (Self, Action) {
        if !self.is_live() { (self, Action::None) } else { Self(self.0 | CANCELLED).wake() }
    }

    /// As `abort`, but does nothing to a task that is cancelled already. For passes over all tasks.
    pub(crate) const fn abort_once(self) -> (Self, Action) {
        if self.is_cancelled() { (self, Action::None) } else { self.abort() }
    }

    /// A reference is dropped.
    ///
    /// | from | to | action |
    /// |---|---|---|
    /// | any, not the last | one less | `None` |
    /// | idle, the last | unreachable | `None` |
    /// | idle, the last, ends unreachable | cancelled, scheduled, one reference | `Schedule` |
    /// | complete, the last | none | `Free` |
    #[inline]
    pub(crate) const fn drop_ref(self) -> (Self, Action) {
        let next = self.ref_dec();
        if next.refs() != 0 {
            (next, Action::None)
        } else if !self.is_live() {
            (next, Action::Free)
        } else if self.is_ending_unreachable() {
            (Self(next.0 | CANCELLED).with(WAKES, 1).with(REFS, 1), Action::Schedule)
        } else {
            (next, Action::None)
        }
    }

    /// A state with so many wakes, and no more to it.
    #[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
    pub(crate) const fn with_wakes(wakes: Word) -> Self {
        Self(WAKES.set(0, wakes))
    }

    /// Saturates the count of wakes, for models.
    #[cfg(all(test, filch_loom))]
    pub(crate) const fn saturate_wakes(self) -> (Self, ()) {
        (self.with(WAKES, WAKES.max()), ())
    }

    /// A reference is cloned. Saturates.
    #[inline]
    pub(crate) const fn clone_ref(self) -> (Self, ()) {
        (self.ref_inc(), ())
    }

    /// Takes a reference for a context that found the task in its memory and has none, if there is a live task; whether
    /// there is. Saturates, as `clone_ref` does: then nothing frees the slot, and the reference holds as well.
    pub(crate) const fn hold(self) -> (Self, bool) {
        if self.is_live() { (self.ref_inc(), true) } else { (self, false) }
    }

    /// As `hold`, for a reference that may be refused: it does not saturate the count.
    pub(crate) const fn upgrade(self) -> (Self, Result<(), Upgrade>) {
        if !self.is_live() {
            (self, Err(Upgrade::Vacant))
        } else if self.refs() + 1 >= REFS.max() {
            (self, Err(Upgrade::Limit))
        } else {
            (self.ref_inc(), Ok(()))
        }
    }

    /// Whether a poll that began in the state `before` is repeated without a transition: the task was woken, and the
    /// count still has room for many more wakes before [`pending`](Self::pending) must reset it. Not so of a task that
    /// is cancelled, even behind a shield.
    #[inline(always)]
    pub(crate) const fn is_again(self, before: Snapshot) -> bool {
        const COUNT: Word = WAKES.mask();
        const RARE: Word = WAKES.top() | CANCELLED;
        (self.0 ^ before.0) & COUNT != 0 && self.0 & RARE == 0
    }

    /// A poll that began with `seen` wakes returned `Pending`. Called only by the holder of the `Ready`.
    ///
    /// | from | to | after |
    /// |---|---|---|
    /// | cancelled and not shielded | same | `Cancel` |
    /// | wakes moved or saturated | scheduled, one wake | `Again` |
    /// | wakes as seen | idle, one reference less | `Idle` |
    /// | wakes as seen, no other reference, ends unreachable | cancelled, same | `Cancel` |
    #[inline]
    pub(crate) const fn pending(self, seen: Word) -> (Self, AfterPending) {
        if self.must_cancel() {
            (self, AfterPending::Cancel)
        } else if self.wakes() != seen || seen == WAKES.max() {
            (self.with(WAKES, 1), AfterPending::Again)
        } else if self.refs() == 1 && self.is_ending_unreachable() {
            (Self(self.0 | CANCELLED), AfterPending::Cancel)
        } else {
            (self.with(WAKES, 0).ref_dec(), AfterPending::Idle)
        }
    }

    /// The future is dropped and the output written. Called only by the holder of the `Ready`.
    ///
    /// | from | to | after |
    /// |---|---|---|
    /// | join waker | complete | `WakeJoiner` |
    /// | join interest alone | complete, one reference less | `Released` |
    /// | neither | complete | `DropOutput` |
    #[inline]
    pub(crate) const fn complete(self) -> (Self, AfterComplete) {
        let next = self.with(LIFE, COMPLETE).with(WAKES, 0);
        if self.has_join_waker() {
            (next, AfterComplete::WakeJoiner)
        } else if self.has_join_interest() {
            (next.ref_dec(), AfterComplete::Released)
        } else {
            (next, AfterComplete::DropOutput)
        }
    }

    /// As `complete`, when there is no join interest and the output has been dropped: also drops the `Ready`'s
    /// reference.
    #[inline]
    pub(crate) const fn complete_detached(self) -> (Self, Action) {
        self.with(LIFE, COMPLETE).with(WAKES, 0).drop_ref()
    }

    /// The join handle has written a waker and publishes it.
    #[inline]
    pub(crate) const fn set_join_waker(self) -> (Self, Result<(), Completed>) {
        if self.is_complete() {
            (self, Err(Completed))
        } else {
            (Self(self.0 | JOIN_WAKER), Ok(()))
        }
    }

    /// The join handle takes its waker back.
    #[inline]
    pub(crate) const fn unset_join_waker(self) -> (Self, Result<(), Completed>) {
        if self.is_complete() {
            (self, Err(Completed))
        } else {
            (Self(self.0 & !JOIN_WAKER), Ok(()))
        }
    }

    /// The join handle is dropped, after it has taken its waker back. Refused if the task is complete: then the handle
    /// must drop the output first.
    #[inline]
    pub(crate) const fn detach(self) -> (Self, Result<Action, Completed>) {
        if self.is_complete() {
            (self, Err(Completed))
        } else {
            let (next, action) = Self(self.0 & !JOIN_INTEREST).drop_ref();
            (next, Ok(action))
        }
    }

    /// A shield is raised, and takes a reference. The depth saturates; then the task stays shielded for ever.
    pub(crate) const fn shield_enter(self) -> (Self, ()) {
        let deeper = if self.shield() == SHIELD.max() { self.shield() } else { self.shield() + 1 };
        (self.with(SHIELD, deeper).ref_inc(), ())
    }

    /// A shield is lowered, and its reference dropped. If the task is idle and an abort has waited for this, the
    /// reference becomes the `Ready`'s instead.
    pub(crate) const fn shield_exit(self) -> (Self, Action) {
        let lower = match self.shield() {
            saturated if saturated == SHIELD.max() => saturated,
            depth => depth.saturating_sub(1),
        };
        let next = self.with(SHIELD, lower);
        if next.is_live() && next.must_cancel() && next.wakes() == 0 {
            (next.with(WAKES, 1), Action::Schedule)
        } else {
            next.drop_ref()
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("live", &self.is_live())
            .field("complete", &self.is_complete())
            .field("cancelled", &self.is_cancelled())
            .field("join_interest", &self.has_join_interest())
            .field("join_waker", &self.has_join_waker())
            .field("pinned", &self.is_bound())
            .field("ends_unreachable", &self.is_ending_unreachable())
            .field("class", &self.class())
            .field("shield", &self.shield())
            .field("wakes", &self.wakes())
            .field("refs", &self.refs())
            .finish()
    }
}

/// The atomic state word.
#[derive(Debug)]
pub(crate) struct State(AtomicWord);

impl State {
    maybe_const! {
        /// No task.
        pub(crate) fn vacant() -> Self {
            Self(AtomicWord::new(0))
        }
    }

    /// Publishes a new task. The caller owns the slot, to which there is no reference.
    #[inline]
    pub(crate) fn publish(&self, new: Snapshot) {
        // Ordering: Release pairs with the Acquire in `apply` of a context that finds the task in its memory
        // (`hold`, `abort`). The queue that carries the `Ready` orders the first poll.
        self.0.store(new.0, Ordering::Release);
    }

    /// The current state. The caller sees everything that happened before its last transition.
    #[inline(always)]
    pub(crate) fn load(&self) -> Snapshot {
        // Ordering: Acquire pairs with the Release in `apply`: a poll that begins with `n` wakes sees what those `n`
        // wakers did; a handle that sees COMPLETE sees the output.
        Snapshot(self.0.load(Ordering::Acquire))
    }

    /// Drops a reference of a task that is complete.
    #[inline]
    pub(crate) fn drop_complete(&self) -> Action {
        // A reference is made from another reference, or by `hold`, which refuses a complete task: next to the last
        // reference no other can appear.
        // Ordering: `load` has Acquire, which pairs with the Release in `apply` of the contexts that dropped the
        // others.
        if self.load().refs() == 1 {
            return Action::Free;
        }
        self.apply(Snapshot::drop_ref)
    }

    /// Applies a transition, and publishes it even if it changes nothing: a repeated wake must still publish what its
    /// waker did before.
    #[inline(always)]
    pub(crate) fn apply<A>(&self, transition: impl Fn(Snapshot) -> (Snapshot, A)) -> A {
        // Ordering: a guess, which the exchange checks.
        let mut current = self.0.load(Ordering::Relaxed);
        loop {
            let (next, action) = transition(Snapshot(current));
            match self.exchange(current, next.0) {
                Ok(_) => return action,
                Err(seen) => current = seen,
            }
        }
    }

    /// The exchange. Small targets have no instruction for it, and need ten: there it is a call.
    #[cfg_attr(target_pointer_width = "32", inline(never))]
    #[cfg_attr(not(target_pointer_width = "32"), inline(always))]
    fn exchange(&self, current: Word, next: Word) -> Result<Word, Word> {
        // Ordering: Release publishes what the caller did before (it wrote the output or the join waker, or it
        // woke) to the Acquire of `load` and of every later `apply`. Acquire takes what earlier ones published: the
        // last reference sees all uses, `pending` sees the wakers, the joiner sees the output.
        let (set, load) = (Ordering::AcqRel, Ordering::Relaxed);
        self.0.compare_exchange_weak(current, next, set, load)
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
#[path = "state_tests.rs"]
mod tests;
