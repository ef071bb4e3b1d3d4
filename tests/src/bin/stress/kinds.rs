//! The tasks.
//!
//! The program itself has no deadlock, so every hang is the executor's. Sync code on a worker waits
//! only for leaves, which wait for no other task. Async code waits for older tasks, or for its own
//! children, which join nothing. Every waiter is in a slot, which is fired in the end. A side of a
//! pair that is dropped notifies the other.

use core::{
    cell::Cell,
    future::{Future, poll_fn},
    sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
    task::{Poll, Waker},
};
use std::{
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use fastrand::Rng;
use filch_std::{
    Handle, JoinHandle, TaskOptions,
    runtime::WorkerId,
    task::{SpawnError, shield, unconstrained, yield_now},
};

use crate::{
    accounts::{Guard, Kind, Output, Stretch, refuse, violation},
    tables::{self, Kept, leave_waker, wait},
};

/// Where tasks are spawned.
#[derive(Clone, Copy)]
pub(crate) struct Ctx {
    pub(crate) handle: Handle,
    pub(crate) workers: u16,
}

/// How a task is spawned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Named,
    Pinned(WorkerId),
}

impl Way {
    fn random(ctx: &Ctx, rng: &mut Rng) -> Self {
        match rng.u8(..16) {
            0..10 => Self::Plain,
            10..14 => Self::Named,
            // Sometimes a worker that does not exist.
            _ => Self::Pinned(WorkerId::new(if rng.u8(..32) == 0 {
                u16::MAX
            } else {
                rng.u16(..ctx.workers)
            })),
        }
    }
}

impl Ctx {
    /// Spawns a task of a random kind.
    pub(crate) fn spawn_any(&self, rng: &mut Rng) -> Option<Kept> {
        let kind = match rng.u8(..32) {
            0..10 => Kind::Yielder,
            10..16 => Kind::Waiter,
            16..18 => Kind::Spawner,
            18..20 => Kind::Pinger,
            20..22 => Kind::Aborter,
            22..25 => Kind::Shielded,
            25 => Kind::Panicking,
            26..30 => Kind::Joiner,
            30 => Kind::Forgotten,
            _ => Kind::Local,
        };
        self.spawn(kind, rng)
    }

    /// Spawns a task; `None` if it is refused.
    pub(crate) fn spawn(&self, kind: Kind, rng: &mut Rng) -> Option<Kept> {
        let (guard, mine) = (Guard::new(kind), rng.fork());
        let way = Way::random(self, rng);
        let (id, asked) = (guard.id(), guard.asked());
        let handle = match kind {
            Kind::Yielder => self.launch(way, kind, yielder(guard, mine)),
            Kind::Waiter => self.launch(way, kind, waiter(guard, mine)),
            Kind::Spawner => self.launch(way, kind, spawner(*self, guard, mine)),
            Kind::Pinger => {
                let (one, two) = pair(mine.clone().u32(1..20));
                if let Some(kept) = self.spawn_side(two, &mut mine.clone()) {
                    kept.leave(rng);
                }
                self.launch(way, kind, pinger(one, guard, mine))
            }
            Kind::Aborter => self.launch(way, kind, aborter(guard, mine)),
            Kind::Shielded => self.launch(way, kind, shielded(guard, mine)),
            Kind::Panicking => self.launch(way, kind, panicking(guard, mine)),
            Kind::Local => settle(self.handle.spawn_local(local(guard, mine))),
            Kind::Joiner => self.launch(way, kind, joiner(*self, guard, mine)),
            Kind::Forgotten => self.launch(way, kind, forgotten(guard, mine)),
        }?;
        let pinned = matches!(way, Way::Pinned(_)) || kind == Kind::Local;
        let kept = Kept { handle, id, kind, pinned, asked };
        if rng.u8(..4) == 0 {
            kept.leave_abort(rng);
        }
        Some(kept)
    }

