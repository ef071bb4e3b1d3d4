//! What the keeper is told, in simulated memory: contexts that ask for wakes, and a keeper that sleeps until it is told.
//!
//! `RUSTFLAGS="--cfg filch_weakmem" cargo test -p filch-embassy-time --release --lib --target-dir target/weakmem`
//!
//! Only the keeper moves the clock, when it would sleep until a time. If it is not told of a wake, nothing moves any more, which
//! the checker reports as a deadlock.

use core::{
    ptr::NonNull,
    task::{RawWaker, RawWakerVTable, Waker},
};
use std::{env, sync::Arc};

use filch::atomic::{AtomicU32, Ordering};
use filch_weakmem::{Checker, Strategy, futex, thread};

use crate::{
    driver::Shared,
    table::{self, Slot},
    ticks,
};

/// A word that a wake counts up, and that a thread sleeps on. Its waker owns nothing.
struct Bell(AtomicU32);

static BELL: RawWakerVTable = RawWakerVTable::new(
    |bell| RawWaker::new(bell, &BELL),
    // SAFETY: the waker is `Bell::waker`'s.
    |bell| unsafe { ring(bell) },
    // SAFETY: as above.
    |bell| unsafe { ring(bell) },
    |_| {},
);

/// # Safety
/// It is a `Bell`.
unsafe fn ring(bell: *const ()) {
    // SAFETY: the caller's.
    let Bell(word) = unsafe { &*bell.cast::<Bell>() };
    // Ordering: Release pairs with the Acquire in `count`.
    word.fetch_add(1, Ordering::Release);
    futex::wake_all(word);
}

impl Bell {
    /// For as long as the bell, which the model keeps until its threads have ended.
    fn waker(&self) -> Waker {
        // SAFETY: the functions of `BELL` take such a pointer.
        unsafe { Waker::new(NonNull::from(self).as_ptr().cast(), &BELL) }
    }
    fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
    /// Sleeps until it has rung more than `heard` times.
    fn wait(&self, heard: u32) {
        while self.count() == heard {
            futex::wait(&self.0, heard);
        }
    }
}

struct Model {
    shared: Shared,
    slots: Vec<Slot>,
    keeper: Bell,
    /// In units that `Shared` tells apart.
    clock: AtomicU32,
    tasks: Vec<Bell>,
}

impl Model {
    fn new(slots: usize, tasks: usize) -> Arc<Self> {
        let bell = || Bell(AtomicU32::new(0));
        Arc::new(Self {
            shared: Shared::new(),
            slots: (0..slots).map(|_| Slot::new()).collect(),
            keeper: bell(),
            clock: AtomicU32::new(0),
            tasks: (0..tasks).map(|_| bell()).collect(),
        })
    }

    fn now(&self) -> u64 {
        u64::from(self.clock.load(Ordering::Relaxed)) * UNIT
    }

    /// As `Driver::schedule_wake`.
    fn schedule(&self, at: u64, waker: &Waker) {
        if at <= self.now() {
            return waker.wake_by_ref();
        }
        let put = table::put(&self.slots, at, waker, self.shared.evictions());
        self.shared.tell(put, at, &self.slots);
    }

    /// As a task: so many times, a timer and an earlier one, until it is woken.
    fn task(&self, index: usize, rounds: u32) {
        let bell = &self.tasks[index];
        for _ in 0..rounds {
            let heard = bell.count();
            self.schedule(self.now() + 3 * UNIT, &bell.waker());
            self.schedule(self.now() + UNIT, &bell.waker());
            bell.wait(heard);
        }
    }

    /// As the keeper: looks whenever it is told, and when the time has come, until so many tasks have ended.
    fn keep(&self, ended: &Bell, tasks: u32) {
        let waker = self.keeper.waker();
        loop {
            let heard = self.keeper.count();
            if ended.count() == tasks {
                return;
            }
            assert!(self.shared.hear(&waker));
            match self.shared.look(&self.slots, || self.now()) {
                // All others may run first; then time has passed.
                Some(next) => {
                    thread::yield_now();
                    self.clock.store((next / UNIT) as u32, Ordering::Relaxed);
                }
                None => self.keeper.wait(heard),
            }
        }
    }
}

/// A step of the clock: two coarse units.
const UNIT: u64 = 2 * ticks::LONGEST >> 29;

fn check(model: impl Fn() + Copy + 'static) {
    let set = env::var("WEAKMEM_ITERATIONS").ok().and_then(|n| n.parse().ok());
    let checker = Checker::new(set.unwrap_or(2_000));
    checker.run(Strategy::Random, model);
    checker.run(Strategy::Pct { depth: 3, length: 100 }, model);
}

/// So many tasks, and a keeper, over a table of so many slots.
fn run(slots: usize, tasks: usize, rounds: u32) {
    let (model, ended) = (Model::new(slots, tasks), Arc::new(Bell(AtomicU32::new(0))));
    let threads: Vec<_> = (0..tasks)
        .map(|i| {
            let (model, ended) = (Arc::clone(&model), Arc::clone(&ended));
            thread::spawn(move || {
                model.task(i, rounds);
                ended.waker().wake();
                model.keeper.waker().wake();
            })
        })
        .collect();
    model.keep(&ended, tasks as u32);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn the_keeper_hears_of_every_wake() {
    check(|| run(2, 2, 2));
}

#[test]
fn the_keeper_hears_of_every_wake_in_a_table_that_is_too_small() {
    check(|| run(1, 2, 2));
}

/// A wake that is put into the table while the keeper goes.
#[test]
fn a_keeper_that_goes_leaves_no_wake_behind() {
    check(|| {
        let model = Model::new(2, 2);
        let threads = [0, 1].map(|i| {
            let model = Arc::clone(&model);
            thread::spawn(move || model.task(i, 1))
        });
        assert!(model.shared.hear(&model.keeper.waker()));
        model.shared.look(&model.slots, || model.now());
        model.shared.close(&model.slots);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
