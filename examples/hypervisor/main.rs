//! A hypervisor-style host: each worker owns a virtual processor, whose run loop is what the worker does when there are no
//! tasks. Device models are tasks; they run between two exits of a guest.
//!
//! The guests are simulated: a guest computes, asks its disk for a block, halts until the disk's interrupt, and so on. The real
//! thing differs in `Guest::enter` alone (`KVM_RUN`, `vmlaunch`).

use core::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};
use std::{
    process::ExitCode,
    sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread, time,
};

use filch::{
    Executor, Instant, JoinHandle, Platform, TaskPool, WorkerId,
    atomic::AtomicU32 as Word,
    io::{Readiness, Ready},
};

const GUESTS: usize = 2;
const BLOCKS: u32 = 500;

static EXECUTOR: Executor<Host, GUESTS> =
    Executor::new(Host { guests: [const { Guest::new() }; GUESTS], origin: OnceLock::new() });
static TASKS: TaskPool<256, 8> = TaskPool::new();

/// The platform: a thread for each guest.
struct Host {
    guests: [Guest; GUESTS],
    origin: OnceLock<time::Instant>,
}

/// A virtual processor, and what its worker and its disk know of it.
struct Guest {
    state: Mutex<State>,
    /// Ends a halt.
    news: Condvar,
    /// Somebody wants the worker: the guest exits, or is not even entered.
    exit: AtomicBool,
    /// The guest waits for a block.
    asked: AtomicBool,
    disk: Readiness,
    exits: AtomicU32,
    kicks: AtomicU32,
}

#[derive(Clone, Copy)]
struct State {
    blocks: u32,
    halted: bool,
    /// A virtual interrupt waits to be taken.
    interrupt: bool,
}

thread_local! {
    static WORKER: core::cell::Cell<Option<WorkerId>> = const { core::cell::Cell::new(None) };
}

// SAFETY:
// - Identity: a thread's own, set by `enter` and `leave` alone.
// - Guard: the default; this program has no panic to contain, and one that it has after all ends it.
// - Sticky wake: `wake` sets the flag after the word has changed; `wait` takes the flag back before it looks at the word, and
//   the guest looks at the flag before it goes on, under the lock before it halts.
unsafe impl Platform for Host {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.get_or_init(time::Instant::now).elapsed()
    }

    fn current_worker(&self) -> Option<WorkerId> {
        WORKER.get()
    }

    fn enter(&self, worker: WorkerId) {
        WORKER.set(Some(worker));
    }

    fn leave(&self, _: WorkerId) {
        WORKER.set(None);
    }

    fn wait(&self, worker: WorkerId, word: &Word, expected: u32, deadline: Option<Instant>) {
        let guest = &self.guests[worker.index()];
        // Ordering: AcqRel pairs with the one in `wake`: who took its flag back sees the change of the word.
        guest.exit.swap(false, Ordering::AcqRel);
        if word.load(Ordering::Acquire) == expected {
            guest.enter(|| deadline.map(|end| end - self.now()));
        }
    }

    fn wake(&self, worker: WorkerId, _: &Word) {
        let guest = &self.guests[worker.index()];
        // Ordering: see `wait`.
        guest.exit.swap(true, Ordering::AcqRel);
        drop(guest.lock());
        guest.news.notify_all();
    }

    fn poll_io(&self, worker: WorkerId) -> usize {
        let guest = &self.guests[worker.index()];
        let asked = guest.asked.swap(false, Ordering::AcqRel);
        if asked {
            guest.disk.set(Ready::READABLE);
        }
        usize::from(asked)
    }

    fn relax(&self, _: u32) {
        thread::yield_now();
    }
}

impl Guest {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State { blocks: 0, halted: false, interrupt: false }),
            news: Condvar::new(),
            exit: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            disk: Readiness::new(),
            exits: AtomicU32::new(0),
            kicks: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the guest until it exits, by itself or because it is wanted to.
    fn enter(&self, left: impl Fn() -> Option<Duration>) {
        self.exits.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        loop {
            if self.exit.load(Ordering::Acquire) {
                self.kicks.fetch_add(1, Ordering::Relaxed);
                return;
            }
            if state.halted && state.interrupt {
                *state = State { blocks: state.blocks + 1, halted: false, interrupt: false };
            }
            if !state.halted {
                // It computes for a while, and asks for the next block: an exit.
                (0..2_000).for_each(|_| core::hint::spin_loop());
                state.halted = true;
                self.asked.store(state.blocks < BLOCKS, Ordering::Release);
                return;
            }
            // The guest halts, and so does the core.
            let sleep = left();
            if sleep.is_some_and(|left| left.is_zero()) {
                return;
            }
            state = match sleep {
                Some(left) => {
                    self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// The disk of a guest: a task.
async fn disk(number: usize) {
    let guest = &EXECUTOR.platform().guests[number];
    for block in 0..BLOCKS {
        let event = guest.disk.ready(Ready::READABLE).await;
        guest.disk.clear(event);
        if block % 8 == 0 {
            // Not in the cache.
            EXECUTOR.sleep(Duration::from_micros(100)).await;
        }
        guest.lock().interrupt = true;
        // Its worker comes out of the guest, if it is in it, and enters it again, with the interrupt.
        EXECUTOR.unpark_worker(WorkerId::new(number as u16));
    }
}

fn main() -> ExitCode {
    println!("two simulated guests, each with a worker of its own (no KVM in this example)");
    let threads = [0, 1].map(|n| thread::spawn(move || EXECUTOR.run(WorkerId::new(n))));
    let disks: Vec<JoinHandle<()>> =
        (0..GUESTS).filter_map(|n| EXECUTOR.spawn(&TASKS, disk(n)).ok()).collect();
    let served = disks.len() == GUESTS && disks.into_iter().all(|mut disk| disk.join().is_ok());
    if !served {
        eprintln!("a guest has no disk");
        return ExitCode::FAILURE;
    }
    // The guests take their last interrupt.
    let done = |guest: &Guest| guest.lock().blocks == BLOCKS;
    while !EXECUTOR.platform().guests.iter().all(done) {
        thread::yield_now();
    }
    let ended = EXECUTOR.shutdown(Instant::MAX, |_| {}) == Ok(0);
    let left = threads.map(|thread| matches!(thread.join(), Ok(Ok(()))));
    for (number, guest) in EXECUTOR.platform().guests.iter().enumerate() {
        println!(
            "guest {number}: {} blocks, {} entries, {} of them ended by a wake",
            guest.lock().blocks,
            guest.exits.load(Ordering::Relaxed),
            guest.kicks.load(Ordering::Relaxed)
        );
    }
    let polls: usize = EXECUTOR.metrics().workers().map(|(_, worker)| worker.polls).sum();
    println!("{polls} polls of tasks between exits");
    if ended && left == [true; 2] { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
