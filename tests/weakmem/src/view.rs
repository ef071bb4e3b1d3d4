//! What a thread has seen.

/// For each location the earliest store that may still be read, and for each thread the step up to
/// which the owner is ordered after it.
///
/// The two halves grow together on synchronisation. They differ where C++ distinguishes visibility
/// and happens-before: the order of sequentially consistent fences moves only `times`.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    times: Vec<u32>,
    clocks: Vec<u32>,
}

impl View {
    /// Which store of the location is the oldest that may be read.
    pub(crate) fn time(&self, location: usize) -> u32 {
        self.times.get(location).copied().unwrap_or(0)
    }

    /// From now on no store of the location older than `time` may be read.
    pub(crate) fn see(&mut self, location: usize, time: u32) {
        raise(&mut self.times, location, time);
    }

    /// How many steps of the thread happened before.
    pub(crate) fn clock(&self, thread: usize) -> u32 {
        self.clocks.get(thread).copied().unwrap_or(0)
    }

    /// Adds a step of the thread that owns this view.
    pub(crate) fn tick(&mut self, thread: usize) {
        let now = self.clock(thread) + 1;
        raise(&mut self.clocks, thread, now);
    }

    /// Has seen what `other` has seen, and comes after it.
    pub(crate) fn join(&mut self, other: &Self) {
        self.join_times(other);
        merge(&mut self.clocks, &other.clocks);
    }

    /// Has seen what `other` has seen, but does not come after it.
    pub(crate) fn join_times(&mut self, other: &Self) {
        merge(&mut self.times, &other.times);
    }
}

fn raise(all: &mut Vec<u32>, at: usize, to: u32) {
    if all.len() <= at {
        all.resize(at + 1, 0);
    }
    all[at] = all[at].max(to);
}

fn merge(all: &mut Vec<u32>, with: &[u32]) {
    if all.len() < with.len() {
        all.resize(with.len(), 0);
    }
    for (mine, theirs) in all.iter_mut().zip(with) {
        *mine = (*mine).max(*theirs);
    }
}
