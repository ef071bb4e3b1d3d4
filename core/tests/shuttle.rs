//! The whole executor under shuttle: random and PCT schedules of two to four workers and a foreign thread, with every
//! timeout off. Shuttle reports a lost wake-up as a deadlock. It ignores memory orderings, which the loom models check.
//!
//! `RUSTFLAGS="--cfg filch_shuttle" cargo test -p filch --release --test shuttle --target-dir target/shuttle`
//!
//! A failure prints a schedule. `SHUTTLE_REPLAY=<schedule>` and the test's name replay it. `SHUTTLE_ITERATIONS` sets
//! how many schedules each test runs.
#![cfg(filch_shuttle)]

mod whole;

use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};

mod model {
    use core::cell::Cell;

    use filch::{
        Instant, Platform, WorkerId,
        atomic::{AtomicU32, Ordering},
    };
    use shuttle::sync::Condvar;
    pub(crate) use shuttle::{
        sync::{Arc, Mutex},
        thread,
    };

    /// Leaks a value in each schedule, because an executor's memory must stay.
    pub(crate) fn leak<T>(value: T) -> &'static T {
        Box::leak(Box::new(value))
    }

    /// Workers are shuttle's threads, and sleep on its condition variables.
    pub(crate) struct Board {
        lock: Mutex<()>,
        news: Condvar,
    }

    shuttle::thread_local! {
        static WORKER: Cell<Option<WorkerId>> = const { Cell::new(None) };
    }

    impl Board {
        pub(crate) fn new() -> Self {
            Self { lock: Mutex::new(()), news: Condvar::new() }
        }

        fn sleep(&self, word: &AtomicU32, expected: u32) {
            let guard = self.lock.lock().expect("no panic holds it");
            if word.load(Ordering::Acquire) == expected {
                drop(self.news.wait(guard));
            }
        }

        fn ring(&self) {
            drop(self.lock.lock().expect("no panic holds it"));
            self.news.notify_all();
        }
    }

    // SAFETY: the thread local belongs to its thread; the check and the sleep are one step under the lock.
    unsafe impl Platform for Board {
        fn now(&self) -> Instant {
            Instant::ZERO
        }
        fn current_worker(&self) -> Option<WorkerId> {
            WORKER.with(Cell::get)
        }
        unsafe fn set_worker(&self, worker: Option<WorkerId>) {
            WORKER.with(|w| w.set(worker));
        }
        unsafe fn wait(
            &self,
            _: WorkerId,
            word: &AtomicU32,
            expected: u32,
            deadline: Option<Instant>,
        ) {
            assert_eq!(deadline, None, "every timeout is off");
            self.sleep(word, expected);
        }
        fn wake(&self, _: WorkerId, _: &AtomicU32) {
            self.ring();
        }
        fn block(&self, word: &AtomicU32, expected: u32, _: Option<Instant>) {
            self.sleep(word, expected);
        }
        fn unblock(&self, _: &AtomicU32) {
            self.ring();
        }
        fn relax(&self, _: u32) {
            thread::yield_now();
        }
    }
}

fn check(f: fn()) {
    let n = std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    // An executor is built on the stack, and is larger than shuttle's default stacks.
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    if let Ok(schedule) = std::env::var("SHUTTLE_REPLAY") {
        shuttle::Runner::new(ReplayScheduler::new_from_encoded(&schedule), config).run(f);
        return;
    }
    shuttle::Runner::new(RandomScheduler::new(n), config.clone()).run(f);
    shuttle::Runner::new(PctScheduler::new(3, n), config).run(f);
}

#[test]
fn spawns_from_outside_are_all_run_by_2() {
    check(whole::foreign_spawns::<2>);
}

#[test]
fn spawns_from_outside_are_all_run_by_4() {
    check(whole::foreign_spawns::<4>);
}

#[test]
fn a_task_that_fills_its_ring_shares() {
    check(whole::a_task_that_fills_its_ring_shares);
}

#[test]
fn wakes_between_tasks_and_from_outside_arrive() {
    check(whole::wakes_between_tasks_and_from_outside_arrive);
}

#[test]
fn aborts_race_with_wakes_and_joins() {
    check(whole::aborts_race_with_wakes_and_joins);
}

#[test]
fn workers_come_late_and_leave_early() {
    check(whole::workers_come_late_and_leave_early);
}
