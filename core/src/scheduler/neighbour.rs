//! What a busy worker does for the others: the sentry's work, where nobody sleeps who could be one.
//!
//! At the end of a tick a worker looks at one of the others, the next in turn. One that is in the same poll as at the last look, a
//! millisecond ago or more, is stuck: its LIFO task, half of its ring and its timers go to the worker that looks. So a ready task
//! waits for no long poll, as long as one worker comes to the ends of its ticks.

use super::{
    slot::{Slots, WorkerSlot},
    timing::GRACE,
    worker::Worker,
};
use crate::{
    atomic::{AtomicU32, Ordering, maybe_const},
    instant::Instant,
    platform::Platform,
};

/// In microseconds of 1,024 nanoseconds: how long a worker is in one poll when it counts as stuck.
const STUCK: u32 = 1_000;

/// What busy workers saw of another: in which poll, and since when. Two words that need not agree: one that is taken for stuck, and
/// is not, loses nothing but a steal.
#[derive(Debug)]
pub(crate) struct Seen {
    polls: AtomicU32,
    /// In microseconds of 1,024 nanoseconds, the lowest 32 bits.
    since: AtomicU32,
}

impl Seen {
    maybe_const! {
        pub(crate) fn new() -> Self {
            Self { polls: AtomicU32::new(0), since: AtomicU32::new(0) }
        }
    }

    /// For how long the worker has been stuck in a poll, in nanoseconds, as far as is known; `None` if it is not.
    fn stuck_for(&self, polls: u32, now: Instant) -> Option<u64> {
        if polls & 1 == 0 {
            return None;
        }
        let now = (now.as_nanos() >> 10) as u32;
        // Ordering: hints, both of them.
        if self.polls.swap(polls, Ordering::Relaxed) != polls {
            self.since.store(now, Ordering::Relaxed);
        }
        let age = now.wrapping_sub(self.since.load(Ordering::Relaxed));
        (age >= STUCK).then_some(u64::from(age) << 10)
    }
}

impl<P: Platform, S, const RING: usize> Worker<P, S, RING>
where
    S: Slots<RING>,
{
    /// At the end of a tick: sees to one of the others, whose timers and tasks nobody may have seen to.
    pub(crate) fn look_after_another(&self) {
        let (executor, turn) = (self.executor, &self.slot().local.turn);
        let slots = executor.in_use();
        let index = (turn.get() + 1) % slots.len().max(1);
        turn.set(index);
        let Some(other) = slots.get(index).filter(|_| index != self.id().index()) else { return };
        // Ordering: a hint.
        let polls = other.lifo.polls.load(Ordering::Relaxed);
        let is_armed = other.timed.wheel.is_armed();
        if polls & 1 == 0 && !is_armed {
            return;
        }
        let now = executor.platform.now();
        let stuck = other.shared.seen.stuck_for(polls, now);
        if let Some(nanos) = stuck {
            self.relieve(index, other);
            self.report_long(index as u16, polls, other, nanos);
        }
        let grace = if other.is_online() && stuck.is_none() { GRACE } else { 0 };
        let late = Instant::from_nanos(now.as_nanos().saturating_sub(grace));
        if is_armed && other.timed.wheel.is_overdue(late) {
            self.expire(&other.timed.wheel, now);
        }
    }

    /// Takes what waits behind a long poll: the task in the LIFO slot, and half of the ring.
    fn relieve(&self, index: usize, stuck: &WorkerSlot<RING>) {
        if !self.executor.config.stealing() {
            return;
        }
        self.rescue(stuck);
        if let Some(ready) = self.steal_from(index, stuck) {
            self.executor.push_ring(self.slot(), ready);
        }
    }
}
