//! The operations of a run, in order.

use core::fmt;
use std::collections::VecDeque;

use crate::races::Site;

/// How many operations a failure shows.
const RECENT: usize = 24;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) thread: usize,
    pub(crate) what: &'static str,
    pub(crate) at: usize,
    pub(crate) value: u64,
    pub(crate) site: Site,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, what, at, value, site } = self;
        write!(f, "thread {thread}: {what} #{at} {value:#x} at {site}")
    }
}

/// The last operations, and a hash of all: equal hashes mean equal runs.
#[derive(Debug)]
pub(crate) struct Trace {
    recent: VecDeque<Event>,
    digest: u64,
    prints: bool,
}

impl Trace {
    pub(crate) fn new(prints: bool) -> Self {
        // FNV-1a over words: it only has to differ where runs do.
        Self { recent: VecDeque::new(), digest: 0xCBF2_9CE4_8422_2325, prints }
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.mix(event.at as u64);
        self.mix(event.what.len() as u64);
        // Values may be addresses, which differ between runs.
        self.mix(u64::from(event.site.line()));
        if self.prints {
            std::eprintln!("{event}");
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(event);
    }

    pub(crate) fn switch(&mut self, to: usize) {
        self.mix(to as u64);
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn into_recent(self) -> VecDeque<Event> {
        self.recent
    }

    fn mix(&mut self, x: u64) {
        self.digest = (self.digest ^ x).wrapping_mul(0x0100_0000_01B3);
    }
}
