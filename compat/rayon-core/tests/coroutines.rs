//! Coroutines with stacks of their own, suspended in a join: their frames end in any order, as on the real rayon.

use core::{
    cell::{Cell, RefCell},
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{collections::HashSet, rc::Rc, sync::Mutex, thread};

use filch_test_support::{Coroutine, coroutine, rng, watchdog};
use rayon_core::{ThreadPool, ThreadPoolBuilder, broadcast, join, scope};

const ROUNDS: usize = 30;

fn pool() -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

/// Forks until another thread takes part: it would find whatever was left in the deque first.
fn have_one_stolen() {
    fn each(n: usize, f: &(impl Fn() + Sync)) {
        if n == 1 {
            return f();
        }
        join(|| each(n / 2, f), || each(n - n / 2, f));
    }
    loop {
        let threads = Mutex::new(HashSet::new());
        each(64, &|| {
            thread::yield_now();
            threads.lock().unwrap().insert(thread::current().id());
        });
        if threads.into_inner().unwrap().len() > 1 {
            return;
        }
    }
}

/// A coroutine that adds to the sum, after it was suspended in joins within each other.
fn nested(sum: &Rc<Cell<usize>>, depth: usize) -> Coroutine {
    fn count(depth: usize, suspend: &(impl Fn() + Sync)) -> usize {
        if depth == 0 {
            suspend();
            return 1;
        }
        let (a, b) = join(|| count(depth - 1, suspend), || 1);
        a + b
    }
    let sum = Rc::clone(sum);
    coroutine(move |suspend| {
        let count = count(depth, &|| suspend.now());
        sum.set(sum.get() + count);
    })
}

#[test]
fn two_joins_end_in_another_order_than_they_began() {
    let _watchdog = watchdog();
    let pool = pool();
    for _ in 0..ROUNDS {
        pool.install(|| {
            let sum = Rc::new(Cell::new(0));
            let [mut first, mut second] = [(); 2].map(|()| nested(&sum, 1));
            assert!(!first.resume());
            assert!(!second.resume());
            assert!(first.resume());
            assert!(second.resume());
            drop((first, second));
            assert_eq!(sum.get(), 4);
            have_one_stolen();
        });
    }
}

#[test]
fn many_joins_end_in_any_order() {
    let _watchdog = watchdog();
    let pool = pool();
    let mut rng = rng();
    for _ in 0..100 {
        let order: Vec<usize> = (0..100).map(|_| rng.usize(..8)).collect();
        pool.install(move || {
            let (sum, mut expected) = (Rc::new(Cell::new(0)), 0);
            let mut all: [Option<Coroutine>; 8] = Default::default();
            for n in order {
                match &mut all[n] {
                    Some(suspended) => {
                        assert!(suspended.resume());
                        all[n] = None;
                    }
                    none => {
                        let mut new = nested(&sum, n + 1);
                        assert!(!new.resume());
                        *none = Some(new);
                        expected += n + 2;
                    }
                }
            }
            all.into_iter().flatten().for_each(|mut left| assert!(left.resume()));
            assert_eq!(sum.get(), expected);
            have_one_stolen();
        });
    }
}

#[test]
fn scopes_end_in_another_order_than_they_began() {
    let _watchdog = watchdog();
    let pool = pool();
    for _ in 0..ROUNDS {
        pool.install(|| {
            let ran = Rc::new(Cell::new(0));
            let mut all = [(); 3].map(|()| {
                let ran = Rc::clone(&ran);
                coroutine(move |suspend| {
                    let here = AtomicUsize::new(0);
                    scope(|scope| {
                        for _ in 0..4 {
                            scope.spawn(|_| _ = here.fetch_add(1, Ordering::Relaxed));
                        }
                        suspend.now();
                        scope.spawn(|_| _ = here.fetch_add(1, Ordering::Relaxed));
                    });
                    ran.set(ran.get() + here.into_inner());
                })
            });
            all.iter_mut().for_each(|each| assert!(!each.resume()));
            all.iter_mut().for_each(|each| assert!(each.resume()));
            assert_eq!(ran.get(), 15);
            have_one_stolen();
        });
    }
}

thread_local! {
    static KEPT: RefCell<Option<Coroutine>> = const { RefCell::new(None) };
}

#[test]
fn a_join_goes_on_in_another_job_of_its_thread() {
    let _watchdog = watchdog();
    let pool = pool();
    for _ in 0..ROUNDS {
        pool.broadcast(|_| {
            let mut join = nested(&Rc::new(Cell::new(0)), 3);
            assert!(!join.resume());
            KEPT.set(Some(join));
        });
        pool.install(have_one_stolen);
        pool.broadcast(|_| KEPT.with_borrow_mut(|join| assert!(join.as_mut().unwrap().resume())));
        pool.install(have_one_stolen);
        assert_eq!(pool.install(|| broadcast(|context| context.index())), [0, 1]);
    }
}
#[test]
fn jobs_of_scopes_are_suspended_in_the_wait_for_them() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    for _ in 0..ROUNDS {
        pool.install(|| {
            let mut all = [(); 3].map(|()| {
                coroutine(|suspend| {
                    let suspend = &suspend;
                    // The wait at the scope's end runs it, on this stack.
                    scope(|scope| scope.spawn(move |_| suspend.now()));
                })
            });
            assert!(!all.iter_mut().any(Coroutine::resume));
            for mut each in all {
                assert!(each.resume());
                // Its stack is gone.
                drop(each);
                // A look at the task that is being polled.
                assert!(filch_std::task::class().is_some());
            }
        });
    }
}

#[test]
fn a_wait_for_a_scope_goes_on_in_another_job_of_its_thread() {
    let _watchdog = watchdog();
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    // A look at the task that is being polled, through all that are.
    let look = || assert!(filch_std::task::class().is_some());
    for _ in 0..ROUNDS {
        pool.install(|| {
            let mut waits = coroutine(|suspend| {
                let suspend = &suspend;
                scope(|scope| scope.spawn(move |_| suspend.now()));
            });
            assert!(!waits.resume());
            KEPT.set(Some(waits));
            look();
        });
        pool.install(|| {
            look();
            assert_eq!(join(|| 1, || 2), (1, 2));
        });
        pool.install(|| {
            // Deeper in the stack than where it was suspended.
            scope(|scope| scope.spawn(|_| assert!(KEPT.take().unwrap().resume())));
            look();
        });
        pool.install(look);
    }
}
