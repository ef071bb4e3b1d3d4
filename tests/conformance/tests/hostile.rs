//! The hostile platform is unhelpful, and keeps the contract all the same.

use core::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};
use std::thread;

use filch::{Instant, Platform, WorkerId, atomic::AtomicU32};
use filch_conformance::Hostile;
use filch_test_support::watchdog;

const WORKER: WorkerId = WorkerId::new(0);

/// A platform whose interrupts come at the worst time: after the hostile one has let the worker
/// sleep, and before it sleeps.
struct Late;

static HOSTILE: Hostile<Late> = Hostile::new(Late, 1);
static WORD: AtomicU32 = AtomicU32::new(0);
static SLEEPS: AtomicUsize = AtomicUsize::new(0);
static WAKES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: one thread, which is the one worker; none of the waits sleeps, so that no wake can be lost.
unsafe impl Platform for Late {
    fn now(&self) -> Instant {
        Instant::from_nanos(0)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        Some(WORKER)
    }

    unsafe fn wait(&self, worker: WorkerId, word: &AtomicU32, _: u32, _: Option<Instant>) {
        // A wake for a change that the worker has already seen: its interrupt has been handled
        // before the worker sleeps.
        HOSTILE.wake(worker, word);
        SLEEPS.fetch_add(1, SeqCst);
        WAKES.store(0, SeqCst);
    }

    fn wake(&self, _: WorkerId, _: &AtomicU32) {
        WAKES.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_wake_of_a_sleeper_is_passed_on() {
    for round in 0..100 {
        let slept = SLEEPS.load(SeqCst);
        // Some of its waits end at once.
        while SLEEPS.load(SeqCst) == slept {
            // SAFETY: this is the only thread.
            unsafe { HOSTILE.wait(WORKER, &WORD, round, None) };
        }
        WORD.store(round + 1, SeqCst);
        HOSTILE.wake(WORKER, &WORD);
        assert!(WAKES.load(SeqCst) > 0, "the sleeper of round {round} sleeps on");
    }
}

/// A platform that records for each thread whether its wake came through.
struct Through;

thread_local!(static CAME: Cell<u32> = const { Cell::new(0) });

// SAFETY: no worker runs over it.
unsafe impl Platform for Through {
    fn now(&self) -> Instant {
        Instant::from_nanos(0)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        None
    }

    unsafe fn wait(&self, _: WorkerId, _: &AtomicU32, _: u32, _: Option<Instant>) {}

    fn wake(&self, _: WorkerId, _: &AtomicU32) {
        CAME.set(CAME.get() + 1);
    }
}

#[test]
fn wakes_at_once_become_one_and_others_two() {
    let _watchdog = watchdog();
    let (hostile, word) = (Hostile::new(Through, 1), AtomicU32::new(0));
    // How often none, one and two of a wake came through.
    let seen = [const { AtomicUsize::new(0) }; 3];
    let wakes = || {
        while seen.iter().any(|count| count.load(SeqCst) == 0) {
            CAME.set(0);
            hostile.wake(WORKER, &word);
            seen[CAME.get() as usize].fetch_add(1, SeqCst);
        }
    };
    thread::scope(|scope| {
        scope.spawn(wakes);
        scope.spawn(wakes);
    });
}
