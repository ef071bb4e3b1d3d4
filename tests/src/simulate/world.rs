//! The simulated machine's state: which fibers can run, the time, the pending signals.

use core::{
    cell::{Cell, RefCell},
    ptr::{NonNull, null},
};
use std::{collections::VecDeque, sync::Arc, thread};

use fastrand::Rng;
use filch::io::{Readiness, Ready};

use super::{
    check::Check,
    faults::{Dice, Fault},
    fiber::{in_fiber, suspend},
    machine::{Machine, occasion},
    reactor::Reactor,
    recording::Recording,
    replay::Fidelity,
};

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::default());
}

/// The calling thread's world. It must not be held across a call of the executor, or of
/// [`suspend`].
pub(super) fn world<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(f)
}

/// Figures of an episode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Counts {
    pub steps: u64,
    pub polls: u64,
    pub steals: u64,
    pub stolen: u64,
    pub parks: u64,
    pub wakes: u64,
    pub interrupts: u64,
    /// Events that were heard of in the reactor.
    pub events: u64,
    pub faults: u64,
    pub tasks: u64,
    /// Tasks that became ready after their spawns, and tasks that have ended, by the events.
    pub ready: u64,
    pub ends: u64,
    /// Tasks that have ended without a poll, as their workers left.
    pub unpolled: u64,
    pub timers: u64,
    /// Fork-join jobs that were stolen.
    pub jobs: u64,
    /// Checks of tasks that wait behind a poll, after another worker has checked all others once.
    pub stuck: u64,
    /// How many invariants were checked.
    pub checks: u64,
    /// The longest wait of a ready task for its poll, in polls of others.
    pub longest_wait: u64,
}

impl Counts {
    /// Adds those of another episode.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.polls += other.polls;
        self.steals += other.steals;
        self.stolen += other.stolen;
        self.parks += other.parks;
        self.wakes += other.wakes;
        self.interrupts += other.interrupts;
        self.events += other.events;
        self.faults += other.faults;
        self.tasks += other.tasks;
        self.ready += other.ready;
        self.ends += other.ends;
        self.unpolled += other.unpolled;
        self.timers += other.timers;
        self.jobs += other.jobs;
        self.stuck += other.stuck;
        self.checks += other.checks;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}

/// The state of a fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// Stopped where it is, until this moment.
    Held(u64),
    /// In `wait` or `block`: the address of the word, and the time when the sleep ends by itself.
    Asleep {
        word: usize,
        deadline: Option<u64>,
        /// In the reactor.
        listens: bool,
    },
    /// Asleep, and its wake arrives at this moment.
    Waking(u64),
    Over,
}

/// A fiber, as the world sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    pub(super) state: State,
    /// The worker that it is.
    pub(super) worker: Option<u16>,
    /// It stopped in the program's own code, and so outside of the executor.
    pub(super) outside: bool,
    /// Between the events `Park` and `Unpark`.
    pub(super) parked: bool,
    /// One more wake is pending.
    pub(super) extra: bool,
    interrupted: bool,
    /// The task that it has polled last, by the events.
    pub(super) polled: usize,
    /// It has stopped in a waker, which may be one of a batch.
    pub(super) in_waker: bool,
    /// The call of the platform that it stopped in.
    pub(super) at: u64,
}

impl Actor {
    const NEW: Self = Self {
        state: State::Ready,
        worker: None,
        outside: true,
        parked: false,
        extra: false,
        interrupted: false,
        polled: 0,
        in_waker: false,
        at: occasion::BIRTH,
    };

    /// The task that it polls, if it has left its worker in the midst of that: it is no worker, and in the program's own code.
    pub(super) fn polls_outside(&self) -> Option<usize> {
        let polls = self.worker.is_none() && self.outside && self.polled != 0;
        (polls && self.state != State::Over).then_some(self.polled)
    }

    /// No code of the executor runs here, and none will until something else happens.
    pub(super) fn rests(&self) -> bool {
        match self.state {
            State::Ready | State::Held(_) => self.outside && !self.interrupted,
            State::Asleep { .. } | State::Over => true,
            State::Waking(_) => false,
        }
    }
}

/// A device has an event.
pub(super) struct Signal {
    cell: Arc<Readiness>,
    ready: Ready,
    /// Not before this moment.
    due: u64,
}

