//! Deterministic simulation of a whole executor: the real scheduler, real programs, a simulated machine.
//!
//! Everything runs on one thread. Each worker, and each thread that is no worker, is a fiber that
//! runs the real loop ([`filch::Scheduler::run`]). Each call of the platform may switch to another
//! fiber, chosen from a seed, so that a worker stops during a wake, on its way to sleep, or during
//! a poll, while the others go on. Time and the network are virtual. In addition the machine has
//! all faults that its contract allows: see [`Fault`].
//!
//! A run is one episode: a machine of a few workers, one [`Program`], a number of steps, the end.
//! Its [`Options`] determine it: equal options make an equal trace, which [`Report::hash`] sums up.
//! `check` lists the invariants.
//!
//! It cannot test memory orderings, since there is one thread, or switches between two calls of the
//! platform. Loom and the sanitizers test those.

mod check;
mod delay;
mod driver;
mod env;
mod faults;
mod fiber;
mod ledger;
mod machine;
mod net;
mod programs;
mod reactor;
mod record;
mod recording;
mod replay;
mod roles;
mod setup;
mod share;
mod shrink;
mod timer;
mod waker;
mod world;

pub use {
    driver::run,
    faults::{Fault, Faults},
    programs::Program,
    record::{Record, record, replay},
    replay::Fidelity,
    shrink::{Shrunk, shrink},
    world::Counts,
};

use core::fmt;

/// The parameters of an episode. Equal options replay an equal episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of all choices.
    pub seed: u64,
    /// After how many steps the program is asked to end. A step is a turn of one fiber, from one
    /// call of the platform to another.
    pub steps: u64,
    /// How many workers; from the seed if not given.
    pub workers: Option<u16>,
    /// What runs; from the seed if not given.
    pub program: Option<Program>,
    /// The size of the program: about how many tasks it has at a time.
    pub size: u32,
    /// The possible faults.
    pub faults: Faults,
    /// Print every turn and every event to standard error. It changes nothing else.
    pub trace: bool,
    /// A file for what the workers did last, as `filch-trace` reads it. It changes nothing else.
    pub file: Option<String>,
}

impl Options {
    /// An episode of this seed, with all faults that the contract allows.
    pub fn new(seed: u64) -> Self {
        let (workers, program, faults) = (None, None, Faults::all());
        let (trace, file) = (false, None);
        Self { seed, steps: 100_000, workers, program, size: 24, faults, trace, file }
    }
}

/// As the arguments of the program `simulate`.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, steps, workers, program, size, faults, .. } = self;
        write!(f, "--seed {seed} --episodes 1 --episode-steps {steps} --size {size}")?;
        if let Some(workers) = workers {
            write!(f, " --workers {workers}")?;
        }
        if let Some(program) = program {
            write!(f, " --program {program}")?;
        }
        write!(f, " --faults {faults}")
    }
}

/// The result of an episode without a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// A hash of all choices, all events of the scheduler, and their times.
    pub hash: u64,
    /// Figures.
    pub counts: Counts,
    /// For a replay: how well it followed its record.
    pub fidelity: Fidelity,
}

/// The failure of an episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The violated invariant.
    pub what: String,
    /// The step of the failure.
    pub step: u64,
    /// The hash of the trace until then.
    pub hash: u64,
    /// The state of all actors.
    pub state: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (step {}, trace {:016x})\n{}", self.what, self.step, self.hash, self.state)
    }
}

impl core::error::Error for Failure {}
