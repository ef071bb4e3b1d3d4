//! Models of the whole scheduler: the real worker loop over real queues, tasks and sleep.
//!
//! A worker stalls for ever after its first poll, so each worker is good for one task, and there are as many tasks as workers. A
//! stranded task leaves a worker asleep that no other will wake: loom reports this as a deadlock.

use core::{
    cell::Cell,
    future::Future,
    pin::Pin,
    ptr::{NonNull, null},
    task::{Context, Waker},
};
use std::{boxed::Box, task::Wake};

use loom::{
    sync::{Condvar, Mutex},
    thread,
};

use super::core::slot::OFFLINE;
use crate::{
    Config, Instant, Platform, Scheduler, StartError, Step, TaskPool, WorkerEntry, WorkerId,
    WorkerSlot,
    atomic::{
        AtomicBool, AtomicU32, Ordering,
        model::{check, check_large, leak},
    },
};

loom::thread_local! {
    static ME: Cell<Option<WorkerId>> = Cell::new(None);
    static LEFT: Cell<*const ()> = Cell::new(null());
}

/// A platform that keeps its contract and no more: the core must order the changes of the word.
pub(super) struct Board {
    /// How many contexts sleep.
    lock: Mutex<u32>,
    news: Condvar,
    /// It starts threads.
    starts: bool,
}

impl Board {
    pub(super) fn new() -> Self {
        Self { lock: Mutex::new(0), news: Condvar::new(), starts: false }
    }

    fn sleep(&self, word: &AtomicU32, expected: u32) {
        let mut guard = self.lock.lock().unwrap();
        while word.load(Ordering::Relaxed) == expected {
            *guard += 1;
            guard = self.news.wait(guard).unwrap();
            *guard -= 1;
        }
    }

    /// Whether a context sleeps. The caller sees what that context did before.
    pub(super) fn is_quiet(&self) -> bool {
        *self.lock.lock().unwrap() > 0
    }

    fn ring(&self) {
        drop(self.lock.lock().unwrap());
        self.news.notify_all();
    }
}

// SAFETY: a context is the worker that it entered; the check and the sleep are one step, under the lock.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        NOW
    }
    fn current_worker(&self) -> Option<WorkerId> {
        ME.with(Cell::get)
    }
    fn left_poll(&self) -> Option<NonNull<Cell<*const ()>>> {
        Some(LEFT.with(|left| NonNull::from(left)))
    }
    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        ME.with(|me| me.set(worker));
    }
    unsafe fn wait(&self, _: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        if deadline.is_none_or(|end| end > NOW) {
            self.sleep(word, expected);
        }
    }
    fn wake(&self, _: WorkerId, _: &AtomicU32) {
        self.ring();
    }
    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        if !self.starts {
            return Err(StartError::Unsupported);
        }
        thread::spawn(move || entry.run());
        Ok(())
    }
    fn relax(&self, _: u32) {
        thread::yield_now();
    }
    fn block(&self, word: &AtomicU32, expected: u32, _: Option<Instant>) {
        self.sleep(word, expected);
    }
    fn unblock(&self, _: &AtomicU32) {
        self.ring();
    }
}

/// The clock stands still.
const NOW: Instant = Instant::from_nanos(9);

/// Its slots are boxed, made one by one: three of them by value need more stack than a model's thread has.
pub(super) type Whole = Scheduler<Board, Box<[WorkerSlot<4>]>, 4>;
type Pool = TaskPool<640, 4>;

pub(super) struct Model<const N: usize> {
    pub(super) executor: &'static Whole,
    pub(super) pool: &'static Pool,
}

impl<const N: usize> Clone for Model<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<const N: usize> Copy for Model<N> {}

impl<const N: usize> Model<N> {
    pub(super) fn new() -> Self {
        Self::with(|config| config)
    }

