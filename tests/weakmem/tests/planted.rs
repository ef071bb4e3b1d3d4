//! Planted bugs, each of which must be found, with its kind of failure; and the same without the
//! bug, where no failure may be found.

use core::ptr;

use filch_weakmem::{
    Checker, Failure, Quarantine, Strategy, UnsafeCell,
    atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicUsize,
        Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst},
        fence,
    },
    sync::{Arc, Condvar, Mutex},
    thread,
};

#[global_allocator]
static ALLOCATOR: Quarantine = Quarantine;

const BOTH: [Strategy; 2] = [Strategy::Random, Strategy::Pct { depth: 3, length: 50 }];

fn passes(f: impl Fn() + Clone + 'static) {
    for strategy in BOTH {
        Checker::new(3_000).run(strategy, f.clone());
    }
}

/// The failure is found, as `what`, and found again by its seed.
fn fails(what: &str, f: impl Fn() + Clone + 'static) {
    for strategy in BOTH {
        let failure = *Checker::new(20_000)
            .max_steps(3_000)
            .find(strategy, f.clone())
            .expect_err("the bug is planted");
        assert!(failure.message.contains(what), "{failure}");
        assert!(failure.to_string().contains(&format!("WEAKMEM_SEED={}", failure.seed)));
        let again = again(&failure, f.clone());
        assert_eq!(again.message, failure.message);
        assert_eq!(again.recent, failure.recent);
    }
}

fn again(failure: &Failure, f: impl Fn() + 'static) -> Failure {
    let checker = Checker::new(1).max_steps(3_000).start(failure.seed.seed);
    *checker.find(failure.seed.strategy, f).expect_err("it failed by this seed")
}

/// Data that threads write and read without synchronisation.
#[derive(Default)]
struct Plain(UnsafeCell<u32>);

// SAFETY: the checker reports unordered accesses.
unsafe impl Sync for Plain {}
// SAFETY: as above.
unsafe impl Send for Plain {}

impl Plain {
    fn set(&self, value: u32) {
        // SAFETY: as above.
        self.0.with_mut(|at| unsafe { *at = value });
    }

    fn get(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|at| unsafe { *at })
    }
}

/// A value, and a flag that it is there.
fn publish(store: Ordering, load: Ordering) -> impl Fn() + Clone + 'static {
    move || {
        let shared = Arc::new((Plain::default(), AtomicBool::new(false)));
        let writer = shared.clone();
        let writer = thread::spawn(move || {
            writer.0.set(7);
            writer.1.store(true, store);
        });
        if shared.1.load(load) {
            assert_eq!(shared.0.get(), 7);
        }
        writer.join().unwrap();
        assert_eq!(shared.0.get(), 7);
    }
}

#[test]
fn a_value_that_is_published() {
    passes(publish(Release, Acquire));
    fails("data race: write by thread 1", publish(Relaxed, Acquire));
    fails("data race: write by thread 1", publish(Release, Relaxed));
}

#[test]
fn both_sides_of_a_race_are_named() {
    let failure = Checker::new(10_000).find(Strategy::Random, publish(Relaxed, Relaxed));
    let failure = failure.expect_err("the bug is planted").to_string();
    assert!(failure.matches("tests/planted.rs:").count() >= 2, "{failure}");
    assert!(failure.contains("and read by thread 0 at"), "{failure}");
}

#[test]
fn readers_may_meet_but_a_writer_not() {
    let two = |writes: bool| {
        move || {
            let cell = Arc::new(Plain::default());
            let other = cell.clone();
            let other = thread::spawn(move || other.get());
            if writes {
                cell.set(1)
            } else {
                assert_eq!(cell.get(), 0)
            }
            other.join().unwrap();
        }
    };
    passes(two(false));
    fails("data race", two(true));
}