impl Signal {
    pub(super) fn is_due(&self, moment: u64) -> bool {
        self.due <= moment
    }

    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// What an interrupt handler does.
    pub(super) fn deliver(self) {
        self.cell.set(self.ready);
    }
}

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) dice: Dice,
    pub(super) now: u64,
    /// The time in moments: turns, and moments without one.
    pub(super) moment: u64,
    pub(super) actors: Vec<Actor>,
    pub(super) current: Option<usize>,
    /// Each actor's word for a poll that has left its worker.
    #[expect(clippy::vec_box, reason = "a word stays where it is")]
    pub(super) left: Vec<Box<Cell<*const ()>>>,
    /// The actor of each worker.
    pub(super) seats: Vec<Option<usize>>,
    /// New fibers, each with the number of its actor.
    pub(super) births: Vec<(usize, Box<dyn FnOnce()>)>,
    pub(super) signals: VecDeque<Signal>,
    pub(super) reactor: Reactor,
    pub(super) hash: u64,
    pub(super) counts: Counts,
    pub(super) check: Check,
    pub(super) failure: Option<String>,
    pub(super) executor: Option<&'static Machine>,
    /// How often, of 256, a call of the platform switches fibers.
    pub(super) preempt: u32,
    pub(super) trace: bool,
    /// What goes to a file at the end.
    pub(super) recording: Option<Recording>,
    /// Turns follow a record: each call of the platform ends one, and the program's own code none.
    pub(super) replaying: bool,
    pub(super) fidelity: Fidelity,
    /// The clock is stopped until this moment.
    pub(super) frozen: u64,
    /// A check is under way: calls of the platform are no turns.
    pub(super) looking: bool,
    /// Who had the last turn.
    pub(super) last: Option<usize>,
    /// The actors that can run; kept for its memory.
    pub(super) ready: Vec<usize>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            rng: Rng::with_seed(0),
            dice: Dice::default(),
            now: 0,
            moment: 0,
            actors: Vec::new(),
            current: None,
            left: Vec::new(),
            seats: Vec::new(),
            births: Vec::new(),
            signals: VecDeque::new(),
            reactor: Reactor::default(),
            hash: 0xCBF2_9CE4_8422_2325,
            counts: Counts::default(),
            check: Check::default(),
            failure: None,
            executor: None,
            preempt: 256,
            trace: false,
            recording: None,
            replaying: false,
            fidelity: Fidelity::default(),
            frozen: 0,
            looking: false,
            last: None,
            ready: Vec::new(),
        }
    }
}

impl World {
    /// See `Platform::left_poll`.
    pub(super) fn left_poll(&mut self) -> Option<NonNull<Cell<*const ()>>> {
        let current = self.current?;
        let more = self.left.len().max(current + 1);
        self.left.resize_with(more, || Box::new(Cell::new(null())));
        Some(NonNull::from(&*self.left[current]))
    }

    /// Adds to the trace.
    pub(super) fn mix(&mut self, what: u64) {
        // After FNV, word by word.
        self.hash = (self.hash ^ what).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    }

    /// Prints to standard error, if the trace is on.
    pub(super) fn log(&self, what: impl FnOnce() -> String) {
        if self.trace {
            let worker = self.current.and_then(|at| self.actors[at].worker);
            eprintln!(
                "{:6} fiber {:?} worker {worker:?}: {}",
                self.counts.steps,
                self.current,
                what()
            );
        }
    }

    pub(super) fn roll(&mut self, fault: Fault) -> bool {
        self.dice.roll(fault, &mut self.rng)
    }

    pub(super) fn fail(&mut self, what: impl Into<String>) {
        self.failure.get_or_insert_with(|| what.into());
    }

    pub(super) fn me(&mut self) -> Option<&mut Actor> {
        self.actors.get_mut(self.current?)
    }

    /// The calling fiber stops for about so many moments.
    pub(super) fn hold(&mut self, about: u64) {
        let until = self.moment + self.rng.u64(1..=2 * about.max(1));
        if let Some(me) = self.me() {
            me.state = State::Held(until);
        }
    }

    /// Starts a fiber.
    pub(super) fn bear(&mut self, body: Box<dyn FnOnce()>) {
        self.births.push((self.actors.len(), body));
        self.actors.push(Actor::NEW);
    }

    /// Takes a signal that is due; with `any`, any signal.
    pub(super) fn take_signal(&mut self, any: bool) -> Option<Signal> {
        let moment = self.moment;
        let at = self.signals.iter().position(|signal| any || signal.due <= moment)?;
        self.counts.interrupts += 1;
        self.log(|| "a signal".into());
        self.signals.remove(at)
    }

