//! Models of the listener: the real park words and the real hand-over, over a kernel made of loom's locks.

use core::cell::Cell;
use std::boxed::Box;

use loom::{
    sync::{Condvar, Mutex},
    thread,
};

use crate::{
    Config, Instant, Platform, Reactor, Scheduler, WorkerId, WorkerSlot,
    atomic::{
        AtomicU32, Ordering, UnsafeCell,
        model::{check, leak},
    },
};

loom::thread_local! {
    static ME: Cell<Option<WorkerId>> = Cell::new(None);
}

/// A platform with a reactor, which keeps its contract and no more.
struct Machine {
    /// The kernel: the lock of a futex's queue, and its sleepers.
    futex: Mutex<()>,
    queue: Condvar,
    /// The kernel: what epoll has not told of.
    edges: Mutex<Edges>,
    epoll: Condvar,
    /// Touched by the listener alone (INV-LISTENER): how often it was in here.
    listened: UnsafeCell<u32>,
    /// What each of two workers has heard of.
    heard: [AtomicU32; 2],
    delivered: AtomicU32,
}

#[derive(Default)]
struct Edges {
    events: u32,
    alarm: bool,
}

// SAFETY: INV-LISTENER, which the models check.
unsafe impl Sync for Machine {}
// SAFETY: as above.
unsafe impl Send for Machine {}

impl Machine {
    fn new() -> Self {
        Self {
            futex: Mutex::new(()),
            queue: Condvar::new(),
            edges: Mutex::new(Edges::default()),
            epoll: Condvar::new(),
            listened: UnsafeCell::new(0),
            heard: [AtomicU32::new(0), AtomicU32::new(0)],
            delivered: AtomicU32::new(0),
        }
    }

    fn edge(&self, events: u32, alarm: bool) {
        let mut edges = self.edges.lock().unwrap();
        edges.events += events;
        edges.alarm |= alarm;
        drop(edges);
        self.epoll.notify_all();
    }
}

// SAFETY: a context is the worker that it entered; each check of a word and the sleep are one, under the lock of its waker. An
// interrupt is an edge, which the next wait in the reactor finds.
unsafe impl Platform for Machine {
    fn now(&self) -> Instant {
        Instant::from_nanos(9)
    }
    fn current_worker(&self) -> Option<WorkerId> {
        ME.with(Cell::get)
    }
    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        ME.with(|me| me.set(worker));
    }
    unsafe fn wait(&self, _: WorkerId, word: &AtomicU32, expected: u32, _: Option<Instant>) {
        let mut lock = self.futex.lock().unwrap();
        while word.load(Ordering::Relaxed) == expected {
            lock = self.queue.wait(lock).unwrap();
        }
    }
    fn wake(&self, _: WorkerId, _: &AtomicU32) {
        drop(self.futex.lock().unwrap());
        self.queue.notify_all();
    }
    fn reactor(&self) -> Option<&dyn Reactor> {
        Some(self)
    }
    fn relax(&self, _: u32) {
        thread::yield_now();
    }
}

// SAFETY: as above.
unsafe impl Reactor for Machine {
    unsafe fn listen(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        // SAFETY: INV-LISTENER.
        self.listened.with_mut(|times| unsafe { *times += 1 });
        let mut edges = self.edges.lock().unwrap();
        let may_sleep = deadline.is_none() && word.load(Ordering::Relaxed) == expected;
        while may_sleep && edges.events == 0 && !edges.alarm {
            edges = self.epoll.wait(edges).unwrap();
        }
        let heard = core::mem::take(&mut *edges).events;
        self.heard[worker.index()].fetch_add(heard, Ordering::Relaxed);
        heard > 0
    }
    fn interrupt(&self, _: WorkerId, _: &AtomicU32) {
        self.edge(0, true);
    }
    unsafe fn deliver(&self, worker: WorkerId) -> usize {
        let heard = self.heard[worker.index()].swap(0, Ordering::Relaxed);
        self.delivered.fetch_add(heard, Ordering::Relaxed);
        heard as usize
    }
}

type Executor = Scheduler<Machine, Box<[WorkerSlot<4>]>, 4>;

fn executor() -> &'static Executor {
    let config = Config::new().spin_rounds(0).watchdog(None);
    let slots = (0..2).map(|_| WorkerSlot::new()).collect();
    leak(Scheduler::over(Machine::new(), config, slots).unwrap())
}

fn id(worker: u16) -> WorkerId {
    WorkerId::new(worker)
}

/// Two workers sleep, one of them in the reactor: each is woken where it sleeps.
///
/// Seen to catch: `listen_wake`.
#[test]
fn models_each_sleeper_is_woken_where_it_sleeps() {
    check(2, || {
        let executor = executor();
        let wanted = leak([AtomicU32::new(0), AtomicU32::new(0)]);
        let workers = [0, 1].map(|me: u16| {
            thread::spawn(move || {
                let worker = executor.worker(id(me)).unwrap();
                while wanted[usize::from(me)].load(Ordering::Relaxed) == 0 {
                    worker.sleep(None, || true);
                }
                core::mem::forget(worker);
            })
        });
        for worker in [0, 1] {
            wanted[usize::from(worker)].store(1, Ordering::Relaxed);
            executor.unpark_worker(id(worker));
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Two workers ask the reactor: one after the other, or one of them not at all.
///
/// Seen to catch: `listen_begin`, `listen_end`.
#[test]
fn models_the_reactor_goes_from_one_worker_to_the_next() {
    check(2, || {
        let executor = executor();
        let workers = [0, 1].map(|me: u16| {
            thread::spawn(move || {
                let worker = executor.worker(id(me)).unwrap();
                worker.ask();
                core::mem::forget(worker);
            })
        });
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// The listener leaves; an event comes afterwards. The other worker, which may sleep on its word by then, listens.
///
/// Seen to catch: `listen_leave`.
#[test]
fn models_a_listener_that_leaves_has_another_listen() {
    check(2, || {
        let executor = executor();
        let here = leak(AtomicU32::new(0));
        loom::stop_exploring();
        let first = thread::spawn(move || {
            let worker = executor.worker(id(0)).unwrap();
            worker.sleep(None, || {
                here.store(1, Ordering::Release);
                true
            });
            drop(worker);
            executor.platform().edge(1, false);
        });
        while here.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        loom::explore();
        let second = thread::spawn(move || {
            let worker = executor.worker(id(1)).unwrap();
            while executor.platform().delivered.load(Ordering::Relaxed) == 0 {
                worker.park();
                let _ = worker.step();
            }
            core::mem::forget(worker);
        });
        executor.unpark_worker(id(0));
        first.join().unwrap();
        second.join().unwrap();
    });
}
