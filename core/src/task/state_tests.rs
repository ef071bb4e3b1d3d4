//! Checks every transition from every class of state against an automaton with plain fields.

extern crate alloc;
use alloc::{vec, vec::Vec};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Model {
    life: Word,
    cancelled: bool,
    interest: bool,
    waker: bool,
    pinned: bool,
    ends: bool,
    shield: Word,
    wakes: Word,
    refs: Word,
}

impl Model {
    fn word(self) -> Snapshot {
        let mut s = Snapshot(LIFE.set(0, self.life));
        for (on, bit) in [
            (self.cancelled, CANCELLED),
            (self.interest, JOIN_INTEREST),
            (self.waker, JOIN_WAKER),
            (self.pinned, BOUND),
            (self.ends, ENDS_UNREACHABLE),
        ] {
            s.0 |= if on { bit } else { 0 };
        }
        s.with(SHIELD, self.shield).with(WAKES, self.wakes).with(REFS, self.refs)
    }

    fn of(s: Snapshot) -> Self {
        Self {
            life: LIFE.get(s.0),
            cancelled: s.is_cancelled(),
            interest: s.has_join_interest(),
            waker: s.has_join_waker(),
            pinned: s.is_bound(),
            ends: s.is_ending_unreachable(),
            shield: s.shield(),
            wakes: s.wakes(),
            refs: s.refs(),
        }
    }

    fn more_refs(mut self) -> Self {
        self.refs = (self.refs + 1).min(REFS.max());
        self
    }

    fn fewer_refs(mut self) -> Self {
        if self.refs != REFS.max() {
            self.refs -= 1;
        }
        self
    }

    fn more_wakes(mut self) -> Self {
        self.wakes = (self.wakes + 1).min(WAKES.max());
        self
    }

    fn dropped(self) -> (Self, Action) {
        let next = self.fewer_refs();
        match (next.refs, self.life) {
            (0, LIVE) if self.ends => {
                (Self { cancelled: true, wakes: 1, refs: 1, ..next }, Action::Schedule)
            }
            (0, LIVE) => (next, Action::None),
            (0, _) => (next, Action::Free),
            _ => (next, Action::None),
        }
    }

    fn woken(self) -> (Self, Action) {
        match (self.life, self.wakes) {
            (LIVE, 0) => (Self { wakes: 1, ..self }.more_refs(), Action::Schedule),
            (LIVE, _) => (self.more_wakes(), Action::None),
            _ => (self, Action::None),
        }
    }
}

/// All lives and all flags, with the counters at and around their limits.
fn all() -> Vec<Model> {
    let ends = |max: Word| vec![0, 1, 2, 3, max - 1, max];
    let mut states = vec![];
    for life in [0, LIVE, COMPLETE] {
        for flags in 0..32 {
            for shield in ends(SHIELD.max()) {
                for wakes in ends(WAKES.max()) {
                    for refs in ends(REFS.max()) {
                        let on = |bit: u32| flags >> bit & 1 == 1;
                        let (cancelled, interest, waker) = (on(0), on(1), on(2));
                        states.push(Model {
                            life,
                            cancelled,
                            interest,
                            waker,
                            pinned: on(3),
                            ends: on(4),
                            shield,
                            wakes,
                            refs,
                        });
                    }
                }
            }
        }
    }
    states
}

fn check<A: PartialEq + core::fmt::Debug>(
    applies: impl Fn(&Model) -> bool,
    real: impl Fn(Snapshot) -> (Snapshot, A),
    model: impl Fn(Model) -> (Model, A),
) {
    let mut checked = 0;
    for before in all().into_iter().filter(applies) {
        assert_eq!(Model::of(before.word()), before, "fields do not overlap");
        let (after, action) = real(before.word());
        let (wanted, wanted_action) = model(before);
        assert_eq!((Model::of(after), action), (wanted, wanted_action), "from {before:?}");
        assert_eq!(after, wanted.word(), "no stray bits from {before:?}");
        checked += 1;
    }
    assert!(checked > 400, "only {checked} states");
}

fn referenced(m: &Model) -> bool {
    m.refs >= 1
}
fn owned(m: &Model) -> bool {
    m.refs >= 1 && m.life == LIVE && m.wakes >= 1
}

#[test]
fn wakes() {
    check(referenced, Snapshot::wake, Model::woken);
    // A waker that is woken by value holds a reference besides the `Ready`'s.
    check(
        |m| m.refs >= 2 || m.refs >= 1 && (m.life != LIVE || m.wakes == 0),
        Snapshot::wake_by_value,
        |m| match (m.life, m.wakes) {
            (LIVE, 0) => (Model { wakes: 1, ..m }, Action::Schedule),
            (LIVE, _) => (m.more_wakes().fewer_refs(), Action::None),
            _ => m.dropped(),
        },
    );
}

