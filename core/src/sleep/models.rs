//! Loom models of the park word and of the idle protocol, over the real `ParkWord`, `Idle` and `Injector`.
//!
//! Workers of the idle models may stall for ever in the poll of a task, so that no later pass hides a notification that is
//! missing. A worker that goes to sleep ends its thread. When all threads have ended, workers that were claimed meanwhile wake up
//! one after the other, until none is claimed. Then no task may be left, unless every worker is stalled.

use alloc::{boxed::Box, vec::Vec};

use loom::{
    sync::{Arc, Condvar, Mutex},
    thread,
};

use super::{
    idle::{Bitmap, GROUP, Idle},
    park::{ParkWord, Sleep},
};
use crate::{
    atomic::{AtomicBool, AtomicU32, AtomicWord, Ordering, UnsafeCell, model::check},
    platform::WorkerId,
    queue::injector::Injector,
    task::header::{Header, Ready},
};

extern crate alloc;

/// A platform that keeps its contract and no more: its check of the word is a relaxed load, under a lock.
struct Board {
    lock: Mutex<()>,
    news: Condvar,
}

impl Board {
    fn new() -> Self {
        Self { lock: Mutex::new(()), news: Condvar::new() }
    }

    /// Sleeps as the only worker. The check and the sleep are one step under the lock.
    fn park(&self, park: &ParkWord) {
        park.park(Sleep::Wait, |word, parked| {
            let guard = self.lock.lock().unwrap();
            if word.load(Ordering::Relaxed) == parked {
                drop(self.news.wait(guard));
            }
        });
    }

    fn unpark(&self, park: &ParkWord) {
        if park.notify().is_some() {
            drop(self.lock.lock().unwrap());
            self.news.notify_all();
        }
    }
}

/// What was done before an unpark is seen after the park that it ends. No unpark is lost: that would be a deadlock.
///
/// Seen to catch: `park_swap`.
#[test]
fn models_park_sees_what_came_before_unpark() {
    check(3, move || {
        struct Shared {
            board: Board,
            word: ParkWord,
            data: UnsafeCell<u32>,
        }
        // SAFETY: for the model's threads; loom checks the cell.
        unsafe impl Sync for Shared {}
        // SAFETY: as above.
        unsafe impl Send for Shared {}
        let shared = Arc::new(Shared {
            board: Board::new(),
            word: ParkWord::new(),
            data: UnsafeCell::new(0),
        });
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                // SAFETY: before the unpark it is this thread's.
                shared.data.with_mut(|p| unsafe { *p = 7 });
                shared.board.unpark(&shared.word);
            }
        });
        shared.board.park(&shared.word);
        // SAFETY: after the park it is ours.
        assert_eq!(shared.data.with(|p| unsafe { *p }), 7);
        other.join().unwrap();
    });
}

/// Two unparks and two parks: the late half of the first unpark may end the second park. The waiter never hangs.
#[test]
fn models_two_unparks_end_a_park() {
    check(2, || {
        let shared = Arc::new((Board::new(), ParkWord::new(), AtomicU32::new(0)));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.2.fetch_add(1, Ordering::Relaxed);
                    shared.0.unpark(&shared.1);
                })
            })
            .collect();
        // As each waiter does: look, park, look again.
        while shared.2.load(Ordering::Relaxed) < 2 {
            shared.0.park(&shared.1);
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
    });
}

/// The parts of a scheduler that the idle protocol is made of.
struct System {
    idle: Idle,
    injector: Injector,
    words: Vec<AtomicWord>,
    claimed: Vec<AtomicBool>,
}

impl Bitmap for System {
    fn words(&self) -> usize {
        self.words.len()
    }
    fn word(&self, group: usize) -> &AtomicWord {
        &self.words[group]
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Asleep,
    Stalled,
}

fn task() -> Ready {
    // SAFETY: the header is this task's own, and the models never poll it.
    unsafe { Ready::from_raw(core::ptr::NonNull::from(Box::leak(Box::new(Header::vacant())))) }
}

impl System {
    fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            idle: Idle::new(),
            injector: Injector::new(),
            words: (0..workers.div_ceil(GROUP)).map(|_| AtomicWord::new(0)).collect(),
            claimed: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// `Scheduler::notify`, up to the unpark.
    fn claim(&self) -> Option<WorkerId> {
        self.idle.must_notify(self).then(|| self.idle.claim_any(self, None)).flatten()
    }

    /// `Scheduler::notify`.
    fn notify(&self) {
        if let Some(worker) = self.claim() {
            self.claimed[worker.index()].store(true, Ordering::Release);
        }
    }

    /// `Scheduler::schedule` from outside.
    fn push(&self) {
        self.injector.push(task());
        self.notify();
    }

    /// `Worker::take_injector`, with room for one task alone.
    fn take(&self, searching: bool) -> bool {
        let Some(ready) = self.injector.pop_batch(self.claimed.len(), 0, |_| {}) else {
            return false;
        };
        let _ = ready.into_raw();
        if !searching && !self.injector.is_empty() {
            self.notify();
        }
        true
    }

