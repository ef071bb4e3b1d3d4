//! One run: its threads, each a fiber, and the loop that runs one of them at a time.
//!
//! INV-RUN: a run is in a thread local and is borrowed only in `with`, whose closures neither
//! suspend nor call user code. INV-FIBER: `suspend` is called on the fiber of the thread that the
//! run calls current.

use core::{cell::RefCell, panic::Location, ptr::NonNull};
use std::{collections::VecDeque, rc::Rc};

use core::sync::atomic::{AtomicU32, Ordering};

use corosensei::{Coroutine, Yielder, stack::DefaultStack};

use crate::{
    check::Limits,
    memory::Memory,
    quarantine,
    races::{Accesses, Site},
    rng::Rng,
    schedule::{Schedule, Strategy},
    stats::Stats,
    thread::{self, Word},
    trace::{Event, Trace},
};

type Fiber = Coroutine<(), (), (), DefaultStack>;
type Body = Box<dyn FnOnce()>;

std::thread_local! {
    static RUN: RefCell<Option<Box<Run>>> = const { RefCell::new(None) };
}

/// Distinguishes runs, as an atomic may outlive the run that has its history.
static EPOCHS: AtomicU32 = AtomicU32::new(0);

/// The state of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) memory: Memory,
    /// By location: atomics and cells are numbered together.
    pub(crate) accesses: Vec<Accesses>,
    pub(crate) rng: Rng,
    pub(crate) odds: Odds,
    pub(crate) stats: Stats,
    pub(crate) trace: Trace,
    pub(crate) epoch: u32,
    threads: Vec<Thread>,
    current: Option<usize>,
    schedule: Schedule,
    max_steps: u64,
    failure: Option<String>,
}

/// The probabilities of rare events, of 256.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odds {
    pub(crate) stale: u32,
    pub(crate) failure: u32,
    pub(crate) wake: u32,
}

struct Thread {
    state: State,
    body: Option<Body>,
    yielder: Option<NonNull<Yielder<(), ()>>>,
    /// The word that it parks on.
    token: Word,
    /// The source place of its last step.
    site: Site,
}

impl core::fmt::Debug for Thread {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} at {}", self.state, self.site)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// Until the threads that wait for this location are woken.
    Asleep(usize),
    Done,
}

/// The result of a run.
pub(crate) struct Outcome {
    pub(crate) stats: Stats,
    pub(crate) failure: Option<String>,
    pub(crate) recent: VecDeque<Event>,
}

/// Runs `body` and all threads that it spawns, until they have ended or something fails.
pub(crate) fn run(
    strategy: Strategy,
    seed: u64,
    limits: &Limits,
    stacks: &mut Vec<DefaultStack>,
    body: &Rc<dyn Fn()>,
) -> Outcome {
    assert!(with(|_| ()).is_none(), "a run within a run");
    RUN.set(Some(Box::new(Run::new(strategy, seed, limits))));
    let body = Rc::clone(body);
    with(|run| run.spawn(Box::new(move || body()), Location::caller()));
    let mut fibers: Vec<Option<Fiber>> = Vec::new();
    while let Some(thread) = with(Run::next).flatten() {
        fibers.resize_with(fibers.len().max(thread + 1), || None);
        let begin = || fiber(thread, stacks.pop().unwrap_or_else(|| new_stack(limits.stack)));
        let fiber = fibers[thread].get_or_insert_with(begin);
        quarantine::hold(true);
        let over = fiber.resume(()).as_return().is_some();
        quarantine::hold(false);
        if over {
            with(|run| run.threads[thread].state = State::Done);
            stacks.extend(fibers[thread].take().map(Coroutine::into_stack));
        }
        with(|run| run.current = None);
    }
    let run = RUN.take();
    for mut fiber in fibers.into_iter().flatten() {
        // SAFETY: the frames on its stack are leaked. There are no references to them any more: the
        // run and the other fibers are gone or leaked as well.
        unsafe { fiber.force_reset() };
        stacks.push(fiber.into_stack());
    }
    quarantine::release();
    match run {
        Some(run) => {
            let stats = Stats { digest: run.trace.digest(), ..run.stats };
            Outcome { stats, failure: run.failure, recent: run.trace.into_recent() }
        }
        None => unreachable!("nobody else takes it"),
    }
}

