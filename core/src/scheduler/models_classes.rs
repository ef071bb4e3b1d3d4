//! Models of classes, and of tasks with an affinity to workers: an urgent task finds a worker, a poll that begins beside it gives way, and
//! a boosted task is found by it.

use core::{
    future::{Future, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::vec;

use loom::thread;

use super::{
    core::{faces::Queues, worker::Step},
    models_jobs::Flag,
    models_whole::{Model, join},
};
use crate::{
    Class, Fork, ForkOptions, TaskOptions, WorkerId, WorkerSet,
    atomic::model::{check, check_large},
    task::state::Snapshot,
};

impl<const N: usize> Model<N> {
    fn spawn_of(self, class: Class, poll: impl FnOnce() + Send + 'static) {
        self.spawn_by(TaskOptions::new().class(class), poll);
    }

    /// For the first two workers.
    fn spawn_affine(self) {
        let set = WorkerSet::new(&[0, 1].map(WorkerId::new)).unwrap();
        self.spawn_by(TaskOptions::new().workers(set), || {});
    }

    fn spawn_by(self, options: TaskOptions, poll: impl FnOnce() + Send + 'static) {
        let spawner = self.executor.spawner();
        let task = spawner.spawn_with(options, self.pool, async move { poll() });
        core::mem::forget(task.unwrap());
    }
}

/// Seen to catch: `idle_fence`.
#[test]
fn models_classes_a_sleeper_and_an_urgent_task() {
    check(3, || {
        let model = Model::<1>::new();
        let workers = model.start(0..1);
        model.spawn_of(Class::Urgent, || {});
        join(workers);
    });
}

/// Each worker is good for one task. Of two with an affinity to both, each finds one, asleep or about to be, and whichever has the lock.
///
/// Seen to catch: `affine_wake`.
#[test]
fn models_classes_two_workers_and_two_affine_tasks() {
    check(1, || {
        let model = Model::<2>::new();
        let workers = model.start(0..2);
        model.spawn_affine();
        model.spawn_affine();
        join(workers);
    });
}

/// A second task is queued while a worker looks for the first: it is found by the next look, or the worker still has its mark.
///
/// Seen to catch: `affine_late`, `affine_early`, `affine_more`.
#[test]
fn models_classes_an_affine_task_against_a_look() {
    check(3, || {
        let model = Model::<2>::new();
        loom::stop_exploring();
        let worker = model.executor.worker(WorkerId::new(0)).unwrap();
        model.spawn_affine();
        loom::explore();
        let pusher = thread::spawn(move || model.spawn_affine());
        let polled = (0..2).filter(|_| worker.step() == Step::Polled).count();
        pusher.join().unwrap();
        assert!(polled >= 1);
        for _ in polled..2 {
            assert_eq!(worker.step(), Step::Polled, "a task waits without a hint");
        }
        core::mem::forget(worker);
    });
}

/// A task with an affinity is boosted while its worker looks for it: the look finds it, or the worker does not sleep.
///
/// Seen to catch: `affine_boost`.
#[test]
fn models_classes_a_boost_against_a_look_for_affine_tasks() {
    check(2, || {
        let model = Model::<3>::new();
        let executor = model.executor;
        loom::stop_exploring();
        let worker = executor.worker(WorkerId::new(0)).unwrap();
        let set = WorkerSet::new(&[0, 2].map(WorkerId::new)).unwrap();
        let (spawner, pool) = (executor.spawner(), model.pool);
        let held = TaskOptions::new().workers(set);
        let mut handle = spawner.spawn_with(held, pool, async {}).unwrap();
        let boosts = async move {
            poll_fn(|cx: &mut Context<'_>| Poll::Ready(Pin::new(&mut handle).poll(cx).is_ready()))
                .await;
            core::mem::forget(handle);
        };
        let urgent = TaskOptions::new().class(Class::Urgent).pinned(WorkerId::new(1));
        core::mem::forget(spawner.spawn_with(urgent, pool, boosts).unwrap());
        loom::explore();
        let waiter = thread::spawn(move || {
            let other = executor.worker(WorkerId::new(1)).unwrap();
            assert_eq!(other.step(), Step::Polled);
            core::mem::forget(other);
        });
        let polled = worker.step() == Step::Polled;
        assert!(polled || worker.must_stay(), "a task waits, and its worker sleeps");
        waiter.join().unwrap();
        assert!(polled || worker.step() == Step::Polled, "a task waits without a hint");
        core::mem::forget(worker);
    });
}

/// A job of a run with an affinity to two workers becomes public while the other goes to sleep, or sleeps.
///
/// Seen to catch: `jobs_mark`, `jobs_marked`.
#[test]
fn models_classes_jobs_for_a_set_become_public_against_sleep() {
    check_large(2, || {
        let model = Model::<2>::new();
        let thief = model.start(1..2);
        let ran = Flag::leak();
        let set = WorkerSet::new(&[0, 1].map(WorkerId::new)).unwrap();
        let owner = thread::spawn(move || {
            let worker = model.executor.worker(WorkerId::new(0)).unwrap();
            let run = |fork: Fork<'_>| {
                let wait = |_: Fork<'_>| {
                    model.executor.slots()[0].publish_jobs();
                    ran.wait();
                };
                fork.join(wait, |_| ran.set());
            };
            assert!(model.executor.fork_with(ForkOptions::new().workers(set), run).is_ok());
            core::mem::forget(worker);
        });
        join(thief);
        join(vec![owner]);
    });
}

/// Each worker is good for one task, and the holder of the lock may hide one from the other.
///
/// Seen to catch: `urgent_notify`.
#[test]
fn models_classes_two_workers_and_two_urgent_tasks() {
    check(1, || {
        let model = Model::<2>::new();
        let workers = model.start(0..2);
        model.spawn_of(Class::Urgent, || {});
        model.spawn_of(Class::Urgent, || {});
        join(workers);
    });
}

/// An urgent task comes while a worker looks for its next task. The worker polls it first, or sees in the poll of the other that it
/// should give way.
///
/// Seen to catch: `epoch_late`, `epoch_early`.
#[test]
fn models_classes_pressure_on_a_poll_that_begins() {
    check(3, || {
        let model = Model::<1>::new();
        let executor = model.executor;
        loom::stop_exploring();
        let worker = executor.worker(WorkerId::new(0)).unwrap();
        let order = crate::atomic::model::leak(loom::sync::Mutex::new(std::vec::Vec::new()));
        model.spawn_of(Class::Urgent, || {});
        assert_eq!(worker.step(), Step::Polled);
        model.spawn(|| order.lock().unwrap().push(Class::Normal));
        loom::explore();
        let pusher = thread::spawn(move || {
            model.spawn_of(Class::Urgent, || order.lock().unwrap().push(Class::Urgent));
        });
        let found = worker.find().expect("a task is queued");
        pusher.join().unwrap();
        let is_urgent = found.class() == Class::Urgent;
        let slot = worker.slot();
        assert!(is_urgent || executor.has_urgent_for(slot), "a poll begins that should give way");
        worker.poll(found, &worker.leave_loop());
        assert_eq!(worker.step(), Step::Polled);
        let first = if is_urgent { Class::Urgent } else { Class::Normal };
        assert_eq!(order.lock().unwrap().first(), Some(&first));
        assert_eq!(order.lock().unwrap().len(), 2);
        core::mem::forget(worker);
    });
}

/// A background task is woken while an urgent task that waits for it boosts it: one of the two queues it. The order of the two says
/// in which queue it is; as it is queued again, it comes before a normal task.
///
/// Seen to catch: `boost_asleep`.
#[test]
fn models_classes_a_boost_against_a_wake() {
    check(3, || {
        let model = Model::<1>::new();
        let executor = model.executor;
        loom::stop_exploring();
        let worker = executor.worker(WorkerId::new(0)).unwrap();
        let flag = crate::atomic::model::leak(loom::sync::Mutex::new(None::<Waker>));
        let mut polls = 0;
        let task = poll_fn(move |cx| {
            polls += 1;
            match polls {
                1 => *flag.lock().unwrap() = Some(cx.waker().clone()),
                2 => cx.waker().wake_by_ref(),
                _ => return Poll::Ready(()),
            }
            Poll::Pending
        });
        let (spawner, pool) = (executor.spawner(), model.pool);
        let background = TaskOptions::new().class(Class::Background);
        let mut handle = spawner.spawn_with(background, pool, task).unwrap();
        assert_eq!(worker.step(), Step::Polled);
        let waker = flag.lock().unwrap().take().unwrap();
        let boosts = async move {
            let look =
                |cx: &mut Context<'_>| Poll::Ready(Pin::new(&mut handle).poll(cx).is_ready());
            assert!(!poll_fn(look).await, "it was not polled again");
            core::mem::forget(handle);
        };
        let urgent = TaskOptions::new().class(Class::Urgent);
        core::mem::forget(spawner.spawn_with(urgent, pool, boosts).unwrap());
        loom::explore();
        let wakes = thread::spawn(move || waker.wake());
        assert_eq!(worker.step(), Step::Polled, "the waiter");
        wakes.join().unwrap();
        assert_eq!(worker.step(), Step::Polled, "the awaited task, which is queued");
        model.spawn(|| {});
        let next = worker.find().expect("two tasks are queued");
        assert_eq!(next.class(), Class::Urgent, "the awaited task was queued again");
        worker.poll(next, &worker.leave_loop());
        assert_eq!(worker.step(), Step::Polled, "the other");
        core::mem::forget(worker);
    });
}

/// A handle is dropped, and ends its boost, while the task completes or is woken.
#[test]
fn models_classes_the_end_of_a_boost_against_completion() {
    check(3, || {
        let (boosted, _) =
            Snapshot::spawned(false).of_class(Class::Background).with_boost(Some(Class::Urgent));
        assert_eq!((boosted.class(), boosted.own_class()), (Class::Urgent, Class::Background));
        let state = std::sync::Arc::new(crate::task::state::State::vacant());
        state.publish(boosted);
        let other = thread::spawn({
            let state = std::sync::Arc::clone(&state);
            move || state.apply(Snapshot::complete)
        });
        // As the drop of a handle does.
        let _ = state.apply(|state| state.with_boost(None));
        let detached = state.apply(Snapshot::detach);
        let _ = other.join().unwrap();
        let now = state.load();
        assert!(now.is_complete());
        // Of a task that is complete, no boost is ended.
        assert!(now.class() == Class::Background || detached.is_err());
    });
}
