//! Sleeping on a word, as the system call of that name: the base of parking and platforms.

use core::{panic::Location, sync::atomic::Ordering::Relaxed};

use crate::{atomic::AtomicU32, races::Site, run};

/// Sleeps if the last value of `word` is `expected`, until it is woken, or returns spuriously. The
/// check and the sleep are one step. It orders nothing: the caller must check the word again.
///
/// # Panics
/// Outside of a check, if it had to sleep.
#[track_caller]
pub fn wait(word: &AtomicU32, expected: u32) {
    wait_at(word, expected, Location::caller());
}

/// Wakes one of the threads that sleep on `word`, any of them.
#[track_caller]
pub fn wake_one(word: &AtomicU32) {
    wake(word, 1, Location::caller());
}

/// Wakes all threads that sleep on `word`.
#[track_caller]
pub fn wake_all(word: &AtomicU32) {
    wake(word, usize::MAX, Location::caller());
}

pub(crate) fn wait_at(word: &AtomicU32, expected: u32, site: Site) {
    let slept = run::sleep(site, |run, _| word.locate(run, site), u64::from(expected));
    if slept.is_none() {
        assert_ne!(word.load(Relaxed), expected, "a sleep outside of a check: nobody would end it");
    }
}

fn wake(word: &AtomicU32, n: usize, site: Site) {
    run::step(site, |run, me| {
        let at = word.locate(run, site)?;
        let woken = run.wake(at, n);
        run.note(me, "wake", at, woken, site);
        Ok(())
    });
}
