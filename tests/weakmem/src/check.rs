//! Many runs, or the repetition of one.

use core::{error::Error, fmt, num::ParseIntError, str::FromStr};
use std::{env, rc::Rc, thread};

use crate::{
    run::{self, Outcome},
    schedule::Strategy,
    stats::Stats,
};

/// Runs `f` in `iterations` random schedules and prints what they did. See [`Checker::run`].
///
/// # Panics
/// If a run fails, with the seed that repeats it.
pub fn check_random(iterations: u64, f: impl Fn() + 'static) -> Stats {
    Checker::new(iterations).run(Strategy::Random, f)
}

/// Runs `f` in `iterations` schedules of probabilistic concurrency testing for bugs of this `depth`, and prints what
/// they did. See [`Strategy::Pct`] and [`Checker::run`].
///
/// # Panics
/// If a run fails, with the seed that repeats it.
pub fn check_pct(iterations: u64, depth: u32, f: impl Fn() + 'static) -> Stats {
    Checker::new(iterations).run(Strategy::Pct { depth, length: 0 }, f)
}

/// Runs `f` once, exactly as it ran with this seed before.
///
/// # Panics
/// If the run fails.
pub fn replay(seed: Seed, f: impl Fn() + 'static) -> Stats {
    let f: Rc<dyn Fn()> = Rc::new(f);
    Checker::new(1).replay(seed, &f).unwrap_or_else(|failure| panic!("{failure}"))
}

/// How to check. It has no effect outside of [`run`](Self::run) and [`find`](Self::find).
///
/// The environment overrides it: `WEAKMEM_SEED` repeats only one run, `WEAKMEM_ITERATIONS` sets the
/// number of runs, `WEAKMEM_START` the first seed, and `WEAKMEM_TRACE=1` prints each operation.
#[derive(Clone, Debug)]
pub struct Checker {
    iterations: u64,
    start: u64,
    limits: Limits,
}

/// The limits of all runs of a check.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) steps: u64,
    pub(crate) stack: usize,
    pub(crate) stale: bool,
    pub(crate) spurious: bool,
    pub(crate) trace: bool,
}

impl Checker {
    /// A check of so many runs, whose seeds begin with 0. One run has at most 200,000 steps, and a thread has a stack of
    /// 256 KiB.
    pub fn new(iterations: u64) -> Self {
        let limits =
            Limits { steps: 200_000, stack: 1 << 18, stale: true, spurious: true, trace: false };
        Self { iterations, start: 0, limits }
    }

    /// The seed of the first run; the others count on from it.
    pub fn start(mut self, seed: u64) -> Self {
        self.start = seed;
        self
    }

    /// A run with more steps fails: it is assumed to be endless.
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.limits.steps = steps;
        self
    }

    /// The size of each thread's stack, in bytes. A guard page is below it.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.limits.stack = bytes;
        self
    }

    /// Whether loads may read old values. If not, only schedules vary, and races are still found.
    pub fn stale_reads(mut self, allowed: bool) -> Self {
        self.limits.stale = allowed;
        self
    }

    /// Whether weak exchanges fail spuriously, and sleepers wake up spuriously.
    pub fn spurious(mut self, allowed: bool) -> Self {
        self.limits.spurious = allowed;
        self
    }

    /// Runs `f` repeatedly and prints statistics.
    ///
    /// `f` makes its own data. It joins the threads that it spawns, or lets them end by themselves.
    /// Apart from the schedule, it must do the same in each run: otherwise runs cannot be repeated.
    ///
    /// # Panics
    /// If a run fails (see [`Failure`]), with the seed that repeats it.
    pub fn run(&self, strategy: Strategy, f: impl Fn() + 'static) -> Stats {
        match self.find(strategy, f) {
            Ok(stats) => {
                std::eprintln!("{}: {stats}", test_name());
                stats
            }
            Err(failure) => panic!("{failure}"),
        }
    }

    /// As [`run`](Self::run), but returns the first failure: for tests with planted bugs. The
    /// length of [`Strategy::Pct`] is raised to that of the longest run so far.
    ///
    /// # Errors
    /// The first failure.
    pub fn find(&self, strategy: Strategy, f: impl Fn() + 'static) -> Result<Stats, Box<Failure>> {
        let f: Rc<dyn Fn()> = Rc::new(f);
        if let Ok(seed) = env::var("WEAKMEM_SEED") {
            let seed = seed.parse().unwrap_or_else(|error| panic!("WEAKMEM_SEED: {error}"));
            return self.replay(seed, &f);
        }
        let iterations = number("WEAKMEM_ITERATIONS").unwrap_or(self.iterations);
        let start = number("WEAKMEM_START").unwrap_or(self.start);
        let (mut stats, mut stacks) = (Stats::default(), Vec::new());
        for i in 0..iterations {
            let strategy = match strategy {
                Strategy::Pct { depth, length } => {
                    let longest = u32::try_from(stats.longest).unwrap_or(u32::MAX);
                    Strategy::Pct { depth, length: length.max(longest) }
                }
                Strategy::Random => Strategy::Random,
            };
            let seed = Seed { strategy, seed: start.wrapping_add(i) };
            let outcome = run::run(seed.strategy, seed.seed, &self.limits(), &mut stacks, &f);
            conclude(seed, &mut stats, outcome)?;
        }
        Ok(stats)
    }

    fn replay(&self, seed: Seed, f: &Rc<dyn Fn()>) -> Result<Stats, Box<Failure>> {
        let mut stats = Stats::default();
        let outcome = run::run(seed.strategy, seed.seed, &self.limits(), &mut Vec::new(), f);
        conclude(seed, &mut stats, outcome)?;
        Ok(stats)
    }

    fn limits(&self) -> Limits {
        let trace = self.limits.trace || number("WEAKMEM_TRACE").is_some_and(|n| n != 0);
        Limits { trace, ..self.limits }
    }
}