#[test]
fn aborts_and_references() {
    check(
        |_| true,
        Snapshot::abort,
        |m| {
            if m.life == LIVE { Model { cancelled: true, ..m }.woken() } else { (m, Action::None) }
        },
    );
    check(
        |_| true,
        Snapshot::abort_once,
        |m| match m {
            Model { life: LIVE, cancelled: false, .. } => Model { cancelled: true, ..m }.woken(),
            _ => (m, Action::None),
        },
    );
    check(referenced, Snapshot::drop_ref, Model::dropped);
    check(referenced, Snapshot::clone_ref, |m| (m.more_refs(), ()));
    check(
        |_| true,
        Snapshot::hold,
        |m| if m.life == LIVE { (m.more_refs(), true) } else { (m, false) },
    );
    check(
        |_| true,
        Snapshot::upgrade,
        |m| match m.life {
            LIVE if m.refs >= REFS.max() - 1 => (m, Err(Upgrade::Limit)),
            LIVE => (m.more_refs(), Ok(())),
            _ => (m, Err(Upgrade::Vacant)),
        },
    );
}

#[test]
fn ends_of_polls() {
    for seen in [1, 2, 3, WAKES.max() - 1, WAKES.max()] {
        check(
            |m| owned(m) && m.wakes >= seen,
            |s| {
                let (next, pend) = s.pending(seen);
                assert!(
                    !s.is_again(Snapshot::with_wakes(seen)) || pend == AfterPending::Again,
                    "{s:?}"
                );
                (next, pend)
            },
            |m| {
                if m.cancelled && m.shield == 0 {
                    (m, AfterPending::Cancel)
                } else if m.wakes > seen || m.wakes == WAKES.max() {
                    (Model { wakes: 1, ..m }, AfterPending::Again)
                } else if m.refs == 1 && m.ends {
                    (Model { cancelled: true, ..m }, AfterPending::Cancel)
                } else {
                    (Model { wakes: 0, ..m }.fewer_refs(), AfterPending::Idle)
                }
            },
        );
    }
    check(owned, Snapshot::complete, |m| {
        let done = Model { life: COMPLETE, wakes: 0, ..m };
        match (m.waker, m.interest) {
            (true, _) => (done, AfterComplete::WakeJoiner),
            (false, true) => (done.fewer_refs(), AfterComplete::Released),
            (false, false) => (done, AfterComplete::DropOutput),
        }
    });
    check(owned, Snapshot::complete_detached, |m| {
        Model { life: COMPLETE, wakes: 0, ..m }.dropped()
    });
}

#[test]
fn joins() {
    let unless_complete = |f: fn(Model) -> Model| {
        move |m: Model| if m.life == COMPLETE { (m, Err(Completed)) } else { (f(m), Ok(())) }
    };
    check(referenced, Snapshot::set_join_waker, unless_complete(|m| Model { waker: true, ..m }));
    check(referenced, Snapshot::unset_join_waker, unless_complete(|m| Model { waker: false, ..m }));
    check(referenced, Snapshot::detach, |m| {
        if m.life == COMPLETE {
            return (m, Err(Completed));
        }
        let (next, action) = Model { interest: false, ..m }.dropped();
        (next, Ok(action))
    });
}

#[test]
fn the_last_reference_of_a_complete_task_goes_without_a_transition() {
    let state = State::vacant();
    for refs in [1, 2, 3, REFS.max()] {
        let complete = Snapshot(0).with(LIFE, COMPLETE).with(REFS, refs);
        state.publish(complete);
        let action = state.drop_complete();
        assert_eq!(action, complete.drop_ref().1, "{refs} references");
        assert_eq!(state.load().refs(), if refs == 1 { 1 } else { complete.drop_ref().0.refs() });
    }
}

#[test]
fn shields_saturate() {
    check(referenced, Snapshot::shield_enter, |m| {
        (Model { shield: (m.shield + 1).min(SHIELD.max()), ..m }.more_refs(), ())
    });
    check(
        |m| m.shield >= 1 && m.refs >= 1,
        Snapshot::shield_exit,
        |m| {
            let shield = if m.shield == SHIELD.max() { m.shield } else { m.shield - 1 };
            let next = Model { shield, ..m };
            if m.life == LIVE && m.cancelled && shield == 0 && m.wakes == 0 {
                return (Model { wakes: 1, ..next }, Action::Schedule);
            }
            next.dropped()
        },
    );
}

#[test]
fn a_new_task_is_scheduled_with_two_references() {
    for pinned in [false, true] {
        let wanted = Model {
            life: LIVE,
            cancelled: false,
            interest: true,
            waker: false,
            pinned,
            ends: false,
            shield: 0,
            wakes: 1,
            refs: 2,
        };
        assert_eq!(Snapshot::spawned(pinned), wanted.word());
        let wanted = Model { ends: true, ..wanted };
        assert_eq!(Snapshot::spawned(pinned).ending_unreachable(), wanted.word());
    }
}

/// The slot is never freed under a reference once the count has saturated, whatever follows.
#[test]
fn a_saturated_reference_count_sticks() {
    let mut s = Snapshot::spawned(false).with(REFS, REFS.max());
    for _ in 0..5 {
        s = s.drop_ref().0;
    }
    assert!(s.has_saturated_refs());
    assert_eq!(s.with(LIFE, COMPLETE).drop_ref().1, Action::None);
}
