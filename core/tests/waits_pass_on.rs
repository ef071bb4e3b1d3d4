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
        let run = executor.fork(|fork| {
            fork.join(
                |fork| {
                    until(|| {
                        fork.is_wanted();
                        steals.load(SeqCst)
                    });
                },
                |_| {
                    steals.store(true, SeqCst);
                    until(|| runs.load(SeqCst));
                },
            )
        });
        run.is_ok()
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
