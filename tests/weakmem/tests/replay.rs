//! A seed repeats its run, and different seeds give different runs.

use core::cell::RefCell;
use std::{collections::BTreeSet, rc::Rc};

use filch_weakmem::{
    Checker, Seed, Stats, Strategy,
    atomic::{AtomicU32, Ordering::Relaxed},
    check_pct, check_random, replay,
    sync::Arc,
    thread,
};

/// Three threads, whose loads and exchanges may each go several ways.
fn program(log: &RefCell<Vec<u32>>) {
    let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let threads: Vec<_> = (1..4)
        .map(|i| {
            let words = words.clone();
            thread::spawn(move || {
                words[0].store(i, Relaxed);
                let _ = words[1].compare_exchange_weak(0, i, Relaxed, Relaxed);
                10 * words[0].load(Relaxed) + words[1].load(Relaxed)
            })
        })
        .collect();
    log.borrow_mut().extend(threads.into_iter().map(|t| t.join().unwrap()));
}

fn once(seed: Seed) -> (Stats, Vec<u32>) {
    let log = Rc::new(RefCell::new(Vec::new()));
    let other = Rc::clone(&log);
    let stats = replay(seed, move || program(&other));
    (stats, log.take())
}

#[test]
fn a_seed_gives_the_same_run_and_another_one_another() {
    for strategy in [Strategy::Random, Strategy::Pct { depth: 4, length: 60 }] {
        let (mut digests, mut logs) = (BTreeSet::new(), BTreeSet::new());
        for seed in 0..200 {
            let seed = Seed { strategy, seed };
            let first = once(seed);
            assert_eq!(first, once(seed), "{seed}");
            digests.insert(first.0.digest);
            logs.insert(first.1);
        }
        assert!(digests.len() > 150, "{} of 200 runs differ", digests.len());
        assert!(logs.len() > 10, "{logs:?}");
    }
}

#[test]
fn checks_repeat_themselves() {
    let check = || {
        let log = Rc::new(RefCell::new(Vec::new()));
        let (a, b) = (Rc::clone(&log), Rc::clone(&log));
        let stats =
            (check_random(300, move || program(&a)), check_pct(300, 3, move || program(&b)));
        (stats, log.take())
    };
    let (stats, log) = check();
    assert_eq!((stats, log), check());
    assert_eq!((stats.0.runs, stats.0.threads), (300, 4));
    assert!(stats.0.stale_reads > 0 && stats.0.spurious_failures > 0, "{}", stats.0);
    assert!(stats.0.switches > stats.1.switches, "priorities switch less");
}

#[test]
fn what_is_switched_off_does_not_happen() {
    let check = Checker::new(300).stale_reads(false).spurious(false);
    let log = Rc::new(RefCell::new(Vec::new()));
    let stats = check.run(Strategy::Random, move || program(&log));
    assert_eq!((stats.stale_reads, stats.spurious_failures, stats.spurious_wakes), (0, 0, 0));
}

#[test]
fn seeds_are_read_as_they_are_written() {
    let pct = Strategy::Pct { depth: 3, length: 120 };
    for (seed, text) in [
        (Seed { strategy: Strategy::Random, seed: 7 }, "random-7"),
        (Seed { strategy: pct, seed: u64::MAX }, "pct-3-120-18446744073709551615"),
    ] {
        assert_eq!(seed.to_string(), text);
        assert_eq!(text.parse(), Ok(seed));
    }
    for wrong in ["", "random", "random-x", "pct-3-7", "loom-1", "random-1-2"] {
        let error = wrong.parse::<Seed>().expect_err(wrong);
        assert!(error.to_string().contains("random-SEED"), "{error}");
    }
}

#[test]
fn atomics_work_outside_of_checks() {
    let word = AtomicU32::new(5);
    assert_eq!(word.fetch_add(2, Relaxed), 5);
    assert_eq!(word.compare_exchange(7, 9, Relaxed, Relaxed), Ok(7));
    assert_eq!(word.compare_exchange(7, 1, Relaxed, Relaxed), Err(9));
    assert_eq!((word.load(Relaxed), word.into_inner()), (9, 9));
    assert_eq!(thread::id(), None);
}

#[test]
fn panics_are_the_programs_own_affair_as_long_as_it_catches_them() {
    struct Unlocks(Arc<AtomicU32>);
    impl Drop for Unlocks {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let program = |catches: bool| {
        move || {
            let unwound = Arc::new(AtomicU32::new(0));
            let guard = Unlocks(unwound.clone());
            let panics = move || {
                let _guard = guard;
                std::panic::resume_unwind(Box::new("as planned"));
            };
            let thread = thread::spawn(move || {
                if catches {
                    let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(panics));
                    assert!(result.is_err());
                } else {
                    panics();
                }
            });
            thread.join().unwrap();
            assert_eq!(unwound.fetch_or(0, Relaxed), 1);
        }
    };
    check_random(500, program(true));
    let failure = Checker::new(1).find(Strategy::Random, program(false)).expect_err("it panics");
    assert!(failure.message.contains("thread 1 panicked: as planned"), "{failure}");
}

#[test]
fn a_run_that_is_failed_unwinds_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the second panic");
        }
    }
    let failure = Checker::new(1).find(Strategy::Random, || {
        let _bomb = Bomb;
        filch_weakmem::fail("the first");
    });
    assert_eq!(failure.expect_err("it fails").message, "the first");
}

#[test]
fn mutable_access_comes_after_all_others() {
    let program = |joins: bool| {
        move || {
            let word = Box::into_raw(Box::new(AtomicU32::new(1))) as usize;
            let at = word as *mut AtomicU32;
            let other = thread::spawn(move || {
                // SAFETY: the checker reports an access that comes too late.
                unsafe { &*(word as *const AtomicU32) }.store(2, Relaxed);
            });
            if joins {
                other.join().unwrap();
                // SAFETY: the other thread has ended.
                let word = unsafe { &mut *at };
                *word.get_mut() += 1;
                // This write is what later loads read.
                assert_eq!(word.load(Relaxed), 3);
            } else {
                // SAFETY: none: this is the bug, which the checker reports.
                unsafe { &mut *at }.get_mut();
                other.join().unwrap();
            }
            // SAFETY: made above, and not used any more.
            drop(unsafe { Box::from_raw(at) });
        }
    };
    check_random(500, program(true));
    let failure = Checker::new(100).find(Strategy::Random, program(false)).expect_err("a race");
    assert!(failure.message.contains("exclusive access by thread 0"), "{failure}");
}
