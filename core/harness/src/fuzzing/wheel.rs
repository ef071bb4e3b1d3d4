//! The wheel. Timers are numbers here.

use alloc::{boxed::Box, sync::Arc, task::Wake, vec::Vec};
use core::{ptr::NonNull, task::Waker};

use crate::{
    atomic::{AtomicU32, Ordering},
    instant::Instant,
    time::{
        node::Node,
        wheel::{Batch, Wheel as Timers},
    },
};

/// A wheel, and timers by number.
pub struct Wheel {
    wheel: Timers,
    timers: Box<[(Node, Arc<Fired>)]>,
    turn: Arc<AtomicU32>,
    tick: u32,
}

/// When a timer fired: a sequence number from 1, or 0 if it has not fired.
struct Fired(AtomicU32, Arc<AtomicU32>);

impl Wake for Fired {
    fn wake(self: Arc<Self>) {
        // Ordering: Relaxed: there is only one thread.
        let before = self.0.swap(1 + self.1.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        assert_eq!(before, 0, "a timer fires once");
    }
}

impl Wheel {
    /// This many timers in no wheel, and slots of 2^`tick` nanoseconds.
    pub fn new(timers: usize, tick: u32) -> Self {
        let turn = Arc::new(AtomicU32::new(0));
        let timer = |_| (Node::new(), Arc::new(Fired(AtomicU32::new(0), Arc::clone(&turn))));
        Self { wheel: Timers::new(), timers: (0..timers).map(timer).collect(), turn, tick }
    }
    /// Adds a timer, which it takes out first. Returns whether the wheel says that its deadline is before all others.
    pub fn insert(&mut self, i: usize, deadline: u64) -> bool {
        self.remove(i);
        let (node, fired) = &self.timers[i];
        let waker = Waker::from(Arc::clone(fired));
        // SAFETY: INV-TIMER: it is unlinked, and `drop` takes it out before its memory is freed.
        unsafe {
            let (node, at) = (NonNull::from(node), Instant::from_nanos(deadline));
            self.wheel.insert(node, at, waker, self.tick, false)
        }
    }
    /// Takes a timer out. Returns whether it was in the wheel.
    pub fn remove(&mut self, i: usize) -> bool {
        // SAFETY: INV-TIMER: there is only this wheel.
        unsafe { self.wheel.remove(NonNull::from(&self.timers[i].0)) }.is_some()
    }
    /// Gives a timer another deadline. Returns whether that is before all others, or `None` for a timer that is not in the wheel.
    pub fn reset(&mut self, i: usize, deadline: u64) -> Option<bool> {
        let node = NonNull::from(&self.timers[i].0);
        // SAFETY: as in `remove`.
        unsafe { self.wheel.reset(node, Instant::from_nanos(deadline), self.tick) }
    }
    /// The timers that fire at `now`, in order.
    pub fn expire(&mut self, now: u64) -> Vec<usize> {
        loop {
            let mut batch = Batch::default();
            let is_task = |_: &Waker| true;
            let more = self.wheel.expire(Instant::from_nanos(now), self.tick, &mut batch, is_task);
            batch.wake();
            if !more {
                break;
            }
        }
        // Ordering: as in `Fired`.
        let fired = |(i, (_, fired)): (usize, &(Node, Arc<Fired>))| {
            Some(fired.0.swap(0, Ordering::Relaxed)).filter(|turn| *turn > 0).map(|turn| (turn, i))
        };
        let mut all: Vec<_> = self.timers.iter().enumerate().filter_map(fired).collect();
        all.sort_unstable();
        self.turn.store(0, Ordering::Relaxed);
        all.into_iter().map(|(_, i)| i).collect()
    }
    /// When it must be advanced next.
    pub fn next(&self) -> Option<u64> {
        self.wheel.next(self.tick).map(Instant::as_nanos)
    }
    /// Whether the wheel holds timers.
    pub fn is_armed(&self) -> bool {
        self.wheel.is_armed()
    }
    /// Whether a deadline is, or may be, at `now` or before it.
    pub fn is_overdue(&self, now: u64) -> bool {
        self.wheel.is_overdue(Instant::from_nanos(now))
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        (0..self.timers.len()).for_each(|i| {
            self.remove(i);
        });
    }
}