    fn send(&mut self, cell: &Arc<Readiness>, ready: Ready) {
        // An interrupt that has not been heard stands for both.
        let same = |s: &Signal| Arc::ptr_eq(&s.cell, cell) && s.ready == ready;
        if self.signals.iter().any(same) || self.reactor.events.iter().any(same) {
            return;
        }
        // Every second one waits in the reactor, the others interrupt.
        let waits = self.rng.bool();
        let copies = 1 + usize::from(self.roll(Fault::Duplicate));
        for _ in 0..copies {
            let delay = if self.roll(Fault::Late) { 2_000 } else { 16 };
            let due = self.moment + self.rng.u64(..delay);
            let queue = if waits { &mut self.reactor.events } else { &mut self.signals };
            queue.push_back(Signal { cell: Arc::clone(cell), ready, due });
        }
    }
}

/// The device of this cell will raise an event soon.
pub(super) fn signal(cell: &Arc<Readiness>, ready: Ready) {
    if in_fiber() && !world(|w| w.replaying) {
        world(|w| w.send(cell, ready));
    } else {
        cell.set(ready);
    }
}

/// Rolls for a fault; never outside of a simulation.
pub(super) fn roll(fault: Fault) -> bool {
    in_fiber() && world(|w| w.roll(fault))
}

/// Reports a violated invariant.
pub(super) fn fail(what: impl Into<String>) {
    let what = what.into();
    if in_fiber() || world(|w| w.executor.is_some()) {
        world(|w| w.fail(what));
    } else {
        panic!("{what}");
    }
}

/// A call of the platform: an interrupt may come here, and other fibers may run first.
pub(super) fn turn(occasion: u64) {
    // While a panic is under way its count is the thread's, not the fiber's.
    if !in_fiber() || thread::panicking() || world(|w| w.looking) {
        return;
    }
    interrupt();
    let switch = world(|w| {
        w.mix(occasion);
        w.log(|| format!("turn {occasion}"));
        if let Some(me) = w.me() {
            me.at = occasion;
        }
        if w.replaying {
            return true;
        }
        // More often inside a notification: others rely on what comes next.
        let hands_over = matches!(
            occasion,
            occasion::DELIVER | occasion::WAKE | occasion::UNBLOCK | occasion::START
        );
        if w.roll(Fault::Stall) || hands_over && (0..8).any(|_| w.roll(Fault::Stall)) {
            w.hold(2_000);
            return true;
        }
        // Rare calls switch each second time.
        if matches!(occasion, occasion::ENTER | occasion::LEAVE) && w.rng.bool() {
            w.hold(100);
            return true;
        }
        w.preempt >= 256 || w.rng.u32(..256) < w.preempt
    });
    if switch {
        suspend();
    }
}

/// The program's own code: other fibers may run first.
pub(super) fn pause() {
    pause_for(0);
}

/// The program's own code takes long, about so many moments.
pub(super) fn pause_for(about: u64) {
    if !in_fiber() || thread::panicking() || world(|w| w.replaying) {
        return;
    }
    let outside = |is| {
        world(|w| {
            w.mix(about);
            w.log(|| format!("pause for {about}, {is}"));
            if is && about > 0 {
                w.hold(about);
            }
            w.me().map(|me| me.outside = is)
        })
    };
    check_duties();
    outside(true);
    suspend();
    outside(false);
}

/// As `pause`, in a waker of the program's own.
pub(super) fn pause_in_waker() {
    let mark = |is| world(|w| w.me().map(|me| core::mem::replace(&mut me.in_waker, is)));
    let was = mark(true);
    pause();
    mark(was == Some(true));
}

/// The program's own code runs: its worker owes nothing to the others.
fn check_duties() {
    let executor = world(|w| {
        // An interrupt comes wherever the worker is.
        if w.me().is_some_and(|me| me.interrupted) {
            return None;
        }
        w.counts.checks += 1;
        w.executor
    });
    let Some(executor) = executor else { return };
    world(|w| w.looking = true);
    let owes = executor.has_duties();
    world(|w| {
        w.looking = false;
        if owes {
            let worker = w.me().and_then(|me| me.worker);
            w.fail(format!("worker {worker:?} is in the program's own code, and has a duty"));
        }
    });
}

fn interrupt() {
    let signal = world(|w| {
        if w.signals.is_empty() || w.rng.u8(..8) != 0 || w.me()?.interrupted {
            return None;
        }
        let signal = w.take_signal(false)?;
        w.me()?.interrupted = true;
        Some(signal)
    });
    if let Some(signal) = signal {
        signal.deliver();
        world(|w| w.me().map(|me| me.interrupted = false));
    }
}
