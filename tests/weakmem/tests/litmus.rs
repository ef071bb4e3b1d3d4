//! Small programs whose outcomes the C++20 model allows or forbids. Each allowed outcome that the
//! model covers must occur, and a forbidden one must not.

use core::cell::RefCell;
use std::{collections::BTreeSet, rc::Rc};

use filch_weakmem::{
    Checker, Strategy,
    atomic::{
        AtomicBool, AtomicU32,
        Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst},
        fence,
    },
    sync::Arc,
    thread,
};

/// All results of `f`, in random schedules and in those of bounded depth.
fn outcomes<T: Ord + 'static>(f: impl Fn() -> T + 'static) -> BTreeSet<T> {
    let (seen, f) = (Rc::new(RefCell::new(BTreeSet::new())), Rc::new(f));
    for strategy in [Strategy::Random, Strategy::Pct { depth: 3, length: 20 }] {
        let (seen, f) = (Rc::clone(&seen), Rc::clone(&f));
        let run = move || {
            let outcome = f();
            seen.borrow_mut().insert(outcome);
        };
        Checker::new(1_500).run(strategy, run);
    }
    seen.take()
}

/// The variables of a test.
#[derive(Default)]
struct Vars {
    x: AtomicU32,
    y: AtomicU32,
    ready: AtomicBool,
}

fn two<A: 'static, B: 'static>(
    first: impl Fn(&Vars) -> A + Clone + 'static,
    second: impl Fn(&Vars) -> B + Clone + 'static,
) -> (A, B) {
    let vars = Arc::new(Vars::default());
    let a = thread::spawn({
        let vars = vars.clone();
        move || first(&vars)
    });
    let b = thread::spawn(move || second(&vars));
    (a.join().unwrap(), b.join().unwrap())
}

fn set<T: Ord, const N: usize>(all: [T; N]) -> BTreeSet<T> {
    BTreeSet::from(all)
}

fn message_passing(store: Ordering, load: Ordering) -> BTreeSet<(bool, u32)> {
    outcomes(move || {
        let write = move |v: &Vars| {
            v.x.store(1, Relaxed);
            v.ready.store(true, store);
        };
        two(write, move |v| (v.ready.load(load), v.x.load(Relaxed))).1
    })
}

#[test]
fn message_passing_needs_both_sides() {
    let ordered = set([(false, 0), (false, 1), (true, 1)]);
    let mut all = ordered.clone();
    all.insert((true, 0));
    assert_eq!(message_passing(Release, Acquire), ordered);
    assert_eq!(message_passing(SeqCst, SeqCst), ordered);
    assert_eq!(message_passing(Relaxed, Acquire), all);
    assert_eq!(message_passing(Release, Relaxed), all);
    assert_eq!(message_passing(Relaxed, Relaxed), all);
}

#[test]
fn message_passing_by_fences() {
    let seen = |release: bool, acquire: bool| {
        outcomes(move || {
            let write = move |v: &Vars| {
                v.x.store(1, Relaxed);
                if release {
                    fence(Release);
                }
                v.ready.store(true, Relaxed);
            };
            let read = move |v: &Vars| {
                let ready = v.ready.load(Relaxed);
                if acquire {
                    fence(Acquire);
                }
                (ready, v.x.load(Relaxed))
            };
            two(write, read).1
        })
    };
    assert!(!seen(true, true).contains(&(true, 0)));
    assert!(seen(true, false).contains(&(true, 0)));
    assert!(seen(false, true).contains(&(true, 0)));
}

#[test]
fn a_fence_on_one_side_pairs_with_an_ordering_on_the_other() {
    let release_fence = outcomes(|| {
        let write = |v: &Vars| {
            v.x.store(1, Relaxed);
            fence(AcqRel);
            v.ready.store(true, Relaxed);
        };
        two(write, |v| (v.ready.load(Acquire), v.x.load(Relaxed))).1
    });
    let acquire_fence = outcomes(|| {
        let write = |v: &Vars| {
            v.x.store(1, Relaxed);
            v.ready.store(true, Release);
        };
        let read = |v: &Vars| {
            let ready = v.ready.load(Relaxed);
            fence(AcqRel);
            (ready, v.x.load(Relaxed))
        };
        two(write, read).1
    });
    for seen in [release_fence, acquire_fence] {
        assert_eq!(seen, set([(false, 0), (false, 1), (true, 1)]));
    }
}

