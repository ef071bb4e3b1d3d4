//! An episode: chooses the fiber that runs next, until all have ended.

use core::{panic::AssertUnwindSafe, sync::atomic::Ordering::Relaxed};
use std::panic::catch_unwind;

use filch::{Scheduler, TaskInfo, WorkerId};

use super::{
    Failure, Options, Report, check,
    env::{Env, Shared},
    faults::Fault,
    fiber::Fiber,
    machine::{Machine, Pool, Sim, slots, text},
    programs::Program,
    recording::Recording,
    replay::Replay,
    roles::{be_keeper, be_main, be_worker},
    setup::Setup,
    world::{Actor, Signal, State, World, world},
};

/// A program must end within so many more steps.
const END: u64 = 5_000_000;

/// Runs one episode on the calling thread.
///
/// # Errors
/// [`Failure`], with the violated invariant; the episode's memory is then leaked.
pub fn run(options: &Options) -> Result<Report, Failure> {
    play(Setup::new(options), None)
}

/// Runs an episode, along a record if there is one.
pub(super) fn play(setup: Setup, replay: Option<Replay>) -> Result<Report, Failure> {
    let mut episode = Episode::new(setup, replay);
    let played = catch_unwind(AssertUnwindSafe(|| episode.play()));
    if let Err(payload) = played {
        world(|w| w.fail(format!("a panic: {}", text(&*payload))));
    }
    episode.end()
}

struct Episode {
    executor: &'static Machine,
    pool: &'static Pool,
    shared: &'static Shared,
    fibers: Vec<Option<Fiber>>,
    steps: u64,
    /// What runs, as text.
    title: String,
    /// How often, of 256, the fiber that stopped goes on.
    stick: u32,
    replay: Option<Replay>,
}

impl Episode {
    fn new(setup: Setup, replay: Option<Replay>) -> Self {
        let Setup { workers, spares, program, config, .. } = setup;
        let title = format!("  {program} on {workers} workers and {spares} spares, {config:?}\n");
        let slots = slots(usize::from(workers + spares));
        let executor = match Scheduler::over(Sim, config.build(spares, setup.seed), slots) {
            Ok(executor) => &*Box::leak(Box::new(executor)),
            Err(error) => unreachable!("{error}"),
        };
        let pool: &'static Pool = Box::leak(Box::default());
        let shared =
            Shared::new(&setup, executor, pool, setup.rounds.is_none().then_some(executor));
        let shared = &*Box::leak(Box::new(shared));
        let mut w = World { dice: setup.dice, ..World::default() };
        w.trace = setup.trace;
        w.recording = setup.file.map(|file| Recording::new(usize::from(workers + spares), file));
        w.preempt = setup.preempt;
        w.check.lifo_cap = config.lifo_cap;
        w.check.background = config.background;
        w.check.stealing = config.stealing;
        w.check.watchdog = config.close.is_some();
        w.check.close = config.close;
        w.check.relieves = config.stealing && !matches!(program, Program::Forks | Program::Mixed);
        w.check.caps = config.caps;
        w.check.streaks = vec![Default::default(); usize::from(workers + spares)];
        w.seats = vec![None; usize::from(workers + spares)];
        w.executor = Some(executor);
        w.replaying = replay.is_some();
        let env = Env(shared);
        for i in 0..workers {
            let mut rng = env.rng();
            let may_leave = setup.come_and_go && rng.bool();
            w.bear(Box::new(move || be_worker(executor, WorkerId::new(i), may_leave, rng)));
        }
        w.bear(Box::new(move || be_main(executor, env, program, setup.rounds)));
        if setup.resizes {
            w.bear(Box::new(move || be_keeper(executor, env)));
        }
        w.rng = setup.rng;
        world(|world| *world = w);
        let (fibers, steps, stick) = (Vec::new(), setup.steps, setup.stick);
        Self { executor, pool, shared, fibers, steps, title, stick, replay }
    }

    /// Runs until all fibers have ended, or a check fails.
    fn play(&mut self) {
        let mut turned = false;
        loop {
            self.admit();
            check::between(self.executor, turned);
            if world(|w| w.failure.is_some()) {
                return;
            }
            turned = match self.next() {
                Some(next) => {
                    self.turn(next);
                    true
                }
                None if world(|w| w.actors.iter().all(|a| a.state == State::Over)) => return,
                None => {
                    self.wait_for_something();
                    false
                }
            };
            let steps = world(|w| w.counts.steps);
            if steps >= self.steps {
                self.shared.over.store(true, Relaxed);
            }
            if steps >= self.steps + END {
                world(|w| w.fail("the program does not come to its end"));
            }
        }
    }

    /// The fiber that runs next: by the record, while there is one.
    fn next(&mut self) -> Option<usize> {
        if let Some(replay) = &mut self.replay {
            if let Some(next) = world(|w| replay.next(w)) {
                return Some(next);
            }
            self.replay = None;
            world(|w| (w.replaying, w.preempt) = (false, 256));
        }
        world(World::pass_time);
        world(World::stir_listener);
        world(|w| w.choose(self.stick))
    }

    /// Starts the new fibers.
    fn admit(&mut self) {
        for (at, body) in world(|w| core::mem::take(&mut w.births)) {
            assert_eq!(at, self.fibers.len());
            match Fiber::new(body) {
                Ok(fiber) => self.fibers.push(Some(fiber)),
                Err(error) => panic!("no stack for a fiber: {error}"),
            }
        }
    }

