//! Models of the token by which workers take turns in epoll: the real code, over a kernel made of loom's locks.
//!
//! ```sh
//! RUSTFLAGS="--cfg filch_loom" cargo test -p filch-linux-models --release --target-dir target/loom
//! ```
//!
//! Each `Ordering` in `token.rs` that is stronger than `Relaxed`, each fence and each check is seen by one of them: without
//! it, a model ends in a deadlock or in a race.

#![cfg(all(test, filch_loom))]

#[path = "../../src/token.rs"]
#[allow(dead_code, reason = "the models use a part of it")]
mod token;

use std::sync::Arc;

use filch::{
    WorkerId,
    atomic::{AtomicU32, Ordering, UnsafeCell},
};
use loom::{
    sync::{Condvar, Mutex},
    thread,
};
use token::{Take, Token};

const UNPARKED: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// A reactor with two workers, as `Linux` is, and the core's park words.
struct Reactor {
    token: Token,
    /// INV-TOKEN guards it: how many events there are, the alarm's among them.
    events: UnsafeCell<u32>,
    delivered: AtomicU32,
    words: [AtomicU32; 2],
    /// What the workers wait for.
    wanted: [AtomicU32; 2],
    /// The kernel: the lock of a futex's queue, and its sleepers.
    futex: Mutex<()>,
    queues: [Condvar; 2],
    /// The kernel: edges that epoll has not told of.
    edges: Mutex<u32>,
    epoll: Condvar,
}

// SAFETY: INV-TOKEN, which the models check.
unsafe impl Send for Reactor {}
// SAFETY: as above.
unsafe impl Sync for Reactor {}

impl Reactor {
    fn new() -> Arc<Self> {
        let word = || AtomicU32::new(UNPARKED);
        Arc::new(Self {
            token: Token::new(),
            events: UnsafeCell::new(0),
            delivered: AtomicU32::new(0),
            words: [word(), word()],
            wanted: [word(), word()],
            futex: Mutex::new(()),
            queues: [Condvar::new(), Condvar::new()],
            edges: Mutex::new(0),
            epoll: Condvar::new(),
        })
    }

    /// As `Linux::wait`.
    fn wait(&self, me: usize) {
        self.token.keep_away(id(me));
        self.sleep_on_word(me);
    }

    fn sleep_on_word(&self, me: usize) {
        let lock = self.futex.lock().unwrap();
        if self.words[me].load(Ordering::Relaxed) == PARKED {
            drop(self.queues[me].wait(lock).unwrap());
        }
    }

    /// As `Linux::listen`.
    fn listen(&self, me: usize) {
        for _ in 0..2 {
            match self.token.take(id(me)) {
                Take::Held => return self.sleep(me),
                Take::Watched => return self.sleep_on_word(me),
                Take::Busy if self.words[me].load(Ordering::Relaxed) != PARKED => return,
                Take::Busy => thread::yield_now(),
            }
        }
    }

    /// As `Linux::sleep`.
    fn sleep(&self, me: usize) {
        // SAFETY: INV-TOKEN.
        let left = self.events.with(|events| unsafe { *events });
        if left > 0 || !self.token.fall_asleep(id(me), &self.words[me], PARKED) {
            return;
        }
        let mut edges = self.edges.lock().unwrap();
        while *edges == 0 {
            edges = self.epoll.wait(edges).unwrap();
        }
        // SAFETY: INV-TOKEN.
        self.events.with_mut(|events| unsafe { *events = core::mem::take(&mut *edges) });
        drop(edges);
        self.token.wake_up(id(me));
    }

    /// As `Linux::poll_io`, after a sleep.
    fn poll_io(&self, me: usize) {
        if self.token.is_held_by(id(me)) {
            // SAFETY: INV-TOKEN.
            let events = self.events.with_mut(|events| unsafe { core::mem::take(&mut *events) });
            self.delivered.fetch_add(events, Ordering::Relaxed);
            self.token.give_up();
        }
    }

    /// An edge of a source, or of the alarm.
    fn edge(&self) {
        *self.edges.lock().unwrap() += 1;
        self.epoll.notify_all();
    }

    /// As the core parks a worker that is idle.
    fn park(&self, me: usize) {
        self.park_by(me, Self::listen);
        self.poll_io(me);
    }

    fn park_by(&self, me: usize, sleep: impl FnOnce(&Self, usize)) {
        let word = &self.words[me];
        let (set, seen) = (Ordering::Relaxed, Ordering::Acquire);
        if word.compare_exchange(UNPARKED, PARKED, set, seen).is_ok() {
            sleep(self, me);
        }
        word.swap(UNPARKED, Ordering::Acquire);
    }

    /// As the core and `Linux::wake` unpark one, after what it wants.
    fn unpark(&self, worker: usize) {
        self.wanted[worker].fetch_add(1, Ordering::Relaxed);
        if self.words[worker].swap(NOTIFIED, Ordering::Release) == PARKED {
            if self.token.sleeps(id(worker)) {
                self.edge();
            } else {
                drop(self.futex.lock().unwrap());
                self.queues[worker].notify_all();
            }
        }
    }

    /// Worker 0 is asleep in epoll from the first.
    fn begin_asleep(&self) {
        assert_eq!(self.token.take(id(0)), Take::Held);
        self.words[0].store(PARKED, Ordering::Relaxed);
        assert!(self.token.fall_asleep(id(0), &self.words[0], PARKED));
    }

