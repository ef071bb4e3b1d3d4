//! The whole executor in simulated memory: random and PCT schedules of two to four workers and foreign threads. Relaxed
//! loads may read old values, weak exchanges fail, and sleepers wake for no reason. Data races in the core's cells, and
//! in those of these programs, are found.
//!
//! `RUSTFLAGS="--cfg filch_weakmem" cargo test -p filch --release --test weakmem --target-dir target/weakmem`
//!
//! A failure prints a seed, and how to repeat it. `WEAKMEM_ITERATIONS` sets how many schedules of either kind each test
//! runs; `WEAKMEM_START` sets the first seed.
#![cfg(filch_weakmem)]

mod whole;

use filch_weakmem::{Checker, Strategy};
use whole::{ends, handover};

/// Freed memory keeps its content, so that a use after free is seen.
#[global_allocator]
static ALLOCATOR: filch_weakmem::Quarantine = filch_weakmem::Quarantine;

mod model {
    use core::{
        cell::RefCell,
        panic::AssertUnwindSafe,
        ptr::NonNull,
        sync::atomic::{AtomicU32 as Plain, AtomicU64, Ordering::Relaxed},
    };

    use std::panic::catch_unwind;

    use filch::{Instant, Panic, Platform, WorkerId, atomic::AtomicU32};
    use filch_weakmem::futex;
    pub(crate) use filch_weakmem::{
        sync::{Arc, Mutex},
        thread,
    };

    type Leaked = (NonNull<()>, unsafe fn(NonNull<()>));

    std::thread_local! {
        static LEAKED: RefCell<Vec<Leaked>> = const { RefCell::new(Vec::new()) };
    }

    /// A value that lives until the end of the run.
    pub(crate) fn leak<T>(value: T) -> &'static T {
        unsafe fn drop_box<T>(at: NonNull<()>) {
            // SAFETY: the pointer is that of the box made below.
            drop(unsafe { Box::from_raw(at.cast::<T>().as_ptr()) });
        }
        let at = NonNull::from(Box::leak(Box::new(value)));
        LEAKED.with_borrow_mut(|all| all.push((at.cast(), drop_box::<T>)));
        // SAFETY: the value has just been made, and is never borrowed mutably again.
        unsafe { at.as_ref() }
    }

    /// The run is over: its threads have been joined.
    pub(crate) fn free() {
        for (at, drop) in LEAKED.take() {
            // SAFETY: `leak` put it there, and it is no longer used.
            unsafe { drop(at) };
        }
    }

    /// Workers sleep on the words themselves. Only what the core does orders them.
    pub(crate) struct Board {
        /// For each thread its worker's index, plus one.
        workers: [Plain; 16],
        clock: AtomicU64,
    }

    impl Board {
        pub(crate) fn new() -> Self {
            Self { workers: [const { Plain::new(0) }; 16], clock: AtomicU64::new(0) }
        }

        fn me(&self) -> &Plain {
            &self.workers[thread::id().expect("in a check")]
        }

        fn sleep(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
            match deadline.filter(|deadline| *deadline < Instant::MAX) {
                None => futex::wait(word, expected),
                Some(deadline) => {
                    // Every other thread may run first; then time has passed.
                    thread::yield_now();
                    self.clock.fetch_max(deadline.as_nanos(), Relaxed);
                }
            }
        }
    }

    // SAFETY: the entry belongs to its thread; the check and the sleep are one step.
    unsafe impl Platform for Board {
        fn now(&self) -> Instant {
            Instant::from_nanos(self.clock.load(Relaxed))
        }
        fn current_worker(&self) -> Option<WorkerId> {
            (self.me().load(Relaxed) as u16).checked_sub(1).map(WorkerId::new)
        }
        unsafe fn set_worker(&self, worker: Option<WorkerId>) {
            self.me().store(worker.map_or(0, |worker| worker.index() as u32 + 1), Relaxed);
        }
        unsafe fn wait(
            &self,
            _: WorkerId,
            word: &AtomicU32,
            expected: u32,
            deadline: Option<Instant>,
        ) {
            self.sleep(word, expected, deadline);
        }
        fn wake(&self, _: WorkerId, word: &AtomicU32) {
            futex::wake_all(word);
        }
        fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
            self.sleep(word, expected, deadline);
        }
        fn unblock(&self, word: &AtomicU32) {
            futex::wake_all(word);
        }
        fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
            // A panic is a failure. It stops here, because further out the seed would be lost.
            match catch_unwind(AssertUnwindSafe(poll)) {
                Ok(()) => Ok(()),
                Err(_) => filch_weakmem::fail("a poll panicked, see above"),
            }
        }
        fn relax(&self, _: u32) {
            thread::yield_now();
        }
    }
}

