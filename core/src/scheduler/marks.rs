//! What a worker has to see to beside its next task, in one word: a look that finds nothing is one look.

use core::cell::Cell;

/// One or more of a worker's marks.
#[derive(Clone, Copy)]
pub(crate) struct Mark(u8);

impl Mark {
    /// It is one of those who look for work (INV-IDLE-COUNT).
    pub(crate) const SEARCHING: Self = Self(1);
    /// It watched in its last sleep, and no other was seen to watch since.
    pub(crate) const WATCHED: Self = Self(2);
    /// No stretch of polls is under way.
    pub(crate) const FRESH: Self = Self(4);
    /// It has slept since it last looked for I/O and timers.
    pub(crate) const SLEPT: Self = Self(8);
    /// It is between the two halves of a park.
    pub(crate) const ANNOUNCED: Self = Self(16);

    /// It wakes tasks in a row, and tells others of them, if at all, when it turns to the first.
    pub(crate) const GATHERS: Self = Self(32);
    /// There is something to tell them.
    pub(crate) const GATHERED: Self = Self(64);
    /// It is one of the sleepers with a timeout (INV-WATCH).
    pub(crate) const WATCHING: Self = Self(128);

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The marks of a worker. Its own context's alone (INV-LOCAL); an interrupt in it that wakes a task looks at them, and sets
/// `GATHERED`, where it finds the mark of INV-ACCEPTING up: so they change only while that is down.
pub(crate) struct Marks(Cell<u8>);

impl Marks {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(Mark::FRESH.0))
    }

    /// Whether one of them is set.
    #[inline(always)]
    pub(crate) fn any(&self, of: Mark) -> bool {
        self.0.get() & of.0 != 0
    }

    #[inline(always)]
    pub(crate) fn set(&self, mark: Mark, on: bool) {
        self.0.set(if on { self.0.get() | mark.0 } else { self.0.get() & !mark.0 });
    }

    /// Sets it to `on`; whether it was set.
    #[inline(always)]
    pub(crate) fn replace(&self, mark: Mark, on: bool) -> bool {
        let was = self.any(mark);
        self.set(mark, on);
        was
    }
}