fn new_stack(size: usize) -> DefaultStack {
    DefaultStack::new(size).unwrap_or_else(|error| panic!("no memory for a thread: {error}"))
}

fn fiber(thread: usize, stack: DefaultStack) -> Fiber {
    let body = with(|run| run.threads[thread].body.take()).flatten();
    Coroutine::with_stack(stack, move |yielder, ()| {
        with(|run| run.threads[thread].yielder = Some(NonNull::from(yielder)));
        let body = core::panic::AssertUnwindSafe(|| body.into_iter().for_each(|body| body()));
        if let Err(payload) = std::panic::catch_unwind(body) {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
            with(|run| run.fail(format!("thread {thread} panicked: {text}")));
        }
    })
}

/// Calls `f` with the current run, if there is one.
pub(crate) fn with<R>(f: impl FnOnce(&mut Run) -> R) -> Option<R> {
    RUN.with(|run| run.try_borrow_mut().ok()?.as_deref_mut().map(f))
}

/// Calls `f` with the run and its current thread; not a step of its own. An error ends the run.
pub(crate) fn act<R>(f: impl FnOnce(&mut Run, usize) -> Result<R, String>) -> Option<R> {
    let result = with(|run| {
        let me = run.current?;
        if run.failure.is_some() {
            // The run is over: no thread goes on.
            return Some(Err(String::new()));
        }
        run.memory.tick(me);
        Some(f(run, me))
    })??;
    match result {
        Ok(result) => Some(result),
        Err(message) => end(message),
    }
}

/// As `act`, but other threads may run first.
pub(crate) fn step<R>(
    site: Site,
    f: impl FnOnce(&mut Run, usize) -> Result<R, String>,
) -> Option<R> {
    // A thread that unwinds goes on: otherwise `panicking` would be true for other threads.
    let switches = with(|run| run.begin_step(site))?? && !std::thread::panicking();
    if switches {
        suspend();
    }
    act(f)
}

/// Lets other threads run first.
pub(crate) fn give_way(site: Site) {
    let waits = act(|run, me| {
        run.schedule.give_way(me);
        run.begin_step(site);
        Ok(())
    });
    if waits.is_some() {
        suspend();
    }
}

/// Sleeps until `wake`, or until a spurious wake, if `still` holds for the last value of the
/// location.
pub(crate) fn sleep(
    site: Site,
    at: impl FnOnce(&mut Run, usize) -> Result<usize, String>,
    still: u64,
) -> Option<()> {
    let sleeps = step(site, |run, me| {
        let at = at(run, me)?;
        let value = run.memory.latest(at);
        let sleeps = value == still;
        if sleeps && run.rng.chance(run.odds.wake) {
            // Ready, but every other thread may run first.
            run.stats.spurious_wakes += 1;
            run.schedule.give_way(me);
        } else if sleeps {
            run.threads[me].state = State::Asleep(at);
        }
        run.note(me, if sleeps { "sleep" } else { "no sleep" }, at, value, site);
        Ok(sleeps)
    })?;
    if sleeps {
        suspend();
    }
    Some(())
}

/// Ends the run. Nothing on this stack is dropped: after an error destructors may fail.
pub(crate) fn end(message: String) -> ! {
    with(|run| run.fail(message));
    loop {
        suspend();
    }
}

fn suspend() {
    let yielder = with(|run| run.current.and_then(|me| run.threads[me].yielder)).flatten();
    if let Some(yielder) = yielder {
        // SAFETY: INV-FIBER: this is the fiber that put it there, which has not returned.
        unsafe { yielder.as_ref() }.suspend(());
    }
}

