//! Records of real runs: threads, a real clock, a futex; and their replay in the simulation.
//!
//! A record is the order in which the threads call their platform, with the clock's times. Between
//! two calls one thread runs at a time: it lets others run at each call, and whenever it sleeps. So
//! the record contains all decisions of the operating system and the clock. A replay gives the
//! fibers their turns in that order, and reaches the same calls, polls, steals and sleeps. All
//! invariants are checked meanwhile.
//!
//! Threads without such a lock behave differently: here there are no races between two calls of the
//! platform. A recorded program runs fork-join in place, since a fork-join run needs the executor
//! of a simulation. If a replay leaves its record all the same (the program has changed, the record
//! was cut), it goes on where a thread and its record meet again, and [`Fidelity`](super::Fidelity)
//! tells how much was followed.

use core::{cell::Cell, fmt, panic::AssertUnwindSafe, ptr::NonNull, str::FromStr};
use std::{
    panic::catch_unwind,
    sync::{Mutex, PoisonError},
    thread,
};

use filch::{
    Event, Instant, Panic, PanicVtable, Platform, Reactor, Scheduler, WorkerId,
    atomic::{AtomicBool, AtomicU32, Ordering},
};
use filch_std::runtime::{Futex, Host};

use super::{
    Failure, Options, Report,
    driver::play,
    env::{Env, Shared},
    faults::Faults,
    machine::{On, Planned, Pool, occasion, slots, text},
    programs::Program,
    replay::{Entry, Replay},
    roles::be_main,
    setup::Setup,
};

/// A real run: what ran, and the order of its calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    seed: u64,
    workers: u16,
    program: Program,
    size: u32,
    rounds: u32,
    entries: Vec<Entry>,
}

impl Record {
    /// The number of calls of the platform.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn setup(&self) -> Setup {
        let mut options = Options::new(self.seed);
        options.workers = Some(self.workers);
        options.program = Some(self.program);
        options.size = self.size;
        options.steps = u64::MAX / 2;
        options.faults = Faults::none();
        Setup { rounds: Some(self.rounds), spares: 0, ..Setup::new(&options) }
    }
}

/// As text: a line that names the program, and one for each call.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, workers, program, size, rounds, entries } = self;
        writeln!(f, "{seed} {workers} {program} {size} {rounds}")?;
        entries.iter().try_for_each(|e| writeln!(f, "{} {} {}", e.who, e.occasion, e.now))
    }
}

impl FromStr for Record {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        fn part<T: FromStr<Err: fmt::Display>>(word: Option<&str>) -> Result<T, String> {
            let word = word.ok_or("a line is too short")?;
            word.parse().map_err(|error| format!("{word}: {error}"))
        }
        let mut lines = text.lines().map(|line| line.split(' '));
        let mut head = lines.next().ok_or("it is empty")?;
        let entry = |mut line: core::str::Split<'_, char>| {
            Ok(Entry {
                who: part(line.next())?,
                occasion: part(line.next())?,
                now: part(line.next())?,
            })
        };
        Ok(Self {
            seed: part(head.next())?,
            workers: part(head.next())?,
            program: part(head.next())?,
            size: part(head.next())?,
            rounds: part(head.next())?,
            entries: lines.map(entry).collect::<Result<_, String>>()?,
        })
    }
}

/// Runs a program on threads of this machine, for so many rounds from outside, and records it.
///
/// # Panics
/// If an invariant does not hold, or the operating system refuses a thread.
pub fn record(program: Program, workers: u16, seed: u64, size: u32, rounds: u32) -> Record {
    let workers = workers.clamp(1, 64);
    let mut record = Record { seed, workers, program, size, rounds, entries: Vec::new() };
    let setup = record.setup();
    let host = Futex::new().unwrap_or_else(|error| panic!("no host: {error}"));
    let recorder = Recorder {
        host,
        busy: AtomicBool::new(false),
        log: Mutex::default(),
        failed: Mutex::default(),
    };
    let slots = slots(usize::from(workers));
    // Leaked, as executors and their memory are `'static`: a few hundred kilobytes for each record.
    let executor: &'static On<Recorder> =
        match Scheduler::over(recorder, setup.config.build(0, setup.seed), slots) {
            Ok(executor) => Box::leak(Box::new(executor)),
            Err(error) => unreachable!("{error}"),
        };
    let pool: &'static Pool = Box::leak(Box::default());
    let env = Env(Box::leak(Box::new(Shared::new(&setup, executor, pool, None))));
    // As in a simulation, where each worker has a stream of choices.
    (0..workers).for_each(|_| env.skip_stream());
    thread::scope(|scope| {
        for i in 0..workers {
            let worker = move || executor.run(WorkerId::new(i));
            scope.spawn(move || executor.platform().run(usize::from(i), worker));
        }
        let main = || be_main(executor, env, program, Some(rounds));
        executor.platform().run(usize::from(workers), main);
    });
    let recorder = executor.platform();
    if let Some(failed) = lock(&recorder.failed).take() {
        panic!("{failed}");
    }
    record.entries = core::mem::take(&mut lock(&recorder.log));
    record
}

