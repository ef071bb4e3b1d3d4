//! Turns in the order of a record.

use std::collections::{HashMap, VecDeque};

use super::world::{State, World};

/// How far to search for the entry where a fiber and its record meet again.
const FAR: usize = 64;

/// A thread reached a call of the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The thread: a worker, or, above them, the thread that is none.
    pub(super) who: usize,
    /// The call.
    pub(super) occasion: u64,
    /// The time by the record's clock, in nanoseconds.
    pub(super) now: u64,
}

/// How well a replay followed its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fidelity {
    /// Calls of the platform in the record.
    pub entries: usize,
    /// How many of these the replay reached in their turn.
    pub followed: usize,
    /// How many were in turn before the first that was not.
    pub prefix: usize,
}

/// The rest of a record.
pub(super) struct Replay {
    order: VecDeque<Entry>,
    /// Entries of each fiber to skip: it will not reach them.
    skips: HashMap<usize, usize>,
    /// Turns given to a fiber outside of its record, since the last one in it.
    extra: usize,
    strayed: bool,
    fidelity: Fidelity,
}

impl Replay {
    pub(super) fn new(record: &[Entry]) -> Self {
        Self {
            order: record.iter().copied().collect(),
            skips: HashMap::new(),
            extra: 0,
            strayed: false,
            fidelity: Fidelity { entries: record.len(), ..Fidelity::default() },
        }
    }

    /// The fiber that has the turn; `None` at the end. The fiber passes the call that it stopped
    /// in, and goes on to the next.
    pub(super) fn next(&mut self, w: &mut World) -> Option<usize> {
        while let Some(entry) = self.order.pop_front() {
            w.now = w.now.max(entry.now);
            let at = w.actors.get(entry.who).filter(|a| a.state != State::Over).map(|a| a.at);
            if self.take(entry, at) {
                w.fidelity = self.fidelity;
                return Some(entry.who);
            }
        }
        None
    }

    /// Whether the fiber, which is at this call, has a turn.
    fn take(&mut self, entry: Entry, at: Option<u64>) -> bool {
        let skip = self.skips.entry(entry.who).or_default();
        if *skip > 0 {
            *skip -= 1;
            return false;
        }
        let Some(at) = at else {
            self.strayed = true;
            return false;
        };
        if at == entry.occasion {
            self.fidelity.followed += 1;
            self.fidelity.prefix += usize::from(!self.strayed);
            self.extra = 0;
            return true;
        }
        self.strayed = true;
        let mut own = self.order.iter().filter(|e| e.who == entry.who).take(FAR);
        if let Some(n) = own.position(|entry| entry.occasion == at) {
            // The fiber meets its record again there.
            *skip = n;
            return false;
        }
        // Or perhaps at its next call.
        self.extra += 1;
        if self.extra < FAR {
            self.order.push_front(entry);
        }
        true
    }
}
