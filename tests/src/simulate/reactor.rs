//! The simulated reactor: events that wait to be heard of, and the worker that listens.

use std::collections::VecDeque;

use filch::{Instant, WorkerId, atomic::AtomicU32};

use super::{
    check,
    faults::Fault,
    machine::{occasion, sleep},
    world::{Signal, State, World, turn, world},
};

/// A worker hears of so many events at a time, at most.
const BATCH: usize = 3;

#[derive(Default)]
pub(super) struct Reactor {
    pub(super) events: VecDeque<Signal>,
    /// The worker in `listen`.
    pub(super) listener: Option<u16>,
    /// What each worker has heard of and not delivered.
    heard: Vec<VecDeque<Signal>>,
}

impl Reactor {
    pub(super) fn has_due(&self, moment: u64) -> bool {
        self.events.iter().any(|event| event.is_due(moment))
    }

    /// What this worker has heard of; in `deliver`, the next of it.
    fn of(&mut self, worker: WorkerId) -> &mut VecDeque<Signal> {
        let n = self.heard.len().max(worker.index() + 1);
        self.heard.resize_with(n, VecDeque::new);
        &mut self.heard[worker.index()]
    }

    pub(super) fn holds(&self, worker: usize) -> bool {
        self.heard.get(worker).is_some_and(|heard| !heard.is_empty())
    }

    pub(super) fn next(&mut self, worker: WorkerId) -> Option<Signal> {
        self.of(worker).pop_front()
    }
}

/// As [`filch::Reactor::listen`].
pub(super) fn listen(worker: WorkerId, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
    world(|w| {
        if let Some(other) = w.reactor.listener.replace(worker.index() as u16) {
            w.fail(format!("{worker:?} listens while worker {other} does"));
        }
    });
    if deadline == Some(Instant::ZERO) {
        if !world(|w| w.replaying) {
            turn(occasion::ASK);
        }
    } else if !world(|w| w.collect(worker)) {
        sleep(word, expected, deadline, true);
    }
    world(|w| {
        w.collect(worker);
        w.reactor.listener = None;
    });
}

impl World {
    /// The worker hears of what is due, or of some of it; whether there was something.
    fn collect(&mut self, worker: WorkerId) -> bool {
        let moment = self.moment;
        for _ in 0..BATCH {
            let at = self.reactor.events.iter().position(|event| event.is_due(moment));
            let Some(event) = at.and_then(|at| self.reactor.events.remove(at)) else { break };
            self.counts.events += 1;
            self.log(|| "an event".into());
            self.reactor.of(worker).push_back(event);
        }
        self.check.has_asked();
        self.reactor.holds(worker.index())
    }

    /// An event ends the listener's sleep.
    pub(super) fn stir_listener(&mut self) {
        let Some(seat) = self.reactor.listener.and_then(|id| self.seats[usize::from(id)]) else {
            return;
        };
        let asleep = matches!(self.actors[seat].state, State::Asleep { listens: true, .. });
        if asleep && self.reactor.has_due(self.moment) {
            let late = if self.roll(Fault::Late) { self.rng.u64(..2_000) } else { 0 };
            self.actors[seat].state = State::Waking(self.moment + late);
        }
    }

    /// Nothing is under way but the program's own code: if an event waits, some worker hears of it without another's help.
    pub(super) fn check_reactor(&mut self) {
        if !self.reactor.has_due(self.moment) || self.reactor.listener.is_some() {
            return;
        }
        self.counts.checks += 1;
        let mut sleepers = self.actors.iter().filter(|a| a.worker.is_some() && a.parked).peekable();
        if sleepers.peek().is_none() {
            return;
        }
        let all_asleep = self.all_asleep();
        // A watcher listens when it goes to sleep again.
        let watched = sleepers.any(|a| matches!(a.state, State::Asleep { deadline: Some(_), .. }));
        if all_asleep || (self.check.watchdog && !watched) {
            self.fail("an event waits in the reactor, and no worker listens, nor will");
        }
    }
}

/// A poll begins: the worker has delivered what it has heard of, and asks now and then.
pub(super) fn check_poll(w: &mut World, worker: usize) {
    if w.reactor.holds(worker) {
        w.fail(format!("worker {worker} polls a task, and keeps events to itself"));
    }
    let unheard = w.reactor.has_due(w.moment) && w.reactor.listener.is_none();
    if w.check.polls_on(worker, unheard) > check::TICK {
        w.fail(format!("worker {worker} polls on, an event waits, and no worker listens"));
    }
}
