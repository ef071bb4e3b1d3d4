//! Statistics of runs.

use core::fmt;

/// Statistics of the runs of a check: how much varied, and how long runs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Runs.
    pub runs: u64,
    /// Operations before which other threads could run.
    pub steps: u64,
    /// Steps of the longest run.
    pub longest: u64,
    /// Times that the next thread was chosen.
    pub switches: u64,
    /// Loads that read an old value, and exchanges that failed because of one.
    pub stale_reads: u64,
    /// Weak exchanges that failed spuriously.
    pub spurious_failures: u64,
    /// Spurious wakes.
    pub spurious_wakes: u64,
    /// The most threads of one run.
    pub threads: u64,
    /// A hash of all operations, in order, without values: equal for equal runs.
    pub digest: u64,
}

impl Stats {
    pub(crate) fn add(&mut self, run: &Self) {
        self.runs += run.runs;
        self.steps += run.steps;
        self.longest = self.longest.max(run.steps);
        self.switches += run.switches;
        self.stale_reads += run.stale_reads;
        self.spurious_failures += run.spurious_failures;
        self.spurious_wakes += run.spurious_wakes;
        self.threads = self.threads.max(run.threads);
        self.digest = self.digest.rotate_left(5) ^ run.digest;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, steps, longest, switches, stale_reads, .. } = self;
        let Self { spurious_failures, spurious_wakes, threads, .. } = self;
        write!(
            f,
            "{runs} runs of up to {threads} threads and {longest} steps; {steps} steps, {switches} switches, \
             {stale_reads} stale reads, {spurious_failures} spurious failures, {spurious_wakes} spurious wakes"
        )
    }
}