    /// Spawns one side of a pair.
    pub(crate) fn spawn_side(&self, side: Side, rng: &mut Rng) -> Option<Kept> {
        let (guard, mine) = (Guard::new(Kind::Pinger), rng.fork());
        let (id, asked) = (guard.id(), guard.asked());
        let way = Way::random(self, rng);
        let handle = self.launch(way, Kind::Pinger, pinger(side, guard, mine))?;
        let pinned = matches!(way, Way::Pinned(_));
        Some(Kept { handle, id, kind: Kind::Pinger, pinned, asked })
    }

    fn launch<F>(&self, way: Way, kind: Kind, future: F) -> Option<JoinHandle<Output>>
    where
        F: Future<Output = Output> + Send + 'static,
    {
        settle(match way {
            Way::Plain => self.handle.offer(future),
            Way::Named => self.handle.spawn_with(TaskOptions::new().name(kind.name()), future),
            Way::Pinned(worker) => {
                self.handle.spawn_with(TaskOptions::new().pinned(worker), future)
            }
        })
    }
}

fn settle<F>(spawned: Result<JoinHandle<Output>, SpawnError<F>>) -> Option<JoinHandle<Output>> {
    spawned.map_err(|error| refuse(error.future)).ok()
}

async fn leave(rng: &mut Rng) {
    if rng.u8(..8) == 0 {
        poll_fn(|cx| {
            leave_waker(cx, rng);
            Poll::Ready(())
        })
        .await;
    }
}

/// Yields a few times, in one of the possible ways.
async fn yields(rng: &mut Rng) {
    for _ in 0..rng.u8(..6) {
        leave(rng).await;
        match rng.u8(..8) {
            0 => unconstrained(yield_now()).await,
            1 => {
                for _ in 0..rng.u8(..200) {
                    filch_std::task::consume_budget().await;
                }
            }
            _ => yield_now().await,
        }
    }
}

async fn yielder(guard: Guard, mut rng: Rng) -> Output {
    yields(&mut rng).await;
    guard.finish()
}

async fn waiter(guard: Guard, mut rng: Rng) -> Output {
    for _ in 0..rng.u8(1..4) {
        wait(&mut rng).await;
        leave(&mut rng).await;
    }
    guard.finish()
}

async fn aborter(guard: Guard, mut rng: Rng) -> Output {
    for _ in 0..rng.u8(1..6) {
        tables::use_abort(&mut rng);
        yields(&mut rng).await;
    }
    guard.finish()
}

async fn shielded(guard: Guard, mut rng: Rng) -> Output {
    let mut inner = rng.fork();
    shield(async {
        let stretch = Stretch::begin();
        yields(&mut inner).await;
        if inner.bool() {
            // Shields nest.
            shield(wait(&mut inner)).await;
        }
        yields(&mut inner).await;
        stretch.end();
    })
    .await;
    yields(&mut rng).await;
    guard.finish()
}

async fn panicking(guard: Guard, mut rng: Rng) -> Output {
    yields(&mut rng).await;
    guard.panic()
}

async fn forgotten(guard: Guard, mut rng: Rng) -> Output {
    poll_fn::<(), _>(|cx| {
        leave_waker(cx, &mut rng);
        Poll::Pending
    })
    .await;
    guard.finish()
}

async fn local(guard: Guard, mut rng: Rng) -> Output {
    let polls = Rc::new(Cell::new(0_u32));
    let home = thread::current().id();
    for _ in 0..rng.u8(1..4) {
        let before = Rc::clone(&polls);
        if rng.bool() {
            wait(&mut rng).await;
        } else {
            yields(&mut rng).await;
        }
        if thread::current().id() != home {
            violation("a local task has left its thread");
        }
        before.set(before.get() + 1);
    }
    guard.finish()
}

