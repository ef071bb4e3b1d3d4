//! The wheel against a sorted map, under random insertions, resets, cancellations and steps of the clock.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
    task::Waker,
};
use std::{boxed::Box, collections::BTreeMap, sync::Arc, task::Wake, vec::Vec};

use super::{
    node::{FIRED, LINKED, Node},
    wheel::{Batch, Wheel},
};
use crate::instant::Instant;

const TICK: u32 = 10;

/// Counts how often a timer was fired.
#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Timer {
    node: Box<Node>,
    count: Arc<Count>,
}

impl Timer {
    fn new() -> Self {
        Self { node: Box::new(Node::new()), count: Arc::default() }
    }
    fn at(&self) -> NonNull<Node> {
        NonNull::from(&*self.node)
    }
    fn state(&self) -> u32 {
        self.node.state.load(Ordering::Relaxed)
    }
    fn insert(&self, wheel: &Wheel, deadline: u64) -> bool {
        self.insert_as(wheel, deadline, false)
    }
    fn insert_as(&self, wheel: &Wheel, deadline: u64, is_urgent: bool) -> bool {
        let waker = Waker::from(Arc::clone(&self.count));
        // SAFETY: the node is boxed, and every test takes it out, or lets it fire, before it is freed.
        unsafe { wheel.insert(self.at(), Instant::from_nanos(deadline), waker, TICK, is_urgent) }
    }
    fn remove(&self, wheel: &Wheel) -> bool {
        // SAFETY: the node was put into this wheel.
        unsafe { wheel.remove(self.at()) }.is_some()
    }
    fn reset(&self, wheel: &Wheel, deadline: u64) -> Option<bool> {
        // SAFETY: as above.
        unsafe { wheel.reset(self.at(), Instant::from_nanos(deadline), TICK) }
    }
}

/// Fires everything that is due. Returns how many timers fired.
fn expire(wheel: &Wheel, now: u64) -> usize {
    let mut fired = 0;
    loop {
        let mut batch = Batch::default();
        let more = wheel.expire(Instant::from_nanos(now), TICK, &mut batch, |_| true);
        batch.wake();
        fired += batch.len();
        if !more {
            return fired;
        }
    }
}

fn next(wheel: &Wheel) -> u64 {
    wheel.next(TICK).map_or(u64::MAX, Instant::as_nanos)
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    /// A number of any size, each size as likely as the next.
    fn any(&mut self) -> u64 {
        let bits = self.below(63);
        self.below(1 << bits)
    }
}

/// Deadlines in order, with the index of their timer.
type Model = BTreeMap<(u64, usize), ()>;

struct Trial {
    wheel: Wheel,
    timers: Vec<Timer>,
    deadlines: Vec<Option<u64>>,
    model: Model,
    now: u64,
    fired: u64,
}

impl Trial {
    fn new(timers: usize) -> Self {
        Self {
            wheel: Wheel::new(),
            timers: (0..timers).map(|_| Timer::new()).collect(),
            deadlines: vec![None; timers],
            model: Model::new(),
            now: 0,
            fired: 0,
        }
    }

    fn is_earliest(&self, deadline: u64) -> bool {
        self.model.first_key_value().is_none_or(|((first, _), ())| deadline < *first)
    }

    /// Inserts or resets a timer.
    fn set(&mut self, i: usize, deadline: u64) {
        let first = match self.deadlines[i] {
            // Some are urgent ones, and those more than there is room for as such.
            None => self.timers[i].insert_as(&self.wheel, deadline, i % 7 == 0),
            Some(old) => {
                self.model.remove(&(old, i));
                self.timers[i].reset(&self.wheel, deadline).expect("it has not fired")
            }
        };
        // The wheel may take a deadline that has left for the earliest, and then need not report another.
        assert!(
            !first || self.is_earliest(deadline),
            "told of a deadline that is not the earliest"
        );
        assert!(next(&self.wheel) <= deadline);
        self.deadlines[i] = Some(deadline);
        self.model.insert((deadline, i), ());
    }

    fn cancel(&mut self, i: usize) {
        let deadline = self.deadlines[i].take();
        assert_eq!(self.timers[i].remove(&self.wheel), deadline.is_some());
        if let Some(deadline) = deadline {
            self.model.remove(&(deadline, i));
        }
    }

