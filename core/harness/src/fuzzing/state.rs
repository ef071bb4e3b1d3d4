//! The state word, with its transitions by name.

use crate::task::state::{Action, AfterComplete, AfterPending, Snapshot, State as Word};

/// The state word of one task.
pub struct State(Word);

/// A transition.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "named as in `task::state`")]
pub enum Move {
    Wake,
    WakeByValue,
    Abort,
    AbortOnce,
    DropRef,
    CloneRef,
    Upgrade,
    Pending(u64),
    Complete,
    CompleteDetached,
    SetJoinWaker,
    UnsetJoinWaker,
    Detach,
    ShieldEnter,
    ShieldExit,
}

/// What a transition asks of its caller: the actions of all transitions in one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in `task::state`")]
pub enum Answer {
    None,
    Schedule,
    Free,
    Idle,
    Again,
    Cancel,
    Released,
    WakeJoiner,
    DropOutput,
    Refused,
}

/// The fields of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in `task::state`")]
pub struct Look {
    pub live: bool,
    pub cancelled: bool,
    pub must_cancel: bool,
    pub join_interest: bool,
    pub join_waker: bool,
    pub shield: u64,
    pub wakes: u64,
    pub refs: u64,
    word: Snapshot,
}

impl State {
    /// The state of a new task, and whether it ends when nothing can wake it any more.
    pub fn spawned(ends_unreachable: bool) -> Self {
        let word = Word::vacant();
        let spawned = Snapshot::spawned(false);
        word.publish(if ends_unreachable { spawned.ending_unreachable() } else { spawned });
        Self(word)
    }
    /// Reads the fields.
    #[allow(clippy::useless_conversion, reason = "the word is narrower on some targets")]
    pub fn look(&self) -> Look {
        let s = self.0.load();
        Look {
            live: s.is_live(),
            cancelled: s.is_cancelled(),
            must_cancel: s.must_cancel(),
            join_interest: s.has_join_interest(),
            join_waker: s.has_join_waker(),
            shield: u64::from(s.shield()),
            wakes: u64::from(s.wakes()),
            refs: u64::from(s.refs()),
            word: s,
        }
    }
    /// Whether a poll that began with the word `seen` is to be repeated at once.
    pub fn is_again(&self, seen: Look) -> bool {
        self.0.load().is_again(seen.word)
    }
    /// Drops a reference of a complete task.
    pub fn drop_complete(&self) -> Answer {
        action(self.0.drop_complete())
    }
    /// Makes a transition.
    pub fn apply(&self, step: Move) -> Answer {
        let word = &self.0;
        match step {
            Move::Wake => action(word.apply(Snapshot::wake)),
            Move::WakeByValue => action(word.apply(Snapshot::wake_by_value)),
            Move::Abort => action(word.apply(Snapshot::abort)),
            Move::AbortOnce => action(word.apply(Snapshot::abort_once)),
            Move::DropRef => action(word.apply(Snapshot::drop_ref)),
            Move::CloneRef => {
                word.apply(Snapshot::clone_ref);
                Answer::None
            }
            Move::Upgrade => {
                word.apply(Snapshot::upgrade).map_or(Answer::Refused, |()| Answer::None)
            }
            Move::Pending(seen) => pend(word.apply(|s| s.pending(seen as _))),
            Move::Complete => done(word.apply(Snapshot::complete)),
            Move::CompleteDetached => action(word.apply(Snapshot::complete_detached)),
            Move::SetJoinWaker => {
                word.apply(Snapshot::set_join_waker).map_or(Answer::Refused, |()| Answer::None)
            }
            Move::UnsetJoinWaker => {
                word.apply(Snapshot::unset_join_waker).map_or(Answer::Refused, |()| Answer::None)
            }
            Move::Detach => word.apply(Snapshot::detach).map_or(Answer::Refused, action),
            Move::ShieldEnter => {
                word.apply(Snapshot::shield_enter);
                Answer::None
            }
            Move::ShieldExit => action(word.apply(Snapshot::shield_exit)),
        }
    }
}

fn action(action: Action) -> Answer {
    match action {
        Action::None => Answer::None,
        Action::Schedule => Answer::Schedule,
        Action::Free => Answer::Free,
    }
}

fn pend(pend: AfterPending) -> Answer {
    match pend {
        AfterPending::Idle => Answer::Idle,
        AfterPending::Again => Answer::Again,
        AfterPending::Cancel => Answer::Cancel,
    }
}

fn done(done: AfterComplete) -> Answer {
    match done {
        AfterComplete::Released => Answer::Released,
        AfterComplete::WakeJoiner => Answer::WakeJoiner,
        AfterComplete::DropOutput => Answer::DropOutput,
    }
}
