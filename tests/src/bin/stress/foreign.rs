//! The foreign threads.

use core::{
    future::Future,
    pin::pin,
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    task::Wake,
    thread::{self, Thread},
};

use fastrand::Rng;

use crate::{
    accounts::Kind,
    kinds::{Ctx, pair},
    tables::{self, Kept},
};

/// How hard the foreign threads work in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Without a pause.
    Busy,
    /// With pauses now and then, so that some workers go to sleep.
    Bursty,
    /// With a pause after each step, so that nearly each finds all workers asleep.
    Sparse,
    /// Only one thread, which waits for the answer to each wake without helping: nothing else
    /// happens that could repair a lost wake.
    Alone,
}

/// With more live tasks than this, the foreign threads fire instead of spawning.
const CROWD: usize = 5_000;

/// The main thread's orders to the foreign threads, and what they have done.
#[derive(Default)]
pub(crate) struct Control {
    /// Even: work. Odd: wait.
    phase: Mutex<u32>,
    changed: Condvar,
    waiting: AtomicU32,
    quit: AtomicBool,
    pace: AtomicU32,
    pub(crate) steps: AtomicU64,
    pub(crate) joins: AtomicU64,
}

impl Control {
    fn lock(&self) -> std::sync::MutexGuard<'_, u32> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, phase: impl Fn(u32) -> u32) {
        let mut now = self.lock();
        *now = phase(*now);
        drop(now);
        self.changed.notify_all();
    }

    /// The foreign threads finish their step, and wait.
    pub(crate) fn pause(&self) {
        self.set(|n| n | 1);
    }

    /// How many foreign threads wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Acquire) as usize
    }

    pub(crate) fn resume(&self, pace: Pace) {
        self.pace.store(pace as u32, Relaxed);
        self.set(|n| (n + 1) & !1);
    }

    pub(crate) fn quit(&self) {
        self.quit.store(true, Relaxed);
        self.set(|n| (n + 1) & !1);
    }

    fn must_pause(&self) -> bool {
        *self.lock() % 2 == 1
    }

    fn wait(&self) {
        let mut phase = self.lock();
        self.waiting.fetch_add(1, Release);
        while *phase % 2 == 1 {
            phase = self.changed.wait(phase).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, Release);
    }
}

/// One foreign thread: random steps until it is asked to quit.
pub(crate) fn run(ctx: Ctx, control: &Control, index: usize, mut rng: Rng) {
    let mut steps = 0_u64;
    while !control.quit.load(Relaxed) {
        if control.must_pause() {
            control.wait();
            continue;
        }
        let pace = control.pace.load(Relaxed);
        if pace == Pace::Alone as u32 {
            if index == 0 {
                steps += 1;
                duel(ctx, control, &mut rng);
            } else {
                thread::sleep(Duration::from_millis(1));
            }
            continue;
        }
        for _ in 0..16 {
            step(ctx, control, &mut rng);
            steps += 1;
            let pause = if pace == Pace::Busy as u32 {
                0
            } else if pace == Pace::Bursty as u32 {
                u64::from(rng.u8(..24) == 0) * rng.u64(..500)
            } else {
                // Only the first one is quick enough to keep a worker awake.
                rng.u64(20..400) * (1 + index as u64)
            };
            if pause > 0 {
                thread::sleep(Duration::from_micros(pause));
            }
        }
    }
    control.steps.fetch_add(steps, Relaxed);
}

fn step(ctx: Ctx, control: &Control, rng: &mut Rng) {
    let crowded = ctx.handle.metrics().totals().live > CROWD;
    match rng.u8(..16) {
        0..5 if !crowded => {
            if let Some(kept) = ctx.spawn_any(rng) {
                see_to(ctx, control, kept, rng);
            }
        }
        5 => {
            if let Some(kept) = tables::take_handle(rng) {
                see_to(ctx, control, kept, rng);
            }
        }
        6 | 7 => tables::use_abort(rng),
        8..11 => tables::use_waker(rng),
        11 if !crowded => play(ctx, control, rng),
        _ => tables::fire(rng),
    }
}

/// Does something with a handle.
fn see_to(ctx: Ctx, control: &Control, mut kept: Kept, rng: &mut Rng) {
    match rng.u8(..12) {
        0 => drop(kept.handle),
        1 => kept.handle.detach(),
        2 => {
            kept.abort();
            if kept.kind.is_leaf() {
                join(ctx, control, kept, rng);
            }
        }
        3 => glance(&mut kept, rng),
        4..7 if kept.kind.is_leaf() => join(ctx, control, kept, rng),
        7 if kept.handle.is_finished() => join(ctx, control, kept, rng),
        _ => kept.leave(rng),
    }
}

/// Waits for a task in sync code.
fn join(ctx: Ctx, control: &Control, mut kept: Kept, rng: &mut Rng) {
    let outcome = match rng.u8(..4) {
        0 => ctx.handle.block_on(&mut kept.handle),
        1 => park_on(&mut kept.handle, rng),
        _ => kept.handle.join(),
    };
    kept.check(outcome);
    control.joins.fetch_add(1, Relaxed);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread, which sleeps without helping.
fn park_on<F: Future>(future: F, rng: &mut Rng) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        thread::park();
        // The next wake may come at any point of a worker's way to sleep.
        spin(rng);
    }
}

fn spin(rng: &mut Rng) {
    let most = 1 << rng.u8(..14);
    for _ in 0..rng.u32(..most) {
        core::hint::spin_loop();
    }
}

/// Wakes tasks one at a time, while nothing else runs.
fn duel(ctx: Ctx, control: &Control, rng: &mut Rng) {
    if rng.bool() {
        let (mine, other) = pair(rng.u32(1..200));
        drop(ctx.spawn_side(other, rng));
        park_on(mine.play(rng.fork()), rng);
    } else if let Some(mut kept) = ctx.spawn(Kind::Yielder, rng) {
        let outcome = park_on(&mut kept.handle, rng);
        kept.check(outcome);
        spin(rng);
    }
    control.joins.fetch_add(1, Relaxed);
}

/// A waker that does nothing, but is counted.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Polls a handle a few times with changing wakers.
fn glance(kept: &mut Kept, rng: &mut Rng) {
    let counted: Waker = Arc::new(Nobody).into();
    for _ in 0..rng.u8(1..4) {
        let waker = if rng.bool() { Waker::noop() } else { &counted };
        let mut cx = Context::from_waker(waker);
        if let Poll::Ready(outcome) = pin!(&mut kept.handle).poll(&mut cx) {
            kept.check(outcome);
            return;
        }
    }
}

/// Takes turns with a task, with `block_on` or in sync code.
fn play(ctx: Ctx, control: &Control, rng: &mut Rng) {
    let (mine, other) = pair(rng.u32(1..30));
    if let Some(kept) = ctx.spawn_side(other, rng) {
        kept.leave(rng);
    }
    let side = mine.play(rng.fork());
    if rng.bool() {
        ctx.handle.block_on(side)
    } else {
        park_on(side, rng)
    }
    if rng.u8(..4) == 0 {
        // A burst from outside.
        let burst: Vec<_> =
            (0..rng.u8(..64)).filter_map(|_| ctx.spawn(Kind::Yielder, rng)).collect();
        for kept in burst {
            join(ctx, control, kept, rng);
        }
    }
}