    /// `Worker::run`, until the worker goes to sleep or stalls in its first poll. That poll calls `poll` before it stalls.
    fn work(&self, me: usize, mut searching: bool, poll: impl Fn()) -> End {
        let id = WorkerId::new(me as u16);
        loop {
            // `find`.
            let mut found = self.take(searching);
            if !found && !searching {
                searching = self.idle.try_search(self.claimed.len() as u32);
                found = searching && self.take(true);
            }
            if found {
                // `leave_loop`, `stop_searching`.
                if searching && self.idle.stop_searching(|| !self.injector.is_empty()) {
                    self.notify();
                }
                poll();
                return End::Stalled;
            }
            // `begin_park`.
            if self.idle.announce(self, id, searching, || !self.injector.is_empty()) {
                searching = !self.idle.unannounce(self, id);
                // `relax`: the task may be in the hands of a thread that does not run now.
                thread::yield_now();
                continue;
            }
            return End::Asleep;
        }
    }

    /// All threads have ended: claimed sleepers wake up, in turn. Then no task may be left.
    fn settle(&self, mut ends: Vec<End>) {
        loop {
            let awake = (0..self.claimed.len()).find(|w| {
                ends[*w] == End::Asleep && self.claimed[*w].swap(false, Ordering::Acquire)
            });
            let Some(me) = awake else { break };
            // `end_park`.
            let searching = !self.idle.unannounce(self, WorkerId::new(me as u16));
            ends[me] = self.work(me, searching, || {});
        }
        let stranded = !self.injector.is_empty() && ends.contains(&End::Asleep);
        assert!(!stranded, "a task waits while a worker sleeps: {ends:?}");
        // A worker that stalls or sleeps does not search.
        assert_eq!(self.idle.searching(), 0, "the count of searchers leaks");
    }
}

fn spawn(system: &Arc<System>, me: usize) -> thread::JoinHandle<End> {
    let system = Arc::clone(system);
    thread::spawn(move || system.work(me, false, || {}))
}

/// A foreign thread queues tasks. Each worker stalls in its first.
fn foreign_pushes(workers: usize, pushes: usize) {
    let system = System::new(workers);
    let threads: Vec<_> = (0..workers).map(|w| spawn(&system, w)).collect();
    (0..pushes).for_each(|_| system.push());
    let ends = threads.into_iter().map(|t| t.join().unwrap()).collect();
    system.settle(ends);
}

// Seen to catch: `idle_recheck`, `idle_gap`, `idle_fence`.
#[test]
fn models_idle_two_workers_and_a_foreign_pusher() {
    check(1, || foreign_pushes(2, 2));
}

// Three workers have two words of the bitmap, as `GROUP` is two here.
#[test]
#[ignore = "takes minutes"]
fn models_idle_three_workers_and_a_foreign_pusher() {
    check(1, || foreign_pushes(3, 1));
}

/// The last searcher takes a task and stalls, and its poll queues another. A worker that was refused the searcher's role must
/// look again (rule 3 in the README).
///
/// Seen to catch: `idle_gap`.
#[test]
fn models_idle_a_stalled_poll_that_pushes() {
    check(3, || {
        let system = System::new(2);
        let first = thread::spawn({
            let system = Arc::clone(&system);
            move || system.work(0, false, || system.push())
        });
        system.push();
        let second = system.work(1, false, || {});
        let first = first.join().unwrap();
        system.settle(alloc::vec![first, second]);
    });
}

/// A claim against a worker that wakes by itself: a worker that finds itself claimed has been counted.
///
/// Seen to catch: `idle_early`.
#[test]
fn models_idle_claim_against_a_worker_that_wakes_by_itself() {
    check(3, || {
        let system = System::new(2);
        let _ = system.idle.announce(&*system, WorkerId::new(0), false, || false);
        let claimer = thread::spawn({
            let system = Arc::clone(&system);
            move || system.claim().is_some()
        });
        let claimed = !system.idle.unannounce(&*system, WorkerId::new(0));
        if claimed {
            let _ = system.idle.stop_searching(|| false);
            assert!(system.idle.searching() < 2, "counted down before it was counted up");
        }
        assert_eq!(claimer.join().unwrap(), claimed);
        assert_eq!(system.idle.searching(), 0);
    });
}

/// Two searchers. One moves a task to where others may take it, and is not the last to stop. The other, which is the last, must
/// see the task.
///
/// Seen to catch: `idle_count`.
#[test]
fn models_idle_searchers_hand_over_what_they_moved() {
    check(3, || {
        let system = System::new(4);
        assert!(system.idle.try_search(4) && system.idle.try_search(4));
        let moved = Arc::new(AtomicU32::new(0));
        let first = thread::spawn({
            let (system, moved) = (Arc::clone(&system), Arc::clone(&moved));
            move || {
                // It stands for a ring's tail.
                moved.store(1, Ordering::Release);
                system.idle.stop_searching(|| moved.load(Ordering::Relaxed) == 1)
            }
        });
        let seen = system.idle.stop_searching(|| moved.load(Ordering::Acquire) == 1);
        assert!(first.join().unwrap() || seen, "the last searcher overlooked a task");
    });
}