    /// Moves the clock. Exactly the timers that are due must fire.
    fn advance(&mut self, to: u64) {
        self.now = to;
        let due: Vec<_> = self.model.range(..=(to, usize::MAX)).map(|(key, ())| *key).collect();
        let before: Vec<_> =
            due.iter().map(|(_, i)| self.timers[*i].count.0.load(Ordering::Relaxed)).collect();
        assert_eq!(expire(&self.wheel, to), due.len(), "at {to}");
        for ((deadline, i), before) in due.into_iter().zip(before) {
            assert_eq!(self.timers[i].state(), FIRED, "timer {i} of {deadline} at {to}");
            assert_eq!(self.timers[i].count.0.load(Ordering::Relaxed), before + 1);
            self.deadlines[i] = None;
            self.model.remove(&(deadline, i));
            self.fired += 1;
        }
        // The wheel asks for a time in the future, and not after the next deadline.
        let first = self.model.first_key_value().map_or(u64::MAX, |((first, _), ())| *first);
        let next = next(&self.wheel);
        assert!(next > to && next <= first, "{next} at {to}, and {first} is the next");
        assert_eq!(self.wheel.is_armed(), !self.model.is_empty());
    }

    fn step(&mut self, rng: &mut Rng) {
        let i = rng.below(self.timers.len() as u64) as usize;
        match rng.below(16) {
            0..8 => {
                let deadline = match rng.below(8) {
                    // A time in the past, a time that many share, or the end of time.
                    0 => self.now.saturating_sub(rng.any()),
                    1 => (self.now / 1_000 + rng.below(3)) * 1_000,
                    2 if rng.below(50) == 0 => u64::MAX - rng.below(3),
                    _ => self.now.saturating_add(rng.any() >> rng.below(30)),
                };
                // A deadline that never comes is never fired, and never asked for.
                if deadline < u64::MAX {
                    self.set(i, deadline);
                }
            }
            8..12 => self.cancel(i),
            12..15 => {
                let to = match rng.below(4) {
                    // The time that the wheel asks for, the one before it, or any.
                    0 => next(&self.wheel).min(self.now.saturating_add(1 << 40)),
                    1 => next(&self.wheel).saturating_sub(1).min(self.now.saturating_add(1 << 40)),
                    2 => self.now.saturating_add(rng.below(1 << 14)),
                    _ => self.now.saturating_add(rng.any() >> rng.below(24).max(12)),
                };
                self.advance(to.max(self.now));
            }
            _ => self.advance(self.now),
        }
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        for timer in &self.timers {
            timer.remove(&self.wheel);
        }
    }
}

fn trial(seed: u64, timers: usize, steps: u32) -> u64 {
    println!("seed {seed:#x}, {timers} timers");
    let mut rng = Rng(seed);
    let mut trial = Trial::new(timers);
    for _ in 0..steps {
        trial.step(&mut rng);
    }
    trial.fired
}

/// A million operations in all.
#[test]
fn agrees_with_a_sorted_map() {
    let steps = if cfg!(miri) { 100 } else { 125_000 };
    for (seed, timers) in
        [(1, 1), (2, 2), (3, 5), (4, 20), (5, 70), (6, 300), (7, 1_000), (8, 5_000)]
    {
        let fired = trial(u64::wrapping_mul(seed, 0x9E37_79B9_7F4A_7C15), timers, steps);
        assert!(fired > 0);
    }
}

#[test]
fn equal_deadlines_fire_in_the_order_of_their_insertion() {
    struct Log(Arc<std::sync::Mutex<Vec<usize>>>, usize);
    impl Wake for Log {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().push(self.1);
        }
    }
    let log = Arc::default();
    let wheel = Wheel::new();
    let nodes: Vec<_> = (0..100).map(|_| Box::new(Node::new())).collect();
    for (i, node) in nodes.iter().enumerate() {
        let waker = Waker::from(Arc::new(Log(Arc::clone(&log), i)));
        // SAFETY: the nodes are boxed, and fire below.
        unsafe {
            wheel.insert(NonNull::from(&**node), Instant::from_nanos(1 << 30), waker, TICK, false)
        };
        // The wheel moves on in between.
        expire(&wheel, (i as u64) << 20);
    }
    assert_eq!(expire(&wheel, (1 << 30) - 1), 0);
    assert_eq!(expire(&wheel, 1 << 30), 100);
    assert!(log.lock().unwrap().iter().copied().eq(0..100));
}

/// Urgent ones fire first, up to the number that there is room for as such, and count for the earliest deadline.
#[test]
fn urgent_timers_fire_before_others() {
    struct Log(Arc<std::sync::Mutex<Vec<usize>>>, usize);
    impl Wake for Log {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().push(self.1);
        }
    }
    let (log, wheel) = (Arc::default(), Wheel::new());
    let nodes: Vec<_> = (0..200).map(|_| Box::new(Node::new())).collect();
    for (i, node) in nodes.iter().enumerate() {
        let waker = Waker::from(Arc::new(Log(Arc::clone(&log), i)));
        let at = Instant::from_nanos((5 << TICK) + i as u64);
        // SAFETY: the nodes are boxed, and fire below.
        unsafe { wheel.insert(NonNull::from(&**node), at, waker, TICK, i >= 150) };
    }
    assert_eq!(next(&wheel), 5 << TICK);
    assert_eq!(expire(&wheel, 9 << TICK), 200);
    let wanted = (150..182).chain(0..150).chain(182..200);
    assert!(log.lock().unwrap().iter().copied().eq(wanted), "{:?}", log.lock().unwrap());
    // One alone is asked for exactly, and can be put off.
    let timer = Timer::new();
    assert!(timer.insert_as(&wheel, (1 << 40) + 1, true));
    assert_eq!(next(&wheel), (1 << 40) + 1);
    assert_eq!(timer.reset(&wheel, 1 << 50), Some(false));
    assert_eq!((expire(&wheel, 1 << 49), next(&wheel)), (0, 1 << 50));
    assert!(timer.remove(&wheel) && !wheel.is_armed());
}

