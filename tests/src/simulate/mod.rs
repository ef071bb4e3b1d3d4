//! Deterministic simulation of a whole executor: the real scheduler, real programs, a simulated machine.
//!
//! Everything runs on one thread. Each worker, and each thread that is no worker, is a fiber that runs the real loop
//! ([`filch::Scheduler::run`]). Each call of the platform may hand over to another fiber, chosen from a seed, so that a worker
//! stops in the midst of a wake, of its way to sleep, of a poll, while the others go on. Time is virtual, and so is
//! the network. On top of that the machine does what its contract allows: see [`Fault`].
//!
//! A run is one episode: a machine of a few workers, one [`Program`], so many steps, the end. Its [`Options`] say all: equal
//! options make an equal trace, which [`Report::hash`] sums up. What is checked meanwhile, `check` says.
//!
//! What it cannot see: orderings of memory, since there is one thread, and what happens between two calls of the platform.
//! Those are loom's part, and the sanitizers'.

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
mod replay;
mod roles;
mod setup;
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

/// What an episode is made of. Equal options replay an equal episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whence all choices come.
    pub seed: u64,
    /// After how many steps the program is told to come to its end. A step is a turn of one fiber, from one call of the
    /// platform to another.
    pub steps: u64,
    /// How many workers; by the seed, if not given.
    pub workers: Option<u16>,
    /// What runs; by the seed, if not given.
    pub program: Option<Program>,
    /// How large it is: about so many tasks at a time.
    pub size: u32,
    /// What may go wrong.
    pub faults: Faults,
    /// Print every turn and every event to standard error. It changes nothing else.
    pub trace: bool,
}

impl Options {
    /// An episode of this seed, with all faults that a platform may have.
    pub fn new(seed: u64) -> Self {
        let (workers, program, faults) = (None, None, Faults::all());
        Self { seed, steps: 100_000, workers, program, size: 24, faults, trace: false }
    }
}

/// As the arguments of the program `simulate`.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, steps, workers, program, size, faults, trace: _ } = self;
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

/// What came of an episode that went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of all choices, all events of the scheduler, and their times.
    pub hash: u64,
    /// Figures.
    pub counts: Counts,
    /// Of a replay: how well it followed its record.
    pub fidelity: Fidelity,
}

/// What went wrong in an episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What.
    pub what: String,
    /// At which step.
    pub step: u64,
    /// Of everything until then.
    pub hash: u64,
    /// Who was where.
    pub state: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (step {}, trace {:016x})\n{}", self.what, self.step, self.hash, self.state)
    }
}

impl core::error::Error for Failure {}