fn store_buffering(order: Ordering, fences: Option<Ordering>) -> BTreeSet<(u32, u32)> {
    let store = if order == SeqCst { SeqCst } else { Relaxed };
    outcomes(move || {
        let between = move || fences.into_iter().for_each(fence);
        let first = move |v: &Vars| {
            v.x.store(1, store);
            between();
            v.y.load(store)
        };
        let second = move |v: &Vars| {
            v.y.store(1, store);
            between();
            v.x.load(store)
        };
        two(first, second)
    })
}

#[test]
fn store_buffering_needs_a_total_order() {
    let ordered = set([(0, 1), (1, 0), (1, 1)]);
    assert!(store_buffering(Relaxed, None).contains(&(0, 0)));
    assert!(store_buffering(Relaxed, Some(AcqRel)).contains(&(0, 0)));
    assert_eq!(store_buffering(Relaxed, Some(SeqCst)), ordered);
    assert_eq!(store_buffering(SeqCst, None), ordered);
}

#[test]
fn a_sequentially_consistent_access_is_no_fence() {
    // The stores are relaxed: S does not contain them, so its order of the loads has no effect.
    let loads = outcomes(|| {
        let first = |v: &Vars| {
            v.x.store(1, Relaxed);
            v.y.load(SeqCst)
        };
        let second = |v: &Vars| {
            v.y.store(1, Relaxed);
            v.x.load(SeqCst)
        };
        two(first, second)
    });
    assert!(loads.contains(&(0, 0)));
    // A swap of another location orders nothing either.
    let swap = outcomes(|| {
        let first = |v: &Vars| {
            v.x.store(1, Relaxed);
            v.ready.swap(true, SeqCst);
            v.y.load(Relaxed)
        };
        let second = |v: &Vars| {
            v.y.store(1, SeqCst);
            v.x.load(SeqCst)
        };
        two(first, second)
    });
    assert!(swap.contains(&(0, 0)));
}

#[test]
fn a_fence_orders_what_is_around_it_against_sequentially_consistent_accesses() {
    let mixed = outcomes(|| {
        let first = |v: &Vars| {
            v.x.store(1, Relaxed);
            fence(SeqCst);
            v.y.load(Relaxed)
        };
        let second = |v: &Vars| {
            v.y.store(1, SeqCst);
            v.x.load(SeqCst)
        };
        two(first, second)
    });
    assert_eq!(mixed, set([(0, 1), (1, 0), (1, 1)]));
}

#[test]
fn load_buffering_is_not_shown() {
    let seen = outcomes(|| {
        let first = |v: &Vars| {
            let y = v.y.load(Relaxed);
            v.x.store(1, Relaxed);
            y
        };
        let second = |v: &Vars| {
            let x = v.x.load(Relaxed);
            v.y.store(1, Relaxed);
            x
        };
        two(first, second)
    });
    assert_eq!(seen, set([(0, 0), (0, 1), (1, 0)]));
}

fn independent_reads(store: Ordering, load: Ordering, between: bool) -> bool {
    let seen = outcomes(move || {
        let vars = Arc::new(Vars::default());
        let spawn = |f: fn(&Vars, Ordering, Ordering, bool) -> (u32, u32)| {
            let vars = vars.clone();
            thread::spawn(move || f(&vars, store, load, between))
        };
        let x = spawn(|v, store, _, _| {
            v.x.store(1, store);
            (0, 0)
        });
        let y = spawn(|v, store, _, _| {
            v.y.store(1, store);
            (0, 0)
        });
        let xy = spawn(|v, _, load, between| {
            let x = v.x.load(load);
            if between {
                fence(SeqCst);
            }
            (x, v.y.load(load))
        });
        let yx = spawn(|v, _, load, between| {
            let y = v.y.load(load);
            if between {
                fence(SeqCst);
            }
            (y, v.x.load(load))
        });
        let _ = (x.join(), y.join());
        (xy.join().unwrap(), yx.join().unwrap())
    });
    seen.contains(&((1, 0), (1, 0)))
}

