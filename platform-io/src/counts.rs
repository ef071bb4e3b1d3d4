//! What the reactor counts: each worker for itself, and the sources.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use filch_std::runtime::{IoMetrics, WorkerId};

/// The counters of one worker, which alone writes them, on lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counts {
    waits: AtomicUsize,
    looks: AtomicUsize,
    timed: AtomicUsize,
    alarms: AtomicUsize,
    events: AtomicUsize,
}

/// Ordering: Relaxed; one writer, and a reader that takes a snapshot.
const LOOSE: Ordering = Ordering::Relaxed;

fn add_one(counter: &AtomicUsize) {
    counter.store(counter.load(LOOSE).wrapping_add(1), LOOSE);
}

impl Counts {
    /// A wait with this timeout begins.
    #[inline]
    pub fn wait(&self, longest: Option<Duration>) {
        add_one(&self.waits);
        match longest {
            Some(Duration::ZERO) => add_one(&self.looks),
            Some(_) => add_one(&self.timed),
            None => {}
        }
    }

    /// The alarm alone has ended it.
    #[inline]
    pub fn alarm(&self) {
        add_one(&self.alarms);
    }

    /// An event of a source was taken.
    #[inline]
    pub fn event(&self) {
        add_one(&self.events);
    }
}

/// All of a host, by worker, and its sources. They outlive its runtimes.
#[derive(Debug, Default)]
pub(crate) struct All(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    workers: Vec<Arc<Counts>>,
    registered: usize,
    /// The sources of the runtime that is on the host now, which is this one of its lives.
    sources: usize,
    life: u32,
}

impl All {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The code under the lock does not panic, but for want of memory.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters of a worker, which begins.
    pub(crate) fn of(&self, worker: WorkerId) -> Arc<Counts> {
        let workers = &mut self.lock().workers;
        if workers.len() <= worker.index() {
            workers.resize_with(worker.index() + 1, Arc::default);
        }
        Arc::clone(&workers[worker.index()])
    }

    /// A source was registered, in this life of the host.
    pub(crate) fn register(&self, life: u32) {
        let mut state = self.lock();
        state.registered = state.registered.wrapping_add(1);
        state.sources += usize::from(state.life == life);
    }

    /// It was removed. One of a runtime that has ended is not among the sources any more.
    pub(crate) fn deregister(&self, life: u32) {
        let mut state = self.lock();
        state.sources -= usize::from(state.life == life);
    }

    /// Another life of the host begins, without sources.
    pub(crate) fn begin_life(&self, life: u32) {
        let mut state = self.lock();
        (state.life, state.sources) = (life, 0);
    }

    pub(crate) fn snapshot(&self) -> IoMetrics {
        let state = self.lock();
        let mut all = IoMetrics::default();
        (all.sources, all.registered) = (state.sources, state.registered);
        for worker in &state.workers {
            for (sum, counter) in [
                (&mut all.waits, &worker.waits),
                (&mut all.looks, &worker.looks),
                (&mut all.timed, &worker.timed),
                (&mut all.alarms, &worker.alarms),
                (&mut all.events, &worker.events),
            ] {
                *sum = sum.wrapping_add(counter.load(LOOSE));
            }
        }
        all
    }
}
