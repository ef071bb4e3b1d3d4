//! The token of epoll: nobody who was woken sleeps on, and I/O always has somebody who hears of it.

use filch::{
    WorkerId,
    atomic::{AtomicU32, Ordering},
};
use loom::{
    sync::{Arc, Condvar, Mutex},
    thread,
};

use crate::token_of_linux::{Take, Token};

const UNPARKED: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// What a kernel does and no more: its checks order nothing.
#[derive(Default)]
struct Kernel {
    state: Mutex<State>,
    epoll: Condvar,
    futex: Condvar,
}

#[derive(Default)]
struct State {
    /// Edges of the alarm that epoll has not told of.
    alarm: u32,
    /// Events of sources that epoll has not told of.
    events: u32,
}

struct Runtime {
    token: Token,
    words: [AtomicU32; 2],
    kernel: Kernel,
}

fn id(worker: usize) -> WorkerId {
    WorkerId::new(worker as u16)
}

impl Runtime {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            token: Token::new(),
            words: [AtomicU32::new(PARKED), AtomicU32::new(PARKED)],
            kernel: Kernel::default(),
        })
    }

    /// Sleeps on the word.
    fn futex_wait(&self, me: usize) {
        let mut state = self.kernel.state.lock().unwrap();
        while self.words[me].load(Ordering::Relaxed) == PARKED {
            state = self.kernel.futex.wait(state).unwrap();
        }
    }

    /// Sleeps in epoll; how many events it told of.
    fn epoll_wait(&self) -> u32 {
        let mut state = self.kernel.state.lock().unwrap();
        while state.alarm == 0 && state.events == 0 {
            state = self.kernel.epoll.wait(state).unwrap();
        }
        state.alarm = 0;
        core::mem::take(&mut state.events)
    }

    /// `Linux::wait`, then `Linux::poll_io`; how many events there were.
    fn sleep(&self, me: usize) -> u32 {
        let word = &self.words[me];
        loop {
            match self.token.take(id(me)) {
                Take::Held => {
                    let mut events = 0;
                    if self.token.fall_asleep(id(me), word, PARKED) {
                        events = self.epoll_wait();
                        self.token.wake_up(id(me));
                    }
                    assert!(self.token.is_held_by(id(me)));
                    self.token.give_up();
                    return events;
                }
                Take::Watched => {
                    self.futex_wait(me);
                    return 0;
                }
                Take::Busy if word.load(Ordering::Relaxed) != PARKED => return 0,
                Take::Busy => thread::yield_now(),
            }
        }
    }

    /// `ParkWord::unpark`, then `Linux::wake`.
    fn wake(&self, worker: usize) {
        if self.words[worker].swap(NOTIFIED, Ordering::Release) == PARKED {
            if self.token.sleeps(id(worker)) {
                self.kernel.state.lock().unwrap().alarm += 1;
                self.kernel.epoll.notify_all();
            } else {
                drop(self.kernel.state.lock().unwrap());
                self.kernel.futex.notify_all();
            }
        }
    }

    /// A source becomes ready.
    fn event(&self) {
        self.kernel.state.lock().unwrap().events += 1;
        self.kernel.epoll.notify_all();
    }
}

fn check(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

/// Seen to catch: `token_wake`, `token_sleep`.
#[test]
fn a_worker_alone_is_woken() {
    check(4, || {
        let runtime = Runtime::new();
        let worker = thread::spawn({
            let runtime = Arc::clone(&runtime);
            move || {
                while runtime.words[0].load(Ordering::Relaxed) == PARKED {
                    runtime.sleep(0);
                }
            }
        });
        runtime.wake(0);
        worker.join().unwrap();
    });
}

/// One in epoll, one on its word, or both on their way; each is woken.
///
/// Seen to catch: `token_wake`, `token_sleep`.
#[test]
fn two_workers_are_woken() {
    check(2, || {
        let runtime = Runtime::new();
        let workers = [0, 1].map(|me| {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || {
                while runtime.words[me].load(Ordering::Relaxed) == PARKED {
                    runtime.sleep(me);
                }
            })
        });
        runtime.wake(1);
        runtime.wake(0);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// An event comes while two workers go to sleep; whoever hears of it wakes the other.
#[test]
fn an_event_is_heard_of() {
    check(2, || {
        let runtime = Runtime::new();
        let workers = [0, 1].map(|me| {
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || {
                while runtime.words[me].load(Ordering::Relaxed) == PARKED {
                    if runtime.sleep(me) > 0 {
                        runtime.wake(1 - me);
                        return;
                    }
                }
            })
        });
        runtime.event();
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// One was in epoll a moment ago, and now sleeps on its word, as another is in epoll: it must not be looked for where it was.
#[test]
fn a_worker_that_was_in_epoll_is_woken_at_its_word() {
    check(3, || {
        let runtime = Runtime::new();
        runtime.words[1].store(UNPARKED, Ordering::Relaxed);
        let first = thread::spawn({
            let runtime = Arc::clone(&runtime);
            move || {
                while runtime.words[0].load(Ordering::Relaxed) == PARKED {
                    runtime.sleep(0);
                }
            }
        });
        let second = thread::spawn({
            let runtime = Arc::clone(&runtime);
            move || {
                if runtime.token.take(id(1)) == Take::Held {
                    assert!(!runtime.token.fall_asleep(id(1), &runtime.words[1], PARKED));
                    runtime.token.give_up();
                }
                // As the core does it.
                let park = runtime.words[1].compare_exchange(
                    UNPARKED,
                    PARKED,
                    Ordering::Relaxed,
                    Ordering::Acquire,
                );
                while park.is_ok() && runtime.words[1].load(Ordering::Relaxed) == PARKED {
                    runtime.sleep(1);
                }
            }
        });
        runtime.wake(1);
        second.join().unwrap();
        runtime.wake(0);
        first.join().unwrap();
    });
}
