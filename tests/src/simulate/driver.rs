//! An episode: who goes on next, until all is over.

use core::{panic::AssertUnwindSafe, sync::atomic::Ordering::Relaxed, time::Duration};
use std::panic::catch_unwind;

use fastrand::Rng;
use filch::{Config, Instant, RunError, Scheduler, Step, WorkerId};

use super::{
    Failure, Options, Report, check,
    env::{Env, Shared},
    faults::{Dice, Fault},
    fiber::Fiber,
    machine::{Machine, Pool, Sim, slots, text},
    programs::{self, Program},
    world::{Actor, State, World, pause_for, world},
};

/// Within so many more steps a program must have come to its end.
const END: u64 = 5_000_000;

/// Runs one episode on the calling thread.
///
/// # Errors
/// [`Failure`], with what does not hold; the episode's memory is then leaked.
pub fn run(options: &Options) -> Result<Report, Failure> {
    let mut episode = Episode::new(options);
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
    /// What runs, for a person.
    title: String,
    /// How often the fiber that stopped goes on, of 256.
    stick: u32,
}

impl Episode {
    fn new(options: &Options) -> Self {
        let mut rng = Rng::with_seed(options.seed);
        let workers = rng.u16(1..=6);
        let workers = options.workers.unwrap_or(workers).clamp(1, 64);
        let program = Program::ALL[rng.usize(..Program::ALL.len())];
        let program = options.program.unwrap_or(program);
        let (config, spares) = config(&mut rng, options.faults.contains(Fault::Refuse));
        let mut w = World { seed: rng.u64(..), ..World::default() };
        w.dice = Dice::new(options.faults, &mut rng);
        w.trace = options.trace;
        w.preempt = [4, 32, 128, 256][rng.usize(..4)];
        w.check.lifo_cap = config.lifo_cap;
        w.check.stealing = config.stealing;
        w.check.caps = config.caps;
        w.check.streaks = vec![Default::default(); usize::from(workers + spares)];
        w.seats = vec![None; usize::from(workers + spares)];
        let slots = slots(usize::from(workers + spares));
        let executor = Scheduler::over(Sim, config.build(spares), slots);
        let executor: &'static Machine = match executor {
            Ok(executor) => Box::leak(Box::new(executor)),
            Err(error) => unreachable!("{error}"),
        };
        let pool: &'static Pool = Box::leak(Box::default());
        let shared = Box::leak(Box::new(Shared {
            spawner: executor.spawner(),
            timers: executor.timers(),
            pool,
            ledger: Default::default(),
            machine: Some(executor),
            workers,
            size: options.size,
            pace: rng.u8(..5),
            seed: rng.u64(..),
            over: false.into(),
            streams: 0.into(),
            bells: Default::default(),
        }));
        w.executor = Some(executor);
        let env = Env(shared);
        for i in 0..workers {
            let mut rng = env.rng();
            let may_leave = options.faults.contains(Fault::Offline) && rng.bool();
            w.bear(Box::new(move || be_worker(executor, WorkerId::new(i), may_leave, rng)));
        }
        w.bear(Box::new(move || be_main(executor, env, program)));
        let title = format!("  {program} on {workers} workers and {spares} spares, {config:?}\n");
        let stick = [0, 0, 128, 240][rng.usize(..4)];
        w.rng = rng;
        world(|world| *world = w);
        Self { executor, pool, shared, fibers: Vec::new(), steps: options.steps, title, stick }
    }

    /// Until all fibers are over, or something fails.
    fn play(&mut self) {
        let mut turned = false;
        loop {
            self.admit();
            check::between(self.executor, turned);
            if world(|w| w.failure.is_some()) {
                return;
            }
            world(World::pass_time);
            turned = match world(|w| w.choose(self.stick)) {
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

    /// Fibers that are to begin.
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

    /// Nobody can go on now: a moment later, a device's signal, or a deadline.
    fn wait_for_something(&mut self) {
        let (held, signals, deadline) = world(|w| {
            let held = w.actors.iter().filter_map(Actor::held_until).min();
            let deadline = w.actors.iter().filter_map(Actor::deadline).min();
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

    /// A signal comes while nobody runs: on a core that sleeps, or from elsewhere.
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
        let signals = world(|w| core::mem::take(&mut w.signals));
        drop(signals);
        if world(|w| w.failure.is_none()) {
            check::at_the_end(self.executor, self.pool, &self.shared.ledger);
        }
        let state = self.title + &check::state(self.executor);
        let world = world(core::mem::take);
        let mut counts = world.counts;
        counts.faults = world.dice.injected;
        if let Some(what) = world.failure {
            // Their stacks refer to an executor in the midst of something.
            core::mem::forget(self.fibers);
            return Err(Failure { what, step: counts.steps, hash: world.hash, state });
        }
        let Self { executor, pool, shared, .. } = self;
        let free = |at: *const ()| at.cast_mut();
        // SAFETY: all three were leaked by `new`. No task is left, and neither handle nor waker, as every slot is free; no
        // fiber is left either, and so nobody refers to them.
        unsafe {
            drop(Box::from_raw(free(core::ptr::from_ref(shared).cast()).cast::<Shared>()));
            drop(Box::from_raw(free(core::ptr::from_ref(executor).cast()).cast::<Machine>()));
            drop(Box::from_raw(free(core::ptr::from_ref(pool).cast()).cast::<Pool>()));
        }
        Ok(Report { hash: world.hash, counts })
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

    /// Who goes on, if anybody can.
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

#[derive(Debug)]
/// What an executor's configuration is made from, as the checks want to know some of it.
struct Chosen {
    config: Config,
    lifo_cap: u32,
    stealing: bool,
    caps: bool,
}

impl Chosen {
    fn build(&self, spares: u16) -> Config {
        self.config.spares(spares)
    }
}

fn config(rng: &mut Rng, may_start: bool) -> (Chosen, u16) {
    let lifo_cap = rng.u32(..5);
    let stealing = rng.u8(..8) != 0;
    let sentry = rng.bool().then_some((Duration::from_micros(500), Duration::from_millis(10)));
    let nesting = [2, 8, 64][rng.usize(..3)];
    let config = Config::new()
        .stealing(stealing)
        .lifo_cap(lifo_cap)
        .sentry(sentry)
        .spin_rounds([0, 1, 8][rng.usize(..3)])
        .nesting(nesting)
        .timer_tick(Duration::from_nanos(1 << rng.u32(10..20)));
    let spares = if may_start || rng.bool() { rng.u16(..3) } else { 0 };
    (Chosen { config, lifo_cap, stealing, caps: nesting == 64 }, spares)
}

/// A worker's fiber: it runs to the end, or comes and goes.
fn be_worker(executor: &'static Machine, id: WorkerId, may_leave: bool, mut rng: Rng) {
    loop {
        match executor.worker(id) {
            Err(RunError::Stopped) => return,
            // Whoever shuts down stands in for it.
            Err(_) => pause_for(100),
            Ok(worker) if may_leave && rng.u8(..4) != 0 => {
                let mut idle = 0;
                for _ in 0..rng.u32(1..2_000) {
                    match worker.step() {
                        Step::Stopped => return,
                        Step::Polled => idle = 0,
                        Step::Idle => idle += 1,
                    }
                    if idle > rng.u32(..4) {
                        worker.park();
                    }
                }
                drop(worker);
                pause_for(rng.u64(1..5_000));
            }
            Ok(worker) => return worker.run(),
        }
    }
}

/// The thread that starts the program, does now and then something from outside, and shuts down.
fn be_main(executor: &'static Machine, env: Env, program: Program) {
    let mut rng = env.rng();
    let mut roots = program.start(env);
    while !env.is_over() {
        programs::from_outside(env, &mut rng);
        pause_for(rng.u64(..200));
    }
    let graceful = rng.bool();
    if graceful {
        env.ring_all();
        programs::join_all(&mut roots);
    } else {
        env.0.ledger.close();
    }
    drop(roots);
    env.ring_all();
    let deadline = if graceful { Instant::MAX } else { executor.timers().now() };
    let shut = executor.shutdown(deadline, |_| {});
    if graceful && shut != Ok(0) {
        world(|w| w.fail(format!("tasks have survived a shutdown that waits: {shut:?}")));
    }
}
