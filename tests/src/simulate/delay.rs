//! How long a task waits behind a poll that does not end, and a timer for its worker, while another worker is busy.
//!
//! Time is counted in ends of ticks of one worker that does not sleep meanwhile: at each it checks
//! one other worker.

use std::collections::BTreeSet;

use super::{
    machine::Machine,
    world::{State, World, world},
};

/// The time in one poll after which a worker counts as stuck, with a margin, in nanoseconds.
const STUCK: u64 = 1_100_000;
/// How late a worker's timer may be before other workers fire it, with a margin, in nanoseconds.
const LATE: u64 = 2_100_000;

/// The ends of ticks of each worker since it last slept.
type Ticks = Vec<u64>;

/// A worker that is in a poll, and tasks that wait behind it.
#[derive(Debug)]
struct Stuck {
    worker: usize,
    poll: u64,
    depth: usize,
    stage: Stage,
    since: Ticks,
}

#[derive(Debug)]
enum Stage {
    /// Until each of the other workers has been checked once.
    First,
    /// Until it counts as stuck.
    Wait(u64),
    /// Until each has been checked once more.
    Second,
}

#[derive(Debug, Default)]
pub(super) struct Delays {
    stuck: Vec<Stuck>,
    /// A timer that is late, and the ticks when it was first seen.
    late: Option<((u64, u64), Ticks)>,
    /// Timers whose firing is recorded at once.
    pub(super) alarms: BTreeSet<(u64, u64)>,
}

/// Whether one worker has checked all others since then.
fn went_round(since: &[u64], ticks: &[u64]) -> bool {
    let most = ticks.iter().zip(since).map(|(now, then)| now - then).max();
    most.is_some_and(|most| most > ticks.len() as u64)
}

impl Stuck {
    /// Whether its tasks should have been taken by now.
    fn is_forgotten(&mut self, ticks: &Ticks, now: u64) -> bool {
        match self.stage {
            Stage::First if went_round(&self.since, ticks) => self.stage = Stage::Wait(now + STUCK),
            Stage::Wait(end) if now >= end => {
                self.stage = Stage::Second;
                self.since.clone_from(ticks);
            }
            Stage::Second => return went_round(&self.since, ticks),
            _ => {}
        }
        false
    }
}

/// Called now and then.
pub(super) fn look(executor: &'static Machine) {
    let metrics = executor.metrics();
    let depths: Vec<_> = metrics.workers().map(|(_, m)| m.queue_depth).collect();
    world(|w| {
        // A worker that is stopped inside a check, or inside a notification, delays the others.
        if w.actors.iter().any(|a| matches!(a.state, State::Held(_)) && !a.outside) {
            w.check.delays.stuck.clear();
            w.check.delays.late = None;
            return;
        }
        w.counts.checks += 1;
        w.look_at_stuck(&depths);
        w.look_at_timers();
    });
}

impl World {
    fn look_at_stuck(&mut self, depths: &[usize]) {
        let ticks = self.check.ticks();
        let mut stuck = core::mem::take(&mut self.check.delays.stuck);
        stuck.retain(|s| self.waits_behind(s.worker, depths) == Some((s.poll, s.depth)));
        for worker in 0..depths.len() {
            if stuck.iter().any(|s| s.worker == worker) {
                continue;
            }
            if let Some((poll, depth)) = self.waits_behind(worker, depths) {
                stuck.push(Stuck {
                    worker,
                    poll,
                    depth,
                    stage: Stage::First,
                    since: ticks.clone(),
                });
            }
        }
        for s in &mut stuck {
            if s.is_forgotten(&ticks, self.now) {
                self.fail(format!(
                    "{} tasks wait behind a poll of worker {}, and another worker is busy",
                    s.depth, s.worker
                ));
            }
        }
        self.counts.stuck +=
            stuck.iter().filter(|s| !matches!(s.stage, Stage::First)).count() as u64;
        self.check.delays.stuck = stuck;
    }

    /// The poll that a worker is in, in the program's own code, and how many tasks wait behind it,
    /// if other workers should take them.
    fn waits_behind(&self, worker: usize, depths: &[usize]) -> Option<(u64, usize)> {
        let actor = &self.actors[self.seats.get(worker).copied()??];
        let poll = self.check.poll_of(worker)?;
        let depth = *depths.get(worker)?;
        (self.check.relieves && actor.outside && depth > 0).then_some((poll, depth))
    }

    fn look_at_timers(&mut self) {
        let ticks = self.check.ticks();
        let first = self.check.delays.alarms.first().copied();
        let late = first.filter(|(deadline, _)| deadline + LATE < self.now);
        match (late, &self.check.delays.late) {
            (Some(timer), Some((known, since))) if timer == *known => {
                if went_round(since, &ticks) {
                    let late = self.now - timer.0;
                    self.fail(format!("a timer is {late} ns late, and a worker is busy"));
                }
            }
            (Some(timer), _) => self.check.delays.late = Some((timer, ticks)),
            (None, _) => self.check.delays.late = None,
        }
    }
}
