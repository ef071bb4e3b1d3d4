//! A guest: its processor, and the state that its worker and its disk share.

use core::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering},
    time::Duration,
};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use filch::io::{Readiness, Ready};

pub(crate) const BLOCKS: u32 = 500;

/// A virtual processor. It belongs to one thread; the request to exit comes from any thread.
pub(crate) trait Processor: Send + Sync {
    /// Attaches it to the calling thread.
    fn attach(&self) {}

    /// Runs the guest until it exits, by itself or on request.
    fn run(&self) -> Exit;

    /// If not 0, the guest must exit, and not be entered.
    fn exit_request(&self) -> &AtomicU8;

    /// Makes a running guest check `exit_request`, which has been set.
    fn kick(&self) {}
}

/// Why a guest has exited.
pub(crate) enum Exit {
    /// It requests a block from its disk.
    Asks,
    /// It halts until the block has come.
    Halts,
    /// It was asked to exit.
    Kicked,
}

/// A simulated processor: it computes for a while, requests a block, halts, and so on.
#[derive(Default)]
pub(crate) struct Simulated {
    asked: AtomicBool,
    exit_request: AtomicU8,
}

impl Processor for Simulated {
    fn run(&self) -> Exit {
        // Ordering: Relaxed; only its own thread uses it.
        if self.asked.swap(false, Ordering::Relaxed) {
            return Exit::Halts;
        }
        let kicked = (0..2_000).any(|_| {
            core::hint::spin_loop();
            // Ordering: Relaxed; a flag only. The thread that acts on it takes it back by a
            // read-modify-write.
            self.exit_request.load(Ordering::Relaxed) != 0
        });
        if kicked {
            return Exit::Kicked;
        }
        self.asked.store(true, Ordering::Relaxed);
        Exit::Asks
    }

    fn exit_request(&self) -> &AtomicU8 {
        &self.exit_request
    }
}

pub(crate) struct Guest {
    processor: OnceLock<Box<dyn Processor>>,
    state: Mutex<State>,
    /// Ends a halt.
    news: Condvar,
    /// The guest waits for a block, and its disk has not been notified.
    asked: AtomicBool,
    pub(crate) disk: Readiness,
    pub(crate) entries: AtomicU32,
    pub(crate) kicks: AtomicU32,
}

struct State {
    blocks: u32,
    halted: bool,
    /// A virtual interrupt is pending.
    interrupt: bool,
}

impl Guest {
    pub(crate) const fn new() -> Self {
        Self {
            processor: OnceLock::new(),
            state: Mutex::new(State { blocks: 0, halted: false, interrupt: false }),
            news: Condvar::new(),
            asked: AtomicBool::new(false),
            disk: Readiness::new(),
            entries: AtomicU32::new(0),
            kicks: AtomicU32::new(0),
        }
    }

    /// Sets its processor, if it has none yet.
    pub(crate) fn equip(&self, processor: Box<dyn Processor>) {
        let _ = self.processor.set(processor);
    }

    pub(crate) fn processor(&self) -> &dyn Processor {
        &**self.processor.get_or_init(|| Box::new(Simulated::default()))
    }

    /// Whether it has got all of its blocks.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().blocks == BLOCKS
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.lock().blocks
    }

    /// The virtual interrupt: a block has come.
    pub(crate) fn interrupt(&self) {
        self.lock().interrupt = true;
    }

    /// Takes back the request to exit.
    pub(crate) fn forget_kick(&self) {
        // Ordering: AcqRel pairs with the one in `kick`: the thread that takes the request back
        // sees what came before it.
        self.processor().exit_request().swap(0, Ordering::AcqRel);
    }

    /// Makes the guest exit, or not be entered. From any thread.
    pub(crate) fn kick(&self) {
        // Ordering: AcqRel pairs with the one in `forget_kick`.
        self.processor().exit_request().swap(1, Ordering::AcqRel);
        self.processor().kick();
        drop(self.lock());
        self.news.notify_all();
    }

    /// Notifies the disk if the guest has requested a block.
    pub(crate) fn deliver(&self) -> bool {
        // Ordering: Relaxed; only the worker sets and delivers it.
        let asked = self.asked.swap(false, Ordering::Relaxed);
        if asked {
            self.disk.set(Ready::READABLE);
        }
        asked
    }

    /// Whether `deliver` has a request to pass on.
    pub(crate) fn has_asked(&self) -> bool {
        // Ordering: Relaxed; as in `deliver`.
        self.asked.load(Ordering::Relaxed)
    }

    /// Runs the guest until it exits, or halts with it until `left` returns no time.
    ///
    /// A running guest is not stopped when its time is up: these guests exit often enough. Others
    /// would need a timer whose signal kicks them.
    pub(crate) fn enter(&self, left: impl Fn() -> Option<Duration>) {
        self.entries.fetch_add(1, Ordering::Relaxed);
        if !self.halt(left) {
            return;
        }
        match self.processor().run() {
            Exit::Asks => self.asked.store(self.blocks() < BLOCKS, Ordering::Relaxed),
            Exit::Halts => self.lock().halted = true,
            Exit::Kicked => {
                self.kicks.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Sleeps while the guest halts; returns whether it goes on.
    fn halt(&self, left: impl Fn() -> Option<Duration>) -> bool {
        let mut state = self.lock();
        loop {
            // Ordering: Relaxed; a flag only. `forget_kick` acquires.
            if self.processor().exit_request().load(Ordering::Relaxed) != 0 {
                self.kicks.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            if state.halted && state.interrupt {
                *state = State { blocks: state.blocks + 1, halted: false, interrupt: false };
            }
            if !state.halted {
                return true;
            }
            let sleep = left();
            if sleep.is_some_and(|left| left.is_zero()) {
                return false;
            }
            state = match sleep {
                Some(left) => {
                    self.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