/// Many nodes of one tick are due at different times in it.
#[test]
fn within_a_tick_each_fires_at_its_own_moment() {
    let wheel = Wheel::new();
    let timers: Vec<_> = (0..1 << TICK).map(|_| Timer::new()).collect();
    for (i, timer) in timers.iter().enumerate() {
        timer.insert(&wheel, (5 << TICK) + i as u64);
    }
    for now in 0..1 << TICK {
        assert_eq!(next(&wheel), (5 << TICK) + now);
        assert_eq!(expire(&wheel, (5 << TICK) + now), 1);
    }
    assert!(!wheel.is_armed());
}

#[test]
fn a_deadline_at_the_end_of_time_asks_for_nothing() {
    let wheel = Wheel::new();
    let timer = Timer::new();
    assert!(!timer.insert(&wheel, u64::MAX));
    assert_eq!(wheel.next(TICK), None);
    assert_eq!(expire(&wheel, u64::MAX - 1), 0);
    assert_eq!(timer.state(), LINKED);
    assert!(timer.remove(&wheel));
}

/// Timers that are cancelled at once, as most timeouts are, leave no wake-up behind.
#[test]
fn a_cancelled_timer_is_not_waited_for() {
    let wheel = Wheel::new();
    let (far, near) = (Timer::new(), Timer::new());
    far.insert(&wheel, 1 << 50);
    for i in 0..100 {
        assert!(near.insert(&wheel, (1 << 30) + i));
        assert!(near.remove(&wheel));
        assert_eq!(next(&wheel), 1 << 50);
    }
    far.remove(&wheel);
    assert_eq!(wheel.next(TICK), None);
}

#[test]
fn a_timer_that_is_put_off_is_not_waited_for_at_its_old_time() {
    let (wheel, timer, other) = (Wheel::new(), Timer::new(), Timer::new());
    timer.insert(&wheel, 5 << TICK);
    other.insert(&wheel, 900 << TICK);
    // First by far, and then within the slot that it now belongs to.
    assert_eq!(timer.reset(&wheel, 100_000 << TICK), Some(false));
    assert_eq!(timer.reset(&wheel, 100_001 << TICK), Some(false));
    assert_eq!(next(&wheel), 900 << TICK);
    assert!(other.remove(&wheel));
    assert_eq!(next(&wheel), 100_001 << TICK);
    assert_eq!(expire(&wheel, (100_001 << TICK) - 1), 0);
    assert_eq!(expire(&wheel, 100_001 << TICK), 1);
    assert_eq!(next(&wheel), u64::MAX);
}

/// Timeouts of connections: each is put off many times, and its old deadlines pass while it waits.
#[test]
fn timers_that_are_put_off_again_and_again_fire_once_at_their_last_time() {
    let wheel = Wheel::new();
    let timers: Vec<_> = (0..200).map(|_| Timer::new()).collect();
    let timeout = |i: u64| (3_000 + i * 37 % 5_000) << TICK;
    for (i, timer) in (0..).zip(&timers) {
        timer.insert(&wheel, timeout(i));
    }
    let end = 20_000 << TICK;
    for now in (0..end).step_by(700 << TICK) {
        assert_eq!(expire(&wheel, now), 0, "at {now}");
        for (i, timer) in (0..).zip(&timers) {
            timer.reset(&wheel, now + timeout(i)).expect("it waits");
        }
        let least = timers.iter().zip(0..).map(|(_, i)| now + timeout(i)).min();
        // Exact, because the first slot is searched; or the beginning of a slot with more nodes than a search covers.
        assert!(next(&wheel) > now && Some(next(&wheel)) <= least);
    }
    let last = (end - 1) / (700 << TICK) * (700 << TICK);
    let mut due: Vec<_> = (0..).zip(&timers).map(|(i, timer)| (last + timeout(i), timer)).collect();
    due.sort_unstable_by_key(|(deadline, _)| *deadline);
    for (deadline, timer) in due {
        expire(&wheel, deadline - 1);
        assert_eq!(timer.state(), LINKED, "before its time");
        expire(&wheel, deadline);
        assert_eq!(timer.state(), FIRED, "at its time");
    }
    assert!(timers.iter().all(|timer| timer.count.0.load(Ordering::Relaxed) == 1));
}