/// Threads increment a number that a spin lock guards.
fn spin_lock(unlock: Ordering, yields: bool) -> impl Fn() + Clone + 'static {
    move || {
        let shared = Arc::new((Plain::default(), AtomicBool::new(false)));
        let add = move |shared: &(Plain, AtomicBool)| {
            while shared.1.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
                if yields {
                    filch_weakmem::spin_loop();
                }
            }
            shared.0.set(shared.0.get() + 1);
            shared.1.store(false, unlock);
        };
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || add(&shared))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(shared.0.get(), 2);
    }
}

#[test]
fn a_spin_lock() {
    passes(spin_lock(Release, true));
    // No thread hints that it waits: the others run all the same.
    passes(spin_lock(Release, false));
    fails("data race", spin_lock(Relaxed, true));
}

/// Two threads enter by Dekker's algorithm.
fn dekker(fences: bool) -> impl Fn() + Clone + 'static {
    move || {
        let shared = Arc::new(([AtomicBool::new(false), AtomicBool::new(false)], Plain::default()));
        let enter = move |shared: &([AtomicBool; 2], Plain), me: usize| {
            shared.0[me].store(true, Relaxed);
            if fences {
                fence(SeqCst);
            }
            if !shared.0[1 - me].load(Acquire) {
                shared.1.set(1);
                true
            } else {
                false
            }
        };
        let other = shared.clone();
        let other = thread::spawn(move || enter(&other, 1));
        let entered = enter(&shared, 0);
        assert!(!(other.join().unwrap() && entered), "both are in");
    }
}

#[test]
fn a_store_load_race() {
    passes(dekker(true));
    // Found as a race, or by the assertion, whichever comes first.
    fails("", dekker(false));
}

/// A sleeper and a waker, with a word that is checked again before parking, or not.
fn sleeper(looks_again: bool) -> impl Fn() + Clone + 'static {
    move || {
        let shared = Arc::new((Mutex::new(false), Condvar::new(), AtomicBool::new(false)));
        let waker = shared.clone();
        let waker = thread::spawn(move || {
            waker.2.store(true, Release);
            *waker.0.lock().unwrap() = true;
            waker.1.notify_one();
        });
        if !shared.2.load(Acquire) {
            let mut guard = shared.0.lock().unwrap();
            if looks_again {
                while !*guard {
                    guard = shared.1.wait(guard).unwrap();
                }
            } else {
                drop(shared.1.wait(guard).unwrap());
            }
        }
        waker.join().unwrap();
    }
}

#[test]
fn a_wake_that_is_lost() {
    passes(sleeper(true));
    fails("deadlock", sleeper(false));
}

#[test]
fn parking_keeps_one_token() {
    passes(|| {
        let ready = Arc::new(AtomicU32::new(0));
        let (other, me) = (ready.clone(), thread::current());
        let other = thread::spawn(move || {
            other.store(1, Relaxed);
            me.unpark();
        });
        while ready.load(Relaxed) == 0 {
            thread::park();
        }
        other.join().unwrap();
    });
    fails("deadlock", || {
        thread::park();
    });
}

#[test]
fn sleepers_wake_for_no_reason() {
    // An `if` where a `while` should be.
    fails("nothing came", || {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let other = shared.clone();
        let other = thread::spawn(move || {
            *other.0.lock().unwrap() = true;
            other.1.notify_one();
        });
        let mut guard = shared.0.lock().unwrap();
        if !*guard {
            guard = shared.1.wait(guard).unwrap();
        }
        assert!(*guard, "nothing came");
        drop(guard);
        other.join().unwrap();
    });
}

