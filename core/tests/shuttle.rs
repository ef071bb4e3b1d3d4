//! The whole executor under shuttle: random and PCT schedules of two to four workers and a foreign thread, with every
//! timeout off. Shuttle sees a lost wake-up as a deadlock. It ignores memory orderings: those are loom's.
//!
//! `RUSTFLAGS="--cfg filch_shuttle" cargo test -p filch --release --test shuttle --target-dir target/shuttle`
//!
//! A failure prints a schedule; `SHUTTLE_REPLAY=<schedule>` and the test's name replay it. `SHUTTLE_ITERATIONS` sets how many
//! schedules each test runs.
#![cfg(filch_shuttle)]

use core::{
    cell::Cell,
    future::{Future, poll_fn},
    task::{Poll, Waker},
};

use filch::{
    Config, Executor, Instant, JoinError, Platform, RunError, TaskPool, WorkerId,
    atomic::{AtomicU32, Ordering},
};
use shuttle::{
    scheduler::{PctScheduler, RandomScheduler, ReplayScheduler},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// Workers are shuttle's threads, and sleep on its condition variables.
struct Board {
    lock: Mutex<()>,
    news: Condvar,
}

shuttle::thread_local! {
    static WORKER: Cell<Option<WorkerId>> = const { Cell::new(None) };
}

impl Board {
    fn new() -> Self {
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

// SAFETY: the thread local is the thread's own; the check and the sleep are one under the lock.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn current_worker(&self) -> Option<WorkerId> {
        WORKER.with(Cell::get)
    }
    fn enter(&self, worker: WorkerId) {
        WORKER.with(|w| w.set(Some(worker)));
    }
    fn leave(&self, _: WorkerId) {
        WORKER.with(|w| w.set(None));
    }
    fn wait(&self, _: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
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

type Small<const N: usize> = Executor<Board, N, 4>;
type Pool = TaskPool<1024, 16>;

struct System<const N: usize> {
    executor: &'static Small<N>,
    pool: &'static Pool,
    workers: Vec<thread::JoinHandle<()>>,
}

/// `N` workers on threads; the memory of each schedule is leaked, as an executor's must be.
fn start<const N: usize>() -> System<N> {
    let config = Config::new().sentry(None).spin_rounds(0);
    let executor: &'static Small<N> =
        Box::leak(Box::new(Executor::with_config(Board::new(), config)));
    let workers = (0..N as u16)
        .map(|i| thread::spawn(move || executor.run(WorkerId::new(i)).expect("nobody else is it")))
        .collect();
    System { executor, pool: Box::leak(Box::new(Pool::new())), workers }
}

impl<const N: usize> System<N> {
    fn spawn<F>(&self, future: F) -> filch::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.executor.spawn(self.pool, future).unwrap_or_else(|error| panic!("{error}"))
    }

    fn end(self) {
        self.executor.shutdown(Instant::MAX, |_| {}).expect("called from no worker");
        let totals = self.executor.metrics().totals();
        assert_eq!((totals.live, totals.spawned), (0, totals.completed));
        self.workers.into_iter().for_each(|w| w.join().expect("workers do not panic"));
    }
}

fn check(f: fn()) {
    let n = std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
    // An executor is made on the stack, and is larger than shuttle's stacks.
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    if let Ok(schedule) = std::env::var("SHUTTLE_REPLAY") {
        shuttle::Runner::new(ReplayScheduler::new_from_encoded(&schedule), config).run(f);
        return;
    }
    shuttle::Runner::new(RandomScheduler::new(n), config.clone()).run(f);
    shuttle::Runner::new(PctScheduler::new(3, n), config).run(f);
}

/// A flag that one task waits for and another sets.
#[derive(Clone, Default)]
struct Flag(Arc<Mutex<(bool, Option<Waker>)>>);

impl Flag {
    fn set(&self) {
        let waker = {
            let mut state = self.0.lock().expect("no panic holds it");
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wait(&self) -> impl Future<Output = ()> + use<> {
        let flag = self.clone();
        poll_fn(move |cx| {
            let mut state = flag.0.lock().expect("no panic holds it");
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

fn foreign_spawns<const N: usize>() {
    let system = start::<N>();
    let mut handles: Vec<_> = (0..4)
        .map(|i| {
            system.spawn(async move {
                filch::yield_now().await;
                i
            })
        })
        .collect();
    let sum: u32 = handles.iter_mut().map(|h| h.join().expect("completes")).sum();
    assert_eq!(sum, 6);
    system.end();
}

#[test]
fn spawns_from_outside_are_all_run_by_2() {
    check(foreign_spawns::<2>);
}

#[test]
fn spawns_from_outside_are_all_run_by_4() {
    check(foreign_spawns::<4>);
}

#[test]
fn a_task_that_fills_its_ring_shares() {
    check(|| {
        let system = start::<3>();
        let (executor, pool) = (system.executor, system.pool);
        let mut parent = system.spawn(async move {
            let children: Vec<_> = (0..9)
                .map(|i| executor.spawn(pool, async move { i }).unwrap_or_else(|e| panic!("{e}")))
                .collect();
            let mut sum = 0;
            for child in children {
                sum += child.await.expect("completes");
            }
            sum
        });
        assert_eq!(parent.join().expect("completes"), 36);
        system.end();
    });
}

#[test]
fn wakes_between_tasks_and_from_outside_arrive() {
    check(|| {
        let system = start::<2>();
        let flags: [Flag; 3] = Default::default();
        let [a, b, c] = flags.clone();
        let mut first = system.spawn(async move {
            a.wait().await;
            b.set();
        });
        let [_, b, _] = flags.clone();
        let mut second = system.spawn(async move {
            b.wait().await;
            c.set();
        });
        flags[0].set();
        first.join().expect("completes");
        second.join().expect("completes");
        assert!(flags[2].0.lock().expect("no panic holds it").0);
        system.end();
    });
}

#[test]
fn aborts_race_with_wakes_and_joins() {
    check(|| {
        let system = start::<2>();
        let flag = Flag::default();
        let dropped = Arc::new(Mutex::new(0));
        struct Count(Arc<Mutex<u32>>);
        impl Drop for Count {
            fn drop(&mut self) {
                *self.0.lock().expect("no panic holds it") += 1;
            }
        }
        let (waits, count) = (flag.wait(), Count(Arc::clone(&dropped)));
        let mut task = system.spawn(async move {
            let _count = count;
            waits.await;
        });
        let aborter = thread::spawn({
            let abort = task.abort_handle().expect("few references");
            move || abort.abort()
        });
        flag.set();
        let end = task.join();
        assert!(matches!(end, Ok(()) | Err(JoinError::Cancelled)), "{end:?}");
        aborter.join().expect("does not panic");
        // A task that nobody can wake any more is dropped too.
        let count = Count(Arc::clone(&dropped));
        let unreachable = system.spawn(async move {
            let _count = count;
            core::future::pending::<()>().await;
        });
        unreachable.detach();
        system.end();
        assert_eq!(*dropped.lock().expect("no panic holds it"), 2);
    });
}

#[test]
fn workers_come_late_and_leave_early() {
    check(|| {
        let config = Config::new().sentry(None).spin_rounds(0);
        let executor: &'static Small<2> =
            Box::leak(Box::new(Executor::with_config(Board::new(), config)));
        let pool: &'static Pool = Box::leak(Box::new(Pool::new()));
        let spawn = move |i: u32| {
            let yields = async move {
                filch::yield_now().await;
                i
            };
            executor.spawn(pool, yields).unwrap_or_else(|error| panic!("{error}"))
        };
        let mut early = [spawn(1), spawn(2)];
        let brief = thread::spawn(move || {
            let worker = executor.worker(WorkerId::new(0)).expect("nobody else is it");
            worker.run_for(2);
        });
        let late = thread::spawn(move || match executor.run(WorkerId::new(1)) {
            Ok(()) | Err(RunError::Stopped) => {}
            Err(error) => panic!("{error}"),
        });
        let sum: u32 = early.iter_mut().map(|task| task.join().expect("completes")).sum();
        assert_eq!(sum, 3);
        brief.join().expect("does not panic");
        executor.shutdown(Instant::MAX, |_| {}).expect("called from no worker");
        late.join().expect("does not panic");
    });
}
