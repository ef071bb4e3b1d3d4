//! Checks that background tasks get their share of each worker's time while it always has other tasks.
//!
//! The bound is computed from what is seen alone: the worker's polls, the times when they begin and end, and whether its background ring
//! holds a task. A worker looks for its background tasks after each eighth poll of others. The first look starts its clock. Each later
//! one finds that they have earned one nanosecond for each n - 1 that others had since, and polls one as soon as the last background poll
//! is paid for; but if 64 of them have taken no time, others have one look for themselves. So three looks, and the poll that one comes
//! after, may pass once that poll is paid for.

use filch::{WorkerId, WorkerMetrics};

use super::world::World;

/// So many polls of others begin at most once the last background poll is paid for: 3 looks, one poll each 8 polls.
const POLLS: u32 = 3 * 8 + 1;
/// The worker's clock has started.
const STARTED: u32 = 8 + 1;

/// The class of a poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Normal,
    Urgent,
    Background,
}

/// What a worker owes its background tasks.
#[derive(Clone, Copy, Default)]
pub(super) struct Share {
    urgent: usize,
    background: usize,
    /// What the last poll was.
    kind: Kind,
    /// The poll under way: its beginning, or nothing if its time cannot be told.
    began: Option<u64>,
    /// Polls of others since the ring has had a background task, or the last of those was polled.
    polls: u32,
    /// When its last poll began or ended.
    last: u64,
    /// What they have to pay for the last background poll, in nanoseconds of their own.
    debt: u64,
    /// The beginning of the last background poll, or the first that was in another poll: the worker may have stalled before it.
    since: Option<u64>,
    /// Polls of others since that is paid for.
    spare: u32,
}

impl Share {
    /// What the poll is that begins.
    fn kind(&mut self, mine: &WorkerMetrics) -> Kind {
        let urgent = core::mem::replace(&mut self.urgent, mine.urgent_polls);
        let background = core::mem::replace(&mut self.background, mine.background_polls);
        match (urgent != mine.urgent_polls, background != mine.background_polls) {
            (true, _) => Kind::Urgent,
            (_, true) => Kind::Background,
            _ => Kind::Normal,
        }
    }

    /// The worker begins a poll in another one.
    fn nests(&mut self, mine: &WorkerMetrics, now: u64) {
        if self.kind(mine) == Kind::Background {
            // The same clock counts it.
            self.since.get_or_insert(self.last);
        }
        self.last = now;
        self.loses_sight();
    }

    /// The worker begins a poll, in no other one; `n`: the share is one of `n`. The error is how many it has begun that it owed.
    fn begins(&mut self, mine: &WorkerMetrics, now: u64, n: u32) -> Result<(), u32> {
        self.kind = self.kind(mine);
        self.began = Some(now);
        let others = u64::from(n.max(2) - 1);
        if let Some(since) = self.since.take() {
            // It is over when the next one begins: a worker that stalls between them counts that as its time.
            self.debt = self.debt.max((now - since + 1).saturating_mul(others));
        }
        if self.kind == Kind::Background {
            self.since = Some(self.last);
        }
        self.last = now;
        // The clock may stand still: then they have earned nothing.
        self.debt = if self.polls == 0 { self.debt.max(others) } else { self.debt };
        if mine.background_depth == 0 || n == 0 {
            self.loses_sight();
            return Ok(());
        }
        match self.kind {
            // It may have come as there was nothing else: then the clock starts anew.
            Kind::Background => (self.polls, self.spare) = (0, 0),
            Kind::Normal => self.polls += 1,
            Kind::Urgent => {}
        }
        let is_paid = self.polls > STARTED && self.debt == 0;
        self.spare += u32::from(is_paid && self.kind == Kind::Normal);
        if self.spare > POLLS { Err(self.spare) } else { Ok(()) }
    }

    /// The poll ends.
    pub(super) fn ends(&mut self, now: u64, n: u32) {
        self.last = now;
        let Some(began) = self.began.take() else { return };
        if self.kind == Kind::Normal && self.polls > STARTED {
            // Time is counted in whole parts, at each look.
            let paid = (now - began).saturating_sub(u64::from(n));
            self.debt = self.debt.saturating_sub(paid);
        }
    }

    /// The poll is no longer the worker's only one, or tasks went elsewhere: what was counted holds no more.
    pub(super) fn loses_sight(&mut self) {
        (self.began, self.polls, self.spare) = (None, 0, 0);
    }
}

/// The worker begins a poll.
pub(super) fn check_poll(w: &mut World, worker: WorkerId) {
    let Some(executor) = w.executor else { return };
    let metrics = executor.metrics();
    let Some((_, mine)) = metrics.workers().nth(worker.index()) else { return };
    let Some(streak) = w.check.streaks.get_mut(worker.index()) else { return };
    // It may be in a wait, or give way.
    if streak.inside > 0 || executor.is_blocked(worker) {
        streak.share.nests(&mine, w.now);
    } else if let Err(polls) = streak.share.begins(&mine, w.now, w.check.background) {
        w.fail(format!(
            "{worker:?} owes its background tasks a poll, and begins the {polls}th of others"
        ));
    }
}
