//! The cost of an end grows with the number of what it ends, and not with its square.

mod common;

use core::{
    future::{Future, poll_fn},
    task::{Poll, Waker},
    time::Duration,
};
use std::sync::{Arc, Mutex};

use common::{until, watchdog};
use filch_std::{
    Runtime, TaskOptions,
    task::{JoinSet, TaskTracker},
    time::sleep,
};
use filch_test_support::ends_in_linear_time;
use futures_util::future::join;

/// Tasks that wait, and whose wakers are kept.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<Vec<Waker>>>);

impl Waiting {
    fn task(&self) -> impl Future<Output = ()> + Send + use<> {
        let (this, mut begun) = (self.clone(), false);
        poll_fn(move |cx| {
            if !core::mem::replace(&mut begun, true) {
                this.0.lock().unwrap().push(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Calls a closure when it is dropped.
struct Ends<F: FnMut()>(F);

impl<F: FnMut()> Drop for Ends<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A runtime that does not use the memory of another test's: its end looks at all the room that tasks have ever had there.
fn runtime(workers: usize, spares: u16) -> Runtime {
    Runtime::builder().workers(workers).spare_slots(spares).build().unwrap()
}

#[test]
fn a_runtime_with_tasks_that_wait() {
    let _watchdog = watchdog();
    for workers in [1, 2] {
        ends_in_linear_time(|n| {
            let (runtime, waiting) = (runtime(workers, 1), Waiting::default());
            (0..n).for_each(|_| runtime.spawn(waiting.task()).detach());
            until(|| waiting.len() == n);
            runtime
        });
    }
}

#[test]
fn a_runtime_with_timers() {
    let _watchdog = watchdog();
    ends_in_linear_time(|n| {
        let (runtime, waiting) = (runtime(2, 2), Waiting::default());
        (0..n).for_each(|_| {
            let task = waiting.task();
            // The tasks wait for both.
            runtime
                .spawn(async move { join(task, sleep(Duration::from_secs(1_000))).await })
                .detach();
        });
        until(|| waiting.len() == n);
        runtime
    });
}

#[test]
fn a_runtime_of_one_thread() {
    let _watchdog = watchdog();
    ends_in_linear_time(|n| {
        let (runtime, waiting) = (Runtime::builder().build_local().unwrap(), Waiting::default());
        (0..n).for_each(|_| runtime.spawn_local(waiting.task()).unwrap().detach());
        while waiting.len() < n {
            let _ = runtime.turn(1_000);
        }
        runtime
    });
}

#[test]
fn a_set_of_tasks_and_a_tracker() {
    let _watchdog = watchdog();
    let runtime = &runtime(2, 3);
    let is_idle = || runtime.handle().metrics().totals().live == 0;
    ends_in_linear_time(|n| {
        let (mut set, waiting) = (JoinSet::new(), Waiting::default());
        (0..n).for_each(|_| set.insert(runtime.spawn(waiting.task())));
        until(|| waiting.len() == n);
        (set, Ends(|| until(is_idle)))
    });
    ends_in_linear_time(|n| {
        let (tracker, waiting) = (TaskTracker::new(), Waiting::default());
        let spawn = |task| runtime.handle().spawn_with(TaskOptions::new(), task);
        (0..n).for_each(|_| tracker.spawn_by(waiting.task(), spawn).unwrap().detach());
        until(|| waiting.len() == n);
        Ends(move || {
            tracker.abort_all();
            tracker.close();
            runtime.block_on(tracker.wait());
        })
    });
}

#[test]
fn a_scope_whose_tasks_are_cancelled() {
    let _watchdog = watchdog();
    let runtime = &runtime(2, 4);
    ends_in_linear_time(|n| {
        Ends(move || {
            let waiting = Waiting::default();
            runtime.handle().scope(|scope| {
                let tasks: Vec<_> = (0..n).map(|_| scope.spawn(waiting.task())).collect();
                until(|| waiting.len() == n);
                tasks.iter().for_each(|task| task.abort());
            });
        })
    });
}