#[test]
fn independent_reads_of_independent_writes() {
    assert!(independent_reads(Relaxed, Relaxed, false));
    assert!(independent_reads(Release, Acquire, false));
    assert!(!independent_reads(SeqCst, SeqCst, false));
    assert!(!independent_reads(Relaxed, Relaxed, true));
}

#[test]
fn one_location_is_coherent() {
    // Reads of one thread never go backwards; its own writes hide older ones; a later store stays
    // last.
    let seen = outcomes(|| {
        let write = |v: &Vars| {
            v.x.store(1, Relaxed);
            v.x.store(2, Relaxed);
            v.x.load(Relaxed)
        };
        let read = |v: &Vars| (v.x.load(Relaxed), v.x.load(Relaxed));
        two(write, read)
    });
    assert!(seen.iter().all(|(own, (first, second))| *own == 2 && first <= second), "{seen:?}");
    assert!(seen.contains(&(2, (0, 1))) && seen.contains(&(2, (0, 0))));
    // A read, then a write of one thread against a write of another.
    let read_write = outcomes(|| {
        let vars = Arc::new(Vars::default());
        let other = thread::spawn({
            let vars = vars.clone();
            move || vars.x.store(1, Relaxed)
        });
        let read = vars.x.load(Relaxed);
        vars.x.store(2, Relaxed);
        other.join().unwrap();
        (read, vars.x.load(Relaxed))
    });
    assert_eq!(read_write, set([(0, 1), (0, 2), (1, 2)]));
}

#[test]
fn what_is_seen_is_passed_on() {
    // Write to read causality over three threads.
    let seen = outcomes(|| {
        let vars = Arc::new(Vars::default());
        let (a, b) = (vars.clone(), vars.clone());
        let writer = thread::spawn(move || a.x.store(1, Relaxed));
        let relay = thread::spawn(move || {
            let x = b.x.load(Relaxed);
            b.y.store(x, Release);
        });
        let end = (vars.y.load(Acquire), vars.x.load(Relaxed));
        let _ = (writer.join(), relay.join());
        end
    });
    assert!(!seen.contains(&(1, 0)), "{seen:?}");
    assert!(seen.contains(&(1, 1)) && seen.contains(&(0, 1)));
}

/// Three threads: a writer, a reader, and a writer of another location.
fn three<A: 'static, B: 'static, C: 'static>(
    first: impl Fn(&Vars) -> A + 'static,
    second: impl Fn(&Vars) -> B + 'static,
    third: impl Fn(&Vars) -> C + 'static,
) -> (A, B, C) {
    let vars = Arc::new(Vars::default());
    let (a, b) = (vars.clone(), vars.clone());
    let a = thread::spawn(move || first(&a));
    let b = thread::spawn(move || second(&b));
    let c = third(&vars);
    (a.join().unwrap(), b.join().unwrap(), c)
}

#[test]
fn fences_order_what_was_seen_before_them() {
    // W+RWC: what the second thread has seen of the first comes before its fence. It comes before
    // the third thread's fence too, if the second has not seen the third's store.
    let seen = |fences: bool| {
        outcomes(move || {
            let between = move || {
                if fences {
                    fence(SeqCst);
                }
            };
            let reads = move |v: &Vars| {
                let x = v.x.load(Acquire);
                between();
                (x, v.y.load(Relaxed))
            };
            let writes = move |v: &Vars| {
                v.y.store(1, Relaxed);
                between();
                v.x.load(Relaxed)
            };
            let (_, (x, y), other) = three(|v| v.x.store(1, Release), reads, writes);
            (x, y, other)
        })
    };
    assert!(!seen(true).contains(&(1, 0, 0)));
    assert!(seen(false).contains(&(1, 0, 0)));
}

