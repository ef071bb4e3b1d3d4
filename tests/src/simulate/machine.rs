//! The simulated platform.

use core::{any::Any, cell::Cell, panic::AssertUnwindSafe, ptr::NonNull};
use std::panic::{catch_unwind, resume_unwind};

use filch::{
    Event, Instant, Panic, PanicVtable, Platform, Reactor, Scheduler, StartError, TaskPool,
    WorkerEntry, WorkerId, WorkerSlot,
    atomic::{AtomicU32, Ordering},
};

use super::{
    check,
    faults::Fault,
    fiber::suspend,
    reactor,
    world::{State, fail, roll, turn, world},
};

/// Small, so that rings overflow.
const RING: usize = 16;

/// An executor of the same size, on any platform.
pub(super) type On<P> = Scheduler<P, Box<[WorkerSlot<RING>]>, RING>;

/// The executor of a simulation.
pub(super) type Machine = On<Sim>;

/// Its memory.
pub(super) type Pool = TaskPool<1024, 256>;

/// The calls of the platform, as traces and records name them.
pub(super) mod occasion {
    use filch::Event;

    pub(in super::super) const BIRTH: u64 = 0;
    pub(in super::super) const SLEEP: u64 = 1;
    pub(in super::super) const NOW: u64 = 2;
    pub(in super::super) const HERE: u64 = 3;
    pub(in super::super) const ENTER: u64 = 4;
    pub(in super::super) const LEAVE: u64 = 5;
    pub(in super::super) const WAKE: u64 = 6;
    pub(in super::super) const START: u64 = 7;
    pub(in super::super) const DELIVER: u64 = 8;
    pub(in super::super) const RELAX: u64 = 9;
    pub(in super::super) const UNBLOCK: u64 = 10;
    /// A sleep has ended.
    pub(in super::super) const AWAKE: u64 = 11;
    /// A worker asks the reactor.
    pub(in super::super) const ASK: u64 = 12;

    pub(in super::super) fn of(event: Event) -> u64 {
        match event {
            Event::Spawn(_) => 16,
            Event::PollStart(_) => 17,
            Event::PollEnd(_) => 18,
            Event::Steal { .. } => 19,
            Event::Park => 20,
            Event::Unpark => 21,
            _ => 22,
        }
    }
}

/// The platform. All its state is in the thread's world.
#[derive(Debug)]
pub(super) struct Sim;

/// The payload of a task that panics on purpose.
pub(super) struct Planned;

pub(super) fn slots(n: usize) -> Box<[WorkerSlot<RING>]> {
    (0..n).map(|_| WorkerSlot::new()).collect()
}

/// `Instant::MAX` is no deadline.
fn nanos(deadline: Option<Instant>) -> Option<u64> {
    deadline.filter(|end| *end != Instant::MAX).map(Instant::as_nanos)
}

/// Sleeps while the word is what it is, until the fiber is woken, or for no reason; in the reactor, if it `listens`.
pub(super) fn sleep(word: &AtomicU32, expected: u32, deadline: Option<Instant>, listens: bool) {
    turn(occasion::SLEEP);
    // Ordering: Acquire, as the contract of `wait` says; there is only one thread.
    if word.load(Ordering::Acquire) != expected {
        return awake();
    }
    let asleep = world(|w| {
        let spurious = w.roll(Fault::Spurious);
        let state = State::Asleep { word: address(word), deadline: nanos(deadline), listens };
        let Some(me) = w.me() else { return false };
        if core::mem::take(&mut me.extra) || spurious {
            return false;
        }
        (me.state, me.at) = (state, occasion::AWAKE);
        true
    });
    if asleep {
        suspend();
    }
}

/// The worker that sleeps is the one that the calling context is.
fn check_here(worker: WorkerId) {
    let here = world(|w| w.me().and_then(|me| me.worker));
    if here.map(usize::from) != Some(worker.index()) {
        fail(format!("{worker:?} sleeps in a context that it is not"));
    }
}

/// In a replay, a sleep ends when it did in the record.
fn awake() {
    if world(|w| w.replaying) {
        turn(occasion::AWAKE);
    }
}

fn address(word: &AtomicU32) -> usize {
    core::ptr::from_ref(word).addr()
}

/// Ends the sleeps on a word, in the reactor or out of it.
fn rouse(word: &AtomicU32, in_reactor: bool) {
    world(|w| {
        w.counts.wakes += 1;
        if w.roll(Fault::Lose) {
            return;
        }
        let (late, twice) = (w.roll(Fault::Late), w.roll(Fault::Duplicate));
        let at = w.moment + if late { w.rng.u64(..4_000) } else { 0 };
        for actor in &mut w.actors {
            let sleeps = |state| match state {
                State::Asleep { word: on, listens, .. } => {
                    (on, listens) == (address(word), in_reactor)
                }
                _ => false,
            };
            if sleeps(actor.state) {
                actor.state = State::Waking(at);
                actor.extra |= twice;
            }
        }
    });
}

