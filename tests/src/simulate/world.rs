//! The simulated machine's state: who may go on, what time it is, what is on its way.

use core::cell::RefCell;
use std::{collections::VecDeque, sync::Arc, thread};

use fastrand::Rng;
use filch::io::{Readiness, Ready};

use super::{
    check::Check,
    faults::{Dice, Fault},
    fiber::{in_fiber, suspend},
    machine::{Machine, occasion},
    reactor::Reactor,
    replay::Fidelity,
};

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::default());
}

/// The calling thread's world. Not to be held across a call of the executor, or of [`suspend`].
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
    pub timers: u64,
    /// Fork-join jobs that were stolen.
    pub jobs: u64,
    /// Looks at tasks that wait behind a poll while others have gone round once.
    pub stuck: u64,
    /// Invariants looked at.
    pub checks: u64,
    /// The longest that a task that was ready was seen to wait for its poll, in polls of others.
    pub longest_wait: u64,
}

impl Counts {
    /// With those of another episode.
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
        self.timers += other.timers;
        self.jobs += other.jobs;
        self.stuck += other.stuck;
        self.checks += other.checks;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}

/// What a fiber is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// Stopped where it is, until this moment.
    Held(u64),
    /// In `wait` or `block`; the address of the word, when it ends by itself.
    Asleep {
        word: usize,
        deadline: Option<u64>,
        /// In the reactor.
        listens: bool,
    },
    /// Asleep, and will hear of its wake at this moment.
    Waking(u64),
    Over,
}

/// A fiber, as the world sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    pub(super) state: State,
    /// The worker that it is.
    pub(super) worker: Option<u16>,
    /// It stopped in the program's own code, and so in the midst of nothing of the executor's.
    pub(super) outside: bool,
    /// Between the events `Park` and `Unpark`.
    pub(super) parked: bool,
    /// One more wake is on its way.
    pub(super) extra: bool,
    interrupted: bool,
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
        at: occasion::BIRTH,
    };

    /// Nothing of the executor's is under way here, nor will be before somebody does something.
    pub(super) fn rests(&self) -> bool {
        match self.state {
            State::Ready | State::Held(_) => self.outside,
            State::Asleep { .. } | State::Over => true,
            State::Waking(_) => false,
        }
    }
}

/// A device has something to tell.
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
    /// Moments: turns, and those that nobody had.
    pub(super) moment: u64,
    pub(super) actors: Vec<Actor>,
    pub(super) current: Option<usize>,
    /// Which actor is which worker.
    pub(super) seats: Vec<Option<usize>>,
    /// Fibers to be, each with the number of its actor.
    pub(super) births: Vec<(usize, Box<dyn FnOnce()>)>,
    pub(super) signals: VecDeque<Signal>,
    pub(super) reactor: Reactor,
    pub(super) hash: u64,
    pub(super) counts: Counts,
    pub(super) check: Check,
    pub(super) failure: Option<String>,
    pub(super) executor: Option<&'static Machine>,
    /// How often a call of the platform hands over, of 256.
    pub(super) preempt: u32,
    pub(super) seed: u64,
    pub(super) trace: bool,
    /// Turns are those of a record: each call of the platform ends one, and the program's own code none.
    pub(super) replaying: bool,
    pub(super) fidelity: Fidelity,
    /// The clock stands until this moment.
    pub(super) frozen: u64,
    /// A check is under way: calls of the platform are no turns.
    pub(super) looking: bool,
    /// Who had the last turn.
    pub(super) last: Option<usize>,
    /// Those who can go on; kept for its memory.
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
            seed: 0,
            trace: false,
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
    /// Adds to the trace.
    pub(super) fn mix(&mut self, what: u64) {
        // After FNV, word by word.
        self.hash = (self.hash ^ what).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
    }

    /// For a person.
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

    /// The calling fiber will not go on for about so many moments.
    pub(super) fn hold(&mut self, about: u64) {
        let until = self.moment + self.rng.u64(1..=2 * about.max(1));
        if let Some(me) = self.me() {
            me.state = State::Held(until);
        }
    }

    /// A fiber begins.
    pub(super) fn bear(&mut self, body: Box<dyn FnOnce()>) {
        self.births.push((self.actors.len(), body));
        self.actors.push(Actor::NEW);
    }

    /// A signal that is due; or, if need be, any.
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

/// The device that this cell stands for has something to tell, soon.
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

/// An invariant does not hold.
pub(super) fn fail(what: impl Into<String>) {
    let what = what.into();
    if in_fiber() || world(|w| w.executor.is_some()) {
        world(|w| w.fail(what));
    } else {
        panic!("{what}");
    }
}

/// A call of the platform: perhaps an interrupt comes here, perhaps others go on first.
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
        // In the midst of a hand-over, more often: others rely on what comes next.
        let hands_over = matches!(
            occasion,
            occasion::POLL_IO | occasion::WAKE | occasion::UNBLOCK | occasion::START
        );
        if w.roll(Fault::Stall) || hands_over && (0..8).any(|_| w.roll(Fault::Stall)) {
            w.hold(2_000);
            return true;
        }
        // What happens rarely is worth a stop each second time.
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

/// The program's own code: others may go on first.
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

/// The program's own code runs: its worker owes nothing to the others.
fn check_duties() {
    let executor = world(|w| {
        w.looking = true;
        w.counts.checks += 1;
        w.executor
    });
    let owes = executor.is_some_and(|executor| executor.owes_something());
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
