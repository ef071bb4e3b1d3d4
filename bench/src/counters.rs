//! Counters of events on all threads. Each thread has a cache line of its own, and writes it with
//! plain stores, so that counting disturbs the measurement as little as possible.

use core::{
    cell::Cell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use serde::{Deserialize, Serialize};

/// Threads with a line of their own; the others share the last one.
const LINES: usize = 128;

#[repr(align(128))]
pub(crate) struct Counters {
    allocations: AtomicU64,
    allocated: AtomicU64,
    freed: AtomicU64,
    futex_calls: AtomicU64,
}

#[expect(clippy::declare_interior_mutable_const, reason = "a template of an array's elements")]
const ZERO: Counters = Counters {
    allocations: AtomicU64::new(0),
    allocated: AtomicU64::new(0),
    freed: AtomicU64::new(0),
    futex_calls: AtomicU64::new(0),
};

static COUNTERS: [Counters; LINES] = [ZERO; LINES];
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<Option<&'static Counters>> = const { Cell::new(None) };
}

/// Counts something on the calling thread's line.
#[inline]
pub(crate) fn mine(count: impl FnOnce(&Counters)) {
    let counters = MINE.get().unwrap_or_else(|| {
        // Ordering: Relaxed; a number for each thread, and nothing else is passed.
        let n = NEXT.fetch_add(1, Ordering::Relaxed).min(LINES - 1);
        MINE.set(Some(&COUNTERS[n]));
        &COUNTERS[n]
    });
    count(counters);
}

fn add(to: &AtomicU64, n: u64) {
    // Ordering: Relaxed; only this thread writes it, except on the last line, where a count may be
    // lost.
    to.store(to.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Counters {
    pub(crate) fn allocated(&self, bytes: usize) {
        add(&self.allocations, 1);
        add(&self.allocated, bytes as u64);
    }

    pub(crate) fn freed(&self, bytes: usize) {
        add(&self.freed, bytes as u64);
    }

    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub(crate) fn futex_call(&self) {
        add(&self.futex_calls, 1);
    }
}

/// The counts of all threads so far.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Totals {
    pub(crate) allocations: u64,
    pub(crate) allocated: u64,
    pub(crate) freed: u64,
    pub(crate) futex_calls: u64,
}

pub(crate) fn totals() -> Totals {
    // Ordering: Relaxed; the caller has waited for the counting threads, or accepts to miss the
    // last counts.
    let sum = |field: fn(&Counters) -> &AtomicU64| {
        COUNTERS.iter().map(|counters| field(counters).load(Ordering::Relaxed)).sum()
    };
    Totals {
        allocations: sum(|c| &c.allocations),
        allocated: sum(|c| &c.allocated),
        freed: sum(|c| &c.freed),
        futex_calls: sum(|c| &c.futex_calls),
    }
}