    pub(super) fn with(change: impl FnOnce(Config) -> Config) -> Self {
        // Without LIFO slots, whose tasks wait for the end of a poll by design. Without a watchdog, since the clock stands still.
        let config = Config::new().spin_rounds(0).watchdog(None).lifo_cap(0);
        Self::over(Board::new(), change(config))
    }

    /// On a platform that starts threads.
    pub(super) fn that_starts() -> Self {
        let config = Config::new().spin_rounds(0).watchdog(None).lifo_cap(0);
        Self::over(Board { starts: true, ..Board::new() }, config)
    }

    fn over(board: Board, config: Config) -> Self {
        let slots = (0..N).map(|_| WorkerSlot::new()).collect();
        let executor = Scheduler::over(board, config, slots).unwrap();
        Self { executor: leak(executor), pool: leak(Pool::new()) }
    }

    pub(super) fn spawn(self, poll: impl FnOnce() + Send + 'static) {
        let task = self.executor.spawn(self.pool, async move { poll() });
        // Its slot is never used again.
        core::mem::forget(task.unwrap());
    }

    fn spawn_pinned(self, worker: u16) {
        let spawner = self.executor.spawner();
        let task = spawner.spawn_pinned(self.pool, WorkerId::new(worker), async {});
        core::mem::forget(task.unwrap());
    }

    /// Works until it stalls in its first poll.
    fn work(self, id: u16) {
        let worker = self.executor.attach(WorkerId::new(id), OFFLINE).unwrap();
        while worker.step() != Step::Polled {
            worker.park();
        }
        core::mem::forget(worker);
    }

    /// Works until `done`, which this worker's own thread sets.
    fn work_until(self, id: u16, done: &AtomicBool) {
        let worker = self.executor.worker(WorkerId::new(id)).unwrap();
        while worker.step() != Step::Idle || !done.load(Ordering::Relaxed) {
            worker.park();
        }
        core::mem::forget(worker);
    }