async fn spawner(ctx: Ctx, guard: Guard, mut rng: Rng) -> Output {
    // Sometimes more than fit into the ring.
    let n = if rng.u8(..32) == 0 { rng.usize(200..400) } else { rng.usize(1..6) };
    let mut children = Vec::new();
    for _ in 0..n {
        let kind = match rng.u8(..8) {
            0 => Kind::Waiter,
            1 => Kind::Panicking,
            2 => Kind::Shielded,
            3 => Kind::Local,
            _ => Kind::Yielder,
        };
        children.extend(ctx.spawn(kind, &mut rng));
    }
    while let Some(child) = children.pop() {
        match rng.u8(..8) {
            0 => child.leave(&mut rng),
            1 => child.handle.detach(),
            2 => {
                child.abort();
                done(child).await;
            }
            3 | 4 => wait_in_sync_code(ctx, child, &mut rng).await,
            _ => done(child).await,
        }
    }
    guard.finish()
}

async fn joiner(ctx: Ctx, guard: Guard, mut rng: Rng) -> Output {
    for _ in 0..rng.u8(1..4) {
        match tables::take_handle(&mut rng) {
            // Only older tasks, so that joiners form no circle.
            Some(kept) if kept.id < guard.id() => match rng.u8(..4) {
                0 => wait_in_sync_code(ctx, kept, &mut rng).await,
                _ => done(kept).await,
            },
            Some(kept) => kept.leave(&mut rng),
            None => yields(&mut rng).await,
        }
    }
    guard.finish()
}

async fn done(mut kept: Kept) {
    let outcome = (&mut kept.handle).await;
    kept.check(outcome);
}

/// Waits with `join` or `block_on` inside a poll, for a leaf.
async fn wait_in_sync_code(ctx: Ctx, mut kept: Kept, rng: &mut Rng) {
    if !kept.may_be_joined_on_worker() {
        return done(kept).await;
    }
    let outcome =
        if rng.bool() { kept.handle.join() } else { ctx.handle.block_on(&mut kept.handle) };
    if !kept.check(outcome) {
        done(kept).await;
    }
}

/// Two sides that take turns, until one is dropped.
struct Turns {
    turn: AtomicU32,
    last: u32,
    closed: AtomicBool,
    wakers: [Mutex<Option<Waker>>; 2],
}

/// One of them.
pub(crate) struct Side {
    turns: Arc<Turns>,
    me: u32,
}

pub(crate) fn pair(rounds: u32) -> (Side, Side) {
    let turns = Arc::new(Turns {
        turn: AtomicU32::new(0),
        last: 2 * rounds,
        closed: AtomicBool::new(false),
        wakers: [const { Mutex::new(None) }; 2],
    });
    (Side { turns: Arc::clone(&turns), me: 0 }, Side { turns, me: 1 })
}

impl Side {
    /// Whether it is this side's turn; otherwise leaves a waker for the other side.
    fn is_on(&self, cx: &core::task::Context<'_>) -> bool {
        let turns = &*self.turns;
        let on = || {
            // Ordering: Acquire pairs with the Releases in `play` and `drop`.
            let turn = turns.turn.load(Acquire);
            turn % 2 == self.me || turn >= turns.last || turns.closed.load(Acquire)
        };
        let mut waker =
            turns.wakers[self.me as usize].lock().unwrap_or_else(PoisonError::into_inner);
        // The other side changes the turn before it takes the waker.
        if on() {
            return true;
        }
        *waker = Some(cx.waker().clone());
        false
    }

    fn wake_other(&self, rng: &mut Rng) {
        let place = &self.turns.wakers[1 - self.me as usize];
        let waker = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        match waker {
            Some(waker) if rng.bool() => waker.wake(),
            Some(waker) => waker.wake_by_ref(),
            None => {}
        }
    }

    /// Plays to the end.
    pub(crate) async fn play(self, mut rng: Rng) {
        loop {
            poll_fn(|cx| if self.is_on(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
            let turns = &*self.turns;
            // Ordering: Relaxed: `is_on` has acquired what matters.
            if turns.closed.load(Relaxed) || turns.turn.load(Relaxed) >= turns.last {
                return;
            }
            turns.turn.fetch_add(1, Release);
            self.wake_other(&mut rng);
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.turns.closed.store(true, Release);
        self.wake_other(&mut Rng::with_seed(u64::from(self.me)));
    }
}

async fn pinger(side: Side, guard: Guard, rng: Rng) -> Output {
    side.play(rng).await;
    guard.finish()
}