/// Replays a record in the simulation, and then goes on to the end, with the record's seed.
///
/// # Errors
/// As [`run`](super::run).
pub fn replay(record: &Record) -> Result<Report, Failure> {
    play(record.setup(), Some(Replay::new(&record.entries)))
}

/// A platform of threads that records each call.
struct Recorder {
    host: Futex,
    /// Some thread is running.
    busy: AtomicBool,
    log: Mutex<Vec<Entry>>,
    /// The violated invariant.
    failed: Mutex<Option<String>>,
}

thread_local! {
    /// The number of the calling thread in the record.
    static WHO: Cell<usize> = const { Cell::new(0) };
    /// How many calls it has made.
    static CALLS: Cell<u32> = const { Cell::new(0) };
    /// The worker that it is.
    static HERE: Cell<Option<WorkerId>> = const { Cell::new(None) };
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Waits for the calling thread's turn.
    fn begin(&self) {
        // Ordering: Acquire pairs with the Release in `end`.
        while self.busy.swap(true, Ordering::Acquire) {
            thread::yield_now();
        }
    }

    fn end(&self) {
        // Ordering: see `begin`.
        self.busy.store(false, Ordering::Release);
    }

    /// Records that the calling thread returns from this call; returns the time.
    fn log(&self, occasion: u64) -> Instant {
        let mut log = lock(&self.log);
        let now = self.host.now();
        log.push(Entry { who: WHO.get(), occasion, now: now.as_nanos() });
        now
    }

    /// A call: other threads may run first.
    fn call(&self, occasion: u64) -> Instant {
        self.end();
        // A thread that spins for its turn would rarely get it from the running one.
        let calls = CALLS.get();
        CALLS.set(calls.wrapping_add(1));
        if calls % 4 == 0 {
            thread::yield_now();
        }
        self.begin();
        self.log(occasion)
    }

    fn sleep(&self, sleep: impl FnOnce()) {
        self.call(occasion::SLEEP);
        self.end();
        sleep();
        self.begin();
        self.log(occasion::AWAKE);
    }

    /// Runs `body`, all of a thread's work, as this thread of the record.
    fn run<R>(&self, who: usize, body: impl FnOnce() -> R) -> R {
        WHO.set(who);
        self.begin();
        self.log(occasion::BIRTH);
        let result = body();
        self.end();
        result
    }
}

// SAFETY: a thread is the worker that `set_worker` has put into its own thread local; one thread
// runs each worker. `catch_unwind` calls once, here. Liveness and clock are the host's.
unsafe impl Platform for Recorder {
    fn now(&self) -> Instant {
        self.call(occasion::NOW)
    }

    fn current_worker(&self) -> Option<WorkerId> {
        self.call(occasion::HERE);
        HERE.get()
    }

    unsafe fn set_worker(&self, worker: Option<WorkerId>) {
        if worker.is_some() {
            HERE.set(worker);
            self.call(occasion::ENTER);
        } else {
            self.call(occasion::LEAVE);
            HERE.set(None);
        }
    }

    unsafe fn wait(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) {
        // SAFETY: the caller's contract.
        self.sleep(|| unsafe { self.host.wait(worker, word, expected, deadline) });
    }

    fn wake(&self, worker: WorkerId, word: &AtomicU32) {
        self.call(occasion::WAKE);
        self.host.wake(worker, word);
    }

    fn reactor(&self) -> Option<&dyn Reactor> {
        Some(self)
    }

    fn guard(&self, poll: &mut dyn FnMut()) -> Result<(), Panic> {
        catch_unwind(AssertUnwindSafe(poll)).map_err(|payload| {
            if !payload.is::<Planned>() {
                lock(&self.failed).get_or_insert_with(|| text(&*payload));
            }
            // SAFETY: the vtable touches no payload.
            unsafe { Panic::from_raw(NonNull::dangling(), &PANICS) }
        })
    }

    fn relax(&self, _: u32) {
        self.call(occasion::RELAX);
    }

    fn block(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) {
        self.sleep(|| self.host.block(word, expected, deadline));
    }

    fn unblock(&self, word: &AtomicU32) {
        self.call(occasion::UNBLOCK);
        self.host.unblock(word);
    }

    fn event(&self, _: Option<WorkerId>, event: Event) {
        self.call(occasion::of(event));
    }
}

// SAFETY: as above.
unsafe impl Reactor for Recorder {
    // As the simulated machine, whose reactor has nothing to tell in a replay.
    unsafe fn listen(
        &self,
        worker: WorkerId,
        word: &AtomicU32,
        expected: u32,
        deadline: Option<Instant>,
    ) -> bool {
        if deadline != Some(Instant::ZERO) {
            // SAFETY: the caller's.
            unsafe { self.wait(worker, word, expected, deadline) };
        }
        false
    }

    fn interrupt(&self, worker: WorkerId, word: &AtomicU32) {
        self.wake(worker, word);
    }

    unsafe fn deliver(&self, _: WorkerId) -> usize {
        0
    }
}

static PANICS: PanicVtable =
    PanicVtable { drop: |_| {}, message: |_| None, resume: |_| panic!("a job has panicked") };