/// A stack of indices into nodes that are reused, with a counter in the head or without.
fn stack(counter: usize) -> impl Fn() + Clone + 'static {
    move || {
        struct Stack {
            head: AtomicUsize,
            next: [AtomicUsize; 3],
            owners: [AtomicU32; 3],
        }
        fn pop(stack: &Stack, counter: usize) -> usize {
            loop {
                let head = stack.head.load(Acquire);
                let node = head & 0xFF;
                if node == 0 {
                    return 0;
                }
                let next = stack.next[node - 1].load(Relaxed) | ((head & !0xFF) + counter);
                if stack.head.compare_exchange_weak(head, next, AcqRel, Relaxed).is_ok() {
                    let owners = stack.owners[node - 1].fetch_add(1, Relaxed);
                    assert_eq!(owners, 0, "handed out twice");
                    return node;
                }
            }
        }
        fn push(stack: &Stack, node: usize, counter: usize) {
            stack.owners[node - 1].fetch_sub(1, Relaxed);
            loop {
                let head = stack.head.load(Relaxed);
                stack.next[node - 1].store(head & 0xFF, Relaxed);
                let new = node | ((head & !0xFF) + counter);
                if stack.head.compare_exchange_weak(head, new, Release, Relaxed).is_ok() {
                    return;
                }
            }
        }
        let stack = Arc::new(Stack {
            head: AtomicUsize::new(1),
            next: [2, 3, 0].map(AtomicUsize::new),
            owners: Default::default(),
        });
        let other = stack.clone();
        let other = thread::spawn(move || {
            let (a, _) = (pop(&other, counter), pop(&other, counter));
            if a != 0 {
                push(&other, a, counter);
            }
        });
        let (_, _) = (pop(&stack, counter), pop(&stack, counter));
        other.join().unwrap();
    }
}

#[test]
fn a_stack_with_aba() {
    passes(stack(0x100));
    fails("handed out twice", stack(0));
}

/// A pointer is removed and freed while another thread may still use it.
fn freed_too_early() {
    let shared = Arc::new(AtomicPtr::new(Box::into_raw(Box::new(AtomicU32::new(1)))));
    let other = shared.clone();
    let other = thread::spawn(move || {
        let pointer = other.load(Acquire);
        // SAFETY: none: this is the bug. The quarantine keeps the memory.
        if let Some(value) = unsafe { pointer.as_ref() } {
            value.store(2, Relaxed);
        }
    });
    let pointer = shared.swap(ptr::null_mut(), AcqRel);
    // SAFETY: none: this is the bug.
    drop(unsafe { Box::from_raw(pointer) });
    other.join().unwrap();
}

#[test]
fn what_is_freed_and_used() {
    // The first user races with the drop; a later one finds the pattern.
    let messages: Vec<_> = (0..40)
        .map(|i| Checker::new(1_000).start(1_000 * i).find(Strategy::Random, freed_too_early))
        .map(|result| result.expect_err("the bug is planted").message)
        .collect();
    for what in ["data race: store by thread 1", "to what was dropped or freed"] {
        assert!(messages.iter().any(|message| message.contains(what)), "{what}: {messages:?}");
    }
}

#[test]
fn what_is_dropped_while_others_use_it() {
    let counted = |order: Ordering| {
        move || {
            struct Counted {
                count: AtomicU32,
                value: Plain,
            }
            let shared = Box::new(Counted { count: AtomicU32::new(2), value: Plain::default() });
            let at = Box::into_raw(shared) as usize;
            let release = move |at: usize| {
                let at = at as *mut Counted;
                // SAFETY: the count says that this thread may access it.
                let counted = unsafe { &*at };
                counted.value.get();
                if counted.count.fetch_sub(1, order) == 1 {
                    fence(Acquire);
                    // SAFETY: the count says that this thread is the last.
                    drop(unsafe { Box::from_raw(at) });
                }
            };
            let other = thread::spawn(move || release(at));
            release(at);
            other.join().unwrap();
        }
    };
    passes(counted(Release));
    fails("drop", counted(Relaxed));
}

#[test]
fn what_never_ends() {
    fails("no end in 3000 steps", || {
        let word = AtomicU32::new(0);
        while word.load(Relaxed) == 0 {
            thread::yield_now();
        }
    });
}

#[test]
fn locks_in_the_wrong_order() {
    fails("deadlock", || {
        let locks = Arc::new((Mutex::new(()), Mutex::new(())));
        let other = locks.clone();
        let other = thread::spawn(move || {
            let _first = other.0.lock().unwrap();
            let _second = other.1.lock().unwrap();
        });
        {
            let _first = locks.1.lock().unwrap();
            let _second = locks.0.lock().unwrap();
        }
        other.join().unwrap();
    });
}
