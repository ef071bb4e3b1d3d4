//! The timer wheel against a sorted map: never early, none lost, and the moment that it asks for is
//! early enough.

use std::collections::BTreeSet;

use arbitrary::{Arbitrary, Unstructured};
use filch_harness::fuzzing::Wheel;

#[derive(Arbitrary)]
enum Op {
    Set {
        timer: u8,
        when: When,
    },
    Cancel(u8),
    Advance(When),
    /// To the moment that the wheel asks for, or the one before it.
    Jump(bool),
}

/// A moment, far or near.
#[derive(Arbitrary)]
enum When {
    Past(u32),
    Near(u16),
    Slots { level: u8, slots: u8, less: bool },
    Far(u64),
    End(u8),
}

struct Trial {
    wheel: Wheel,
    deadlines: Vec<Option<u64>>,
    /// Deadlines, and the timer of each.
    model: BTreeSet<(u64, usize)>,
    now: u64,
    tick: u32,
}

pub(crate) fn run(input: &mut Unstructured<'_>) {
    // A tick that a configuration allows.
    let tick = 10 + u32::from(crate::value::<u8>(input)) % 21;
    let timers = 1 + usize::from(crate::value::<u8>(input)) % 96;
    let mut trial = Trial {
        wheel: Wheel::new(timers, tick),
        deadlines: vec![None; timers],
        model: BTreeSet::new(),
        now: 0,
        tick,
    };
    for op in crate::operations(input, 1_000) {
        trial.step(op);
    }
}

impl Trial {
    fn step(&mut self, op: Op) {
        match op {
            Op::Set { timer, when } => self.set(timer, self.moment(when)),
            Op::Cancel(timer) => self.cancel(timer),
            Op::Advance(when) => self.advance(self.moment(when)),
            Op::Jump(before) => {
                if let Some(next) = self.wheel.next() {
                    self.advance(next - u64::from(before && next > 0));
                }
            }
        }
        assert_eq!(self.wheel.is_armed(), !self.model.is_empty());
    }

    fn moment(&self, when: When) -> u64 {
        let moment = match when {
            When::Past(by) => self.now.saturating_sub(by.into()),
            When::Near(by) => self.now.saturating_add(by.into()),
            // The edges of slots, on all levels and above.
            When::Slots { level, slots, less } => {
                let shift = (self.tick + 6 * (u32::from(level) % 8)).min(60);
                let edge = ((self.now >> shift) + u64::from(slots % 130)).checked_shl(shift);
                edge.filter(|edge| edge >> shift != 0).unwrap_or(0).saturating_sub(less.into())
            }
            When::Far(at) => self.now.saturating_add(at >> (at % 64)),
            When::End(before) => u64::MAX - u64::from(before),
        };
        // A moment that never comes is never asked for.
        moment.min(u64::MAX - 1)
    }

    fn first(&self) -> u64 {
        self.model.first().map_or(u64::MAX, |(first, _)| *first)
    }

    fn set(&mut self, timer: u8, deadline: u64) {
        let i = usize::from(timer) % self.deadlines.len();
        let is_first = match self.deadlines[i].replace(deadline) {
            None => {
                assert_eq!(self.wheel.reset(i, deadline), None, "it is not in the wheel");
                self.wheel.insert(i, deadline)
            }
            Some(old) => {
                self.model.remove(&(old, i));
                self.wheel.reset(i, deadline).expect("it has not fired")
            }
        };
        assert!(!is_first || deadline < self.first(), "told of one that is not the first");
        assert!(self.wheel.next().is_some_and(|next| next <= deadline));
        self.model.insert((deadline, i));
    }

    fn cancel(&mut self, timer: u8) {
        let i = usize::from(timer) % self.deadlines.len();
        let deadline = self.deadlines[i].take();
        assert_eq!(self.wheel.remove(i), deadline.is_some());
        self.model.remove(&(deadline.unwrap_or_default(), i));
    }

    /// Moves the clock forwards; exactly the due timers must fire.
    fn advance(&mut self, to: u64) {
        self.now = self.now.max(to);
        if self.first() <= self.now {
            assert!(self.wheel.is_overdue(self.now));
        }
        let mut fired = self.wheel.expire(self.now);
        fired.sort_unstable();
        let later = self.model.split_off(&(self.now + 1, 0));
        let due = core::mem::replace(&mut self.model, later);
        let mut due: Vec<_> = due.into_iter().map(|(_, i)| i).collect();
        due.sort_unstable();
        assert_eq!(fired, due, "at {}", self.now);
        due.into_iter().for_each(|i| self.deadlines[i] = None);
        // The wheel asks for a moment in the future, and not after the next deadline.
        let next = self.wheel.next().unwrap_or(u64::MAX);
        assert!(next > self.now && next <= self.first(), "{next} at {}", self.now);
    }
}
