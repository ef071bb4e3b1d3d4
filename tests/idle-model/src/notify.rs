//! `Scheduler::notify` and `Scheduler::wake_worker`: step by step.

use crate::{Action, State, Variant};

/// The worker that a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// `Idle::claim_any`: this one, or otherwise another.
    Any(usize),
    /// `Idle::claim`, only of this one: it has mail.
    Only(usize),
}

/// The next step of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notify {
    /// `Idle::must_notify`: is there a searcher?
    MustNotify,
    /// The same for a claim that came too late, whose count may have turned other contexts away.
    MustNotifyAfter,
    /// `Idle::must_notify`: is there a sleeper?
    AnyParked,
    /// `Idle::claim_any`: which worker sleeps?
    ClaimAny,
    /// `Idle::claim`: does it sleep?
    IsParked(Target),
    /// `Idle::claim`: counts it as searching.
    CountUp(Target),
    /// `Idle::clear`: clears its bit.
    Clear(Target),
    /// `Idle::claim`: the worker woke by itself meanwhile.
    CountDown(Target),
    /// `Scheduler::wake_worker` after `Claim::Missed`: `Scheduler::has_work_for_any`: is there a task in this queue?
    HasWork {
        /// The injector, or a worker's ring.
        queue: usize,
        /// The worker that the claim was for.
        of: usize,
    },
    /// `Scheduler::unpark`.
    Unpark(usize),
    /// The claim is counted only now, in [`Variant::CountedLate`].
    CountLate(usize),
}

impl Target {
    fn worker(self) -> usize {
        match self {
            Self::Any(worker) | Self::Only(worker) => worker,
        }
    }
}

impl Notify {
    /// `Scheduler::wake_worker`.
    pub(crate) fn call(worker: usize) -> Self {
        Self::IsParked(Target::Only(worker))
    }

    /// It has done nothing yet that other contexts could rely on.
    pub(crate) fn is_first(self) -> bool {
        matches!(self, Self::MustNotify | Self::IsParked(Target::Only(_)))
    }

    /// This worker's bit is clear, and it is about to be unparked.
    pub(crate) fn claims(self, worker: usize) -> bool {
        self == Self::Unpark(worker) || self == Self::CountLate(worker)
    }

    /// It is counted as searching on behalf of the worker that it claims.
    pub(crate) fn is_counted(self) -> bool {
        matches!(self, Self::Clear(_) | Self::CountDown(_))
    }

    /// The possible next actions: `step`, or the choice of a sleeper.
    pub(crate) fn choices<const WORKERS: usize>(
        self,
        state: &State<WORKERS>,
        by: usize,
        step: Action,
        actions: &mut Vec<Action>,
    ) {
        if self != Self::ClaimAny || state.parked == 0 {
            return actions.push(step);
        }
        let sleepers = (0..WORKERS).filter(|me| state.parked & 1 << me != 0);
        actions.extend(sleepers.map(|sleeper| Action::Claim(by, sleeper)));
    }

    /// Does the step; returns the next one, if it was not the last.
    pub(crate) fn step<const WORKERS: usize>(
        self,
        variant: Variant,
        state: &mut State<WORKERS>,
    ) -> Option<Self> {
        let sleeps = |target: Target| state.parked & 1 << target.worker() != 0;
        match self {
            Self::MustNotify | Self::MustNotifyAfter => {
                (state.searching == 0).then_some(Self::AnyParked)
            }
            Self::AnyParked => (state.parked != 0).then_some(Self::ClaimAny),
            // No worker sleeps any more: see `choices`.
            Self::ClaimAny => None,
            Self::IsParked(target) if !sleeps(target) => Self::is_awake(target),
            Self::IsParked(target) if variant == Variant::CountedLate => Some(Self::Clear(target)),
            Self::IsParked(target) => Some(Self::CountUp(target)),
            Self::CountUp(target) => {
                state.searching += 1;
                Some(Self::Clear(target))
            }
            Self::Clear(target) => {
                let slept = sleeps(target);
                state.parked &= !(1 << target.worker());
                match (slept, variant) {
                    (true, Variant::NoUnpark) => None,
                    (true, Variant::CountedLate) => Some(Self::CountLate(target.worker())),
                    (true, _) => Some(Self::Unpark(target.worker())),
                    (false, Variant::CountedLate) => Self::is_awake(target),
                    (false, _) => Some(Self::CountDown(target)),
                }
            }
            Self::CountDown(target) => {
                state.count_down();
                match target {
                    _ if variant == Variant::MissedForgotten => None,
                    Target::Any(_) => Self::is_awake(target),
                    Target::Only(of) => {
                        (state.searching == 0).then_some(Self::HasWork { queue: 0, of })
                    }
                }
            }
            Self::HasWork { queue, of } => {
                let left_out = variant == Variant::MissedOwn && queue == of + 1;
                if !left_out && state.has_task(queue) {
                    return Some(Self::MustNotifyAfter);
                }
                (queue < WORKERS).then_some(Self::HasWork { queue: queue + 1, of })
            }
            Self::Unpark(worker) => {
                state.notified |= 1 << worker;
                None
            }
            Self::CountLate(worker) => {
                state.searching = state.searching.wrapping_add(1);
                Some(Self::Unpark(worker))
            }
        }
    }

    /// The claimed worker does not sleep; another may.
    fn is_awake(target: Target) -> Option<Self> {
        matches!(target, Target::Any(_)).then_some(Self::ClaimAny)
    }
}