    fn turn(&mut self, next: usize) {
        world(|w| {
            w.counts.steps += 1;
            w.mix(next as u64 | w.now << 8);
            w.current = Some(next);
            w.actors[next].state = State::Ready;
            w.actors[next].outside = false;
        });
        let over = self.fibers[next].as_mut().is_none_or(Fiber::resume);
        world(|w| w.current = None);
        if over {
            self.fibers[next] = None;
            world(|w| w.actors[next].state = State::Over);
        }
    }

    /// No fiber can run now: advances the time a little, or to a device's signal or a deadline.
    fn wait_for_something(&mut self) {
        let (held, signals, deadline) = world(|w| {
            let held = w.actors.iter().filter_map(Actor::held_until).min();
            let deadline = w.actors.iter().filter_map(Actor::deadline).min();
            // An event that comes to a listener.
            let event = w.reactor.events.iter().map(Signal::due).min();
            let event = event.filter(|_| w.reactor.listener.is_some());
            let held = held.into_iter().chain(event).min();
            (held, !w.signals.is_empty(), deadline)
        });
        let first = world(|w| w.rng.bool());
        match (held, deadline) {
            _ if signals && (first || held.is_none()) => self.interrupt(),
            (Some(moment), Some(deadline)) if first => world(|w| {
                (w.moment, w.now) = (w.moment.max(moment.min(w.moment + 64)), w.now.max(deadline));
            }),
            (Some(moment), _) => world(|w| w.moment = w.moment.max(moment)),
            (None, Some(deadline)) => world(|w| w.now = w.now.max(deadline)),
            (None, None) => world(|w| w.fail("all sleep for ever, and the program is not over")),
        }
    }

    /// Delivers a signal while no fiber runs: on a core that sleeps, or from elsewhere.
    fn interrupt(&mut self) {
        let signal = world(|w| {
            let sleeping: Vec<_> = w.seats.iter().copied().flatten().collect();
            let here = if w.rng.bool() && !sleeping.is_empty() {
                Some(sleeping[w.rng.usize(..sleeping.len())])
            } else {
                None
            };
            w.current = here;
            w.take_signal(true)
        });
        if let Some(signal) = signal {
            signal.deliver();
        }
        world(|w| w.current = None);
    }

    fn end(self) -> Result<Report, Failure> {
        let signals = world(|w| (core::mem::take(&mut w.signals), core::mem::take(&mut w.reactor)));
        drop(signals);
        if world(|w| w.failure.is_none()) {
            check::at_the_end(self.executor, self.pool, &self.shared.ledger);
        }
        let state = self.title + &check::state(self.executor);
        let world = world(core::mem::take);
        if let Some(recording) = &world.recording {
            let tasks = |visit: &mut dyn FnMut(TaskInfo)| self.executor.tasks(visit);
            recording.save(world.now, tasks, world.failure.as_deref());
        }
        let mut counts = world.counts;
        counts.faults = world.dice.injected;
        if let Some(what) = world.failure {
            // Their stacks refer to an executor in an intermediate state.
            core::mem::forget(self.fibers);
            return Err(Failure { what, step: counts.steps, hash: world.hash, state });
        }
        let Self { executor, pool, shared, .. } = self;
        let free = |at: *const ()| at.cast_mut();
        // SAFETY: all three were leaked by `new`. No task, handle or waker is left, as every slot
        // is free, and no fiber is left. So there are no references to them.
        unsafe {
            drop(Box::from_raw(free(core::ptr::from_ref(shared).cast()).cast::<Shared>()));
            drop(Box::from_raw(free(core::ptr::from_ref(executor).cast()).cast::<Machine>()));
            drop(Box::from_raw(free(core::ptr::from_ref(pool).cast()).cast::<Pool>()));
        }
        Ok(Report { hash: world.hash, counts, fidelity: world.fidelity })
    }
}

impl Actor {
    fn held_until(&self) -> Option<u64> {
        match self.state {
            State::Held(until) | State::Waking(until) => Some(until),
            _ => None,
        }
    }

    fn deadline(&self) -> Option<u64> {
        match self.state {
            State::Asleep { deadline, .. } => deadline,
            _ => None,
        }
    }
}

impl World {
    fn pass_time(&mut self) {
        self.moment += 1;
        if self.roll(Fault::ClockStall) {
            self.frozen = self.moment + self.rng.u64(..5_000);
        }
        if self.roll(Fault::ClockJump) {
            self.now += self.rng.u64(..50_000_000);
        }
        if self.moment >= self.frozen {
            self.now += self.rng.u64(..1_000);
        }
        if self.roll(Fault::Spurious) {
            let at = self.rng.usize(..self.actors.len());
            if matches!(self.actors[at].state, State::Asleep { .. }) {
                self.actors[at].state = State::Ready;
            }
        }
    }

    /// Chooses the fiber that runs next, if one can.
    fn choose(&mut self, stick: u32) -> Option<usize> {
        let mut ready = core::mem::take(&mut self.ready);
        ready.clear();
        for i in 0..self.actors.len() {
            let can = match self.actors[i].state {
                State::Ready => true,
                State::Held(until) | State::Waking(until) => until <= self.moment,
                State::Asleep { deadline: Some(end), .. } if end <= self.now => {
                    let late = self.roll(Fault::Late);
                    if late {
                        self.actors[i].state = State::Waking(self.moment + self.rng.u64(..2_000));
                    }
                    !late
                }
                State::Asleep { .. } | State::Over => false,
            };
            if can {
                ready.push(i);
            }
        }
        let last = self.last.filter(|last| ready.contains(last));
        let next = match last {
            Some(last) if stick > 0 && self.rng.u32(..256) < stick => Some(last),
            _ if ready.is_empty() => None,
            _ => Some(ready[self.rng.usize(..ready.len())]),
        };
        self.ready = ready;
        self.last = next;
        next
    }
}
