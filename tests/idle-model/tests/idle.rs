//! Every state of the protocol, and the effect of each planted bug.

use std::time::Instant;

use filch_idle_model::{CLAIMED, COUNT, DEADLOCK, Idle, MAIL, STRANDED, Variant, tell};
use stateright::{Checker, HasDiscoveries, Model};

const TWO: Idle<2> = Idle { variant: Variant::Sound, pushes: 2, mail: 1, spawns: 1, spurious: 0 };
const THREE: Idle<3> = Idle { variant: Variant::Sound, pushes: 1, mail: 0, spawns: 1, spurious: 0 };

/// Checks every state.
fn holds<const WORKERS: usize>(model: Idle<WORKERS>) {
    let begin = Instant::now();
    let checker = model.checker().threads(2).spawn_bfs().join();
    let (states, time) = (checker.unique_state_count(), begin.elapsed().as_secs_f32());
    println!("{WORKERS} workers, {model:?}: {states} states, {time:.1} s");
    checker.assert_properties();
}

/// Searches for the shortest path to a state in which the property does not hold.
fn breaks<const WORKERS: usize>(model: Idle<WORKERS>, property: &'static str) {
    let begin = Instant::now();
    let checker =
        model.checker().finish_when(HasDiscoveries::AnyOf([property].into())).spawn_bfs().join();
    let (states, time) = (checker.unique_state_count(), begin.elapsed().as_secs_f32());
    println!("{WORKERS} workers, {model:?}: {states} states, {time:.1} s");
    let path = checker.discovery(property).expect("a state in which it is not true");
    println!("It is not true that {property}:\n{}", tell(path));
}

#[test]
fn two_workers() {
    holds(TWO);
}

#[test]
fn two_workers_of_which_one_wakes_by_itself() {
    holds(Idle { pushes: 1, spurious: 1, ..TWO });
}

#[test]
fn three_workers() {
    holds(THREE);
}

#[test]
#[ignore = "ten million states: a minute or two, and some gigabytes"]
fn more() {
    holds(Idle { pushes: 3, spurious: 1, ..TWO });
    holds(Idle { pushes: 2, spawns: 0, ..THREE });
    holds(Idle { pushes: 1, mail: 1, spawns: 0, ..THREE });
}

#[test]
fn who_parks_must_look_again() {
    breaks(Idle { variant: Variant::NoRecheck, ..TWO }, STRANDED);
}

/// The gap of the protocol in Tokio and others: a worker that was refused the searcher's role.
#[test]
fn who_was_no_searcher_must_look_again() {
    breaks(Idle { variant: Variant::SearchersRecheck, ..TWO }, STRANDED);
    breaks(Idle { variant: Variant::SearchersRecheck, ..THREE }, STRANDED);
}

/// The bug that simulation found: a worker sees work on its way to sleep, and runs a task of its
/// own.
#[test]
fn who_sees_work_on_its_way_to_sleep_is_a_searcher() {
    breaks(Idle { variant: Variant::NoSearcher, ..TWO }, STRANDED);
}

#[test]
fn the_last_searcher_must_look_again() {
    breaks(Idle { variant: Variant::NoLookOnStop, ..TWO }, STRANDED);
}

#[test]
fn a_claim_that_comes_too_late_must_look_again() {
    breaks(Idle { variant: Variant::MissedForgotten, ..TWO }, STRANDED);
}

/// The bug that a review found in the code.
#[test]
fn a_claim_that_comes_too_late_must_look_everywhere() {
    breaks(Idle { variant: Variant::MissedOwn, ..TWO }, STRANDED);
}

#[test]
fn a_claim_is_counted_first() {
    breaks(Idle { variant: Variant::CountedLate, ..TWO }, COUNT);
}

#[test]
fn who_was_claimed_is_a_searcher() {
    breaks(Idle { variant: Variant::ClaimForgotten, ..TWO }, COUNT);
}

#[test]
fn who_parks_looks_at_its_mail() {
    breaks(Idle { variant: Variant::NoMailLook, ..TWO }, MAIL);
}

#[test]
fn who_claims_a_sleeper_unparks_it() {
    breaks(Idle { variant: Variant::NoUnpark, ..TWO }, CLAIMED);
    breaks(Idle { variant: Variant::NoUnpark, ..TWO }, DEADLOCK);
}
