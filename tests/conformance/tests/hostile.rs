//! The hostile platform is unhelpful, and keeps the contract all the same.

use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use filch::{Instant, Platform, WorkerId, atomic::AtomicU32};
use filch_conformance::Hostile;

const WORKER: WorkerId = WorkerId::new(0);

/// A platform whose interrupts come at the worst time: after the hostile one has let the worker go to sleep, and before it
/// sleeps.
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

    fn wait(&self, worker: WorkerId, word: &AtomicU32, _: u32, _: Option<Instant>) {
        // A wake for a change that the worker has seen already: its interrupt has come and gone when the worker sleeps.
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
            HOSTILE.wait(WORKER, &WORD, round, None);
        }
        WORD.store(round + 1, SeqCst);
        HOSTILE.wake(WORKER, &WORD);
        assert!(WAKES.load(SeqCst) > 0, "the sleeper of round {round} sleeps on");
    }
}