#[test]
fn what_is_released_is_released_over_two_hands() {
    // ISA2.
    let seen = outcomes(|| {
        let first = |v: &Vars| {
            v.x.store(1, Relaxed);
            v.y.store(1, Release);
        };
        let second = |v: &Vars| {
            let y = v.y.load(Acquire) == 1;
            v.ready.store(y, Release);
        };
        three(first, second, |v| (v.ready.load(Acquire), v.x.load(Relaxed))).2
    });
    assert_eq!(seen, set([(false, 0), (false, 1), (true, 1)]));
}

#[test]
fn stores_take_effect_in_the_order_in_which_they_are_done() {
    // 2+2W: C++ allows both to end as 1; here modification order is the order of execution.
    let seen = outcomes(|| {
        let vars = Arc::new(Vars::default());
        let other = vars.clone();
        let other = thread::spawn(move || {
            other.y.store(1, Relaxed);
            other.x.store(2, Relaxed);
        });
        vars.x.store(1, Relaxed);
        vars.y.store(2, Relaxed);
        other.join().unwrap();
        (vars.x.fetch_or(0, Relaxed), vars.y.fetch_or(0, Relaxed))
    });
    assert_eq!(seen, set([(1, 2), (2, 1), (2, 2)]));
}

fn release_sequence(third: fn(&Vars)) -> bool {
    let seen = outcomes(move || {
        let vars = Arc::new(Vars::default());
        let (a, b) = (vars.clone(), vars.clone());
        let head = thread::spawn(move || {
            a.x.store(1, Relaxed);
            a.y.store(1, Release);
        });
        let middle = thread::spawn(move || third(&b));
        let end = (vars.y.load(Acquire), vars.x.load(Relaxed));
        let _ = (head.join(), middle.join());
        end
    });
    assert!(seen.contains(&(11, 1)));
    seen.contains(&(11, 0))
}

#[test]
fn a_release_sequence_goes_on_through_read_modify_writes_alone() {
    assert!(!release_sequence(|v| {
        v.y.fetch_add(10, Relaxed);
    }));
    assert!(!release_sequence(|v| {
        let _ = v.y.compare_exchange(1, 11, Relaxed, Relaxed);
    }));
    // A store breaks it, even one by the thread that released (C++20).
    assert!(release_sequence(|v| {
        if v.y.load(Relaxed) == 1 {
            v.y.store(11, Relaxed);
        }
    }));
}

#[test]
fn a_read_modify_write_reads_the_last_value() {
    let sum = outcomes(|| {
        let add = |v: &Vars| v.x.fetch_add(1, Relaxed);
        let (a, b) = two(add, add);
        a + b
    });
    assert_eq!(sum, set([1]));
}

#[test]
fn an_exchange_that_fails_is_a_load() {
    // It may see an old value, and it acquires with its failure ordering.
    let seen = |failure: Ordering| {
        outcomes(move || {
            let write = |v: &Vars| {
                v.x.store(1, Relaxed);
                v.y.store(1, Release);
            };
            let read = move |v: &Vars| {
                let y = v.y.compare_exchange(7, 8, AcqRel, failure).unwrap_err();
                (y, v.x.load(Relaxed))
            };
            two(write, read).1
        })
    };
    assert!(seen(Relaxed).contains(&(1, 0)));
    assert_eq!(seen(Acquire), set([(0, 0), (0, 1), (1, 1)]));
    let weak = outcomes(|| Vars::default().x.compare_exchange_weak(0, 1, Relaxed, Relaxed));
    assert_eq!(weak, set([Ok(0), Err(0)]));
    let stale = outcomes(|| {
        let vars = Arc::new(Vars::default());
        let other = vars.clone();
        let writer = thread::spawn(move || {
            other.x.store(5, Relaxed);
            other.y.store(1, Relaxed);
        });
        let y = vars.y.load(Relaxed);
        let x = vars.x.compare_exchange(5, 6, Relaxed, Relaxed);
        writer.join().unwrap();
        (y, x)
    });
    assert!(stale.contains(&(1, Err(0))) && stale.contains(&(1, Ok(5))));
}
