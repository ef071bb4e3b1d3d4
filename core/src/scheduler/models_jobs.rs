//! Models of fork-join on the whole scheduler: the real workers, deques and waits.
//!
//! As in `models_whole`, a worker stalls for ever after the first thing that it has done. A job that no worker takes leaves a
//! worker asleep, or one that waits for the job: loom reports this as a deadlock.

use loom::{
    sync::{Condvar, Mutex},
    thread,
};

use super::{
    models_whole::{Model, join},
    waits::help::Helping,
};
use crate::{
    Fork, WorkerId,
    atomic::{
        UnsafeCell,
        model::{check_large, leak},
    },
};

/// A flag that is set once.
pub(super) struct Flag {
    value: Mutex<bool>,
    news: Condvar,
}

impl Flag {
    pub(super) fn leak() -> &'static Self {
        leak(Self { value: Mutex::new(false), news: Condvar::new() })
    }

    pub(super) fn set(&self) {
        *self.value.lock().unwrap() = true;
        self.news.notify_all();
    }

    fn is_set(&self) -> bool {
        *self.value.lock().unwrap()
    }

    pub(super) fn wait(&self) {
        let mut value = self.value.lock().unwrap();
        while !*value {
            value = self.news.wait(value).unwrap();
        }
    }
}

/// What a job leaves behind, in a cell that loom checks.
pub(super) struct Outcome(UnsafeCell<u32>);

// SAFETY: loom checks the cell.
unsafe impl Sync for Outcome {}

impl Outcome {
    pub(super) fn leak() -> &'static Self {
        leak(Self(UnsafeCell::new(0)))
    }

    pub(super) fn set(&self) {
        // SAFETY: loom reports a race.
        self.0.with_mut(|p| unsafe { *p = 7 });
    }

    pub(super) fn assert_set(&self) {
        // SAFETY: as above.
        assert_eq!(self.0.with(|p| unsafe { *p }), 7);
    }
}

/// Worker 0 begins a fork-join run, in a thread of its own.
fn fork(model: Model<2>, f: impl FnOnce(Fork<'_>) + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let worker = model.executor.worker(WorkerId::new(0)).unwrap();
        assert!(model.executor.fork(f).is_ok());
        core::mem::forget(worker);
    })
}

/// Starts worker 1, and explores once it sleeps.
pub(super) fn asleep(model: Model<2>) -> Vec<thread::JoinHandle<()>> {
    let thief = model.start_asleep(1);
    loom::explore();
    thief
}

/// A sleeper is woken for a job, and ends the job while the owner goes to sleep in the join.
///
/// Seen to catch: `job_done`, `job_asleep`, `jobs_notify`, `deque_publish`.
#[test]
fn a_stolen_job_against_its_owner() {
    check_large(2, || {
        let model = Model::<2>::new();
        let thief = asleep(model);
        let (begun, outcome) = (Flag::leak(), Outcome::leak());
        let owner = fork(model, move |fork| {
            fork.join(
                |_| begun.wait(),
                |_| {
                    begun.set();
                    outcome.set();
                },
            );
            outcome.assert_set();
        });
        join(vec![owner]);
        join(thief);
    });
}

/// Jobs become public while another worker goes to sleep. Their owner goes to sleep too, as in a wait in sync code.
///
/// Seen to catch: `jobs_look`, `jobs_notify`, `idle_fence`, `idle_recheck`.
#[test]
fn jobs_become_public_against_sleep() {
    check_large(2, || {
        let model = Model::<2>::new();
        let thief = model.start(1..2);
        let ran = Flag::leak();
        let owner = fork(model, move |fork| {
            fork.join(
                |_| {
                    model.executor.slots()[0].publish_jobs();
                    ran.wait();
                },
                |_| ran.set(),
            );
        });
        join(vec![owner]);
        join(thief);
    });
}

/// The owner takes the request down, since no worker is without work, while another worker goes to sleep. At its next fork the
/// owner must see a new request.
///
/// Seen to catch: `jobs_unask`, `jobs_notify`.
#[test]
fn who_goes_to_sleep_has_asked() {
    check_large(2, || {
        let model = Model::<2>::new();
        let thief = model.start(1..2);
        let ran = Flag::leak();
        let owner = fork(model, move |fork| {
            model.executor.slots()[0].fork.always().ask();
            fork.join(
                |fork| {
                    // Until the other worker sleeps for good, or has taken the job already.
                    while !(ran.is_set() || model.executor.platform().is_quiet()) {
                        thread::yield_now();
                    }
                    fork.join(|_| ran.wait(), |_| {});
                },
                |_| ran.set(),
            );
        });
        join(vec![owner]);
        join(thief);
    });
}

