//! Models of the whole scheduler: the real worker loop over real queues, tasks and sleep.
//!
//! A worker stalls for ever after its first poll, so that each worker is good for one task, and there are as many tasks as
//! workers: a task that is stranded leaves a worker asleep that nobody will wake, which loom reports as a deadlock.

use core::{
    cell::{Cell, RefCell},
    ptr::NonNull,
    sync::atomic::AtomicUsize,
};
use std::time::Instant as Clock;

use loom::{
    sync::{Condvar, Mutex},
    thread,
};

use crate::{
    Config, Executor, Instant, Platform, Step, TaskPool, WorkerId,
    atomic::{AtomicU32, Ordering},
};

loom::thread_local! {
    static ME: Cell<Option<WorkerId>> = Cell::new(None);
}

/// A platform that keeps its contract and no more: what orders the word's changes is the core's business.
struct Board {
    lock: Mutex<()>,
    news: Condvar,
}

impl Board {
    fn new() -> Self {
        Self { lock: Mutex::new(()), news: Condvar::new() }
    }

    fn sleep(&self, word: &AtomicU32, expected: u32) {
        let mut guard = self.lock.lock().unwrap();
        while word.load(Ordering::Relaxed) == expected {
            guard = self.news.wait(guard).unwrap();
        }
    }

    fn ring(&self) {
        drop(self.lock.lock().unwrap());
        self.news.notify_all();
    }
}

// SAFETY: a context is the worker that it entered; the check and the sleep are one, under the lock.
unsafe impl Platform for Board {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn current_worker(&self) -> Option<WorkerId> {
        ME.with(Cell::get)
    }
    fn enter(&self, worker: WorkerId) {
        ME.with(|me| me.set(Some(worker)));
    }
    fn leave(&self, _: WorkerId) {
        ME.with(|me| me.set(None));
    }
    fn wait(&self, _: WorkerId, word: &AtomicU32, expected: u32, _: Option<Instant>) {
        self.sleep(word, expected);
    }
    fn wake(&self, _: WorkerId, _: &AtomicU32) {
        self.ring();
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

type Whole<const N: usize> = Executor<Board, N, 4>;
type Pool = TaskPool<640, 4>;

struct Model<const N: usize> {
    executor: &'static Whole<N>,
    pool: &'static Pool,
}

impl<const N: usize> Clone for Model<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<const N: usize> Copy for Model<N> {}

impl<const N: usize> Model<N> {
    fn new() -> Self {
        // Without LIFO slots, whose tasks wait for the end of a poll by design; without a sentry, since there is no time.
        let config = Config::new().spin_rounds(0).sentry(None).lifo_cap(0);
        Self {
            executor: leak(Executor::with_config(Board::new(), config)),
            pool: leak(Pool::new()),
        }
    }

    fn spawn(self, poll: impl FnOnce() + Send + 'static) {
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
        let worker = self.executor.worker(WorkerId::new(id)).unwrap();
        while worker.step() != Step::Polled {
            worker.park();
        }
        core::mem::forget(worker);
    }

    fn start(self, ids: core::ops::Range<u16>) -> Vec<thread::JoinHandle<()>> {
        ids.map(|id| thread::spawn(move || self.work(id))).collect()
    }
}

fn join(threads: Vec<thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn one_worker_and_a_foreign_pusher() {
    check(3, || {
        let model = Model::<1>::new();
        let workers = model.start(0..1);
        model.spawn(|| {});
        join(workers);
    });
}

#[test]
fn two_workers_and_a_foreign_pusher() {
    check(1, || {
        let model = Model::<2>::new();
        let workers = model.start(0..2);
        model.spawn(|| {});
        model.spawn(|| {});
        join(workers);
    });
}

#[test]
fn two_workers_and_a_poll_that_pushes() {
    check(1, || {
        let model = Model::<2>::new();
        let workers = model.start(0..2);
        model.spawn(move || model.spawn(|| {}));
        join(workers);
    });
}

#[test]
fn pinned_task_against_sleep() {
    check(3, || {
        let model = Model::<2>::new();
        let workers = model.start(0..1);
        model.spawn_pinned(0);
        join(workers);
    });
}

/// A group's last sleeper wakes by itself, while another goes to sleep in it, and turns to a task of its own.
#[test]
fn a_worker_that_wakes_by_itself_retires_its_group() {
    check(1, || {
        let model = Model::<3>::new();
        // One sleeps, and is about to wake for no reason.
        loom::stop_exploring();
        let first = model.start(0..1);
        while model.executor.metrics().totals().parked == 0 {
            thread::yield_now();
        }
        model.executor.unpark_worker(WorkerId::new(0));
        let second = model.start(1..2);
        loom::explore();
        model.spawn_pinned(0);
        // Plain: it is only looked at after the worker that sets it has ended.
        let by_first = leak(core::sync::atomic::AtomicBool::new(false));
        model.spawn(|| {
            by_first.store(ME.with(Cell::get) == Some(WorkerId::new(0)), Ordering::Relaxed)
        });
        join(first);
        if by_first.load(Ordering::Relaxed) {
            model.spawn(|| {});
        }
        join(second);
    });
}

type Leaked = (NonNull<()>, unsafe fn(NonNull<()>));

std::thread_local! {
    /// Loom's threads are coroutines of the one thread that runs the model, so that they all see this.
    static LEAKED: RefCell<Vec<Leaked>> = const { RefCell::new(Vec::new()) };
}

/// Explores the schedules of `f` with at most `preemptions` of them. `LOOM_MAX_PREEMPTIONS` above or below 2 moves
/// that bound as far.
fn check(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    let bound = (preemptions + model.preemption_bound.unwrap_or(2)).saturating_sub(2);
    model.preemption_bound = Some(bound);
    model.max_branches = model.max_branches.max(10_000);
    let (begin, schedules) = (Clock::now(), std::sync::Arc::new(AtomicUsize::new(0)));
    let count = std::sync::Arc::clone(&schedules);
    model.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        f();
        free();
    });
    let (name, n) = (std::thread::current(), schedules.load(Ordering::Relaxed));
    let (name, time) = (name.name().unwrap_or("model"), begin.elapsed().as_secs_f32());
    std::eprintln!("{name}: {n} schedules of at most {bound} preemptions in {time:.1} s");
}

/// A value that lives as long as the run of the model under way, whose threads are joined before it ends.
fn leak<T>(value: T) -> &'static T {
    unsafe fn drop_box<T>(at: NonNull<()>) {
        // SAFETY: `free` hands back what `leak` made.
        drop(unsafe { Box::from_raw(at.cast::<T>().as_ptr()) });
    }
    let at = NonNull::from(Box::leak(Box::new(value)));
    LEAKED.with_borrow_mut(|all| all.push((at.cast(), drop_box::<T>)));
    // SAFETY: leaked until the end of the run, and never used mutably before.
    unsafe { at.as_ref() }
}

fn free() {
    for (at, drop) in LEAKED.take() {
        // SAFETY: the model's closure has ended, and its threads before it.
        unsafe { drop(at) };
    }
}