    /// A timer that is due. It sets the flag when it fires.
    fn begin_timer(self, done: &'static AtomicBool) -> Pin<Box<crate::Sleep>> {
        // The first poll does not look at the clock, which stands still.
        let mut sleep = Box::pin(self.executor.timers().sleep(core::time::Duration::ZERO));
        let waker = Waker::from(std::sync::Arc::new(Done(done)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sleep
    }

    pub(super) fn start(self, ids: core::ops::Range<u16>) -> Vec<thread::JoinHandle<()>> {
        ids.map(|id| thread::spawn(move || self.work(id))).collect()
    }

    /// Starts a worker, the first one, and waits until it sleeps. Loom explores nothing from here on, until the caller says so.
    pub(super) fn start_asleep(self, id: u16) -> Vec<thread::JoinHandle<()>> {
        loom::stop_exploring();
        let started = self.start(id..id + 1);
        while self.executor.metrics().totals().parked == 0 {
            thread::yield_now();
        }
        started
    }

    /// Spawns a task that records whether worker 0 polls it. The flag is a plain one, to be read after that worker has ended.
    fn spawn_to_tell(self) -> &'static core::sync::atomic::AtomicBool {
        let by_first = leak(core::sync::atomic::AtomicBool::new(false));
        self.spawn(|| {
            by_first.store(ME.with(Cell::get) == Some(WorkerId::new(0)), Ordering::Relaxed)
        });
        by_first
    }
}

struct Done(&'static AtomicBool);

impl Wake for Done {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn join(threads: Vec<thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|t| t.join().unwrap());
}

/// Seen to catch: `idle_recheck`, `idle_gap`, `idle_fence`.
#[test]
fn one_worker_and_a_foreign_pusher() {
    check(3, || {
        let model = Model::<1>::new();
        let workers = model.start(0..1);
        model.spawn(|| {});
        join(workers);
    });
}

fn two_workers_and_a_foreign_pusher() {
    let model = Model::<2>::new();
    let workers = model.start(0..2);
    model.spawn(|| {});
    model.spawn(|| {});
    join(workers);
}

/// Seen to catch: `idle_recheck`, `idle_gap`, `idle_fence`, `ring_publish`, `spin_release`.
#[test]
fn two_workers_and_two_tasks_from_outside() {
    check(1, two_workers_and_a_foreign_pusher);
}

/// The last searcher takes a task and stalls. Its poll has queued another, for a worker that was refused the searcher's role and
/// is about to sleep.
///
/// Seen to catch: `idle_recheck`, `idle_gap`, `idle_fence`, `ring_publish`.
#[test]
fn two_workers_and_a_poll_that_pushes() {
    check_large(2, || {
        let model = Model::<2>::new();
        let workers = model.start(0..2);
        model.spawn(move || model.spawn(|| {}));
        join(workers);
    });
}

/// As above, with a spare slot for the second worker, which the first may not know.
///
/// Seen to catch: `attach_unseen`.
#[test]
fn a_spare_worker_and_a_poll_that_pushes() {
    check_large(2, || {
        let model = Model::<2>::with(|config| config.spare_slots(1));
        let workers = model.start(0..2);
        model.spawn(move || model.spawn(|| {}));
        join(workers);
    });
}

/// Three workers have two words of the bitmap.
#[test]
#[ignore = "takes minutes"]
fn three_workers_and_a_poll_that_pushes() {
    check_large(1, || {
        let model = Model::<3>::new();
        let workers = model.start(0..3);
        model.spawn(move || model.spawn(|| {}));
        model.spawn(|| {});
        join(workers);
    });
}

/// Seen to catch: `idle_fence`.
#[test]
fn pinned_task_against_sleep() {
    check(3, || {
        let model = Model::<2>::new();
        let workers = model.start(0..1);
        model.spawn_pinned(0);
        join(workers);
    });
}

/// A worker leaves with a task in its ring, while another worker goes to sleep.
#[test]
fn a_worker_that_leaves_gives_its_tasks_away() {
    check_large(1, || {
        let model = Model::<2>::new();
        let stays = model.start(1..2);
        let leaves = thread::spawn(move || {
            let worker = model.executor.worker(WorkerId::new(0)).unwrap();
            model.spawn(|| {});
            // It polls the task itself, or not. If it does, there is another task for the worker that stays.
            if worker.step() == Step::Polled {
                model.spawn(|| {});
            }
        });
        join(vec![leaves]);
        join(stays);
    });
}

/// The executor ends while its worker goes to sleep, or is in a poll.
#[test]
fn shutdown_against_sleep() {
    check_large(2, || {
        let model = Model::<1>::new();
        model.spawn(|| {});
        let worker = thread::spawn(move || model.executor.run(WorkerId::new(0)));
        let survived = model.executor.shutdown(Instant::MAX, |_| {});
        assert_eq!(survived, Ok(0));
        // The worker may have come too late to work.
        let _ = worker.join().unwrap();
    });
}

/// Seen to catch: `timer_tell`.
#[test]
fn a_timer_from_outside_against_sleep() {
    check(3, || {
        let model = Model::<1>::new();
        let done = leak(AtomicBool::new(false));
        let worker = thread::spawn(move || model.work_until(0, done));
        let sleep = model.begin_timer(done);
        worker.join().unwrap();
        assert!(sleep.is_elapsed());
    });
}

/// A worker leaves with a timer in its wheel, while another goes to sleep, or comes online.
///
/// Seen to catch: `timer_orphan`.
#[test]
fn a_worker_that_leaves_its_timers() {
    check_large(2, || {
        let model = Model::<2>::new();
        let done = leak(AtomicBool::new(false));
        let stays = thread::spawn(move || model.work_until(1, done));
        let leaves = thread::spawn(move || {
            let worker = model.executor.worker(WorkerId::new(0)).unwrap();
            let sleep = model.begin_timer(done);
            drop(worker);
            sleep
        });
        let sleep = leaves.join().unwrap();
        stays.join().unwrap();
        assert!(sleep.is_elapsed());
    });
}

/// A timer from outside goes to the wheel of a worker that leaves meanwhile.
///
/// Seen to catch: `timer_tell`.
#[test]
fn a_timer_for_a_worker_that_leaves() {
    check_large(1, || {
        let model = Model::<2>::new();
        let done = leak(AtomicBool::new(false));
        let stays = thread::spawn(move || model.work_until(1, done));
        let leaves = thread::spawn(move || drop(model.executor.worker(WorkerId::new(0)).unwrap()));
        let sleep = model.begin_timer(done);
        leaves.join().unwrap();
        stays.join().unwrap();
        assert!(sleep.is_elapsed());
    });
}

/// A worker on its way to sleep sees a task whose pusher has relied on its search, and then turns to its inbox. A sleeper must be
/// woken for that task.
///
/// Seen to catch: `idle_lapse`.
#[test]
fn a_searcher_that_turns_to_its_mail_tells_a_sleeper() {
    check_large(2, || {
        let model = Model::<2>::new();
        // One worker sleeps; the other searches, and is about to sleep.
        let sleeper = model.start_asleep(1);
        loom::explore();
        let searcher = thread::spawn(move || {
            let worker = model.executor.worker(WorkerId::new(0)).unwrap();
            // As in `Worker::run`: it goes to sleep as a searcher.
            while worker.pass() != Step::Polled {
                if !worker.park_in_loop() {
                    worker.executor.platform.relax(0);
                }
            }
            core::mem::forget(worker);
        });
        let by_searcher = model.spawn_to_tell();
        model.spawn_pinned(0);
        searcher.join().unwrap();
        if by_searcher.load(Ordering::Relaxed) {
            model.spawn(|| {});
        }
        join(sleeper);
    });
}

/// A thread lists the tasks while one is being spawned. It finds that one not at all, or with all that the spawner wrote.
///
/// Seen to catch: a `State::publish` without Release.
#[test]
fn a_task_is_found_in_its_memory_while_it_is_spawned() {
    check(3, || {
        let model = Model::<1>::new();
        let finder = thread::spawn(move || {
            let mut found = 0;
            model.executor.tasks(|_| found += 1);
            found
        });
        model.spawn(|| {});
        assert!(finder.join().unwrap() <= 1);
    });
}

/// A claim for an inbox comes too late: its worker woke by itself, and that worker's poll queues a task, whose push relied on the
/// claim's count.
///
/// Seen to catch: `call_own`.
#[test]
fn a_claim_that_comes_too_late_looks_into_every_ring() {
    check_large(2, || {
        let model = Model::<2>::new();
        let sleeper = model.start_asleep(1);
        let worker = model.executor.worker(WorkerId::new(0)).unwrap();
        assert!(worker.begin_park().is_some());
        loom::explore();
        let pusher = thread::spawn(move || {
            let task = async move { model.spawn(|| {}) };
            let task = model.executor.spawner().spawn_pinned(model.pool, WorkerId::new(0), task);
            core::mem::forget(task.unwrap());
        });
        while worker.pass() != Step::Polled {
            thread::yield_now();
        }
        core::mem::forget(worker);
        pusher.join().unwrap();
        join(sleeper);
    });
}

/// A spawn that comes after the end is refused. A context that counts the tasks meanwhile never sees it.
///
/// Seen to catch: `gate_brief`.
#[test]
fn a_refused_spawn_is_never_counted() {
    check(3, || {
        let model = Model::<1>::new();
        model.executor.begin_shutdown();
        let late = thread::spawn(move || model.executor.spawn(model.pool, async {}).is_err());
        assert_eq!(model.executor.metrics().totals().live, 0);
        assert!(late.join().unwrap());
    });
}
