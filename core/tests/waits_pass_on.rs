//! What user code queues on a worker that then sleeps, or arms there, passes to the other workers. No worker watches.

mod common;

use core::{
    future::Future,
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{sync::Arc, task::Wake};

use filch::Config;

use common::{Sleeps, ThreadExecutor, id, pool, quiet, stop, threads, until, watchdog};

fn flag() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

struct Sets(AtomicBool);

impl Wake for Sets {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Forks a job that another worker takes, which sets the flag; whether the run was possible.
fn fork_for_another(
    executor: &'static ThreadExecutor,
    stolen: &AtomicBool,
    job: impl FnOnce() + Send,
) -> bool {
    let run = executor.fork(|fork| {
        fork.join(
            |fork| {
                until(|| {
                    fork.is_wanted();
                    stolen.load(SeqCst)
                });
            },
            |_| {
                stolen.store(true, SeqCst);
                job();
            },
        )
    });
    run.is_ok()
}

/// A broadcast whose closure on worker 0 spawns a task that sets the flag.
async fn spawns_on_worker_0(executor: &'static ThreadExecutor, ran: Arc<AtomicBool>) {
    let queues = |worker| {
        if worker == id(0) {
            let ran = Arc::clone(&ran);
            executor.spawn(pool(), async move { ran.store(true, SeqCst) }).unwrap().detach();
        }
    };
    assert!(executor.broadcast(queues).is_ok());
}

/// A worker sleeps for its job, not too deep to help, and takes part in a broadcast there.
#[test]
fn what_a_broadcast_queues_on_a_worker_that_sleeps_for_its_job() {
    let _watchdog = watchdog();
    let executor = threads(4, quiet());
    let (stolen, ran) = (flag(), flag());
    let (steals, runs) = (Arc::clone(&stolen), Arc::clone(&ran));
    let forks = executor.spawner().spawn_pinned(pool(), id(0), async move {
        fork_for_another(executor, &steals, || until(|| runs.load(SeqCst)))
    });
    until(|| stolen.load(SeqCst) && executor.platform().sleeps(0) == Sleeps::Waits);
    let mut broadcasts = executor.spawn(pool(), spawns_on_worker_0(executor, ran)).unwrap();
    broadcasts.join().unwrap();
    assert!(forks.unwrap().join().unwrap());
    stop(executor);
}

/// The caller's own part in a broadcast queues a task, and then the caller sleeps until the others have had theirs.
#[test]
fn what_a_broadcast_queues_on_its_caller() {
    let _watchdog = watchdog();
    let executor = threads(3, quiet());
    let (ran, begun) = (flag(), flag());
    let (runs, begins) = (Arc::clone(&ran), Arc::clone(&begun));
    let long = executor.spawner().spawn_pinned(pool(), id(1), async move {
        begins.store(true, SeqCst);
        until(|| runs.load(SeqCst));
    });
    until(|| begun.load(SeqCst));
    let broadcasts =
        executor.spawner().spawn_pinned(pool(), id(0), spawns_on_worker_0(executor, ran));
    long.unwrap().join().unwrap();
    broadcasts.unwrap().join().unwrap();
    stop(executor);
}

/// A worker blocks in place and arms a timer there. One of the others is in a long poll, and one is blocked in a wait that is too deep to
/// help in: that one fires the timer.
#[test]
fn a_timer_that_is_armed_in_place_beside_a_deep_wait_and_a_long_poll() {
    let _watchdog = watchdog();
    let executor = threads(3, quiet().nesting(0));
    let (done, over, begun) = (flag(), flag(), flag());
    let waits = Arc::clone(&done);
    let blocked = executor
        .spawner()
        .spawn_pinned(pool(), id(0), async move { executor.help_until(|| waits.load(SeqCst)) });
    let (ends, begins) = (Arc::clone(&over), Arc::clone(&begun));
    let long = executor.spawner().spawn_pinned(pool(), id(2), async move {
        begins.store(true, SeqCst);
        until(|| ends.load(SeqCst));
    });
    until(|| begun.load(SeqCst));
    let place = executor.spawner().spawn_pinned(pool(), id(1), async move {
        executor.block_in_place(|| {
            until(|| executor.platform().sleeps(0) != Sleeps::Awake);
            let fired = Arc::new(Sets(AtomicBool::new(false)));
            let waker = Waker::from(Arc::clone(&fired));
            let mut sleep = pin!(executor.sleep(Duration::from_millis(5)));
            assert_eq!(sleep.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
            until(|| fired.0.load(SeqCst));
            over.store(true, SeqCst);
        });
    });
    place.unwrap().join().unwrap();
    long.unwrap().join().unwrap();
    done.store(true, SeqCst);
    executor.unpark_worker(id(0));
    assert!(blocked.unwrap().join().unwrap());
    stop(executor);
}

/// What the calling worker's timer wakes, after five milliseconds, which is a flag.
fn timer(executor: &'static ThreadExecutor, fired: &Arc<Sets>) -> impl Sized + use<> {
    let mut sleep = Box::pin(executor.sleep(Duration::from_millis(5)));
    let waker = Waker::from(Arc::clone(fired));
    assert_eq!(sleep.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    sleep
}

/// A job that another worker has taken waits for a timer of the worker that waits for the job.
fn a_job_waits_for_its_owners_timer(workers: u16, config: Config) {
    let _watchdog = watchdog();
    let executor = threads(workers, config);
    let forks = executor.spawner().spawn_pinned(pool(), id(0), async move {
        let fired = Arc::new(Sets(AtomicBool::new(false)));
        let _sleep = timer(executor, &fired);
        fork_for_another(executor, &flag(), || until(|| fired.0.load(SeqCst)))
    });
    assert!(forks.unwrap().join().unwrap());
    stop(executor);
}

#[test]
fn a_job_that_waits_for_a_timer_of_its_owner() {
    a_job_waits_for_its_owners_timer(3, quiet());
}

#[test]
fn a_job_that_waits_for_a_timer_of_its_owner_and_no_other_worker() {
    a_job_waits_for_its_owners_timer(2, Config::new());
}

#[test]
fn a_job_that_waits_for_a_timer_of_its_owner_which_is_too_deep_to_help() {
    a_job_waits_for_its_owners_timer(2, quiet().nesting(0));
}

#[test]
fn a_broadcast_that_waits_for_a_timer_of_its_caller() {
    let _watchdog = watchdog();
    let executor = threads(2, quiet());
    // It is online then.
    executor.spawner().spawn_pinned(pool(), id(1), async {}).unwrap().join().unwrap();
    let broadcasts = executor.spawner().spawn_pinned(pool(), id(0), async move {
        let fired = Arc::new(Sets(AtomicBool::new(false)));
        let _sleep = timer(executor, &fired);
        let waits = |worker| {
            if worker == id(1) {
                until(|| fired.0.load(SeqCst));
            }
        };
        executor.broadcast(waits).ok()
    });
    assert_eq!(broadcasts.unwrap().join().unwrap(), Some(2));
    stop(executor);
}

/// A job that another worker has taken waits for an event of I/O. No worker is left to listen but the one that waits for the job.
#[test]
fn a_job_that_waits_for_an_event() {
    let _watchdog = watchdog();
    let executor = threads(2, quiet());
    let (heard, stolen, asleep) = (flag(), flag(), flag());
    let (hears, sleeps) = (Arc::clone(&heard), Arc::clone(&asleep));
    executor.platform().at_deliver(move |_| {
        // What was heard of before is not the event.
        if sleeps.load(SeqCst) {
            hears.store(true, SeqCst);
        }
    });
    let forks = executor.spawner().spawn_pinned(pool(), id(0), async move {
        fork_for_another(executor, &stolen, || {
            until(|| executor.platform().sleeps(0) != Sleeps::Awake);
            asleep.store(true, SeqCst);
            until(|| heard.load(SeqCst));
        })
    });
    assert!(forks.unwrap().join().unwrap());
    stop(executor);
}

struct Calls<F>(F);

impl<F: Fn() + Send + Sync> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// A timer of worker 0 whose waker calls `f` while the worker waits for its broadcast's end, which comes once the waker is done.
fn in_a_wait<R: Send + 'static>(
    executor: &'static ThreadExecutor,
    f: impl Fn() + Send + Sync + 'static,
    after: impl FnOnce() -> R + Send + 'static,
) -> R {
    executor.spawner().spawn_pinned(pool(), id(1), async {}).unwrap().join().unwrap();
    let task = executor.spawner().spawn_pinned(pool(), id(0), async move {
        let done = flag();
        let ends = Arc::clone(&done);
        let calls = move || {
            f();
            ends.store(true, SeqCst);
        };
        let mut sleep = Box::pin(executor.sleep(Duration::from_millis(5)));
        let waker = Waker::from(Arc::new(Calls(calls)));
        assert_eq!(sleep.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        let waits = |worker| {
            if worker == id(1) {
                until(|| done.load(SeqCst));
            }
        };
        assert!(executor.broadcast(waits).is_ok());
        after()
    });
    task.unwrap().join().unwrap()
}

/// It would wait for the broadcast below it on its stack.
#[test]
fn a_broadcast_by_a_waker_in_a_broadcasts_wait_is_refused() {
    let _watchdog = watchdog();
    let executor = threads(2, quiet());
    let refused = flag();
    let notes = Arc::clone(&refused);
    let call = move || notes.store(executor.broadcast(|_| {}).is_err(), SeqCst);
    in_a_wait(executor, call, || {});
    assert!(refused.load(SeqCst));
    stop(executor);
}

/// A task that goes to the ring, as there is no LIFO slot: its notification is not put off beyond the wait.
#[test]
fn a_worker_owes_nothing_after_its_wait() {
    let _watchdog = watchdog();
    let executor = threads(3, Config::new().lifo_cap(0));
    let spawn = || executor.spawn(pool(), async {}).unwrap().detach();
    assert!(!in_a_wait(executor, spawn, || executor.has_duties()));
    stop(executor);
}