// SAFETY:
// - Identity: `set_worker` takes a seat and gives it back, in the fiber that is resumed; it checks.
// - Guard: `catch_unwind` calls once, here. Start: each entry is the body of one fiber.
// - Liveness: there is one thread, so nothing comes between the check of the word and the sleep;
//   `rouse` makes a fiber ready that sleeps on a word when it changes. Time only increases.
unsafe impl Platform for Sim {
    fn now(&self) -> Instant {
        turn(occasion::NOW);
        Instant::from_nanos(world(|w| w.now))
    }

    fn current_worker(&self) -> Option<WorkerId> {
        turn(occasion::HERE);
        world(|w| w.me()?.worker).map(WorkerId::new)
    }

    fn left_poll(&self) -> Option<NonNull<Cell<*const ()>>> {
        world(|w| w.left_poll())
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        let Some(worker) = worker else { return leave() };
        world(|w| {
            let current = w.current;
            let taken = w.seats[worker.index()].is_some();
            if taken || w.me().is_none_or(|me| me.worker.is_some()) {
                w.fail(format!("{worker:?} is entered by two contexts, or by another worker"));
            }
            w.seats[worker.index()] = current;
            w.me().map(|me| me.worker = Some(worker.index() as u16))
        });
        turn(occasion::ENTER);
    }

    unsafe fn wait(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        check_here(worker);
        sleep(word, expected, deadline, false);
        world(|w| w.check.sleeps(worker));
    }

    fn wake(&self, _: WorkerId, word: &AtomicU32) {
        turn(occasion::WAKE);
        rouse(word, false);
    }

    fn reactor(&self) -> Option<&dyn Reactor> {
        Some(self)
    }

    fn start(&self, entry: WorkerEntry) -> Result<(), StartError> {
        turn(occasion::START);
        // Outside of the world: an entry that is dropped calls the executor.
        if roll(Fault::Refuse) {
            return Err(StartError::Refused(11));
        }
        world(|w| w.bear(Box::new(move || entry.run())));
        Ok(())
    }

    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        catch_unwind(AssertUnwindSafe(poll)).map_err(|payload| {
            if !payload.is::<Planned>() {
                fail(format!("a panic: {}", text(&*payload)));
            }
            let payload = NonNull::from(Box::leak(Box::new(payload)));
            // SAFETY: the payload is `Send`, and is not shared.
            unsafe { Panic::from_raw(payload.cast(), &PANICS) }
        })
    }

    fn relax(&self, _: u32) {
        turn(occasion::RELAX);
        // A fiber that spins waits for others.
        if !world(|w| w.replaying) {
            suspend();
        }
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        sleep(word, expected, deadline, false);
    }

    fn unblock(&self, word: &AtomicU32) {
        turn(occasion::UNBLOCK);
        rouse(word, false);
    }

    fn event(&self, worker: Option<WorkerId>, event: Event) {
        check::event(worker, event);
        turn(occasion::of(event));
        if let (Some(worker), Event::PollEnd(_)) = (worker, event) {
            check::goes_on(worker);
        }
    }
}

// SAFETY: as above.
unsafe impl Reactor for Sim {
    unsafe fn listen(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        check_here(worker);
        reactor::listen(worker, word, expected, deadline);
        if deadline != Some(Instant::ZERO) {
            world(|w| w.check.sleeps(worker));
        }
        world(|w| w.reactor.holds(worker.index()))
    }

    fn interrupt(&self, _: WorkerId, word: &AtomicU32) {
        turn(occasion::WAKE);
        rouse(word, true);
    }

    unsafe fn deliver(&self, worker: WorkerId) -> usize {
        turn(occasion::DELIVER);
        let mut events = 0;
        while let Some(signal) = world(|w| w.reactor.next(worker)) {
            signal.deliver();
            events += 1;
        }
        events
    }
}

/// The context is no worker any more.
fn leave() {
    turn(occasion::LEAVE);
    world(|w| {
        let Some(worker) = w.me().and_then(|me| me.worker) else {
            return w.fail("a context leaves that is no worker");
        };
        let worker = WorkerId::new(worker);
        w.seats[worker.index()] = None;
        w.check.leaves(worker);
        if let Some(me) = w.me() {
            (me.worker, me.parked) = (None, false);
        }
    });
}

type Payload = Box<dyn Any + Send>;

static PANICS: PanicVtable = PanicVtable { drop: drop_payload, message: no_message, resume };

unsafe fn resume(payload: NonNull<()>) -> ! {
    // SAFETY: `guard` made it by `Box::leak`; the caller gives it away.
    resume_unwind(*unsafe { Box::from_raw(payload.cast::<Payload>().as_ptr()) })
}

unsafe fn drop_payload(payload: NonNull<()>) {
    // SAFETY: `guard` made it by `Box::leak`.
    drop(unsafe { Box::from_raw(payload.cast::<Payload>().as_ptr()) });
}

unsafe fn no_message(_: NonNull<()>) -> Option<&'static str> {
    None
}

/// The message of a panic.
pub(super) fn text(payload: &(dyn Any + Send)) -> String {
    let owned = payload.downcast_ref::<String>().cloned();
    owned.or(payload.downcast_ref::<&str>().map(|s| (*s).into())).unwrap_or("of no text".into())
}
