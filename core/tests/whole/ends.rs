//! Ends and special cases: shutdown under load, long polls, pinned tasks, waits in sync code, timers and waiters that
//! are dropped, workers that come and go.

use core::{
    future::{Future, pending, poll_fn},
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::task::Wake;

use filch::{
    Config, Executor, Instant, JoinError, WorkerId,
    atomic::{AtomicU32, Ordering::Relaxed},
    io::{Readiness, Ready},
};

use super::{
    Flag, Pool, Small, System,
    handover::{Event, Note},
    start, start_with,
};
use crate::model::{Arc, Board, leak, thread};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A chain of tasks, each pinned to another worker and spawned by the one before.
pub(crate) fn pinned_tasks_reach_their_workers() {
    let system = start::<3>();
    let (executor, pool) = (system.executor, system.pool);
    fn next(
        executor: &'static Small<3>,
        pool: &'static Pool,
        note: Arc<[Note; 4]>,
        i: usize,
    ) -> filch::JoinHandle<()> {
        let task = {
            let note = note.clone();
            async move {
                if i > 0 {
                    note[i - 1].read();
                }
                note[i].write();
                if i < 3 {
                    next(executor, pool, note, i + 1).detach();
                }
            }
        };
        let worker = WorkerId::new(i as u16 % 3);
        let spawned = executor.spawner().spawn_pinned(pool, worker, task);
        spawned.unwrap_or_else(|error| panic!("{error}"))
    }
    let notes: Arc<[Note; 4]> = Arc::default();
    next(executor, pool, notes.clone(), 0).detach();
    system.end();
    notes[3].read();
}

/// A task is in the LIFO slot of a worker whose poll waits for it: the watchdog frees it.
pub(crate) fn the_watchdog_frees_what_a_long_poll_holds() {
    let system = start_with::<2>(Config::new().watchdog(Some((ms(1), ms(4)))).spin_rounds(0));
    let (executor, pool) = (system.executor, system.pool);
    let mut task = system.spawn(async move {
        let met = Arc::new(Event::default());
        let other = met.clone();
        let freed = executor.spawn(pool, async move { other.count() });
        freed.unwrap_or_else(|error| panic!("{error}")).detach();
        met.wait_for(1);
    });
    task.join().expect("completes");
    system.end();
}

/// A tree of tasks, each of which waits for its children in sync code. The wait may be refused as too deep.
fn tree(
    system: (&'static Small<2>, &'static Pool),
    depth: u32,
    blocks: bool,
) -> filch::JoinHandle<u32> {
    let (executor, pool) = system;
    let task = async move {
        let mut sum = 1;
        if depth > 0 {
            for mut child in [tree(system, depth - 1, blocks), tree(system, depth - 1, blocks)] {
                sum += match child.join() {
                    Ok(n) => n,
                    Err(JoinError::TooDeep) if blocks => child.await.expect("completes"),
                    Err(error) => panic!("{error}"),
                };
            }
        }
        sum
    };
    executor.spawn(pool, task).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn waits_in_sync_code_run_what_they_wait_for() {
    let system = start::<2>();
    assert_eq!(tree((system.executor, system.pool), 2, false).join().expect("completes"), 7);
    system.end();
}

pub(crate) fn waits_in_sync_code_may_be_too_deep() {
    let config = Config::new().watchdog(None).spin_rounds(0).nesting(1);
    let system = start_with::<2>(config);
    assert_eq!(tree((system.executor, system.pool), 2, true).join().expect("completes"), 7);
    system.end();
}

/// Counts drops.
struct Count(Arc<AtomicU32>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Tasks that yield, wait and sleep for ever, and a thread that spawns until a spawn is refused.
pub(crate) fn a_shutdown_under_load_leaves_nothing() {
    let system = start::<2>();
    let System { executor, pool, .. } = system;
    let dropped = Arc::new(AtomicU32::new(0));
    let spawn = |kind: u32, count: Count| {
        let task = executor.spawn(pool, async move {
            let _count = count;
            match kind {
                0 => loop {
                    filch::yield_now().await;
                },
                1 => pending().await,
                _ => executor.sleep(ms(1_000_000)).await,
            }
        });
        u32::from(task.is_ok())
    };
    let mut spawned = 0;
    for kind in 0..3 {
        spawned += spawn(kind, Count(dropped.clone()));
    }
    let late = thread::spawn({
        let dropped = dropped.clone();
        move || {
            let mut spawned = 0;
            for _ in 0..4 {
                let count = Count(dropped.clone());
                spawned += 1;
                let task = executor.spawn(pool, async move {
                    let _count = count;
                    filch::yield_now().await;
                });
                if task.is_err() {
                    break;
                }
            }
            spawned
        }
    });
    executor.shutdown(Instant::ZERO, |_| {}).expect("called from no worker");
    spawned += late.join().expect("does not panic");
    assert_eq!(executor.metrics().totals().live, 0);
    system.join();
    assert_eq!(dropped.fetch_or(0, Relaxed), spawned);
}

/// Flags are set while timeouts run out.
pub(crate) fn timeouts_race_with_what_they_wait_for() {
    let system = start::<2>();
    let executor = system.executor;
    let flags: [Flag; 2] = Default::default();
    let mut tasks = flags.clone().map(|flag| {
        system.spawn(async move {
            let early = executor.timeout(ms(1), flag.wait()).await.is_ok();
            if !early {
                flag.wait().await;
            }
        })
    });
    let [first, second] = flags;
    let other = thread::spawn(move || second.set());
    first.set();
    for task in &mut tasks {
        task.join().expect("completes");
    }
    other.join().expect("does not panic");
    system.end();
}

/// Ends a thread's park.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

fn this_thread() -> Waker {
    Waker::from(std::sync::Arc::new(Unpark(thread::current())))
}

fn poll_here<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// A thread waits for one timer, resets another, and drops a third, while workers fire them.
pub(crate) fn timers_of_threads_are_fired_reset_and_dropped() {
    let system = start::<2>();
    let executor = system.executor;
    let waker = this_thread();
    let [mut waits, mut moves, mut goes] = [2, 1, 1].map(|n| Box::pin(executor.sleep(ms(n))));
    for sleep in [&mut waits, &mut moves, &mut goes] {
        let _ = poll_here(sleep.as_mut(), &waker);
    }
    let other = thread::spawn(move || {
        drop(goes);
        moves.as_mut().reset(Instant::from_nanos(3_000_000));
        let waker = this_thread();
        while poll_here(moves.as_mut(), &waker).is_pending() {
            thread::park();
        }
    });
    while poll_here(waits.as_mut(), &waker).is_pending() {
        thread::park();
    }
    other.join().expect("does not panic");
    system.end();
}

/// Waiters give up, and the cell is reset for another source, while edges come.
pub(crate) fn waiters_are_dropped_while_edges_come() {
    let system = start::<2>();
    let cell: &'static Readiness = leak(Readiness::new());
    let over = Flag::default();
    let mut tasks = [false, true].map(|gives_up| {
        let over = over.clone();
        system.spawn(async move {
            let mut edge = Box::pin(cell.ready(Ready::READABLE));
            let mut over = Box::pin(over.wait());
            poll_fn(|cx| match edge.as_mut().poll(cx) {
                Poll::Ready(_) => Poll::Ready(()),
                Poll::Pending if gives_up => over.as_mut().poll(cx),
                Poll::Pending => Poll::Pending,
            })
            .await;
        })
    });
    let other = thread::spawn(move || {
        cell.set(Ready::WRITABLE);
        cell.set(Ready::READABLE);
    });
    over.set();
    cell.reset();
    other.join().expect("does not panic");
    // The reset may have come last.
    cell.set(Ready::READABLE);
    for task in &mut tasks {
        task.join().expect("completes");
    }
    system.end();
}

/// A worker attaches, does some work and leaves, again and again, while another thread does the same.
pub(crate) fn workers_come_and_go() {
    let config = Config::new().watchdog(None).spin_rounds(0);
    let executor: &'static Small<2> = leak(Executor::with_config(Board::new(), config));
    let pool: &'static Pool = leak(Pool::new());
    let mut tasks = [0, 1, 2].map(|_| {
        let task = async {
            filch::yield_now().await;
            filch::yield_now().await;
        };
        executor.spawn(pool, task).unwrap_or_else(|error| panic!("{error}"))
    });
    let visit = move |i| {
        for _ in 0..3 {
            if let Ok(worker) = executor.worker(WorkerId::new(i)) {
                worker.run_for(1);
            }
            thread::yield_now();
        }
    };
    let visitors = [0, 1].map(|i| thread::spawn(move || visit(i)));
    visitors.into_iter().for_each(|visitor| visitor.join().expect("does not panic"));
    let stays = thread::spawn(move || {
        let _ = executor.run(WorkerId::new(1));
    });
    for task in &mut tasks {
        task.join().expect("completes");
    }
    executor.shutdown(Instant::MAX, |_| {}).expect("called from no worker");
    stays.join().expect("does not panic");
}
