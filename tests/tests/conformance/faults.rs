//! Ports with planted bugs, each of which the suite sees, in the check that is for it.

use core::{sync::atomic::Ordering::SeqCst, time::Duration};
use std::sync::{Mutex, MutexGuard, PoisonError};

use filch_conformance::Port;
use filch_std::runtime::{Futex, Host};

use crate::{
    NO_NETS, contracts,
    faulty::{Fault, Faulty, GUARD_SEEN, HANG_SEEN},
    my_turn, threads,
    threads::Threads,
};

/// What a suite has printed.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lines() -> MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn port() -> Port {
    let mut port = threads::port(|line| {
        let line = line.to_string();
        println!("{line}");
        HANG_SEEN.fetch_or(line.starts_with("hang"), SeqCst);
        GUARD_SEEN.fetch_or(line.contains("guard contains a panic"), SeqCst);
        lines().push(line);
    });
    port.patience = Duration::from_secs(2);
    port
}

/// The suite reports this bug by these lines, in this order, and by no others.
fn is_seen_on<H: Host, const N: usize>(fault: Fault, expected: &[&str]) {
    let _turn = my_turn();
    let _watchdog = filch_test_support::watchdog();
    lines().clear();
    let platform = Faulty::new(Threads::<H>::new(), fault);
    let (_, suite, ended) = contracts::<_, N>(platform, port(), NO_NETS);
    assert_eq!(ended.is_err(), fault == Fault::GuardLetsThrough);
    let lines = lines();
    let reports = lines.iter().filter(|line| line.starts_with("FAIL") || line.starts_with("hang"));
    assert_eq!(reports.collect::<Vec<_>>(), expected, "{fault:?}");
    let failed = expected.iter().filter(|line| line.starts_with("FAIL")).count();
    assert_eq!(suite.verdict().1 as usize, failed);
}

fn is_seen(fault: Fault, expected: &[&str]) {
    is_seen_on::<Futex, 2>(fault, expected);
}

const LATE: &str = "FAIL a wait ends at its deadline";
const SHORT: &str = "FAIL a wait sleeps until its deadline";
const FAR: &str = "FAIL a wait with a far deadline sleeps until it is woken";
const GUARD: &str = "FAIL guard contains a panic, once, and keeps its message";
const ONCE: &str = "FAIL a poll runs once under guard";

#[test]
fn late_deadlines_are_seen() {
    is_seen(Fault::Late, &[LATE]);
    is_seen_on::<filch_linux::runtime::Linux, 2>(Fault::ListensLate, &[LATE]);
}

#[test]
fn a_timer_and_a_clock_of_different_speeds_are_seen() {
    is_seen(Fault::HalfRate, &[LATE]);
    is_seen(Fault::FastClock, &[LATE]);
    is_seen(Fault::SlowClock, &[SHORT]);
}

#[test]
fn far_deadlines_that_do_not_sleep_are_seen() {
    is_seen(Fault::Truncates, &[FAR]);
    is_seen(Fault::RoundsOver, &[FAR]);
    is_seen(Fault::FarIsPast, &[FAR]);
    let block = "FAIL a block with a far deadline sleeps until it is unblocked";
    is_seen(Fault::FarBlockIsPast, &[block]);
}

#[test]
fn far_deadlines_that_no_wake_ends_are_seen() {
    let what = "hang a wait with a far deadline sleeps until it is woken: core 0 sleeps on";
    is_seen(Fault::FarSleepsOn, &[what]);
}

#[test]
fn a_lock_in_wake_is_seen() {
    let what =
        "hang an interrupt handler may wake in the midst of a wake: core 0: core 0 is still in it";
    is_seen(Fault::WakeLocks, &[what]);
}

#[test]
fn guards_that_do_not_run_a_poll_once_are_seen() {
    is_seen(Fault::GuardsTwice, &[ONCE]);
    is_seen(Fault::GuardsNothing, &[ONCE, GUARD]);
}

#[test]
fn guards_that_do_not_contain_a_panic_are_seen() {
    // The panic ends the thread, and with it the checks.
    is_seen_on::<Futex, 1>(Fault::GuardLetsThrough, &[GUARD]);
    is_seen(Fault::GuardRetries, &[GUARD]);
    is_seen(Fault::GuardSwallows, &[GUARD]);
    is_seen(Fault::GuardLosesPayload, &[GUARD]);
    is_seen(Fault::ResumesAnother, &[GUARD]);
}