impl Run {
    fn new(strategy: Strategy, seed: u64, limits: &Limits) -> Self {
        let mut rng = Rng::new(seed);
        let schedule = Schedule::new(strategy, &mut rng);
        let mut pick = |on: bool, of: [u32; 4]| if on { of[rng.below(4)] } else { 0 };
        let odds = Odds {
            stale: pick(limits.stale, [0, 16, 64, 128]),
            failure: pick(limits.spurious, [0, 4, 16, 64]),
            wake: pick(limits.spurious, [0, 0, 16, 64]),
        };
        Self {
            memory: Memory::default(),
            accesses: Vec::new(),
            rng,
            odds,
            stats: Stats { runs: 1, ..Stats::default() },
            trace: Trace::new(limits.trace),
            epoch: EPOCHS.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            threads: Vec::new(),
            current: None,
            schedule,
            max_steps: limits.steps,
            failure: None,
        }
    }

    /// Adds a ready thread. It has seen what the current one has.
    pub(crate) fn spawn(&mut self, body: Body, site: Site) -> usize {
        self.memory.spawn(self.current);
        self.schedule.spawn(&mut self.rng);
        let (state, token) = (State::Ready, thread::word());
        self.threads.push(Thread { state, body: Some(body), yielder: None, token, site });
        self.stats.threads = self.stats.threads.max(self.threads.len() as u64);
        self.threads.len() - 1
    }

    pub(crate) fn token(&self, thread: usize) -> Word {
        Word::clone(&self.threads[thread].token)
    }

    pub(crate) fn current(&self) -> Option<usize> {
        self.current
    }

    /// Adds a location, of an atomic whose first value is not known yet, or of a cell.
    pub(crate) fn blank(&mut self) -> usize {
        self.accesses.push(Accesses::default());
        self.memory.blank()
    }

    /// Wakes some of the threads that sleep on the location, in random order.
    pub(crate) fn wake(&mut self, at: usize, mut n: usize) -> u64 {
        let mut asleep: Vec<usize> = (0..self.threads.len())
            .filter(|thread| self.threads[*thread].state == State::Asleep(at))
            .collect();
        let mut woken = 0;
        while n > 0 && !asleep.is_empty() {
            let thread = asleep.swap_remove(self.rng.below(asleep.len()));
            self.threads[thread].state = State::Ready;
            self.schedule.wake();
            (n, woken) = (n - 1, woken + 1);
        }
        woken
    }

    /// Adds the current step to the trace.
    pub(crate) fn note(
        &mut self,
        me: usize,
        what: &'static str,
        at: usize,
        value: u64,
        site: Site,
    ) {
        self.trace.push(Event { thread: me, what, at, value, site });
    }

    fn fail(&mut self, message: String) {
        self.failure.get_or_insert(message);
    }

    /// Whether the current thread, if there is one, lets others run first.
    fn begin_step(&mut self, site: Site) -> Option<bool> {
        let me = self.current?;
        self.stats.steps += 1;
        self.threads[me].site = site;
        if self.stats.steps > self.max_steps {
            self.fail(format!("no end in {} steps\n{}", self.max_steps, self.report()));
            return Some(true);
        }
        Some(self.schedule.interrupts(me, self.stats.steps, &mut self.rng))
    }

    /// The next thread; `None` if all have ended, or something failed.
    fn next(&mut self) -> Option<usize> {
        if self.failure.is_some() {
            return None;
        }
        let state = |thread: &usize| self.threads[*thread].state;
        let ready: Vec<usize> =
            (0..self.threads.len()).filter(|thread| state(thread) == State::Ready).collect();
        if ready.is_empty() {
            if self.threads.iter().any(|thread| thread.state != State::Done) {
                self.fail(format!("deadlock: nobody is left to wake a thread\n{}", self.report()));
            }
            return None;
        }
        let thread = self.schedule.pick(&ready, &mut self.rng);
        self.stats.switches += 1;
        self.trace.switch(thread);
        self.current = Some(thread);
        Some(thread)
    }

    /// The state of all threads, as text.
    fn report(&self) -> String {
        let mut text = String::new();
        for (i, thread) in self.threads.iter().enumerate() {
            let state = match thread.state {
                State::Ready => "is ready".to_owned(),
                State::Asleep(at) => format!("sleeps on #{at} = {}", self.memory.latest(at)),
                State::Done => continue,
            };
            text.push_str(&format!("  thread {i} {state}, at {}\n", thread.site));
        }
        text
    }
}