/// A job is public from its fork on, of which no worker is notified that goes to sleep at that moment. At its next fork the owner
/// must see the request, and have that worker take what is public.
///
/// Seen to catch: `jobs_open`.
#[test]
fn an_open_job_against_sleep() {
    check_large(2, || {
        let model = Model::<2>::new();
        let thief = model.start(1..2);
        let ran = Flag::leak();
        let owner = fork(model, move |fork| {
            fork.join_open(
                |fork| {
                    // Until the other worker sleeps for good, or has taken the job already.
                    while !(ran.is_set() || model.executor.platform().is_quiet()) {
                        thread::yield_now();
                    }
                    fork.join_open(|_| ran.wait(), |_, _| {});
                },
                |_, _| ran.set(),
            );
        });
        join(vec![owner]);
        join(thief);
    });
}

/// Two contexts that are no workers take the places of both workers. The owner finds that no worker may take its jobs, and takes
/// the request down, while the contexts leave. At its next fork it must see a new request.
///
/// Seen to catch: `help_leave`, `help_leave_fence`.
#[test]
fn who_leaves_makes_room_for_a_worker() {
    check_large(2, || {
        let model = Model::<2>::new();
        let executor = model.executor;
        let helping = [Helping::begin(executor), Helping::begin(executor)];
        let thief = asleep(model);
        let (ran, left) = (Flag::leak(), Flag::leak());
        let owner = fork(model, move |fork| {
            executor.slots()[0].fork.always().ask();
            fork.join(
                |fork| {
                    left.wait();
                    fork.join(|_| ran.wait(), |_| {});
                },
                |_| ran.set(),
            );
        });
        drop(helping);
        left.set();
        join(vec![owner]);
        join(thief);
    });
}

/// A worker too deep in joins to help relies on another, while a context from outside looks whether it could help, and cannot.
/// The context must not be counted as one that cannot run tasks before it is counted as online.
///
/// Seen to catch: `help_first`.
#[test]
fn a_context_that_comes_takes_nobody_out_of_the_count() {
    check_large(2, || {
        let model = Model::<3>::with(|config| config.nesting(0).spare_slots(1));
        let executor = model.executor;
        let (online, ran) = (Flag::leak(), Flag::leak());
        let works = thread::spawn(move || {
            let worker = executor.worker(WorkerId::new(1)).unwrap();
            online.set();
            ran.set();
            executor.unpark_worker(WorkerId::new(0));
            core::mem::forget(worker);
        });
        let waits = thread::spawn(move || {
            let worker = executor.worker(WorkerId::new(0)).unwrap();
            online.wait();
            // A task is queued that no worker runs: a worker that can rely on no other gives up.
            model.spawn(|| {});
            assert!(executor.help_until(|| ran.is_set()), "the other was there");
            core::mem::forget(worker);
        });
        assert!(executor.helper().is_none(), "nobody is without work");
        join(vec![works, waits]);
    });
}

/// A worker too deep in joins to help relies on another, which goes to sleep in a join of a fork at that moment. The first must
/// then run its task itself.
///
/// Seen to catch: `help_count`.
#[test]
fn who_sleeps_in_a_join_is_not_relied_on() {
    check_large(2, || {
        let model = Model::<2>::with(|config| config.nesting(0));
        let executor = model.executor;
        let (online, ran) = (Flag::leak(), Flag::leak());
        let joins = thread::spawn(move || {
            let worker = executor.worker(WorkerId::new(1)).unwrap();
            online.set();
            let counted = executor.count_out(executor.census.joining.up());
            ran.wait();
            drop(counted);
            core::mem::forget(worker);
        });
        let helps = thread::spawn(move || {
            let worker = executor.worker(WorkerId::new(0)).unwrap();
            online.wait();
            model.spawn(|| ran.set());
            assert!(executor.help_until_done(|| ran.is_set()));
            core::mem::forget(worker);
        });
        join(vec![joins, helps]);
    });
}
