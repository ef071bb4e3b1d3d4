//! Deadlines: when a task should be polled at the latest.

use core::{cell::Cell, ptr::null_mut};

use super::header::Header;
use crate::instant::Instant;

/// A task's deadline, and its place in a queue that is ordered by deadlines.
///
/// INV-DUE: only the holder of the task's `Ready` touches it: the queue that the task is in, or the poll.
#[derive(Debug)]
pub(crate) struct Due {
    /// `Instant::MAX` for none.
    at: Cell<Instant>,
    /// When it came, by a count of its queue: equal deadlines are served in this order.
    pub(crate) ticket: Cell<u64>,
    /// The first of the tasks below it in the heap.
    pub(crate) child: Cell<*mut Header>,
}

impl Due {
    pub(crate) const fn new(at: Option<Instant>) -> Self {
        let at = match at {
            Some(at) => at,
            None => Instant::MAX,
        };
        Self { at: Cell::new(at), ticket: Cell::new(0), child: Cell::new(null_mut()) }
    }

    /// The deadline of the next poll.
    pub(crate) fn at(&self) -> Option<Instant> {
        Some(self.at.get()).filter(|at| *at != Instant::MAX)
    }

    pub(crate) fn set(&self, at: Option<Instant>) {
        self.at.set(at.unwrap_or(Instant::MAX));
    }

    /// What the queue compares: the deadline, then the order in which tasks came.
    pub(crate) fn order(&self) -> (Instant, u64) {
        (self.at.get(), self.ticket.get())
    }
}