fn conclude(seed: Seed, stats: &mut Stats, outcome: Outcome) -> Result<(), Box<Failure>> {
    stats.add(&outcome.stats);
    match outcome.failure {
        None => Ok(()),
        Some(message) => {
            let recent = outcome.recent.iter().map(|event| format!("  {event}\n")).collect();
            Err(Box::new(Failure { seed, message, recent, stats: *stats }))
        }
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn test_name() -> String {
    thread::current().name().unwrap_or("check").to_owned()
}

/// Identifies a run, to repeat it. As text: `random-SEED` or `pct-DEPTH-LENGTH-SEED`.
///
/// ```
/// let seed: filch_weakmem::Seed = "pct-3-1200-47".parse()?;
/// assert_eq!(seed.to_string(), "pct-3-1200-47");
/// # Ok::<(), filch_weakmem::SeedError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// How its schedule is chosen.
    pub strategy: Strategy,
    /// The seed of the random choices.
    pub seed: u64,
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.strategy {
            Strategy::Random => write!(f, "random-{}", self.seed),
            Strategy::Pct { depth, length } => write!(f, "pct-{depth}-{length}-{}", self.seed),
        }
    }
}

/// A text that is not a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedError(String);

impl fmt::Display for SeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no seed: random-SEED or pct-DEPTH-LENGTH-SEED", self.0)
    }
}

impl Error for SeedError {}

impl FromStr for Seed {
    type Err = SeedError;

    fn from_str(text: &str) -> Result<Self, SeedError> {
        let wrong = |_: ParseIntError| SeedError(text.to_owned());
        let parts: Vec<_> = text.split('-').collect();
        match parts[..] {
            ["random", seed] => {
                Ok(Self { strategy: Strategy::Random, seed: seed.parse().map_err(wrong)? })
            }
            ["pct", depth, length, seed] => {
                let depth = depth.parse().map_err(wrong)?;
                let length = length.parse().map_err(wrong)?;
                let strategy = Strategy::Pct { depth, length };
                Ok(Self { strategy, seed: seed.parse().map_err(wrong)? })
            }
            _ => Err(SeedError(text.to_owned())),
        }
    }
}

/// A failed run: a panic that a thread did not catch, a data race, a deadlock, an access to dropped
/// memory, or an endless run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Repeats the run.
    pub seed: Seed,
    /// The error, and where it happened.
    pub message: String,
    /// The operations before it, one per line.
    pub recent: String,
    /// The statistics of all runs up to this one.
    pub stats: Stats,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, message, recent, stats } = self;
        writeln!(f, "{message}\nits last operations:\n{recent}in run {} ({stats})", stats.runs)?;
        write!(f, "again: WEAKMEM_SEED={seed} WEAKMEM_TRACE=1 cargo test ... {}", test_name())
    }
}

impl Error for Failure {}
