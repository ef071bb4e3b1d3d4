//! The memory model: which stores a load may read.
//!
//! Each location keeps all its stores in modification order, which is the order in which they were
//! executed. Each thread has a view that only grows (see `view`); a load reads any store that is
//! not older than the view. A store carries the view of its thread (release) or of its thread's
//! last release fence (relaxed). An acquire load joins that view at once; after a relaxed load the
//! next acquire fence does. A read-modify-write passes on what the store that it replaced carried:
//! this is the release sequence.
//!
//! The total order S of sequentially consistent operations is the order of execution too. `sc`
//! holds what they have seen: such an access takes part only for its own location, a fence for all
//! of them. This never shows an outcome that C++20 forbids: in each of the four conditions of its
//! definition of S, the operation that is first in S has left its store, or a later one, in `sc`
//! when the other one runs, which then reads or writes nothing older. It is weaker than fences
//! around each access, so that code which takes such a load for a fence is caught.
//!
//! C++ allows two outcomes that this never shows: a load that reads a store executed later (load
//! buffering), and a store that precedes an earlier executed one in modification order.

use std::rc::Rc;

use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Release, SeqCst};

use crate::{rng::Rng, view::View};

/// All locations, and the view of each thread.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    locations: Vec<Vec<Store>>,
    threads: Vec<Seen>,
    sc: View,
}

#[derive(Debug)]
struct Store {
    value: u64,
    /// The view that an acquire load of this store joins.
    view: Rc<View>,
}

#[derive(Debug, Default)]
struct Seen {
    now: View,
    /// The views of stores that relaxed loads have read: the next acquire fence joins them.
    pending: View,
    /// The view at the last release fence: relaxed stores carry it.
    released: Rc<View>,
}

/// The result of a read-modify-write: the value that it found, and whether it wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update {
    pub(crate) old: u64,
    pub(crate) new: Option<u64>,
    pub(crate) stale: bool,
}

impl Memory {
    /// Adds a thread that has seen what its parent has.
    pub(crate) fn spawn(&mut self, parent: Option<usize>) {
        let now = parent.map(|parent| self.threads[parent].now.clone()).unwrap_or_default();
        self.threads.push(Seen { now, ..Seen::default() });
    }

    /// Adds a location that has no value yet.
    pub(crate) fn blank(&mut self) -> usize {
        self.locations.push(Vec::new());
        self.locations.len() - 1
    }

    pub(crate) fn is_blank(&self, at: usize) -> bool {
        self.locations[at].is_empty()
    }

    /// Gives a blank location its first value, which every thread may read.
    pub(crate) fn begin(&mut self, at: usize, value: u64) {
        self.locations[at].push(Store { value, view: Rc::default() });
    }

    /// Begins a step of the thread.
    pub(crate) fn tick(&mut self, thread: usize) {
        self.threads[thread].now.tick(thread);
    }

    /// The thread's view.
    pub(crate) fn seen(&self, thread: usize) -> &View {
        &self.threads[thread].now
    }

    /// The last value in modification order.
    pub(crate) fn latest(&self, at: usize) -> u64 {
        self.locations[at].last().map_or(0, |store| store.value)
    }

    /// Reads a store that the thread may read; an old one `stale` times of 256. True if it was an
    /// old one.
    pub(crate) fn load(
        &mut self,
        thread: usize,
        at: usize,
        order: Ordering,
        stale: u32,
        rng: &mut Rng,
    ) -> (u64, bool) {
        let time = self.choose(thread, at, order, stale, rng);
        self.read(thread, at, time, order);
        (self.locations[at][time].value, time + 1 != self.locations[at].len())
    }

    /// Writes the next store in modification order.
    pub(crate) fn store(&mut self, thread: usize, at: usize, value: u64, order: Ordering) {
        self.write(thread, at, value, order, None);
    }

    /// A read-modify-write. It writes the result of `next` over the last store in modification
    /// order. If that is `None`, it is a load with the order `failure`, which may read an old
    /// store.
    #[expect(clippy::too_many_arguments, reason = "of one kind each, and with one caller")]
    pub(crate) fn update(
        &mut self,
        thread: usize,
        at: usize,
        order: Ordering,
        failure: Ordering,
        next: impl Fn(u64) -> Option<u64>,
        stale: u32,
        rng: &mut Rng,
    ) -> Update {
        let time = self.choose(thread, at, failure, stale, rng);
        let last = self.locations[at].len() - 1;
        if time != last && next(self.locations[at][time].value).is_none() {
            self.read(thread, at, time, failure);
            return Update { old: self.locations[at][time].value, new: None, stale: true };
        }
        let old = self.locations[at][last].value;
        let new = next(old);
        match new {
            Some(value) => {
                self.read(thread, at, last, order);
                self.write(thread, at, value, order, Some(last));
            }
            None => self.read(thread, at, last, failure),
        }
        Update { old, new, stale: false }
    }

    /// A fence.
    pub(crate) fn fence(&mut self, thread: usize, order: Ordering) {
        let seen = &mut self.threads[thread];
        if acquires(order) {
            seen.now.join(&seen.pending);
        }
        if order == SeqCst {
            // S orders what may be read; it does not synchronise by itself, so the clocks stay.
            seen.now.join_times(&self.sc);
            self.sc.join_times(&seen.now);
        }
        if releases(order) {
            seen.released = Rc::new(seen.now.clone());
        }
    }

    fn choose(
        &self,
        thread: usize,
        at: usize,
        order: Ordering,
        stale: u32,
        rng: &mut Rng,
    ) -> usize {
        let mut first = self.threads[thread].now.time(at);
        if order == SeqCst {
            first = first.max(self.sc.time(at));
        }
        let (first, last) = (first as usize, self.locations[at].len() - 1);
        if first < last && rng.chance(stale) { first + rng.below(last - first) } else { last }
    }

    fn read(&mut self, thread: usize, at: usize, time: usize, order: Ordering) {
        let seen = &mut self.threads[thread];
        let store = &self.locations[at][time];
        seen.now.see(at, time as u32);
        if acquires(order) {
            seen.now.join(&store.view);
        } else {
            seen.pending.join(&store.view);
        }
        if order == SeqCst {
            self.sc.see(at, time as u32);
        }
    }

    fn write(
        &mut self,
        thread: usize,
        at: usize,
        value: u64,
        order: Ordering,
        over: Option<usize>,
    ) {
        let seen = &mut self.threads[thread];
        let stores = &mut self.locations[at];
        let time = stores.len() as u32;
        seen.now.see(at, time);
        let mut view =
            if releases(order) { Rc::new(seen.now.clone()) } else { Rc::clone(&seen.released) };
        if let Some(over) = over {
            Rc::make_mut(&mut view).join(&stores[over].view);
        }
        stores.push(Store { value, view });
        if order == SeqCst {
            self.sc.see(at, time);
        }
    }
}

fn acquires(order: Ordering) -> bool {
    matches!(order, Acquire | AcqRel | SeqCst)
}

fn releases(order: Ordering) -> bool {
    matches!(order, Release | AcqRel | SeqCst)
}