fn check(f: fn()) {
    for strategy in [Strategy::Random, Strategy::Pct { depth: 3, length: 1_000 }] {
        Checker::new(250).run(strategy, move || {
            f();
            model::free();
        });
    }
}

/// One test for each program.
macro_rules! programs {
    ($($(#[$meta:meta])* $name:ident: $program:expr;)*) => { $(
        #[test]
        $(#[$meta])*
        fn $name() {
            check($program);
        }
    )* };
}

programs! {
    spawns_from_outside_are_all_run_by_2: whole::foreign_spawns::<2>;
    spawns_from_outside_are_all_run_by_4: whole::foreign_spawns::<4>;
    a_task_that_fills_its_ring_shares: whole::a_task_that_fills_its_ring_shares;
    wakes_between_tasks_and_from_outside_arrive: whole::wakes_between_tasks_and_from_outside_arrive;
    aborts_race_with_wakes_and_joins: whole::aborts_race_with_wakes_and_joins;
    workers_come_late_and_leave_early: whole::workers_come_late_and_leave_early;
    wakers_hand_over: handover::what_wakers_did_is_seen_by_polls_and_what_tasks_did_by_joiners;
    no_wake_goes_unseen: handover::no_wake_goes_unseen;
    outputs_go_to_tasks_that_await_them: handover::outputs_go_to_tasks_that_await_them;
    nobody_sleeps_while_tasks_from_outside_wait: handover::nobody_sleeps_while_tasks_from_outside_wait;
    nobody_sleeps_while_tasks_of_tasks_wait: handover::nobody_sleeps_while_tasks_of_tasks_wait;
    nobody_sleeps_while_a_chain_of_tasks_waits: handover::nobody_sleeps_while_a_chain_of_tasks_waits;
    slots_go_from_hand_to_hand: handover::slots_go_from_hand_to_hand;
    forks_see_what_their_jobs_did: handover::forks_see_what_their_jobs_did;
    a_sleeper_comes_for_a_job: handover::a_sleeper_comes_for_a_job;
    sleeps_end: handover::sleeps_end;
    timers_of_a_worker_that_leaves_are_fired: handover::timers_of_a_worker_that_leaves_are_fired;
    no_edge_is_lost_on_one_waker: || handover::no_edge_is_lost(false);
    no_edge_is_lost_on_a_list: || handover::no_edge_is_lost(true);
    waiters_hear_of_an_edge: || handover::all_waiters_hear_of_an_edge(true);
    a_crowd_of_waiters_hears_of_an_edge: || handover::all_waiters_hear_of_an_edge(false);
    pinned_tasks_reach_their_workers: ends::pinned_tasks_reach_their_workers;
    the_watchdog_frees_what_a_long_poll_holds: ends::the_watchdog_frees_what_a_long_poll_holds;
    waits_in_sync_code_run_what_they_wait_for: ends::waits_in_sync_code_run_what_they_wait_for;
    waits_in_sync_code_may_be_too_deep: ends::waits_in_sync_code_may_be_too_deep;
    a_shutdown_under_load_leaves_nothing: ends::a_shutdown_under_load_leaves_nothing;
    timeouts_race_with_what_they_wait_for: ends::timeouts_race_with_what_they_wait_for;
    timers_of_threads_are_fired_reset_and_dropped: ends::timers_of_threads_are_fired_reset_and_dropped;
    waiters_are_dropped_while_edges_come: ends::waiters_are_dropped_while_edges_come;
    workers_come_and_go: ends::workers_come_and_go;
}