    /// It hears of an event there.
    fn hear(&self) {
        // SAFETY: INV-TOKEN: it is this worker's.
        self.events.with_mut(|events| unsafe { *events = 1 });
        self.token.wake_up(id(0));
    }

    /// A worker that sleeps until it has been unparked `times`.
    fn work(&self, me: usize, times: u32) {
        while self.wanted[me].load(Ordering::Relaxed) < times {
            self.park(me);
        }
    }
}

fn id(worker: usize) -> WorkerId {
    WorkerId::new(worker as u16)
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // `LOOM_MAX_PREEMPTIONS` above or below 2 moves the bound as far.
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2) + 1);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn spawn(reactor: &Arc<Reactor>, f: impl FnOnce(&Reactor) + 'static) -> thread::JoinHandle<()> {
    let reactor = Arc::clone(reactor);
    thread::spawn(move || f(&reactor))
}

/// One worker, woken by two.
#[test]
fn models_wakes_end_the_sleep_in_epoll() {
    check(|| {
        let reactor = Reactor::new();
        let worker = spawn(&reactor, |reactor| reactor.work(0, 2));
        let other = spawn(&reactor, |reactor| reactor.unpark(0));
        reactor.unpark(0);
        worker.join().unwrap();
        other.join().unwrap();
    });
}

/// Two workers, one in epoll, the other on its word, or not asleep yet.
#[test]
fn models_each_sleeper_is_woken_where_it_sleeps() {
    check(|| {
        let reactor = Reactor::new();
        let workers = [0, 1].map(|me| spawn(&reactor, move |reactor| reactor.work(me, 1)));
        reactor.unpark(0);
        reactor.unpark(1);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// The sleeper in epoll hears of I/O, the other takes its place, and it sleeps on its word from then on.
#[test]
fn models_the_place_changes_hands() {
    check(|| {
        let reactor = Reactor::new();
        reactor.begin_asleep();
        let first = spawn(&reactor, |reactor| {
            reactor.hear();
            reactor.words[0].swap(UNPARKED, Ordering::Acquire);
            reactor.poll_io(0);
            reactor.work(0, 1);
            reactor.unpark(1);
        });
        let second = spawn(&reactor, |reactor| reactor.work(1, 1));
        reactor.unpark(0);
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// A worker that has slept in epoll sleeps in the midst of user code: it is woken at its word, though it was in epoll a moment ago, and
/// may have the token still.
#[test]
fn models_a_worker_that_waits_in_user_code_is_woken_at_its_word() {
    for delivers in [true, false] {
        check(move || {
            let reactor = Reactor::new();
            reactor.begin_asleep();
            let worker = spawn(&reactor, move |reactor| {
                reactor.hear();
                reactor.words[0].swap(UNPARKED, Ordering::Acquire);
                if delivers {
                    reactor.poll_io(0);
                }
                while reactor.wanted[0].load(Ordering::Relaxed) < 1 {
                    reactor.park_by(0, |reactor, me| {
                        reactor.wait(me);
                        assert!(!reactor.token.is_held_by(id(me)), "nobody else can listen");
                    });
                }
            });
            reactor.unpark(0);
            worker.join().unwrap();
        });
    }
}

/// A worker leaves with events that it has not delivered: the other, which it wakes before, does.
#[test]
fn models_what_a_leaver_was_told_is_not_lost() {
    check(|| {
        let reactor = Reactor::new();
        reactor.begin_asleep();
        let leaver = spawn(&reactor, |reactor| {
            reactor.hear();
            reactor.unpark(1);
            // As `Linux::leave`.
            if reactor.token.is_held_by(id(0)) {
                reactor.token.give_up();
            }
        });
        let other = spawn(&reactor, |reactor| {
            while reactor.delivered.load(Ordering::Relaxed) == 0 {
                reactor.park(1);
            }
        });
        leaver.join().unwrap();
        other.join().unwrap();
    });
}

/// The last worker sleeps in epoll, wakes by itself and leaves, and the alarm is taken away, while somebody is about to ring it.
///
/// Seen to catch: `close` without its fence, `ring_if` that does not look again once it is counted, and one that counts down
/// relaxed.
#[test]
fn models_an_alarm_is_not_rung_when_it_has_gone() {
    loom::model(|| {
        let shared = Arc::new(Alarm {
            token: Token::new(),
            word: AtomicU32::new(PARKED),
            alarm: UnsafeCell::new(()),
        });
        assert_eq!(shared.token.take(id(0)), Take::Held);
        let ringer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let Alarm { token, word, alarm } = &*shared;
                word.store(NOTIFIED, Ordering::Relaxed);
                if token.sleeps(id(0)) {
                    token.ring_if(id(0), || alarm.with(|_| ()));
                }
            }
        });
        let Alarm { token, word, alarm } = &*shared;
        if token.fall_asleep(id(0), word, PARKED) {
            token.wake_up(id(0));
        }
        token.give_up();
        token.close(thread::yield_now);
        alarm.with_mut(|_| ());
        ringer.join().unwrap();
    });
}

/// A worker's way to be woken in epoll.
struct Alarm {
    token: Token,
    word: AtomicU32,
    /// INV-RING guards it.
    alarm: UnsafeCell<()>,
}

// SAFETY: INV-RING, which the model checks.
unsafe impl Send for Alarm {}
// SAFETY: as above.
unsafe impl Sync for Alarm {}
