//! What a source can be ready for, and what a task has seen of it.

use core::{
    fmt,
    ops::{BitAnd, BitOr, BitOrAssign, Sub},
};

use crate::atomic::Word;

/// What a source is ready for, or what a task waits for: a set of bits.
///
/// ```
/// use filch::io::{Direction, Ready};
/// const ENDS: Ready = Ready::READ_CLOSED.union(Ready::WRITE_CLOSED);
/// let ready = Ready::READABLE | Ready::ERROR;
/// assert!(ready.contains(Ready::READABLE) && !ready.contains(Ready::ALL));
/// assert!(ready.intersects(Direction::Read.interest()) && !ready.intersects(ENDS));
/// assert_eq!(ready - Ready::ERROR, Ready::READABLE);
/// assert!((ready & Ready::WRITABLE).is_empty());
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Ready(u8);

impl Ready {
    /// Nothing.
    pub const EMPTY: Self = Self(0);
    /// A read or an accept will not block.
    pub const READABLE: Self = Self(1);
    /// A write will not block, or a connect has finished.
    pub const WRITABLE: Self = Self(1 << 1);
    /// There is priority (out-of-band) data. Part of neither [`Direction`].
    pub const PRIORITY: Self = Self(1 << 2);
    /// No more data will come: a read returns what is left, and then the end. Never cleared; setting it sets
    /// `READABLE`.
    pub const READ_CLOSED: Self = Self(1 << 3);
    /// A write fails. Never cleared; setting it sets `WRITABLE`.
    pub const WRITE_CLOSED: Self = Self(1 << 4);
    /// The source has an error, which the next operation returns: setting this sets `READABLE` and `WRITABLE`. Part of
    /// neither [`Direction`].
    pub const ERROR: Self = Self(1 << 5);
    /// All bits.
    pub const ALL: Self = Self((1 << Self::BITS) - 1);

    pub(super) const BITS: u32 = 6;
    pub(super) const CLOSED: Self = Self::READ_CLOSED.union(Self::WRITE_CLOSED);

    /// Whether all bits of `other` are in here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether a bit of `other` is in here.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether there is no bit.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits of both: `|` for constants.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These bits and those that they imply: a task that waits to read or write then tries, and gets the end or the
    /// error.
    pub(super) const fn with_implied(self) -> Self {
        let mut all = self;
        if self.intersects(Self::READ_CLOSED.union(Self::ERROR)) {
            all = all.union(Self::READABLE);
        }
        if self.intersects(Self::WRITE_CLOSED.union(Self::ERROR)) {
            all = all.union(Self::WRITABLE);
        }
        all
    }

    pub(super) const fn to_word(self) -> Word {
        self.0 as Word
    }

    pub(super) const fn from_word(bits: Word) -> Self {
        Self((bits & Self::ALL.0 as Word) as u8)
    }
}

impl BitOr for Ready {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl BitAnd for Ready {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Sub for Ready {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; Ready::BITS as usize] =
            ["READABLE", "WRITABLE", "PRIORITY", "READ_CLOSED", "WRITE_CLOSED", "ERROR"];
        if self.is_empty() {
            return f.write_str("EMPTY");
        }
        let mut separator = "";
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 >> bit & 1 != 0 {
                write!(f, "{separator}{name}")?;
                separator = " | ";
            }
        }
        Ok(())
    }
}

/// What was seen of a [`Readiness`](super::Readiness): bits, and as of which edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Event {
    /// The bits that were set.
    pub ready: Ready,
    pub(super) edge: Word,
}

impl Event {
    /// The event reduced to these bits.
    ///
    /// An operation that would block says nothing about the other direction, so clear only its own bits.
    ///
    /// ```
    /// # use filch::io::{Readiness, Ready};
    /// let cell = Readiness::new();
    /// cell.set(Ready::READABLE | Ready::WRITABLE);
    /// cell.clear(cell.get().only(Ready::READABLE));
    /// assert_eq!(cell.get().ready, Ready::WRITABLE);
    /// ```
    #[must_use]
    pub const fn only(self, ready: Ready) -> Self {
        Self { ready: Ready(self.ready.0 & ready.0), ..self }
    }
}

/// One of the two directions of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the source to the program.
    Read,
    /// From the program to the source.
    Write,
}

impl Direction {
    /// What an operation in this direction waits for: `READABLE` and `READ_CLOSED`, or `WRITABLE` and `WRITE_CLOSED`.
    ///
    /// An error sets these too (see [`Ready::ERROR`]). `PRIORITY` and `ERROR` are left out: an operation in this
    /// direction that would block has learned nothing about them, and so may not clear them.
    pub const fn interest(self) -> Ready {
        match self {
            Self::Read => Ready::READABLE.union(Ready::READ_CLOSED),
            Self::Write => Ready::WRITABLE.union(Ready::WRITE_CLOSED),
        }
    }
}

#[cfg(all(test, not(any(filch_loom, filch_shuttle, filch_weakmem))))]
mod tests {
    use super::*;

    #[test]
    fn bits_are_a_set() {
        let both = Ready::READABLE | Ready::WRITABLE;
        assert!(both.contains(Ready::READABLE) && both.intersects(Ready::WRITABLE | Ready::ERROR));
        assert!(
            !both.contains(Ready::READABLE | Ready::ERROR) && !both.intersects(Ready::PRIORITY)
        );
        assert!(both.contains(Ready::EMPTY) && !both.intersects(Ready::EMPTY));
        assert_eq!(both - Ready::READABLE, Ready::WRITABLE);
        assert_eq!(both & Ready::READABLE, Ready::READABLE);
        assert!((both & Ready::ERROR).is_empty());
        assert_eq!(Ready::from_word(Ready::ALL.to_word()), Ready::ALL);
        assert_eq!(std::format!("{both:?} {:?}", Ready::EMPTY), "READABLE | WRITABLE EMPTY");
    }

    #[test]
    fn ends_and_errors_make_operations_worthwhile() {
        let implied = |ready: Ready| ready.with_implied() - ready;
        assert_eq!(implied(Ready::READ_CLOSED), Ready::READABLE);
        assert_eq!(implied(Ready::WRITE_CLOSED), Ready::WRITABLE);
        assert_eq!(implied(Ready::ERROR), Ready::READABLE | Ready::WRITABLE);
        for bit in [Ready::READABLE, Ready::WRITABLE, Ready::PRIORITY, Ready::EMPTY] {
            assert_eq!(implied(bit), Ready::EMPTY);
        }
    }

    #[test]
    fn each_bit_but_those_of_neither_has_one_direction() {
        let (read, write) = (Direction::Read.interest(), Direction::Write.interest());
        assert!(!read.intersects(write));
        assert_eq!(Ready::ALL - read - write, Ready::PRIORITY | Ready::ERROR);
    }
}
